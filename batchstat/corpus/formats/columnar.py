"""Columnar files: Parquet, and Arrow's own (feather, and what `datasets` saves)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.arrow_values import decoded, decoded_bytes, decoded_type, holds_text, ranges
from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.formats.ipc import open_batches
from batchstat.corpus.formats.parquet_files import CHUNK_BYTES, MOST_RECORDS, open_parquet
from batchstat.corpus.opening import OpenSource, seekable
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import SourceError


def read_parquet(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the requested columns, in blocks of about 8 MiB.

    Raises:
        InputError: the file is damaged, or a column is missing.
    """
    with seekable(opened) as unpacked, _readable(opened.path, "Parquet"):
        parquet = open_parquet(unpacked, opened.path)
        file = parquet.file
        columns = columns_of(opened.path, file.schema_arrow, options)
        groups = parquet.groups_in(opened.split)
        rows_of_groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        before = sum(rows_of_groups[: groups[0]]) if groups else 0
        records, every = 0, sum(rows_of_groups[i] for i in groups)
        for batch in parquet.batches(unpacked, groups, columns.all):
            position = opened.split.bytes * (records + len(batch)) // max(every, 1)
            yield from as_chunks(batch, columns, position, lambda: before)
            records += len(batch)
        # Where a footer claims too many records, pyarrow reads fewer without an error.
        if records != every:
            raise pa.ArrowInvalid(f"it has {records:,} records where its footer says {every:,}")


def read_arrow(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the requested columns of an Arrow IPC file (feather version 2) or stream.

    Raises:
        InputError: the file is damaged, or a column is missing.
    """
    with seekable(opened) as file, _readable(opened.path, "Arrow"):
        schema, batches = open_batches(file, opened.path)
        columns = columns_of(opened.path, schema, options)
        for batch in batches:
            position = min(file.tell(), opened.size)
            yield from as_chunks(batch, columns, position)


def as_chunks(
    batch: pa.RecordBatch, columns: Columns, position: int, before: Callable[[], int] = int
) -> Iterator[Chunk]:
    """Yield the requested columns of a record batch, in blocks of about 8 MiB once decoded.

    pyarrow trusts a file; here offsets, lengths and UTF-8 are checked before use.

    Raises:
        ArrowInvalid: a column whose buffers contradict each other.
    """
    checked = {name: _checked(batch.column(name)) for name in columns.all}
    broken = [name for name, each in checked.items() if each.type != batch.column(name).type]
    sizes = sum(map(decoded_bytes, checked.values()), np.zeros(len(batch), dtype=np.int64))
    for start, stop in ranges(sizes, CHUNK_BYTES, MOST_RECORDS):
        values = {name: each.slice(start, stop - start) for name, each in checked.items()}
        if names := _class_names(batch.schema, columns.label):
            numbers = decoded(values[str(columns.label)])
            # Numbers without a name, such as -1, become null.
            has_name = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
            named = pa.array(names, pa.large_string()).take(pc.if_else(has_name, numbers, None))
            values[str(columns.label)] = named
        bad: dict[int, BadRecord] = {}
        for name in broken:
            values[name] = _decoded(decoded(values[name]), name, bad)
        yield Chunk(
            columns=values,
            position=position,
            read=columns,
            bad=bad,
            before=before,
        )


def _checked(values: pa.Array) -> pa.Array:
    """Return the values, as bytes if some texts are not UTF-8. Raise ArrowInvalid if damaged."""
    try:
        values.validate(full=True)
        return values
    except pa.ArrowInvalid:
        if not holds_text(values.type):
            raise
    kind = values.type
    encoded = values.cast(
        pa.dictionary(kind.index_type, pa.large_binary())
        if pa.types.is_dictionary(kind)
        else pa.large_binary()
    )
    encoded.validate(full=True)
    return encoded


def _class_names(schema: pa.Schema, label: str | None) -> list[str]:
    """Return the names that the datasets library stores beside the numbers of a class label."""
    try:
        kept = json.loads((schema.metadata or {})[b"huggingface"])
        names = kept["info"]["features"][label]["names"]
        "".join(names).encode()  # JSON can escape what no text may hold
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    numbered = pa.types.is_integer(decoded_type(schema.field(label).type))
    named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if numbered and named else []


def _decoded(values: pa.LargeBinaryArray, name: str, bad: dict[int, BadRecord]) -> pa.Array:
    """Return the texts of a column; what is not UTF-8 is added to `bad`."""
    texts: list[str | None] = []
    for i, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            message = f"column {name!r} is not UTF-8 (0x{value[error.start]:02x})"
            bad.setdefault(i, BadRecord("not_utf8", message))
            texts.append("")
    return pa.array(texts, pa.large_string())


def columns_of(path: str, schema: pa.Schema, options: CorpusOptions) -> Columns:
    """Choose the columns that are read of a table with a schema."""
    texts = [field.name for field in schema if holds_text(field.type)]
    return choose_columns(path, schema.names, texts, options)


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        # A damaged file may also claim sizes that no machine has, and names that are not text.
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise SourceError(f"{path} is not a readable {kind} file: {reason}") from None
