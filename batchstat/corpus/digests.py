"""Digests of a part, and of the bytes outside it that its counts depend on."""

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from batchstat.corpus.formats.columnar import groups_of
from batchstat.corpus.formats.parquet_files import open_parquet
from batchstat.corpus.opening import HEAD_BYTES, is_compressed
from batchstat.corpus.parts import Part, digest_of_part, hash_span
from batchstat.errors import SourceError
from batchstat.storage.addresses import is_remote, one_line

_PROBE_BYTES = 1 << 16
_NUMBER_BYTES = 8
_PARQUET_END = 8
"""Bytes of the footer's length and the magic."""


def content_digests(part: Part) -> tuple[tuple[str, ...], str]:
    """Return the digests of a part's bytes, and one of everything else its counts depend on.

    The latter is the line or the row group in which it ends, the head of the file, or its footer.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        digests = digest_of_part(part)
        if part.is_whole:
            return digests, ""
        with part.location.open("rb") as file:
            beside = [hash_span(file, *span) for span in _beside(file, part)]
        return digests, hashlib.sha256("".join(beside).encode()).hexdigest()
    except FileNotFoundError:
        raise SourceError(f"{part.source.shown} no longer exists") from None
    except Exception as error:  # a remote file system may raise anything
        if isinstance(error, OSError) or is_remote(part.source.path):
            raise SourceError(f"{part.source.shown} cannot be read: {one_line(error)}") from None
        raise


def _beside(file: BinaryIO, part: Part) -> Iterator[tuple[int, int]]:
    size = part.source.bytes
    stop = size if part.stop is None else part.stop
    if is_compressed(file.read(16)):
        yield stop, size if part.first == 0 else stop
    elif part.source.format == "parquet":
        file.seek(max(size - _PARQUET_END, 0))
        footer = int.from_bytes(file.read(_PARQUET_END)[:4], "little")
        yield max(size - _PARQUET_END - footer, 0), size
        yield stop, max(stop, _end_of_groups(part))
    elif part.source.format == "npy":
        yield 0, HEAD_BYTES
        yield stop, stop + _NUMBER_BYTES
    else:
        yield 0, _line_end(file, HEAD_BYTES)
        yield max(part.first - 1, 0), part.first
        yield stop, _line_end(file, stop)


def _end_of_groups(part: Part) -> int:
    """Return where the last row group that begins in a part ends."""
    try:
        with part.location.open("rb") as file:
            parquet = open_parquet(file, part.source.shown)
            return max((end for _, end, _ in groups_of(parquet, part)), default=0)
    except pa.ArrowException:
        return part.source.bytes  # the reader will report what is wrong


def _line_end(file: BinaryIO, at: int) -> int:
    """Return where the line that holds the byte before `at` ends."""
    file.seek(max(at - 1, 0))
    at = max(at - 1, 0)
    while data := file.read(_PROBE_BYTES):
        end = data.find(b"\n") + 1
        if end:
            return at + end
        at += len(data)
    return at
