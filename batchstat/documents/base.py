"""What all documents share: number types with their units, and how records become JSON.

A document declares each number once, with its name, type, unit and a sentence. Its JSON, its JSON
Schema, the paths of limits and the glossary follow from that. The sentence is the text below the
field: see `batchstat.documents.descriptions`.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from batchstat._version import __version__
from batchstat.errors import without_commands
from batchstat.parameters import described

if TYPE_CHECKING:
    import pandas as pd

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
AtLeastOne = Annotated[float, Field(ge=1)]
Ratio = Annotated[float, Field(ge=0, le=1, json_schema_extra={"x-unit": "ratio"})]
"""Shown as a percentage; a limit on it may be written as one."""

UnboundedRatio = Annotated[float, Field(ge=0, json_schema_extra={"x-unit": "ratio"})]
Created = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


def one_of(names: Collection[str]) -> Any:
    """Return the type of a text that is one of the names of a registry."""
    return Annotated[str, Field(json_schema_extra={"enum": list(names)})]


class Document(BaseModel):
    """A JSON object, filled from the attributes of a record."""

    # Most of what loads is never filled: each command writes one document.
    model_config = ConfigDict(from_attributes=True, frozen=True, defer_build=True)

    @classmethod
    def of(cls, *sources: object) -> Self:
        """Take each key from the first of the sources that has it, as an attribute or a key."""
        return cls.model_validate(View(*sources))

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` takes."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class View:
    """Several records as one."""

    def __init__(self, *sources: object) -> None:
        """Join the sources; the first that has a name wins, and mappings have their keys."""
        self._sources = sources

    def __getattr__(self, name: str) -> Any:
        for source in self._sources:
            if isinstance(source, Mapping):
                if name in source:
                    return source[name]
            elif hasattr(source, name):
                return getattr(source, name)
        raise AttributeError(name)


@described("What wrote the file.")
class Tool(Document):
    name: Annotated[str, Field(json_schema_extra={"const": "batchstat"})]
    version: str
    """The version of batchstat."""


@described("What every file begins with.")
class File(Document):
    schema_name: Annotated[str, Field(alias="schema")]
    """Name and number of the file's schema: the number rises where a key is renamed or removed."""
    tool: Tool
    created: Created
    """When the work began, in UTC: the one value that differs between equal runs."""


def rows_of(kind: type[Document], columns: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the rows of (n,) columns, by the names of a document's keys."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(kind.model_fields, row, strict=True)) for row in rows]


def to_frame(rows: "Iterable[Document]") -> "pd.DataFrame":
    """Return the numbers of documents, a row each; those of nested objects are joined by `_`.

    Numbers that no row has are left out.
    """
    import pandas as pd

    frame = pd.DataFrame(dict(_numbers(row.to_json())) for row in rows)
    return frame.dropna(axis="columns", how="all")


def _numbers(part: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in part.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{name}{key}_") if key != "params" else ()
        elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            yield f"{name}{key}", value


def head(schema: str, created: str) -> dict[str, Any]:
    """Return the keys of `File`."""
    tool = {"name": "batchstat", "version": __version__}
    return {"schema": schema, "tool": tool, "created": created}


def to_text(document: dict[str, Any] | list[dict[str, Any]]) -> str:
    """Return the JSON text of a file or of several, and of `--json`."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return without_commands(f"{text}\n")
