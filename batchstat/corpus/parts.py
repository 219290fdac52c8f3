"""Parts of sources: the units of counting, for any executor.

Where files are divided depends on their names and sizes alone, so it is the same in every run. A
range of bytes stands for the lines, or the row groups, that begin in it, as in Hadoop's input
splits; whether a file can be read that way is left to its reader.
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
"""Files larger than this are divided into parts of this size."""

_HASHED_BYTES = 1 << 20


@dataclass(frozen=True)
class Part:
    """A source, or a range of its bytes.

    Attributes:
        source: the source.
        first: first byte.
        stop: one past the last byte; None for everything.
        folder: base of a relative path, for a worker elsewhere; empty for the current folder.
    """

    source: Source
    first: int = 0
    stop: int | None = None
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
        return (self.source.bytes if self.stop is None else self.stop) - self.first

    @property
    def shown(self) -> str:
        """Name in messages."""
        if self.is_whole:
            return self.source.shown
        stop = self.source.bytes if self.stop is None else self.stop
        return f"{self.source.shown} (bytes {self.first:,} to {stop:,})"


def parts_of(sources: Iterable[Source], options: CorpusOptions) -> tuple[Part, ...]:
    """Return the parts of sources in order; a small or indivisible source is a single part."""
    return tuple(part for source in sources for part in _cut(source, options))


def digest_of(source: Source) -> str:
    """Return the SHA-256 of a file; of a large one, that of the SHA-256s of every `PART_BYTES`.

    Raises:
        OSError: it cannot be read.
    """
    part = Part(source)
    size = part.location.stat().st_size or 0
    return joined_digest([_digest(part, each) for each in _ranges(size)])


def digest_of_part(part: Part) -> tuple[str, ...]:
    """Return the SHA-256 of each `PART_BYTES` of a part, which begins at a multiple of that.

    Raises:
        OSError: it cannot be read.
    """
    stop = part.source.bytes if part.stop is None else part.stop
    return tuple(_digest(part, each) for each in _ranges(stop, part.first))


def joined_digest(digests: Sequence[str]) -> str:
    """Return the digest of a file from those of its `PART_BYTES`, in order."""
    if len(digests) == 1:
        return f"sha256:{digests[0]}"
    return f"sha256:{hashlib.sha256(''.join(digests).encode()).hexdigest()}"


def _ranges(stop: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield ranges of bytes; for a file of unknown size, one range to its end."""
    if stop == 0:
        yield 0, sys.maxsize
        return
    for start in range(first, max(stop, first + 1), PART_BYTES):
        yield start, min(start + PART_BYTES, stop)


def _digest(part: Part, span: tuple[int, int]) -> str:
    with part.location.open("rb") as file:
        return hash_span(file, *span)


def hash_span(file: BinaryIO, first: int, stop: int) -> str:
    """Return the SHA-256 of the bytes of a file from `first` to before `stop`, in hexadecimal."""
    found = hashlib.sha256()
    if file.tell() != first:  # remote files may not be seekable; they start at 0 anyway
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
    """Return whether a source is divisible: not if a quoted field may span several lines."""
    if source.path.lower().endswith(COMPRESSED_ENDINGS):
        return False
    quoted = {"csv": options.quote is not False, "tsv": bool(options.quote)}
    return source.format in ("txt", "jsonl", "parquet", "npy") or quoted.get(source.format) is False
