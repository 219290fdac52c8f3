"""What all documents share: how records become JSON, and the error in place of one. Each number is
declared once, by `told`; JSON, schemas, limits and glossary follow: see `documents.parts`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from batchstat._version import __version__
from batchstat.documents.parts import Sources, parts
from batchstat.parameters import described
from batchstat.records import allowed, among, told
from batchstat.words import without_commands

if TYPE_CHECKING:
    import pandas as pd

Created = Annotated[str, allowed(format="date-time")]
_ERRORS = (
    *("option", "input", "input/missing", "input/unreadable", "input/column", "input/no-batch"),
    *("storage/full", "memory"),
)


class Document:
    """A JSON object, filled from several records; it has no instances."""

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)

    @classmethod
    def of(cls, *sources: object) -> dict[str, Any]:
        """Return the JSON object: each key is taken from the first of the sources that has it."""
        made: dict[str, Any] = parts(cls).json(Sources(sources))
        return made


@described("What wrote the file.")
class Tool(Document):
    name: Annotated[str, allowed(const="batchstat")]
    version: str = told("The version of batchstat.")


@described("What every file begins with.")
class File(Document):
    number: ClassVar[str]  # name and number of its schema

    schema: str = told(
        "Name and number of the file's schema: the number rises where a key is renamed or removed."
    )
    tool: Tool
    created: Created = told(
        "When the work began, in UTC: the one value that differs between equal runs."
    )

    def __init_subclass__(cls, number: str = "") -> None:
        super().__init_subclass__()
        cls.number = number

    @classmethod
    def written(cls, created: str, *sources: object) -> dict[str, Any]:
        """Return the file as JSON, from sources as by `of`; `created` is when the work began."""
        tool = {"name": "batchstat", "version": __version__}
        return cls.of({"schema": cls.number, "tool": tool, "created": created}, *sources)


def rows_of(kind: type[Document], columns: Iterable[Any]) -> list[dict[str, Any]]:
    """Return n JSON objects; `columns` has an array of shape (n,) for each key, in sequence."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(parts(kind).keys, row, strict=True)) for row in rows]


def to_frame(rows: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return a DataFrame of documents; `mean` of `lengths` is in `lengths_mean`; without nulls."""
    import pandas as pd

    frame = pd.DataFrame(dict(_numbers(row)) for row in rows)
    return frame.dropna(axis="columns", how="all")


def _numbers(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (column, value) for each number or null of a document and of the objects in it."""
    # A column is named by the keys that lead to the number; `prefix` has those above `document`.
    for key, value in document.items():
        # Parameters get no columns: they differ by strategy, and its label shows them.
        if isinstance(value, Mapping) and key != "params":
            yield from _numbers(value, f"{prefix}{key}_")
        # In Python, a boolean is an int, too: it gets no column.
        elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            yield f"{prefix}{key}", value


def to_text(document: dict[str, Any] | list[dict[str, Any]]) -> str:
    """Return the JSON text of a file or of several, and of `--json`."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return without_commands(f"{text}\n")


@described("Why there is no answer.")
class Error(Document):
    id: Annotated[str, among(_ERRORS)] = told(
        "Its kind: option for what is wrong whatever the input; input for data, a file or the "
        "machine, where input/missing is not there, and input/unreadable may be read at another "
        "attempt; no space or no memory."
    )
    message: str = told("What is wrong, with the value, and where.", of="problem")
    remedy: str = told("What to do, or what the value must be; empty where the message says it.")
    exit_code: Annotated[int, among((2, 3))] = told("2 for option, else 3.")


@described(
    """What a command prints on standard output with --json, and check with --format json, instead
    of a report. Standard error has the same as a line.
    """
)
class ErrorFile(Document):
    error: Error
