"""Settings as users write them: flags of a command line, and TOML."""

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


def configuration_toml(
    table: str, values: Mapping[str, Any], limits: Iterable[tuple[str, str, str]]
) -> str:
    """Return the text of a table and its limits, with the measured value beside each limit.

    Args:
        table: its dotted name; empty for a separate file.
        values: values by key.
        limits: name, limit and measured value.
    """
    head = [f"[{table}]"] if table else []
    lines = [setting(key, value) for key, value in values.items()]
    settings = [line + COMPLETE if is_shortened(line) else line for line in lines]
    named = [f"[{table}.limits]" if table else "[limits]"]
    written = [f"{name} = {limit}" for name, limit, _ in limits]
    width = max(map(len, written), default=0)
    notes = [measured for _, _, measured in limits]
    named += [f"{line:<{width}}  # {note}" for line, note in zip(written, notes, strict=True)]
    return "\n".join([*head, *settings, "", *named]) + "\n"


def setting(key: str, value: Any) -> str:
    """Return a line of a table."""
    return f"{key} = {_value(value)}"


def text(value: str) -> str:
    """Return a TOML string: JSON's, except that TOML also requires DEL to be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        parts = [text(str(each)) for each in value]
        return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    return str(value) if isinstance(value, int) else text(str(value))
