"""Arrow's numbers as NumPy's, and back: pyarrow's own ways import pandas, which takes long."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batchstat.lengths.arrays import Ints


def as_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """Return (n,) numbers or booleans without null as a read-only NumPy array, numbers uncopied."""
    if pa.types.is_boolean(values.type):
        # Arrow stores booleans as bits, which DLPack does not know.
        return np.from_dlpack(values.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(values)


def as_arrow(numbers: Ints) -> pa.Array:
    """Return (n,) whole numbers as Arrow's int64, without a copy of contiguous ones."""
    buffer = pa.py_buffer(np.ascontiguousarray(numbers, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, buffer])
