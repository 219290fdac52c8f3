"""Settings as flags of a command line."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from batchstat.errors import LEFT_OUT, is_shortened, printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from batchstat.profiling.profile import Profile

_MOST_NAMED = 8
"""Files of a corpus that a line names; of more, the profile in the results folder is meant."""

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


def changed(record: "DataclassInstance", kind: "type[DataclassInstance]") -> dict[str, Any]:
    """Return the fields of a kind that a record has with another value than their default."""
    values = {each.name: getattr(record, each.name) for each in fields(kind)}
    return {
        each.name: values[each.name] for each in fields(kind) if values[each.name] != each.default
    }


def corpus_words(profile: "Profile", chat_template: str | None = None) -> list[str]:
    """Return the words that name the corpus of a profile, with how it is read and counted: none
    where it cannot be named.

    Args:
        profile: the profile.
        chat_template: the file of the chat template that counted it; None if it is not known.
    """
    sources, options = profile.corpus.sources, profile.corpus.options
    paths = [source.path for source in sources]
    is_chats = options.content in ("messages", "completion")
    if not 0 < len(paths) <= _MOST_NAMED or "-" in paths or (is_chats and chat_template is None):
        return []
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in changed(options, type(options)).items()
    }
    given["tokenizer"] = None if profile.tokenizer is None else profile.tokenizer.name
    given["chat_template"] = chat_template
    words = [*paths, *flags(given)]
    # A name may hold what no terminal takes as text, such as half a surrogate pair.
    return words if all(printable(word) == word for word in words) else []


def _json(labels: tuple[str, ...]) -> str:
    """Return a list of labels as JSON, readable unless one of them contains control characters."""
    text = json.dumps(labels, ensure_ascii=False)
    return text if printable(text) == text else json.dumps(labels)
