"""What every reader yields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

Column: TypeAlias = "pa.Array | list[Any]"
"""Values of one column: Arrow's, or Python's as JSON has them."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one file; the first chunk starts with its first record.

    Attributes:
        size: how many records.
        columns: the values of each column that is read, (size,) each.
        position: bytes of the file, as it lies on disk, that are read so far.
        content: which columns are counted.
        label: which holds the label; None where none is read.
        tools: which holds the tools that chats may call; None where none is read.
        lines: (size,) the line on which each record starts; None in files without lines.
        counted: whether the content is a number of tokens, whatever the options say.
        blank: records with nothing in them, such as an empty line: their values mean nothing.
        failed: records of the chunk that are counted as faults already: their values mean nothing.
        before: lines or records of the file that stand before the part of it that is read.
        label_seen: whether any record so far names the label; None where none could be read.
    """

    size: int
    columns: Mapping[str, Column]
    position: int
    content: tuple[str, ...]
    label: str | None = None
    lines: Sequence[int] | None = None
    counted: bool = False
    blank: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    before: Callable[[], int] = int
    label_seen: bool | None = True
    tools: str | None = None
