"""`Chunk`: the records that every reader yields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.files.opening import OpenSource

Column: TypeAlias = "pa.Array | list[Any]"
"""Values of one column: Arrow's, or Python's as parsed from JSON."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are read from one file."""

    content: tuple[str, ...]  # the columns with what is counted: one, or two for pairs
    labels: tuple[str, ...] = ()  # the column with the class label, or several of 0 and 1
    tools: str | None = None
    settings: str | None = None
    trained: str | None = None
    is_guessed: bool = False
    separator: str | None = None  # what separates the fields of delimited text

    @property
    def required(self) -> tuple[str, ...]:
        """Every column that each sample must have."""
        return self.content if self.trained is None else (*self.content, self.trained)

    @property
    def all(self) -> tuple[str, ...]:
        """Every column that is read, once each."""
        optional = (*self.labels, self.tools, self.settings)
        return tuple(dict.fromkeys((*self.required, *(name for name in optional if name))))


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one file; the first chunk starts with its first record."""

    values: Mapping[str, Column]  # the values of each column that is read, (size,) each
    columns: Columns
    position: int  # bytes of the file on disk that are read so far
    lines: Sequence[int] | None = None  # (size,) line on which each record starts
    holds: str = ""  # what the content is, whatever the options say: `length` or `words`
    bad: Mapping[int, BadRecord] = field(default_factory=dict)
    count_before: Callable[[], int] = int
    label_seen: bool | None = True  # whether any record of the file so far has a label

    @classmethod
    def read_from(
        cls,
        opened: OpenSource,
        values: Mapping[str, Column],
        columns: Columns,
        lines: Sequence[int] | None,
        bad: Mapping[int, BadRecord],
        **more: Any,
    ) -> "Chunk":
        """Return records of an open source, up to where it is read. `more` has further fields."""
        before, position = opened.lines_before, opened.position
        return cls(values, columns, position, lines, bad=bad, count_before=before, **more)

    @property
    def size(self) -> int:
        """Number of records."""
        return len(next(iter(self.values.values())))
