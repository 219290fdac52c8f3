"""Columnar files: Parquet, and Arrow's own (feather, and what `datasets` saves)."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from batchstat.corpus.chunk import Chunk
from batchstat.corpus.columns import Columns, choose_columns
from batchstat.corpus.faults import Faults
from batchstat.corpus.kinds import holds_text
from batchstat.corpus.opening import OpenSource, seekable
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError

_CHUNK_BYTES = 8 << 20
_MOST_RECORDS = 65_536
_FILE_MAGIC = b"ARROW1"


def read_parquet(opened: OpenSource, options: CorpusOptions, _: Faults) -> Iterator[Chunk]:
    """The columns that are wanted, in blocks of about 8 MiB.

    Raises:
        InputError: the file is damaged, or a column is missing.
    """
    try:
        with seekable(opened) as unpacked:
            file = pq.ParquetFile(unpacked)
            columns = _columns(opened.path, file.schema_arrow, options)
            records = 0
            for batch in file.iter_batches(_batch_size(file), columns=list(columns.all)):
                records += len(batch)
                yield as_chunk(batch, columns, opened.size * records // file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(opened.path, "Parquet", error) from None


def read_arrow(opened: OpenSource, options: CorpusOptions, _: Faults) -> Iterator[Chunk]:
    """The columns that are wanted, of an Arrow IPC file (feather version 2) or stream.

    Raises:
        InputError: the file is damaged, or a column is missing.
    """
    try:
        with seekable(opened) as file:
            is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
            file.seek(0)
            reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
            columns = _columns(opened.path, reader.schema, options)
            for batch in _batches(reader, is_file):
                for first in range(0, len(batch), _MOST_RECORDS):
                    position = min(file.tell(), opened.size)
                    yield as_chunk(batch.slice(first, _MOST_RECORDS), columns, position)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(opened.path, "Arrow", error) from None


def _batches(reader: Any, is_file: bool) -> Iterable[pa.RecordBatch]:
    if is_file:
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    stream: Iterable[pa.RecordBatch] = reader
    return stream


def as_chunk(batch: pa.RecordBatch, columns: Columns, position: int) -> Chunk:
    """The columns that are wanted of a record batch."""
    return Chunk(
        size=len(batch),
        columns={name: batch.column(name) for name in columns.all},
        position=position,
        content=columns.content,
        label=columns.label,
    )


def _columns(path: str, schema: pa.Schema, options: CorpusOptions) -> Columns:
    texts = [field.name for field in schema if holds_text(field.type)]
    return choose_columns(path, schema.names, texts, options)


def _batch_size(file: pq.ParquetFile) -> int:
    """Records a block, from what a record takes on average over the file."""
    meta = file.metadata
    total: int = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    records = _CHUNK_BYTES * int(meta.num_rows) // max(total, 1)
    return max(1, min(_MOST_RECORDS, records))


def _damaged(path: str, kind: str, error: Exception) -> InputError:
    reason = (str(error).splitlines() or ["damaged"])[0]
    return InputError(f"{path} is not a readable {kind} file: {reason}")
