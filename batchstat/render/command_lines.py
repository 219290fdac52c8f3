"""Settings as flags of a command line."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from batchstat.errors import LEFT_OUT, is_shortened, printable

COMPLETE = f"  # put back what {LEFT_OUT} leaves out"
"""What follows a line to paste in which an address is shortened."""


def joined(words: Iterable[str]) -> str:
    """Return the words of a command line to paste as one line."""
    words = tuple(words)
    return shlex.join(words) + (COMPLETE if any(map(is_shortened, words)) else "")


def flags(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the flags that set keys to values; a None is skipped."""
    for key, value in values.items():
        name = key.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        elif isinstance(value, list):
            yield from (word for each in value for word in (f"--{name}", str(each)))
        elif value is not None:
            yield f"--{name}"
            yield _json(value) if isinstance(value, tuple) else str(value)


def _json(labels: tuple[str, ...]) -> str:
    """Return a list of labels as JSON, readable unless one of them contains control characters."""
    text = json.dumps(labels, ensure_ascii=False)
    return text if printable(text) == text else json.dumps(labels)
