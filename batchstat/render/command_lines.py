"""Settings as users write them: flags of a command line, and TOML."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from batchstat.hidden_secrets import LEFT_OUT, is_shortened
from batchstat.words import printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from batchstat.profiling.profile import Profile


_MOST_NAMED = 8  # files that a line names; of more, the profile in the results folder is read
COMPLETE = f"  # put back what {LEFT_OUT} leaves out"  # ends a line shown without its secrets


def line_to_paste(words: Iterable[str]) -> str:
    """Return the words of a command as one line to paste, quoted for a shell."""
    words = tuple(words)
    return shlex.join(words) + (COMPLETE if any(map(is_shortened, words)) else "")


def flags(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words that set options to values: `{"drop_last": False, "read_ahead": 512}` gives
    `--no-drop-last --read-ahead 512`. A list repeats its flag, a tuple is JSON, None is skipped.
    """
    for key, value in values.items():
        flag = key.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif isinstance(value, list):
            yield from (word for item in value for word in (f"--{flag}", str(item)))
        elif value is not None:
            yield f"--{flag}"
            yield _json(value) if isinstance(value, tuple) else str(value)


def repeated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for which `flags` repeats the flag of a tuple, such as of two text columns."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }


def non_defaults(record: "DataclassInstance", kind: "type[DataclassInstance]") -> dict[str, Any]:
    """Return the fields of a record whose values are not their defaults, by name."""
    values = ((field, getattr(record, field.name)) for field in fields(kind))
    return {field.name: value for field, value in values if value != field.default}


def corpus_words(profile: "Profile", chat_template: str | None = None) -> list[str]:
    """Return the words that name a corpus and how it is read; none if it cannot be named."""
    sources, options = profile.corpus.sources, profile.corpus.options
    paths = [source.path for source in sources]
    is_chats = options.content in ("messages", "completion")
    is_named = 0 < len(paths) <= _MOST_NAMED and "-" not in paths  # "-" is standard input
    if not is_named or (is_chats and chat_template is None):
        return []
    options_given = repeated(non_defaults(options, type(options)))
    options_given["tokenizer"] = None if profile.tokenizer is None else profile.tokenizer.name
    options_given["chat_template"] = chat_template
    words = [*paths, *flags(options_given)]
    # A name may hold what no terminal takes as text, such as half a surrogate pair.
    return words if all(printable(word) == word for word in words) else []


def _json(labels: tuple[str, ...]) -> str:
    document = json.dumps(labels, ensure_ascii=False)
    return document if printable(document) == document else json.dumps(labels)


def configuration_toml(
    table: str, values: Mapping[str, Any], limits: Iterable[tuple[str, str, str]]
) -> str:
    """Return a TOML table of settings, then its limits, each with its value as a comment."""
    header = [f"[{table}]"] if table else []
    settings = [toml_line(key, value) for key, value in values.items()]
    # An address that is shown without its secrets gets a comment that says so.
    settings = [line + COMPLETE if is_shortened(line) else line for line in settings]
    limits_header = f"[{table}.limits]" if table else "[limits]"
    assignments = [(f"{name} = {limit}", measured) for name, limit, measured in limits]
    width = max((len(assignment) for assignment, _ in assignments), default=0)
    limit_lines = [f"{assignment:<{width}}  # {measured}" for assignment, measured in assignments]
    return "\n".join([*header, *settings, "", limits_header, *limit_lines]) + "\n"


def toml_line(key: str, value: Any) -> str:
    """Return the line of a TOML table that sets a key. A tuple is a list, or its single item."""
    if isinstance(value, tuple) and len(value) != 1:
        written = f"[{', '.join(toml_text(str(each)) for each in value)}]"
    elif isinstance(value, int):
        written = str(value).lower()  # of a bool: true, false
    else:
        written = toml_text(str(value[0] if isinstance(value, tuple) else value))
    return f"{key} = {written}"


def toml_text(value: str) -> str:
    """Return a TOML string: JSON's, except that TOML also requires DEL to be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
