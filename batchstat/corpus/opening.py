"""A source's bytes: decompressed by what they are, hashed where they can be read but once."""

import bz2
import gzip
import hashlib
import io
import lzma
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from batchstat.corpus.parts import Part
from batchstat.corpus.sources import COMPRESSED_ENDINGS, STANDARD_INPUT, Source
from batchstat.errors import BatchstatError, InputError, SourceError
from batchstat.storage.addresses import etag_in, info_of, is_remote, one_line

HEAD_BYTES = 1 << 20
"""Of a file: there the columns of its other parts are found out."""
_BLOCK_BYTES = 8 << 20
_COMPRESSED_BYTES = 1 << 18
_DAMAGE = (gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_CUT_SHORT = ("Truncated compressed stream", "end-of-stream marker", "ended before")


def _zstd(raw: BinaryIO) -> BinaryIO:
    import pyarrow as pa

    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))


class _Streams(io.RawIOBase):
    """Compressed streams one after another, as bz2 and xz files may hold.

    The standard library's own readers drop in silence what follows a stream and is none.
    """

    def __init__(self, raw: BinaryIO, decompressor: Callable[[], Any], padding: bytes) -> None:
        self._raw, self._new, self._padding = raw, decompressor, padding
        self._current = decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        while True:
            data = b""
            if self._current.eof:
                data = self._next_stream(self._current.unused_data)
                if not data:
                    return 0
                self._current = self._new()
            elif self._current.needs_input:
                data = self._raw.read(_COMPRESSED_BYTES)
                if not data:
                    raise EOFError
            unpacked: bytes = self._current.decompress(data, len(buffer))
            if unpacked:
                buffer[: len(unpacked)] = unpacked
                return len(unpacked)

    def _next_stream(self, data: bytes) -> bytes:
        data = data.lstrip(self._padding)
        while not data and (read := self._raw.read(_COMPRESSED_BYTES)):
            data = read.lstrip(self._padding)
        return data


def _streams(decompressor: Callable[[], Any], padding: bytes) -> Callable[[BinaryIO], object]:
    return lambda raw: io.BufferedReader(_Streams(raw, decompressor, padding), 1 << 20)


_CODECS: dict[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\x28\xb5\x2f\xfd": _zstd,
    b"\xfd7zXZ\x00": _streams(lzma.LZMADecompressor, b"\0"),
}
# Zstandard's skippable frames, with which pzstd begins a file.
_CODECS |= {bytes([0x50 + _kind]) + b"\x2a\x4d\x18": _zstd for _kind in range(16)}
for _level in b"123456789":
    for _block in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):  # the second ends an empty stream
        _CODECS[b"BZh" + bytes([_level]) + _block] = _streams(bz2.BZ2Decompressor, b"")
"""By their first bytes."""


class _Hashing(io.RawIOBase):
    """Bytes that pass by once: hashed and counted."""

    def __init__(self, raw: "BinaryIO | Rereadable") -> None:
        self._raw, self.sha256, self.count = raw, hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        data = self._raw.read(len(buffer)) or b""
        buffer[: len(data)] = data
        self.sha256.update(data)
        self.count += len(data)
        return len(data)


class Rereadable(io.RawIOBase):
    """A stream that passes by once, copied to a temporary file so that it can be read again.

    Where the copy finds no room it is given up, and `rewind` refuses.
    """

    def __init__(self, raw: BinaryIO) -> None:
        """`raw`, of which nothing has been read."""
        self._raw, self._begun = raw, False
        self._copy: IO[bytes] | None = None
        with suppress(OSError):
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115

    def readable(self) -> bool:  # noqa: D102
        return True

    def close(self) -> None:
        """Remove the copy; the stream itself stays open."""
        if self._copy is not None:
            self._copy.close()
        super().close()

    def rewind(self) -> None:
        """Back to its start.

        Raises:
            InputError: the copy could not be kept.
        """
        if not self._begun:
            return
        try:
            if self._copy is None:
                raise OSError
            self._copy.seek(0)
        except OSError:
            raise InputError(
                "standard input has to be read again, and the folder for temporary files has no "
                "room for a copy of it: name a file"
            ) from None

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # noqa: D102
        self._begun = True
        data = self._copy.read(len(buffer)) if self._copy else b""
        if not data:
            data = self._raw.read(len(buffer))
            if self._copy is not None:
                try:
                    self._copy.write(data)
                except OSError:
                    self._copy = None
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class OpenSource:
    """A source being read, or a part of one.

    Attributes:
        part: of what is read: what is compressed is all in the first part, and none in the others.
        stream: the source's bytes, decompressed.
        raw: the bytes as they lie on disk.
        hashing: what hashes standard input.
    """

    part: Part
    stream: BinaryIO
    raw: "io.BufferedReader[Any]"
    hashing: _Hashing | None = None

    @property
    def path(self) -> str:
        """How errors name it."""
        return self.part.source.shown

    @property
    def size(self) -> int:
        """Bytes of the source; 0 where that is not known."""
        return self.part.source.bytes

    @property
    def position(self) -> int:
        """Bytes of the part read so far, as they lie on disk."""
        return self.hashing.count if self.hashing else self.raw.tell() - self.part.first

    def head(self) -> "OpenSource":
        """The lines at the start of the file, where a part of it begins later."""
        self.raw.seek(0)
        return replace(self, part=replace(self.part, first=0, stop=HEAD_BYTES))

    @property
    def lines_before(self) -> Callable[[], int]:
        """How many lines of the file begin before the part does: found by reading it, once."""

        @cache
        def counted() -> int:
            return lines_before(self.part)

        return counted if self.part.first else int

    def source(self, known: Source) -> Source:
        """What was read, once all of it is."""
        if self.hashing is None:
            return known
        self.raw.read()
        digest = f"sha256:{self.hashing.sha256.hexdigest()}"
        return Source(known.path, self.hashing.count, digest, known.format)


@contextmanager
def open_source(part: Part, standard_input: Rereadable | None = None) -> Iterator[OpenSource]:
    """The source's bytes, decompressed where its first bytes say that they are compressed.

    Standard input is read from `standard_input`, where that is given.

    Raises:
        SourceError: it cannot be read, is cut short, is damaged or changes: also while it is read.
    """
    source = part.source
    with _as_source_errors(source):
        if source.path == STANDARD_INPUT:
            hashing = _Hashing(standard_input or sys.stdin.buffer)
            raw = io.BufferedReader(hashing, buffer_size=1 << 20)
            yield OpenSource(part, _decompressed(source, raw), raw, hashing)
            return
        path = part.location
        before = _state(path)
        # At an address, what was listed is what is read.
        known = source.digest if source.digest.startswith("etag:") else before[1]
        if (source.bytes or before[0], known) != before:
            raise SourceError(f"{source.shown} changed since it was listed: run again")
        with _buffered(path) as file:
            unpacked = _decompressed(source, file)
            if unpacked is not file and not part.is_whole:
                # The first part then is all of it.
                first, stop = (source.bytes, source.bytes) if part.first else (0, None)
                part = replace(part, first=first, stop=stop)
            yield OpenSource(part, unpacked, file)
            if before != _state(path):
                raise SourceError(f"{source.shown} changed while it was read: run again")


@contextmanager
def _as_source_errors(source: Source) -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise _cut_short(source) from None
    except FileNotFoundError:
        raise SourceError(f"{source.shown} is no longer there") from None
    except _DAMAGE as error:
        raise SourceError(f"{source.shown} is damaged: {error}") from None
    except OSError as error:
        if any(words in str(error) for words in _CUT_SHORT):
            raise _cut_short(source) from None
        if error.errno is None and not is_remote(source.path):
            raise SourceError(f"{source.shown} is damaged: {error}") from None
        raise SourceError(f"{source.shown} cannot be read: {one_line(error)}") from None
    except BatchstatError:
        raise
    except Exception as error:  # whatever a file system of an address raises
        if not is_remote(source.path):
            raise
        raise SourceError(f"{source.shown} cannot be read: {one_line(error)}") from None


def lines_before(part: Part) -> int:
    """How many lines of a file begin before its part does."""
    with part.location.open("rb") as file:
        lines, left = 0, part.first - 1
        while left > 0 and (data := file.read(min(left, 1 << 20))):
            lines += data.count(b"\n")
            left -= len(data)
        return lines + 1


def _state(path: Path) -> tuple[int, object]:
    """Its size, and what changes with its content."""
    if is_remote(path):
        info = info_of(path)
        return int(info.get("size") or 0), etag_in(info)
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _buffered(path: Path) -> "io.BufferedReader[Any]":
    if not is_remote(path):
        return path.open("rb")
    # Blocks as readers ask for them, so that a part fetches hardly more than itself.
    file = cast(Any, path).open("rb", block_size=_BLOCK_BYTES, cache_type="readahead")
    return io.BufferedReader(file, 1 << 20)


@contextmanager
def seekable(opened: OpenSource) -> Iterator[BinaryIO]:
    """The source for readers that jump about in it, unpacked into a temporary file if need be."""
    if opened.stream is opened.raw and opened.hashing is None:
        yield cast(BinaryIO, opened.raw)
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(opened.stream, unpacked, 1 << 20)
        unpacked.seek(0)
        yield cast(BinaryIO, unpacked)


def _decompressed(source: Source, raw: "io.BufferedReader[Any]") -> BinaryIO:
    head = raw.peek(16)
    for magic, opener in _CODECS.items():
        if head.startswith(magic):
            return cast(BinaryIO, opener(raw))
    if source.path.lower().endswith(COMPRESSED_ENDINGS):
        raise InputError(
            f"{source.path} is named as compressed and is not: rename it for what it is"
        )
    return cast(BinaryIO, raw)


def is_compressed(head: bytes) -> bool:
    """Whether a file begins as one that is compressed does."""
    return any(head.startswith(magic) for magic in _CODECS)


def _cut_short(source: Source) -> InputError:
    return SourceError(f"{source.shown} is cut short: the compressed data ends early")
