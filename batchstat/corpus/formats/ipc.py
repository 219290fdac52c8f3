"""Arrow IPC files as the batches of all streams in them, checked: pyarrow stops silently at the
first end of a stream, and allocates whatever size a buffer claims. Format:
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from batchstat.errors import SourceError

_FILE_MAGIC = b"ARROW1"
_BYTES_BEFORE_STREAM, _BYTES_AFTER_FOOTER = 8, 10
"""In a file: those of the magic and zeros; and those of the footer's size and the magic."""
_CONTINUATION = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3  # kinds of messages in Arrow's Message.fbs
_SIZE_BYTES = 8  # bytes of the decompressed size with which a compressed buffer begins

_MOST_UNPACKED, _MOST_RATIO = 1 << 30, 200
"""Decompressed size and compression ratio beyond which, both exceeded, a batch is not real data."""


def open_batches(file: BinaryIO, path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and batches of an Arrow IPC file or streams. Raises SourceError, here or
    while they are read: cut short, followed by something, too large; ArrowException: damaged.
    """
    file.seek(0)
    is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    stop, batch_count = file.seek(0, io.SEEK_END), None
    file.seek(0)
    # A file is a stream between a magic and a footer, which says how many batches there are. After
    # the footer come its size, in 4 bytes, and the magic again.
    if is_file:
        batch_count = pa.ipc.open_file(file).num_record_batches
        stop = file.seek(stop - _BYTES_AFTER_FOOTER)
        stop -= int.from_bytes(file.read(4), "little")
        file.seek(_BYTES_BEFORE_STREAM)
    streams = _Streams(file, stop, path, batch_count)
    return streams.schema, streams.batches()


class _Streams(io.RawIOBase):
    """The streams of a file, one after another. pyarrow reads the next message from wherever the
    file is: so messages are first looked at here, and the file then returns to their start.
    """

    def __init__(self, file: BinaryIO, stop: int, path: str, batch_count: int | None) -> None:
        self._file, self._stop, self._path, self._batch_count = file, stop, path, batch_count
        self._reader = pa.ipc.open_stream(self)
        self.schema = self._reader.schema

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        bytes_left = max(self._stop - self._file.tell(), 0)
        return self._file.read(bytes_left if size < 0 else min(size, bytes_left))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of all streams. Raises SourceError if one is damaged."""
        count = 0
        while self._reader is not None:
            while self._check_next_batch():
                try:
                    yield self._reader.read_next_batch()
                # pyarrow sees the end of the stream where `_check_next_batch` saw a batch.
                except StopIteration:
                    raise self._damage("a record batch is missing") from None
                count += 1
            self._reader = self._next_stream()
        if self._batch_count not in (None, count):
            raise self._damage(
                f"it has {count:,} record batches, but its footer says {self._batch_count:,}"
            )

    def _next_stream(self) -> Any:
        """Return pyarrow's reader of the stream that begins here; None if no stream follows."""
        begin = self._file.tell()
        if begin == self._stop:
            return None
        # A file with a footer has only one stream, which zeros may pad up to the footer.
        if self._batch_count is not None:
            if self.read().strip(b"\0"):
                raise self._damage(f"something follows the end of its stream at byte {begin:,}")
            return None
        try:
            reader = pa.ipc.open_stream(self)
        except pa.ArrowException:
            raise self._damage(
                f"what follows the stream that ends at byte {begin:,} is not an Arrow stream: "
                "remove it, or write the file again"
            ) from None
        if not reader.schema.equals(self.schema):
            raise self._damage(
                f"the stream that begins at byte {begin:,} has different columns from the first: "
                "pass them as separate files"
            )
        return reader

    def _check_next_batch(self) -> bool:
        """Check the messages up to the next record batch, before pyarrow reads them."""
        begin = self._file.tell()
        try:
            while (message := self._read_message()) is not None:
                # pyarrow would allocate what the message claims.
                most_bytes = max(_MOST_UNPACKED, _MOST_RATIO * message.body_bytes)
                if message.unpacked_bytes > most_bytes:
                    raise self._damage(
                        f"a record batch of {message.body_bytes:,} bytes claims to decompress to "
                        f"{message.unpacked_bytes:,}: write smaller batches"
                    )
                if message.kind == _BATCH:
                    self._file.seek(begin)
                    return True
                # A dictionary, of which several may precede a batch.
                self._file.seek(message.end)
        except (struct.error, IndexError, ValueError, OverflowError):
            raise self._damage(f"the message at byte {begin:,} cannot be read") from None
        return False

    def _read_message(self) -> "_Message | None":
        """Parse the message that begins here; return None at the end of the stream."""
        # A message: a mark, the size of its metadata, these, a body. The size 0 ends the stream.
        head = self.read(4)  # the mark, or the size where there is no mark
        # A file needs no mark of its stream's end: its footer says how many batches there are.
        if not head and self._batch_count is not None:
            return None
        # Before Arrow 0.15, a message began with its size.
        size = self.read(4) if head == _CONTINUATION else head
        if len(size) < 4:
            raise self._damage("it is cut short: its stream has no end")
        metadata_bytes = int.from_bytes(size, "little")
        if metadata_bytes == 0:
            return None
        metadata = self.read(metadata_bytes)
        body_begin = self._file.tell()
        message = _Message.parse(metadata, body_begin, self._file)
        if len(metadata) < metadata_bytes or message.end > self._stop:
            raise self._damage("it is cut short: its last message is incomplete")
        return message

    def _damage(self, reason: str) -> SourceError:
        return SourceError(f"{self._path} is not a readable Arrow file: {reason}")


@dataclass(frozen=True)
class _Message:
    """A message of a stream."""

    kind: int
    body_bytes: int  # bytes of its body
    unpacked_bytes: int  # bytes of the body's buffers once they are decompressed
    end: int

    @classmethod
    def parse(cls, metadata: bytes, body_begin: int, file: BinaryIO) -> "_Message":
        """Parse a message from its flatbuffer. Raises struct.error or ValueError."""
        # The comments name fields by their numbers in Arrow's Message.fbs and Schema.fbs.
        # A flatbuffer begins with the position of its outermost table.
        message = _Table(metadata, struct.unpack_from("<I", metadata, 0)[0])
        # Message: header type 1, header 2, body length 3.
        kind, body_bytes = message.number(1, "<B"), message.number(3, "<q")
        if body_bytes < 0:
            raise ValueError
        unpacked_bytes = 0
        if kind in (_DICTIONARY, _BATCH):
            header = message.table(2)
            # DictionaryBatch: its values, field 1, are a RecordBatch.
            batch = header.table(1) if kind == _DICTIONARY else header
            # RecordBatch: buffers 2, each an offset in the body and a length; compression 3.
            is_compressed = batch.field(3) != 0
            for offset, length in batch.structs(2, "<qq") if is_compressed else ():
                # A compressed buffer begins with its decompressed size; an empty one has none.
                if length >= _SIZE_BYTES:
                    file.seek(body_begin + offset)
                    claimed = struct.unpack("<q", file.read(_SIZE_BYTES))[0]
                    # -1 says that the buffer is stored as it is.
                    unpacked_bytes += length if claimed < 0 else claimed
        return cls(kind, body_bytes, unpacked_bytes, end=body_begin + body_bytes)


@dataclass(frozen=True)
class _Table:
    """A table in a flatbuffer, at `at`. It begins with how far before it its vtable begins, which
    has its own size and the table's, 2 bytes each, and each field's position, 0 if absent.
    """

    data: bytes
    at: int

    def field(self, number: int) -> int:
        """Return the position of a field in the flatbuffer; 0 if it is absent."""
        vtable = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        # After the two sizes, field `number` has its 2 bytes at 4 + 2 * number. A vtable that ends
        # before is of a writer that knew fewer fields.
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, vtable)[0]:
            return 0
        offset: int = struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)[0]
        return self.at + offset if offset else 0

    def number(self, field: int, struct_format: str) -> int:
        position = self.field(field)
        return int(struct.unpack_from(struct_format, self.data, position)[0]) if position else 0

    def table(self, field: int) -> "_Table":
        position = self.field(field)
        return _Table(self.data, position + struct.unpack_from("<I", self.data, position)[0])

    def structs(self, field: int, struct_format: str) -> Iterator[tuple[Any, ...]]:
        """Yield the elements of a field that is a vector of structs, of this format of `struct`."""
        position = self.field(field)
        if position:
            # The field holds how far from itself the vector begins. The vector has the number of
            # its structs, in 4 bytes, and then the structs.
            position += struct.unpack_from("<I", self.data, position)[0]
            count = struct.unpack_from("<I", self.data, position)[0]
            stop = position + 4 + count * struct.calcsize(struct_format)
            yield from struct.iter_unpack(struct_format, self.data[position + 4 : stop])
