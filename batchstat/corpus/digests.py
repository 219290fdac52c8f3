"""Digests of a source, of a split, and of the bytes outside a split that its counts depend on."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa

from batchstat.corpus.compression import is_compressed
from batchstat.corpus.opening import HEAD_BYTES, as_source_errors, line_end
from batchstat.corpus.sources import Source
from batchstat.corpus.splits import SPLIT_BYTES, Split
from batchstat.storage.addresses import as_os_errors
from batchstat.storage.shown import is_remote

_HASHED_BYTES = 1 << 20
_NUMBER_BYTES = 8
_PARQUET_END = 8
"""Bytes of the footer's length and the magic."""


def digest_of(source: Source) -> str:
    """Return the SHA-256 of a file; of a large one, that of the SHA-256s of every `SPLIT_BYTES`.

    Raises:
        OSError: it cannot be read.
    """
    split = Split(source)
    with as_os_errors(source.path):
        size = split.location.stat().st_size or 0
    return joined_digest([_digest(split, *span) for span in _ranges(size)])


def joined_digest(digests: Sequence[str]) -> str:
    """Return the digest of a file from those of its `SPLIT_BYTES`, in order."""
    if len(digests) == 1:
        return f"sha256:{digests[0]}"
    return f"sha256:{hashlib.sha256(''.join(digests).encode()).hexdigest()}"


def _ranges(stop: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield ranges of bytes; for a file of unknown size, one range to its end."""
    if stop == 0:
        yield 0, sys.maxsize
        return
    for start in range(first, max(stop, first + 1), SPLIT_BYTES):
        yield start, min(start + SPLIT_BYTES, stop)


def _digest(split: Split, first: int, stop: int) -> str:
    with as_os_errors(split.source.path), split.location.open("rb") as file:
        digest, left = _hash_span(file, first, stop)
    # A file of this machine that became shorter is noticed when it is opened to be read.
    if left and split.source.bytes and is_remote(split.source.path):
        raise OSError(f"it ends before the {split.source.bytes:,} bytes that its storage says")
    return digest


def _hash_span(file: BinaryIO, first: int, stop: int) -> tuple[str, int]:
    """Return the SHA-256 of the bytes of a file from `first` to before `stop`, in hexadecimal, and
    how many of them there are not.
    """
    digest = hashlib.sha256()
    if file.tell() != first:  # remote files may not be seekable; they start at 0 anyway
        file.seek(first)
    left = stop - first
    while left > 0 and (data := file.read(min(left, _HASHED_BYTES))):
        digest.update(data)
        left -= len(data)
    return digest.hexdigest(), left


def content_digests(split: Split) -> tuple[tuple[str, ...], str]:
    """Return the SHA-256 of each `SPLIT_BYTES` of a split, and a digest of everything else that its
    counts depend on.

    The latter is the line or the row group in which it ends, the head of the file, or its footer.

    Raises:
        SourceError: it cannot be read.
    """
    with as_source_errors(split.source):
        digests = tuple(_digest(split, *span) for span in _ranges(split.end, split.first))
        if split.is_whole:
            return digests, ""
        with split.location.open("rb") as file:
            beside = [_hash_span(file, *span)[0] for span in _beside(file, split)]
        return digests, hashlib.sha256("".join(beside).encode()).hexdigest()


def _beside(file: BinaryIO, split: Split) -> Iterator[tuple[int, int]]:
    size, stop = split.source.bytes, split.end
    if is_compressed(file.read(16)):
        # All of a compressed file is counted in its first split.
        yield stop, size if split.first == 0 else stop
    elif split.source.format == "parquet":
        # Counts depend on the footer, and on the end of a row group that begins in the split.
        file.seek(max(size - _PARQUET_END, 0))
        footer = int.from_bytes(file.read(_PARQUET_END)[:4], "little")
        yield max(size - _PARQUET_END - footer, 0), size
        yield stop, max(stop, _end_of_groups(split))
    elif split.source.format == "npy":
        # Its header, and the number that begins in the split and may end after it.
        yield 0, HEAD_BYTES
        yield stop, stop + _NUMBER_BYTES
    else:
        # The head names the columns; the byte before the split tells whether a line begins there.
        yield 0, line_end(file, HEAD_BYTES)
        yield max(split.first - 1, 0), split.first
        yield stop, line_end(file, stop)


def _end_of_groups(split: Split) -> int:
    """Return where the last row group that begins in a split ends."""
    from batchstat.corpus.formats.parquet_files import open_parquet

    try:
        with split.location.open("rb") as file:
            parquet = open_parquet(file, split.source.shown)
            return max((parquet.span(i)[1] for i in parquet.groups_in(split)), default=0)
    except pa.ArrowException:
        return split.source.bytes  # the reader will report what is wrong
