"""Files of columns, and compressed ones, as bytes."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Table = pa.Table | dict[str, Any]


def parquet(table: Table, **options: Any) -> bytes:
    pq.write_table(pa.table(table), sink := io.BytesIO(), **options)
    return sink.getvalue()


def arrow(
    table: Table, make: Callable[..., Any] = pa.ipc.new_stream, compression: str | None = None
) -> bytes:
    """A stream, or a file, of Arrow's."""
    table = pa.table(table)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with make(sink := io.BytesIO(), table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def npy(*lengths: Any, kind: Any = None) -> bytes:
    np.save(sink := io.BytesIO(), np.array([*lengths], kind))
    return sink.getvalue()


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed
