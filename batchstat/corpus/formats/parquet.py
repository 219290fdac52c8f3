"""Parquet files."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from batchstat.corpus.columns import CorpusOptions, choose_columns
from batchstat.corpus.formats.chunk import Chunk
from batchstat.corpus.sources import OpenSource, seekable
from batchstat.errors import InputError

_CHUNK_BYTES = 8 << 20
_MOST_RECORDS = 65_536


def read_parquet(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """The text and label columns, in blocks of about 8 MiB.

    Raises:
        InputError: the file is damaged, a column is missing or of another type, a text is null.
    """
    size = opened.raw.seek(0, 2)
    opened.raw.seek(0)
    try:
        file = pq.ParquetFile(seekable(opened))
        schema = file.schema_arrow
        texts = [field.name for field in schema if _holds_text(field.type)]
        columns = choose_columns(opened.path, schema.names, texts, options)
        wanted = [columns.text, *([columns.label] if columns.label else [])]
        records = 0
        for batch in file.iter_batches(_batch_size(file), columns=wanted):
            text = _texts(opened.path, columns.text, batch.column(columns.text), records)
            label = batch.column(columns.label) if columns.label else None
            records += len(text)
            position = size * records // file.metadata.num_rows
            yield Chunk(text, _labels(opened.path, columns.label, label), position)
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{opened.path} is not a readable Parquet file: {reason}") from None


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_text(kind)
        for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def _batch_size(file: pq.ParquetFile) -> int:
    """Records a block, from what a record takes on average over the file."""
    meta = file.metadata
    total: int = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    records = _CHUNK_BYTES * int(meta.num_rows) // max(total, 1)
    return max(1, min(_MOST_RECORDS, records))


def _texts(path: str, column: str, values: pa.Array, records: int) -> pa.LargeStringArray:
    if not _holds_text(values.type):
        raise InputError(f"{path}: column {column!r} is {values.type} where text is expected")
    if values.null_count:
        record = records + values.is_null().index(True).as_py()
        raise InputError(f"{path}, record {record}: {column!r} is null where text is expected")
    return values.cast(pa.large_string())


def _labels(path: str, column: str | None, values: pa.Array | None) -> pa.LargeStringArray | None:
    if values is None:
        return None
    if pa.types.is_nested(values.type):
        raise InputError(f"{path}: label {column!r} is {values.type}: name another column")
    return values.cast(pa.large_string())
