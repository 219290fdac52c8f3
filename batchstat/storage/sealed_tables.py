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
    """An open Parquet file.

    Attributes:
        record: its metadata, unsealed.
        rows: number of rows.
        names: names of its columns.
    """

    record: dict[str, Any]
    rows: int
    names: tuple[str, ...]
    file: pq.ParquetFile

    def blocks(self) -> Iterator[pa.Table]:
        """Yield its row groups in order, each valid by Arrow's own rules.

        Raises:
            ValueError, pa.ArrowException, OSError: a row group that is damaged.
        """
        read = 0
        for i in range(self.file.num_row_groups):
            block = self.file.read_row_group(i, use_threads=False)
            block.validate(full=True)
            read += len(block)
            if read > self.rows:
                break
            yield block
        if read != self.rows:
            raise ValueError(f"it has {read:,} rows but was written with {self.rows:,}")


@contextmanager
def opened(
    file: Path | BinaryIO,
    schema: str,
    columns: Mapping[str, Sequence[str]],
    optional: Sequence[str] = (),
) -> Iterator[SealedTable]:
    """Open a Parquet file with exactly these columns, in this order, and `rows` in its record.

    Args:
        file: path or file object.
        schema: the schema its record must have.
        columns: Arrow's names of the types that each column may have.
        optional: columns that may be missing.

    Raises:
        OtherSchemaError: it has another schema.
        One of `UNREADABLE`: it was damaged or edited.
    """
    # Not with pq.read_table: its threads may outlive the call and release a Python file while the
    # interpreter shuts down, which aborts the process.
    with pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True) as parquet:
        arrow_schema = parquet.schema_arrow
        kept = (arrow_schema.metadata or {}).get(METADATA_KEY)
        if kept is None:
            raise ValueError("it has no batchstat metadata")
        record = unseal(parse(kept), schema)
        if arrow_schema.names != [
            name for name in columns if name in arrow_schema.names or name not in optional
        ]:
            raise ValueError(f"its columns are {', '.join(arrow_schema.names)[:200]}")
        for field in arrow_schema:
            if str(field.type) not in columns[field.name]:
                expected = " or ".join(columns[field.name])
                raise ValueError(f"column {field.name} has type {field.type}: must be {expected}")
        # Not from the metadata of groups and columns: pyarrow aborts the process if these are
        # damaged.
        rows = decoded(int, record.get("rows"), "rows")
        if parquet.metadata.num_rows != rows:
            raise ValueError(
                f"it has {parquet.metadata.num_rows:,} rows but was written with {rows:,}"
            )
        yield SealedTable(record, rows, tuple(arrow_schema.names), parquet)


def numbers_in(block: pa.Table, name: str) -> Ints:
    """Return (n_rows,) a column of whole numbers or booleans. Raise ValueError for a null."""
    column = block[name]
    if column.null_count:
        raise ValueError(f"column {name} contains {column.null_count:,} null values")
    parts = [as_numpy(chunk) for chunk in column.chunks] or [np.empty(0, np.int64)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def check_range(name: str, numbers: Ints, most: int, before: int = 0) -> None:
    """Raise ValueError unless (n,) numbers are between 0 and `most`; `before` rows precede them."""
    bad = np.flatnonzero((numbers < 0) | (numbers > most))
    if len(bad):
        raise ValueError(
            f"{name} is {numbers[bad[0]]} in row {before + bad[0]}: must be between 0 and {most:,}"
        )


def check_rising(name: str, numbers: Ints, last: int, before: int = 0) -> None:
    """Raise ValueError unless (n,) numbers rise strictly from above `last`."""
    bad = np.flatnonzero(np.diff(numbers, prepend=last) <= 0)
    if len(bad):
        row = bad[0]
        raise ValueError(f"{name} is {numbers[row]} in row {before + row}, which does not ascend")
