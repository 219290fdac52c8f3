"""Tables in memory: a pandas DataFrame, or a Dataset of the datasets library."""

import hashlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from batchstat.corpus.arrow_values import decoded, decoded_bytes, holds_text, ranges
from batchstat.corpus.chunk import Chunk, Column, Columns
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.formats.columnar import as_chunks, columns_of
from batchstat.corpus.formats.parquet_files import CHUNK_BYTES
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reader import Block, CorpusReader
from batchstat.corpus.sources import Source
from batchstat.errors import InputError, OptionError, short

_CHUNK_RECORDS = 10_000

_Read = Callable[[str, Any, CorpusOptions], Iterator[Chunk]]


class TableReader(CorpusReader):
    """Samples of a table in memory, from the requested columns."""

    def __init__(self, table: Any, options: CorpusOptions, name: str) -> None:
        """Raise OptionError unless it is a pandas DataFrame or a Dataset of `datasets`."""
        super().__init__((), options)
        self._table, self._name, kind = table, name, type(table).__name__
        names = getattr(table, "column_names", None)
        # A DatasetDict has the columns of each of its splits.
        if isinstance(names, dict):
            raise OptionError(f"the corpus has several splits: pass one: {', '.join(names)}")
        # By what it has and is called, so that neither datasets nor pandas has to be imported.
        if hasattr(table, "with_format") and hasattr(table, "iter"):
            self._read: _Read = _dataset
        elif kind == "DataFrame" and hasattr(table, "iloc"):
            self._read = _frame
        else:
            raise OptionError(
                f"unsupported corpus type {kind}: pass paths, a pandas DataFrame or a Dataset"
            )

    def blocks(self) -> Generator[Block, None, None]:
        """Yield the samples of the table in order."""
        digest, size = hashlib.sha256(), 0
        reading = self.begin(Source(self._name, 0, "", "arrow"))

        def chunks() -> Iterator[Chunk]:
            nonlocal size
            for chunk in self._read(self._name, self._table, self.options):
                for values in chunk.columns.values():
                    data = _as_bytes(values)
                    digest.update(data)
                    size += len(data)
                yield chunk

        yield from self.samples(reading, chunks())
        reading.source = Source(self._name, size, f"sha256:{digest.hexdigest()}", "arrow")


def _as_bytes(values: Column) -> memoryview:
    if not isinstance(values, pa.Array):
        return memoryview(repr(values).encode(errors="surrogatepass"))
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([values], ["values"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _dataset(name: str, table: Any, options: CorpusOptions) -> Iterator[Chunk]:
    columns: Columns | None = None
    size = 0
    for part in _tables(table):
        if columns is None:
            columns = columns_of(name, part.schema, options)
        for batch in part.select(list(columns.all)).combine_chunks().to_batches():
            size += batch.nbytes
            yield from as_chunks(batch, columns, size)


def _tables(table: Any) -> Iterator[pa.Table]:
    """Yield the records of a Dataset as training gets them."""
    if (getattr(table, "format", None) or {}).get("type") != "custom":
        yield from table.with_format("arrow").iter(_CHUNK_RECORDS)
        return
    # Of `set_transform`. One record at a time: it may pad those that it gets together.
    for first in range(0, len(table), _CHUNK_RECORDS):
        rows = (table[i] for i in range(first, min(first + _CHUNK_RECORDS, len(table))))
        plain = [
            # Tensors become lists.
            {name: each.tolist() if hasattr(each, "tolist") else each for name, each in row.items()}
            for row in rows
        ]
        try:
            yield pa.Table.from_pylist(plain)
        except (pa.ArrowException, OverflowError) as error:
            raise InputError(
                f"what the transform of the Dataset makes is not read ({short(str(error))}): pass "
                "what dataset.map makes with the same function"
            ) from None


def _frame(name: str, table: Any, options: CorpusOptions) -> Iterator[Chunk]:
    names = list(map(str, table.columns))
    texts = [
        name
        for i, name in enumerate(names)
        # Of this kind are pandas' own types of text too.
        if table.dtypes.iloc[i].kind == "O" and any(isinstance(v, str) for v in table.iloc[:, i])
    ]
    columns = choose_columns(name, names, texts, options)
    for first in range(0, len(table), _CHUNK_RECORDS):
        part = table.iloc[first : first + _CHUNK_RECORDS]
        values = {column: _values(part.iloc[:, names.index(column)]) for column in columns.all}
        arrays = (each for each in values.values() if isinstance(each, pa.Array))
        sizes = sum(map(decoded_bytes, arrays), np.zeros(len(part), dtype=np.int64))
        for start, stop in ranges(sizes, CHUNK_BYTES, _CHUNK_RECORDS):
            yield Chunk(
                columns={name: each[start:stop] for name, each in values.items()},
                position=first + stop,
                read=columns,
            )


def _values(series: Any) -> Column:
    """Return a column as Arrow; if types are mixed, unchanged, with None for missing values."""
    try:
        values = pa.array(series, from_pandas=True)
        if isinstance(values, pa.ChunkedArray):
            # More than 2 GiB of text do not fit into a column with small offsets.
            kind = pa.large_string() if holds_text(values.type) else values.type
            values = pa.concat_arrays([decoded(chunk).cast(kind) for chunk in values.chunks])
        return values
    except (pa.ArrowException, OverflowError):
        pairs = zip(series, series.isna(), strict=True)
        return [None if missing else value for value, missing in pairs]
