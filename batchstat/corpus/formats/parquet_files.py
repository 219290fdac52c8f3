"""Parquet files: checked before pyarrow reads them, with a limit on the records read at once."""

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from batchstat.corpus.files.splits import Split
from batchstat.corpus.formats.parquet_footer import ColumnChunk, Decoder, column_chunks
from batchstat.errors import InputError, SourceError

CHUNK_BYTES = 8 << 20  # decoded bytes from which on a chunk is large enough
MOST_RECORDS = 65_536  # limit for the records of a chunk: the default of pyarrow's `iter_batches`
_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"
_END_BYTES = 8  # bytes after the footer: its length, and the magic
_SIGNATURE_BYTES = 28  # after an unencrypted footer of a file with encrypted columns
_DICTIONARY_PAGE = 2  # kind of a page in parquet.thrift
_DECODED_BYTES = 256 << 20
"""Memory for the records read at once if each may take as much as the whole dictionary."""


@dataclass(frozen=True)
class CheckedParquet:
    """A Parquet file that pyarrow can read, and that is one file."""

    file: pq.ParquetFile
    chunks: list[list[ColumnChunk]]

    def span(self, group: int) -> tuple[int, int]:
        """Return where a row group begins and ends in the file; (0, 0) if it has no columns."""
        chunks = self.chunks[group]
        begin = min((chunk.begin for chunk in chunks), default=0)
        return begin, max((chunk.begin + chunk.bytes for chunk in chunks), default=0)

    def groups_in(self, split: Split) -> list[int]:
        """Return the row groups that begin in a split; one without columns begins at byte 0."""
        stop = sys.maxsize if split.stop is None else split.stop
        return [i for i in range(len(self.chunks)) if split.first <= self.span(i)[0] < stop]

    def batches(
        self, file: BinaryIO, groups: Sequence[int], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of row groups, about `CHUNK_BYTES` at a time: fewer at once, then
        combined, where a dictionary of a few bytes may stand for gigabytes of text.
        """
        meta = self.file.metadata
        file_bytes: int = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        # How many records take `CHUNK_BYTES`, by the average of the file.
        usual = max(1, min(MOST_RECORDS, CHUNK_BYTES * int(meta.num_rows) // max(file_bytes, 1)))
        at_once = {i: min(usual, _safe_records(self.chunks[i], file, columns)) for i in groups}
        # Consecutive row groups of which as many records are read at once go together.
        for records, same_groups in groupby(groups, key=at_once.__getitem__):
            # Batches that are not yielded yet, and how many bytes may be added to them.
            gathered: list[pa.RecordBatch] = []
            bytes_left = CHUNK_BYTES
            for batch in self.file.iter_batches(records, list(same_groups), columns=list(columns)):
                gathered.append(batch)
                bytes_left -= batch.nbytes
                # A batch of the usual records is large enough; smaller ones are gathered.
                if records == usual or bytes_left <= 0:
                    yield from _combine(gathered)
                    gathered, bytes_left = [], CHUNK_BYTES
            yield from _combine(gathered)


def open_parquet(file: BinaryIO, path: str) -> CheckedParquet:
    """Open a Parquet file that pyarrow can read. Raises InputError: encrypted columns, which make
    pyarrow abort the process; SourceError: several files; ArrowException, OSError: damage.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    end = file.read(_END_BYTES)  # the size of the footer, in 4 bytes, and the magic
    # An encrypted footer has a magic of its own, and pyarrow must not open the file.
    is_encrypted = end.endswith(_ENCRYPTED_MAGIC)
    if not is_encrypted:
        parquet = pq.ParquetFile(file)
        footer_bytes = int.from_bytes(end[:4], "little")
        # A plain footer may describe encrypted columns: then its bytes include a signature.
        is_encrypted = footer_bytes - parquet.metadata.serialized_size == _SIGNATURE_BYTES
    if is_encrypted:
        raise InputError(f"{path} is encrypted, at least in part", "write it without encryption")
    footer_begin = size - _END_BYTES - footer_bytes
    file.seek(footer_begin)
    try:
        checked = CheckedParquet(parquet, column_chunks(file.read(footer_bytes)))
    except ValueError as damage:  # of `column_chunks`
        raise pa.ArrowInvalid(str(damage)) from None
    if len(checked.chunks) != parquet.num_row_groups:
        raise pa.ArrowInvalid("its footer is damaged (its row groups differ)")
    schema = parquet.schema
    column_paths = [schema.column(i).path for i in range(len(schema.names))]
    # pyarrow takes columns by their order, and would read one column's pages as another's.
    for chunks_of_group in checked.chunks:
        if [chunk.path for chunk in chunks_of_group] != column_paths:
            raise pa.ArrowInvalid("its footer is damaged (its columns are not those of its schema)")
    group_ends = [checked.span(i)[1] for i in range(parquet.num_row_groups)]
    # Without row groups, only the magic precedes the footer.
    data_end = max(group_ends, default=len(_MAGIC))
    if data_end > footer_begin:
        raise pa.ArrowInvalid("its footer is damaged (a column would end after its data)")
    # Of files that were joined by `cat`, pyarrow would read only the last: their magics show them.
    if _has_bytes(file, data_end, footer_begin, _MAGIC * 2):
        raise SourceError(
            f"{path} is not a readable Parquet file: it is several files, one after another",
            "pass them as separate files",
        )
    file.seek(0)
    return checked


def _combine(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []


def _safe_records(chunks: Sequence[ColumnChunk], file: BinaryIO, columns: Sequence[str]) -> int:
    """Return how many records of a row group surely fit in `_DECODED_BYTES`; at least 1."""
    most_bytes = 1  # that a single value can have
    for chunk in chunks:
        # The path of a field of a struct or list goes on after the name of the column.
        is_read = any(f"{chunk.path}.".startswith(f"{name}.") for name in columns)
        # Values of the other types have a fixed size of a few bytes.
        if not (is_read and chunk.is_binary):
            continue
        # A value may be the whole dictionary.
        most_bytes = max(most_bytes, _dictionary_bytes(file, chunk.begin))
        # With DELTA_BYTE_ARRAY, a value may repeat the one before it: in the end, all bytes.
        if chunk.repeats:
            most_bytes = max(most_bytes, chunk.decompressed)
    return max(1, _DECODED_BYTES // most_bytes)


def _dictionary_bytes(file: BinaryIO, begin: int) -> int:
    """Return the decompressed bytes of a column chunk's dictionary; 0 if it has none."""
    # The dictionary is the first page of the column chunk at byte `begin`. A page's header is a
    # Thrift struct: the kind of the page, its decompressed size and more.
    file.seek(begin)
    header = Decoder(file.read(64))  # enough for the first two fields in the header of a page
    try:
        kind, unpacked_bytes = header.next_i32(), header.next_i32()
    except (IndexError, ValueError):  # damaged, which pyarrow reports
        return 0
    return unpacked_bytes if kind == _DICTIONARY_PAGE else 0


def _has_bytes(file: BinaryIO, first: int, stop: int, wanted: bytes) -> bool:
    """Return whether a file holds the bytes `wanted` between the positions `first` and `stop`."""
    file.seek(first)
    # The end of the last block: `wanted` may begin in it, and go on in the next one.
    tail, bytes_left = b"", stop - first
    while bytes_left > 0 and (data := file.read(min(bytes_left, 1 << 20))):
        if wanted in tail + data:
            return True
        tail, bytes_left = data[-len(wanted) :], bytes_left - len(data)
    return False
