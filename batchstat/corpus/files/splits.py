"""Splits of sources: the units of counting, by names and sizes alone, so the same in every run. A
range of bytes stands for the lines, or the row groups, that begin in it, as in Hadoop.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from batchstat.corpus.files.sources import Source
from batchstat.corpus.options import CorpusOptions
from batchstat.storage.addresses import as_path
from batchstat.storage.shown import is_remote

SPLIT_BYTES = 64 << 20  # files larger than this are divided into splits of this size


@dataclass(frozen=True)
class Split:
    """A source, or a range of its bytes: the lines or row groups that begin in this range."""

    source: Source
    first: int = 0
    stop: int | None = None  # one past the last byte; None for the end of the source
    folder: str = field(default="", compare=False)

    @property
    def location(self) -> Path:
        """Path of the source."""
        path = as_path(self.source.path)
        return path if is_remote(path) else Path(self.folder, path)

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole source."""
        return self.first == 0 and self.stop is None

    @property
    def bytes(self) -> int:
        """Number of bytes on disk; 0 if unknown."""
        return self.end - self.first

    @property
    def end(self) -> int:
        """One past the last byte; 0 if unknown."""
        return self.source.bytes if self.stop is None else self.stop

    @property
    def shown(self) -> str:
        """Name in messages."""
        if self.is_whole:
            return self.source.shown
        return f"{self.source.shown} (bytes {self.first:,} to {self.end:,})"


def splits_of(sources: Iterable[Source], options: CorpusOptions) -> tuple[Split, ...]:
    """Divide sources into splits, in order; a small or indivisible source is a single one."""
    splits: list[Split] = []
    for source in sources:
        is_divisible = _is_divisible(source, options)
        cuts = range(SPLIT_BYTES, source.bytes, SPLIT_BYTES) if is_divisible else ()
        splits += map(Split, repeat(source), [0, *cuts], [*cuts, None])
    return tuple(splits)


def _is_divisible(source: Source, options: CorpusOptions) -> bool:
    """Return whether the records of a source can be found from any of its bytes on."""
    # In another encoding, where a line begins is not known from the bytes.
    if source.is_compressed_by_name or options.encoding is not None:
        return False
    # A quoted field may span several lines, so that a line need not begin a record.
    if source.format == "csv":
        return options.quote is False  # by default, None, fields may be quoted
    if source.format == "tsv":
        return not options.quote  # by default, they may not
    # Where a record of JSON or Arrow begins is known only by reading from the start.
    return source.format in ("txt", "jsonl", "parquet", "npy")
