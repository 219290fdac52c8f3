"""Digests of a source, of a split, and of the bytes outside a split that its counts depend on."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa

from batchstat.corpus.files.compression import is_compressed
from batchstat.corpus.files.opening import HEAD_BYTES, as_source_errors, next_line
from batchstat.corpus.files.sources import Source
from batchstat.corpus.files.splits import SPLIT_BYTES, Split
from batchstat.storage.addresses import as_os_errors
from batchstat.storage.shown import is_remote

_PARQUET_END = 8  # bytes of the footer's length and the magic


def digest_of(source: Source) -> str:
    """Return a file's SHA-256, above `SPLIT_BYTES` that of its splits' SHA-256s. Raises OSError."""
    whole = Split(source)
    with as_os_errors(source.path):
        size = whole.location.stat().st_size or 0  # a storage may say None where it is unknown
    return joined_digest([_digest(whole, first, stop) for first, stop in _spans(0, size)])


def joined_digest(digests: Sequence[str]) -> str:
    """Return the digest of a file from the SHA-256s of its splits, in order."""
    if len(digests) == 1:
        return f"sha256:{digests[0]}"
    return f"sha256:{hashlib.sha256(''.join(digests).encode()).hexdigest()}"


def _spans(first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Divide the bytes from `first` to before `stop` into spans of `SPLIT_BYTES`."""
    if stop == 0:
        yield 0, sys.maxsize
        return
    # If there are no bytes, one empty span: `range` must not be empty.
    for span_start in range(first, max(stop, first + 1), SPLIT_BYTES):
        yield span_start, min(span_start + SPLIT_BYTES, stop)


def _digest(split: Split, first: int, stop: int) -> str:
    """Return the SHA-256 of the bytes from `first` to before `stop` of the source of a split."""
    with as_os_errors(split.source.path), split.location.open("rb") as file:
        digest, missing_bytes = _hash_span(file, first, stop)
    # Only at an address: a file of this machine that became shorter is noticed when it is opened to
    # be read. A file of unknown size (0) may end anywhere.
    if missing_bytes and split.source.bytes and is_remote(split.source.path):
        raise OSError(f"it ends before the {split.source.bytes:,} bytes that its storage says")
    return digest


def _hash_span(file: BinaryIO, first: int, stop: int) -> tuple[str, int]:
    """Hash the bytes of a file from `first` to before `stop`."""
    digest = hashlib.sha256()
    if file.tell() != first:  # remote files may not be seekable; they start at 0 anyway
        file.seek(first)
    bytes_left = stop - first
    while bytes_left > 0 and (data := file.read(min(bytes_left, 1 << 20))):
        digest.update(data)
        bytes_left -= len(data)
    return digest.hexdigest(), bytes_left


def content_digests(split: Split) -> tuple[tuple[str, ...], str]:
    """Return digests of all that the counts of a split depend on: the SHA-256 of each
    `SPLIT_BYTES`, and that of the bytes outside, empty for a whole source. Raises SourceError.
    """
    with as_source_errors(split.source):
        spans = _spans(split.first, split.end)
        digests = tuple(_digest(split, first, stop) for first, stop in spans)
        if split.is_whole:
            return digests, ""
        with split.location.open("rb") as file:
            hashed = [_hash_span(file, first, stop) for first, stop in _spans_outside(file, split)]
        digests_outside = "".join(digest for digest, _missing in hashed)
        return digests, hashlib.sha256(digests_outside.encode()).hexdigest()


def _spans_outside(file: BinaryIO, split: Split) -> Iterator[tuple[int, int]]:
    """Yield the bytes outside a split that its counts depend on, as spans from first to stop."""
    # What names the columns, and the rest of the last line, row group or number of the split.
    size, stop = split.source.bytes, split.end
    # 16 bytes are enough to recognize every compression.
    if is_compressed(file.read(16)):
        # The first split then has the whole file, and the others are empty.
        yield stop, (size if split.first == 0 else stop)
    elif split.source.format == "parquet":
        from batchstat.corpus.formats.parquet_files import open_parquet

        # The footer, whose length stands behind it; a damaged file may have any number there.
        file.seek(max(size - _PARQUET_END, 0))
        footer_bytes = int.from_bytes(file.read(_PARQUET_END)[:4], "little")
        yield max(size - _PARQUET_END - footer_bytes, 0), size
        # The rest of the last row group that begins in the split.
        try:
            parquet = open_parquet(file, split.source.shown)
            end = max((parquet.span(i)[1] for i in parquet.groups_in(split)), default=0)
        except pa.ArrowException:
            end = size  # the reader will report what is wrong
        yield stop, max(stop, end)
    elif split.source.format == "npy":
        # The header, with the type of the numbers, and the rest of the last number, up to 8 bytes.
        yield 0, HEAD_BYTES
        yield stop, stop + 8
    else:
        # The lines that name the columns; whether a line begins here; the rest of the last.
        yield 0, next_line(file, HEAD_BYTES)
        yield max(split.first - 1, 0), split.first
        yield stop, next_line(file, stop)
