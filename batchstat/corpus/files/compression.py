"""Decompress a byte stream, by its first bytes."""

import bz2
import gzip
import io
import lzma
import zlib
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, BinaryIO, cast

_COMPRESSED_BYTES = 1 << 18  # bytes of compressed data that are read at once

DAMAGE = (gzip.BadGzipFile, zlib.error, lzma.LZMAError)
"""Exceptions that reading damaged data raises, beside OSError and EOFError."""


def _zstd(raw: BinaryIO) -> BinaryIO:
    # Python's standard library has no zstd before 3.14.
    import pyarrow as pa

    unpacked = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return io.BufferedReader(unpacked, 1 << 20)  # which can be peeked at


class InputStream(io.RawIOBase):
    """A stream that can only be read. A subclass returns its bytes from `next_bytes`."""

    def readable(self) -> bool:  # noqa: D102
        return True

    @abstractmethod
    def next_bytes(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; no bytes at the end of the stream."""

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # noqa: D102
        data = self.next_bytes(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Streams(InputStream):
    """Streams one after another, decompressed: Python's readers drop silently what else follows."""

    def __init__(self, raw: BinaryIO, new_decompressor: Callable[[], Any], padding: bytes) -> None:
        self._raw, self._new_decompressor, self._padding = raw, new_decompressor, padding
        self._decompressor = new_decompressor()

    def next_bytes(self, size: int) -> bytes:
        """Return the next decompressed bytes, at most `size`. Raises EOFError within a stream."""
        while True:
            # The stream has ended: another one begins at the first byte that is not padding.
            if self._decompressor.eof:
                data = self._decompressor.unused_data.lstrip(self._padding)
                while not data and (block := self._raw.read(_COMPRESSED_BYTES)):
                    data = block.lstrip(self._padding)
                if not data:
                    return b""
                self._decompressor = self._new_decompressor()
            elif self._decompressor.needs_input:
                data = self._raw.read(_COMPRESSED_BYTES)
                if not data:
                    raise EOFError
            else:
                data = b""  # more output comes from the input that the decompressor still holds
            unpacked: bytes = self._decompressor.decompress(data, size)
            # Some input yields no output yet, such as headers: no bytes would mean the end.
            if unpacked:
                return unpacked


def _streams(new_decompressor: Callable[[], Any], padding: bytes) -> Callable[[BinaryIO], object]:
    return lambda raw: io.BufferedReader(_Streams(raw, new_decompressor, padding), 1 << 20)


_CODECS: dict[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\x28\xb5\x2f\xfd": _zstd,
    # Zeros may follow an xz stream as padding.
    b"\xfd7zXZ\x00": _streams(lzma.LZMADecompressor, b"\0"),
}
# Zstandard's skippable frames, with which files written by pzstd begin.
_CODECS |= {bytes([0x50 + _kind]) + b"\x2a\x4d\x18": _zstd for _kind in range(16)}
# bz2: its magic has the level as a digit, and the mark of a block or of the stream's end follows.
for _level in b"123456789":
    for _block in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):  # the second ends an empty stream
        _CODECS[b"BZh" + bytes([_level]) + _block] = _streams(bz2.BZ2Decompressor, b"")
"""Decompressors by the first bytes of a file."""


def decompressed(raw: "io.BufferedReader[Any]") -> BinaryIO | None:
    """Return the decompressed bytes of a stream; None if it is not compressed."""
    head = raw.peek(16)
    for magic, opener in _CODECS.items():
        if head.startswith(magic):
            return cast(BinaryIO, opener(raw))
    return None


def is_compressed(head: bytes) -> bool:
    """Return whether a file begins like a compressed one."""
    return head.startswith(tuple(_CODECS))
