"""Parts of sources: what is counted at once, by whoever does it.

Where a corpus is cut depends on its files' names and sizes alone, so that no two runs differ in it.
A range of bytes stands for the lines that begin in it, or for the row groups that do, as Hadoop
splits its input; whether a file can be read so is found out by who reads it.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.sources import COMPRESSED_ENDINGS, Source
from batchstat.storage.addresses import as_path, is_remote

PART_BYTES = 64 << 20
"""Larger files are cut after so many bytes."""

_HASHED_BYTES = 1 << 20


@dataclass(frozen=True)
class Part:
    """A source, or some of its bytes.

    Attributes:
        source: which.
        first: the first byte.
        stop: the byte after the last; None for all that is there.
        folder: where a path that is relative begins, for who works elsewhere; empty for here.
    """

    source: Source
    first: int = 0
    stop: int | None = None
    folder: str = field(default="", compare=False)

    @property
    def location(self) -> Path:
        """Where the source lies."""
        path = as_path(self.source.path)
        return path if is_remote(path) else Path(self.folder, path)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its source."""
        return self.first == 0 and self.stop is None

    @property
    def bytes(self) -> int:
        """How many, as they lie on disk; 0 where that is not known."""
        return (self.source.bytes if self.stop is None else self.stop) - self.first

    @property
    def shown(self) -> str:
        """How messages name it."""
        if self.is_whole:
            return self.source.shown
        stop = self.source.bytes if self.stop is None else self.stop
        return f"{self.source.shown} (bytes {self.first:,} to {stop:,})"


def parts_of(sources: Iterable[Source], options: CorpusOptions) -> tuple[Part, ...]:
    """The parts of sources in turn: a small source, or one that cannot be cut, is one."""
    return tuple(part for source in sources for part in _cut(source, options))


def digest_of(source: Source) -> str:
    """SHA-256 of a file's bytes; of a large one, of the SHA-256s of every `PART_BYTES` of it.

    Raises:
        OSError: it cannot be read.
    """
    part = Part(source)
    size = part.location.stat().st_size or 0
    return joined_digest([_digest(part, each) for each in _ranges(size)])


def digest_of_part(part: Part) -> tuple[str, ...]:
    """The SHA-256 of each `PART_BYTES` of a part, which begins with one.

    Raises:
        OSError: it cannot be read.
    """
    stop = part.source.bytes if part.stop is None else part.stop
    return tuple(_digest(part, each) for each in _ranges(stop, part.first))


def joined_digest(digests: Sequence[str]) -> str:
    """The digest of a file from those of its `PART_BYTES` in turn."""
    if len(digests) == 1:
        return f"sha256:{digests[0]}"
    return f"sha256:{hashlib.sha256(''.join(digests).encode()).hexdigest()}"


def _ranges(stop: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Ranges of bytes; one up to the end, wherever that is, of a file whose size is not told."""
    if stop == 0:
        yield 0, sys.maxsize
        return
    for start in range(first, max(stop, first + 1), PART_BYTES):
        yield start, min(start + PART_BYTES, stop)


def _digest(part: Part, span: tuple[int, int]) -> str:
    with part.location.open("rb") as file:
        return hash_span(file, *span)


def hash_span(file: BinaryIO, first: int, stop: int) -> str:
    """The SHA-256 of the bytes of a file from `first` to before `stop`, in hexadecimal."""
    found = hashlib.sha256()
    if file.tell() != first:  # not every address can be gone to, but its start is where one begins
        file.seek(first)
    left = stop - first
    while left > 0 and (data := file.read(min(left, _HASHED_BYTES))):
        found.update(data)
        left -= len(data)
    return found.hexdigest()


def _cut(source: Source, options: CorpusOptions) -> Iterator[Part]:
    if source.bytes <= PART_BYTES or not _can_be_cut(source, options):
        yield Part(source)
        return
    for first in range(0, source.bytes, PART_BYTES):
        stop = first + PART_BYTES
        yield Part(source, first, stop if stop < source.bytes else None)


def _can_be_cut(source: Source, options: CorpusOptions) -> bool:
    """Where a quoted field may go over lines, a line's end says nothing."""
    if source.path.lower().endswith(COMPRESSED_ENDINGS):
        return False
    quoted = {"csv": options.quote is not False, "tsv": bool(options.quote)}
    return source.format in ("txt", "jsonl", "parquet", "npy") or quoted.get(source.format) is False
