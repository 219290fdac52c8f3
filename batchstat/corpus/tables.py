"""Tables in memory: a pandas DataFrame, or a Dataset of the datasets library."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from batchstat.corpus.chunk import Chunk
from batchstat.corpus.columns import Columns, choose_columns
from batchstat.corpus.formats.columnar import as_chunk
from batchstat.corpus.kinds import holds_text
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reading import Block, CorpusReader
from batchstat.corpus.sources import Source
from batchstat.errors import InputError, OptionError

_CHUNK_RECORDS = 10_000


class TableReader(CorpusReader):
    """The samples of a table in memory, by the columns that are wanted."""

    def __init__(self, table: Any, options: CorpusOptions) -> None:
        """Raises OptionError: neither a pandas DataFrame nor a Dataset of the datasets library."""
        super().__init__((), options)
        self._name = type(table).__name__
        if hasattr(table, "with_format") and hasattr(table, "column_names"):
            names = list(table.column_names)
            self._tables = table.with_format("arrow").iter(_CHUNK_RECORDS)
        elif self._name == "DataFrame" and hasattr(table, "to_parquet"):
            names = [str(name) for name in table.columns]
            self._tables = _frames(table, names)
        else:
            raise OptionError(
                f"a corpus of type {self._name}: give paths, a pandas DataFrame or a Dataset"
            )
        self._names = names

    def blocks(self) -> Iterator[Block]:
        """The samples of the table in turn."""
        digest = hashlib.sha256()
        size = records = 0
        columns: Columns | None = None

        def chunks() -> Iterator[Chunk]:
            nonlocal size, records, columns
            for table in self._tables:
                if columns is None:
                    texts = [field.name for field in table.schema if holds_text(field.type)]
                    columns = choose_columns(self._name, self._names, texts, self._options)
                for batch in table.select(list(columns.all)).combine_chunks().to_batches():
                    size += batch.nbytes
                    digest.update(_serialized(batch))
                    yield as_chunk(self._name, records, batch, columns, size, self.faults)
                    records += len(batch)

        yield from self.samples(self._name, chunks())
        self.read.append(Source(self._name, size, f"sha256:{digest.hexdigest()}", "arrow"))


def _serialized(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _frames(frame: Any, names: list[str]) -> Iterator[pa.Table]:
    for first in range(0, len(frame), _CHUNK_RECORDS):
        part = frame.iloc[first : first + _CHUNK_RECORDS].set_axis(names, axis=1)
        try:
            yield pa.Table.from_pandas(part, preserve_index=False)
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"DataFrame, records {first} and on: {reason}") from None
