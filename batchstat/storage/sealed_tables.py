"""Parquet files that batchstat wrote: columns of declared types beside a sealed record."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batchstat.lengths.arrays import Ints
from batchstat.storage.arrow_numbers import as_numpy
from batchstat.storage.sealed_records import decoded, parse, unseal

METADATA_KEY = b"batchstat"

UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError)
"""Exceptions that reading a damaged Parquet file may raise."""


@dataclass(frozen=True)
class SealedTable:
    """An open Parquet file."""

    record: dict[str, Any]  # its metadata, unsealed
    rows: int
    names: tuple[str, ...]  # names of its columns
    file: pq.ParquetFile

    def blocks(self) -> Iterator[pa.Table]:
        """Yield its row groups, valid by Arrow's rules. Raise one of `UNREADABLE` if not."""
        rows_read = 0
        for i in range(self.file.num_row_groups):
            block = self.file.read_row_group(i, use_threads=False)
            block.validate(full=True)
            rows_read += len(block)
            # Rows that the record does not know are not handed on: the error below follows.
            if rows_read > self.rows:
                break
            yield block
        if rows_read != self.rows:
            raise ValueError(f"it has {rows_read:,} rows but was written with {self.rows:,}")


@contextmanager
def opened_table(
    file: Path | BinaryIO,
    schema: str,
    columns: Mapping[str, Sequence[str]],
    optional: Sequence[str] = (),
) -> Iterator[SealedTable]:
    """Open and check a sealed Parquet file. Raises OtherSchemaError, or one of `UNREADABLE`."""
    # Not with pq.read_table: its threads may outlive the call and release a Python file while the
    # interpreter shuts down, which aborts the process.
    with pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True) as parquet:
        arrow_schema = parquet.schema_arrow
        metadata = (arrow_schema.metadata or {}).get(METADATA_KEY)
        if metadata is None:
            raise ValueError("it has no batchstat metadata")
        record = unseal(parse(metadata), schema)
        names = arrow_schema.names
        # In this order: all columns that are required, and the optional ones that the file has.
        if names != [name for name in columns if name in names or name not in optional]:
            raise ValueError(f"its columns are {', '.join(names)[:200]}")
        for field in arrow_schema:
            if str(field.type) not in columns[field.name]:
                expected = " or ".join(columns[field.name])
                raise ValueError(f"column {field.name} has type {field.type}: must be {expected}")
        # The record repeats the number of rows under its seal. The metadata of row groups and
        # columns are not asked for: pyarrow aborts the process if they are damaged.
        rows = decoded(int, record.get("rows"), "rows")
        if parquet.metadata.num_rows != rows:
            raise ValueError(
                f"it has {parquet.metadata.num_rows:,} rows but was written with {rows:,}"
            )
        yield SealedTable(record, rows, tuple(names), parquet)


def numbers_in(block: pa.Table, name: str) -> Ints:
    """Return (n_rows,) a column of whole numbers or booleans. Raise ValueError for a null."""
    column = block[name]
    if column.null_count:
        raise ValueError(f"column {name} contains {column.null_count:,} null values")
    # A column without rows may have no chunk at all.
    parts = [as_numpy(chunk) for chunk in column.chunks] or [np.empty(0, np.int64)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def check_range(name: str, numbers: Ints, most: int, before: int = 0) -> None:
    """Raise ValueError unless (n,) numbers, `before` rows into a file, are from 0 to `most`."""
    bad_rows = np.flatnonzero((numbers < 0) | (numbers > most))
    if len(bad_rows):
        row = bad_rows[0]
        raise ValueError(
            f"{name} is {numbers[row]} in row {before + row}: must be between 0 and {most:,}"
        )
