"""Tables in memory: a pandas DataFrame, or a Dataset of the datasets library."""

import hashlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from batchstat.corpus.arrow_values import decoded, holds_text, record_ranges
from batchstat.corpus.chunk import Chunk, Column, Columns
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.files.sources import Source
from batchstat.corpus.formats.columnar import as_chunks, columns_of, top_columns
from batchstat.corpus.formats.parquet_files import CHUNK_BYTES
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reader import Block, CorpusReader
from batchstat.corpus.records_path import nested
from batchstat.errors import InputError, OptionError
from batchstat.words import short

_CHUNK_RECORDS = 10_000  # limit for the records of a chunk

_Read = Callable[[str, Any, CorpusOptions], Iterator[Chunk]]


class TableReader(CorpusReader):
    """Samples of a table in memory, from the requested columns."""

    def __init__(self, table: Any, options: CorpusOptions, name: str) -> None:
        """Choose the reader by the table's type; messages call it `name`. Raises OptionError."""
        super().__init__(splits=(), options=options)
        self._table, self._name, type_name = table, name, type(table).__name__
        column_names = getattr(table, "column_names", None)
        # A DatasetDict has a dictionary, with the columns of each of its splits.
        if isinstance(column_names, dict):
            raise OptionError(
                "the corpus has several splits", f"pass one: {', '.join(column_names)}"
            )
        # Types are recognized by attributes and name: neither datasets nor pandas is imported.
        if hasattr(table, "with_format") and hasattr(table, "iter"):
            self._read: _Read = _chunks_of_dataset
        elif type_name == "DataFrame" and hasattr(table, "iloc"):
            self._read = _chunks_of_frame
        else:
            raise OptionError(
                f"unsupported corpus type {type_name}",
                "pass paths, a pandas DataFrame or a Dataset",
            )

    def blocks(self) -> Generator[Block, None, None]:
        """Yield the samples of the table in order; size and digest are those of what is read."""
        digest, size = hashlib.sha256(), 0
        reading = self.begin(Source(path=self._name, bytes=0, digest="", format="arrow"))

        def hash_chunks() -> Iterator[Chunk]:
            nonlocal size
            for chunk in self._read(self._name, self._table, self.options):
                for values in chunk.values.values():
                    data = _as_bytes(values)
                    digest.update(data)
                    size += len(data)
                yield chunk

        yield from self.samples(reading, hash_chunks())
        # Size and digest are known only now, after the last chunk.
        reading.source = replace(reading.source, bytes=size, digest=f"sha256:{digest.hexdigest()}")


def _as_bytes(values: Column) -> memoryview:
    """Return a column as bytes to hash: Arrow's as an IPC stream, Python's as their `repr`."""
    if not isinstance(values, pa.Array):
        return memoryview(repr(values).encode(errors="surrogatepass"))
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([values], ["values"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _chunks_of_dataset(name: str, dataset: Any, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the requested columns of a Dataset of `datasets`; messages call it `name`."""
    columns: Columns | None = None
    bytes_read = 0
    for table in _tables_of(dataset):
        # All tables have the columns of the first one.
        if columns is None:
            columns = columns_of(name, table.schema, options)
        # Batches would end where a chunk of any column ends: combined, a column is one chunk, or
        # several if its text is more than the 2 GiB that 32-bit offsets reach.
        tops = top_columns(columns.all, table.schema)
        for batch in table.select(tops).combine_chunks().to_batches():
            bytes_read += batch.nbytes  # the position, for progress
            yield from as_chunks(batch, columns, position=bytes_read)


def _tables_of(dataset: Any) -> Iterator[pa.Table]:
    """Yield the records of a Dataset as training gets them, 10,000 in a table."""
    # "custom" is the format of a Dataset with a function that was set by `set_transform`.
    if (getattr(dataset, "format", None) or {}).get("type") != "custom":
        yield from dataset.with_format("arrow").iter(_CHUNK_RECORDS)
        return
    # The function is called for one record at a time, as it may pad those that it gets together.
    for first in range(0, len(dataset), _CHUNK_RECORDS):
        rows = (dataset[i] for i in range(first, min(first + _CHUNK_RECORDS, len(dataset))))
        rows_of_lists = [
            # Tensors and arrays have `tolist`, and become lists.
            {key: cell.tolist() if hasattr(cell, "tolist") else cell for key, cell in row.items()}
            for row in rows
        ]
        try:
            yield pa.Table.from_pylist(rows_of_lists)
        except (pa.ArrowException, OverflowError) as error:
            raise InputError(
                f"what the transform of the Dataset makes is not read ({short(str(error))})",
                "pass what dataset.map makes with the same function",
            ) from None


def _chunks_of_frame(name: str, frame: Any, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the requested columns of a pandas DataFrame; messages call it `name`."""
    # Columns are taken by position, as their names in the frame need not be texts.
    names = list(map(str, frame.columns))
    text_names = []
    for i, column in enumerate(names):
        # "O" is the kind of Python objects, and of pandas' own types of text too.
        is_object = frame.dtypes.iloc[i].kind == "O"
        if is_object and any(isinstance(value, str) for value in frame.iloc[:, i]):
            text_names.append(column)
    # Columns inside of objects, such as data.text, of which users name some.
    nested_names = [
        column
        for column in dict.fromkeys(options.named_columns)
        if column not in names and column.partition(".")[0] in names
    ]
    columns = choose_columns(name, [*names, *nested_names], text_names, options)
    for first in range(0, len(frame), _CHUNK_RECORDS):
        part = frame.iloc[first : first + _CHUNK_RECORDS]
        values_of: dict[str, Column] = {
            column: _values(part.iloc[:, names.index(column)])
            if column in names
            else [  # what the objects of a column have at a dotted name, or null
                nested(value, column.partition(".")[2])
                for value in part.iloc[:, names.index(column.partition(".")[0])]
            ]
            for column in columns.all
        }
        # Only Arrow's values can be too large: Python's objects are in memory already.
        arrays = [values for values in values_of.values() if isinstance(values, pa.Array)]
        # Rows of `part` from `start` to before `stop`, within both limits.
        for start, stop in record_ranges(arrays, len(part), CHUNK_BYTES, _CHUNK_RECORDS):
            slices = {column: values[start:stop] for column, values in values_of.items()}
            # A table has no bytes on disk: the position, for progress, counts records.
            yield Chunk(slices, columns, position=first + stop)


def _is_deep(value: object) -> bool:
    """Return whether an object has more than 200 levels, on which pyarrow 26 ends the process."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(200):
        inner = (
            item for each in level for item in (each.values() if isinstance(each, dict) else each)
        )
        # Each object once, as those that hold themselves twice would double in every round.
        level = list({id(item): item for item in inner if isinstance(item, dict | list)}.values())
        if not level:
            return False
    return True


def _values(series: Any) -> Column:
    """Return a column as an Arrow array, or as a list if its values are of several types."""
    if series.dtype.kind == "O" and any(map(_is_deep, series)):
        raise InputError(f"column {str(series.name)!r} is nested too deeply")
    try:
        values = pa.array(series, from_pandas=True)
        # Chunks come from pandas' own types that are stored in Arrow.
        if isinstance(values, pa.ChunkedArray):
            # Together they may have more text than the 2 GiB that 32-bit offsets reach.
            dtype = pa.large_string() if holds_text(values.type) else values.type
            values = pa.concat_arrays([decoded(chunk).cast(dtype) for chunk in values.chunks])
        return values
    # Types are mixed, or a number is too large for Arrow: each value is checked by itself later.
    except (pa.ArrowException, OverflowError):
        pairs = zip(series, series.isna(), strict=True)
        return [None if is_missing else value for value, is_missing in pairs]
