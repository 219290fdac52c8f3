"""Arrow IPC files as the record batches of all streams in them, each checked before it is read.

pyarrow stops silently at the first end of a stream, and allocates whatever size a buffer claims.
Format: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from batchstat.errors import SourceError

_FILE_MAGIC = b"ARROW1"
_FILE_START, _FILE_END = 8, 10
"""Bytes before the stream of a file, and after its footer."""
_CONTINUATION = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3
_BUFFER_BYTES = 16

_MOST_UNPACKED, _MOST_RATIO = 1 << 30, 200
"""Decompressed size and compression ratio beyond which, both exceeded, a batch is not real data."""


def open_batches(file: BinaryIO, path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the record batches of an Arrow IPC file, or of one or more streams.

    Raises:
        SourceError: here, or while the batches are read: the file is cut short, something else
            follows a stream, or a batch decompresses to more than real data does.
        ArrowException: it is damaged.
    """
    file.seek(0)
    is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    size = file.seek(0, io.SEEK_END)
    expected, stop = None, size
    if is_file:
        file.seek(0)
        expected = pa.ipc.open_file(file).num_record_batches
        file.seek(size - _FILE_END)
        stop = size - _FILE_END - int.from_bytes(file.read(4), "little")
    file.seek(_FILE_START if is_file else 0)
    streams = _Streams(file, stop, path, expected)
    return streams.schema, streams.batches()


class _Streams(io.RawIOBase):
    """The bytes of a file up to the end of its streams, as pyarrow reads them."""

    def __init__(self, file: BinaryIO, stop: int, path: str, expected: int | None) -> None:
        self._file, self._stop, self._path, self._expected = file, stop, path, expected
        self._reader = pa.ipc.open_stream(self)
        self.schema = self._reader.schema

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        left = max(self._stop - self._file.tell(), 0)
        return self._file.read(left if size < 0 else min(size, left))

    def batches(self) -> Iterator[pa.RecordBatch]:
        count = 0
        while self._reader is not None:
            while self._has_batch():
                try:
                    yield self._reader.read_next_batch()
                except StopIteration:
                    raise self._damage("a record batch is missing") from None
                count += 1
            self._reader = self._next_stream()
        if self._expected not in (None, count):
            raise self._damage(
                f"it has {count:,} record batches, but its footer says {self._expected:,}"
            )

    def _next_stream(self) -> Any:
        """Return the reader of the stream that begins here; None if there are no more."""
        at = self._file.tell()
        if at == self._stop:
            return None
        if self._expected is not None:
            # Zeros may pad the stream of a file up to its footer.
            if self.read().strip(b"\0"):
                raise self._damage(f"something follows the end of its stream at byte {at:,}")
            return None
        try:
            reader = pa.ipc.open_stream(self)
        except pa.ArrowException:
            raise self._damage(
                f"what follows the stream that ends at byte {at:,} is not an Arrow stream: remove "
                "it, or write the file again"
            ) from None
        if not reader.schema.equals(self.schema):
            raise self._damage(
                f"the stream that begins at byte {at:,} has different columns from the first: "
                "pass them as separate files"
            )
        return reader

    def _has_batch(self) -> bool:
        """Return whether a record batch follows; if not, skip the end of the stream."""
        begin = self._file.tell()
        try:
            while (message := self._message()) is not None:
                if message.unpacked > max(_MOST_UNPACKED, _MOST_RATIO * message.body):
                    raise self._damage(
                        f"a record batch of {message.body:,} bytes claims to decompress to "
                        f"{message.unpacked:,}: write smaller batches"
                    )
                if message.kind == _BATCH:
                    self._file.seek(begin)
                    return True
                self._file.seek(message.end)
        except (struct.error, IndexError, ValueError, OverflowError):
            raise self._damage(f"the message at byte {begin:,} cannot be read") from None
        return False

    def _message(self) -> "_Message | None":
        """Return the message that begins here; None at the end of the stream."""
        head = self.read(4)
        # A file needs no mark of its stream's end: its footer says how many batches there are.
        if not head and self._expected is not None:
            return None
        # Before Arrow 0.15, a message began with its size.
        size = self.read(4) if head == _CONTINUATION else head
        if len(size) < 4:
            raise self._damage("it is cut short: its stream has no end")
        length = int.from_bytes(size, "little")
        if length == 0:
            return None
        metadata = self.read(length)
        body = self._file.tell()
        message = _Message.parsed(metadata, body, self._file)
        if len(metadata) < length or message.end > self._stop:
            raise self._damage("it is cut short: its last message is incomplete")
        return message

    def _damage(self, reason: str) -> SourceError:
        return SourceError(f"{self._path} is not a readable Arrow file: {reason}")


@dataclass(frozen=True)
class _Message:
    """A message: its kind, the bytes of its body, its decompressed bytes, and where it ends."""

    kind: int
    body: int
    unpacked: int
    end: int

    @classmethod
    def parsed(cls, metadata: bytes, begin: int, file: BinaryIO) -> "_Message":
        """Parse a message from its flatbuffer; its body begins at byte `begin` of the file.

        Raises:
            struct.error, ValueError: it cannot be read.
        """
        message = _Table(metadata, struct.unpack_from("<I", metadata, 0)[0])
        kind, body = message.number(1, "<B"), message.number(3, "<q")
        if body < 0:
            raise ValueError
        unpacked = 0
        if kind in (_DICTIONARY, _BATCH):
            batch = message.table(2)
            batch = batch.table(1) if kind == _DICTIONARY else batch
            if batch.field(3):  # compressed
                for offset, length in batch.structs(2, "<qq"):
                    # A compressed buffer begins with its decompressed size, in 8 bytes.
                    if length >= _BUFFER_BYTES // 2:
                        file.seek(begin + offset)
                        claimed = struct.unpack("<q", file.read(8))[0]
                        # -1 says that the buffer is stored as it is.
                        unpacked += length if claimed < 0 else claimed
        return cls(kind, body, unpacked, begin + body)


@dataclass(frozen=True)
class _Table:
    """A table in a flatbuffer, which begins at `at`."""

    data: bytes
    at: int

    def field(self, number: int) -> int:
        """Return the position of a field; 0 if it is absent."""
        vtable = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, vtable)[0]:
            return 0
        offset: int = struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)[0]
        return self.at + offset if offset else 0

    def number(self, field: int, kind: str) -> int:
        """Return the field as a number; 0 if it is absent."""
        at = self.field(field)
        return int(struct.unpack_from(kind, self.data, at)[0]) if at else 0

    def table(self, field: int) -> "_Table":
        """Return the field as a table."""
        at = self.field(field)
        return _Table(self.data, at + struct.unpack_from("<I", self.data, at)[0])

    def structs(self, field: int, kind: str) -> Iterator[tuple[Any, ...]]:
        """Yield the structs of a field; nothing if it is absent."""
        at = self.field(field)
        if at:
            at += struct.unpack_from("<I", self.data, at)[0]
            count = struct.unpack_from("<I", self.data, at)[0]
            stop = at + 4 + count * struct.calcsize(kind)
            yield from struct.iter_unpack(kind, self.data[at + 4 : stop])
