"""Columnar files: Parquet, and Arrow's own (feather, and what `datasets` saves)."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batchstat.corpus.chunk import Chunk
from batchstat.corpus.columns import Columns, choose_columns
from batchstat.corpus.faults import Faults, Place
from batchstat.corpus.kinds import holds_text
from batchstat.corpus.opening import OpenSource, seekable
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import Part
from batchstat.errors import SourceError

_CHUNK_BYTES = 8 << 20
_MOST_RECORDS = 65_536
_FILE_MAGIC = b"ARROW1"


def read_parquet(opened: OpenSource, options: CorpusOptions, faults: Faults) -> Iterator[Chunk]:
    """The columns that are wanted, in blocks of about 8 MiB.

    Raises:
        InputError: the file is damaged, or a column is missing.
    """
    with seekable(opened) as unpacked, _readable(opened.path, "Parquet"):
        file = pq.ParquetFile(unpacked)
        columns = _columns(opened.path, file.schema_arrow, options)
        groups = [i for i, _, _ in groups_of(file, opened.part)]
        every = sum(file.metadata.row_group(i).num_rows for i in groups)
        before = _records_before(file, groups)
        records = 0
        batches = file.iter_batches(_batch_size(file), groups, columns=list(columns.all))
        for batch in batches if groups else ():
            position = opened.part.bytes * (records + len(batch)) // max(every, 1)
            chunk = as_chunk(opened.path, records, batch, columns, position, faults, before)
            yield chunk
            records += len(batch)


def read_arrow(opened: OpenSource, options: CorpusOptions, faults: Faults) -> Iterator[Chunk]:
    """The columns that are wanted, of an Arrow IPC file (feather version 2) or stream.

    Raises:
        InputError: the file is damaged, or a column is missing.
    """
    with seekable(opened) as file, _readable(opened.path, "Arrow"):
        is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        file.seek(0)
        reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        columns = _columns(opened.path, reader.schema, options)
        records = 0
        for batch in _batches(reader, is_file):
            for first in range(0, len(batch), _MOST_RECORDS):
                part = batch.slice(first, _MOST_RECORDS)
                position = min(file.tell(), opened.size)
                yield as_chunk(opened.path, records + first, part, columns, position, faults)
            records += len(batch)


def _batches(reader: Any, is_file: bool) -> Iterable[pa.RecordBatch]:
    if is_file:
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    stream: Iterable[pa.RecordBatch] = reader
    return stream


def as_chunk(
    path: str,
    first: int,
    batch: pa.RecordBatch,
    columns: Columns,
    position: int,
    faults: Faults,
    before: Callable[[], int] = int,
) -> Chunk:
    """The columns that are wanted of a record batch, whose first record is number `first` of those
    after `before`.

    pyarrow takes a file at its word; here offsets, lengths and UTF-8 are checked before use.

    Raises:
        ArrowInvalid: a column whose parts contradict each other.
        InputError: text that is not UTF-8 where faults end the reading.
    """
    failed: set[int] = set()

    def checked(name: str) -> pa.Array:
        values = batch.column(name)
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            if pa.types.is_dictionary(values.type) or not holds_text(values.type):
                raise
            texts = values.cast(pa.large_binary())
            texts.validate(full=True)
            return _decoded(texts, lambda i, byte: fail(name, i, byte))
        return values

    def fail(name: str, i: int, byte: int) -> None:
        if i not in failed:
            failed.add(i)
            message = f"column {name!r} is not UTF-8 (0x{byte:02x})"
            faults.add("not_utf8", Place(path, first + i, before=before), message)

    values = {name: checked(name) for name in columns.all}
    if names := _class_names(batch.schema, columns.label):
        values[str(columns.label)] = _named(values[str(columns.label)], names)
    return Chunk(
        size=len(batch),
        columns=values,
        position=position,
        content=columns.content,
        label=columns.label,
        failed=failed,
        before=before,
    )


def _class_names(schema: pa.Schema, label: str | None) -> list[str]:
    """The names that the datasets library keeps beside the numbers of a class label."""
    try:
        kept = json.loads((schema.metadata or {})[b"huggingface"])
        names: list[str] = kept["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return []
    return names


def _named(values: pa.Array, names: list[str]) -> pa.Array:
    """Class numbers as their names; null where they have none, such as -1 for no label."""
    known = pc.and_(pc.greater_equal(values, 0), pc.less(values, len(names)))
    return pa.array(names, pa.large_string()).take(pc.if_else(known, values, None))


def _decoded(values: pa.LargeBinaryArray, fail: Callable[[int, int], None]) -> pa.Array:
    texts: list[str | None] = []
    for i, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            fail(i, value[error.start])
            texts.append("")
    return pa.array(texts, pa.large_string())


def _columns(path: str, schema: pa.Schema, options: CorpusOptions) -> Columns:
    texts = [field.name for field in schema if holds_text(field.type)]
    return choose_columns(path, schema.names, texts, options)


def groups_of(file: pq.ParquetFile, part: Part) -> list[tuple[int, int, int]]:
    """The row groups that begin in a part of a file: number, end and beginning, in bytes."""
    stop = sys.maxsize if part.stop is None else part.stop
    found = []
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        columns = [group.column(k) for k in range(group.num_columns)]
        begins = [
            min(filter(None, (c.dictionary_page_offset, c.data_page_offset)), default=0)
            for c in columns
        ]
        ends = [at + c.total_compressed_size for at, c in zip(begins, columns, strict=True)]
        begin = min(begins, default=0)
        if (
            (part.stop is None and begin >= part.first)
            or part.is_whole
            or part.first <= begin < stop
        ):
            found.append((i, max(ends, default=0), begin))
    return found


def _records_before(file: pq.ParquetFile, groups: list[int]) -> Callable[[], int]:
    first = groups[0] if groups else 0
    return lambda: sum(file.metadata.row_group(i).num_rows for i in range(first))


def _batch_size(file: pq.ParquetFile) -> int:
    """Records a block, from what a record takes on average over the file."""
    meta = file.metadata
    total: int = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    records = _CHUNK_BYTES * int(meta.num_rows) // max(total, 1)
    return max(1, min(_MOST_RECORDS, records))


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        # A damaged file also claims sizes that no machine has, and names that are no text.
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise SourceError(f"{path} is not a readable {kind} file: {reason}") from None
