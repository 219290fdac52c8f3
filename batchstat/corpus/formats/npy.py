"""NumPy's .npy: a one-dimensional array of lengths."""

import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.files.opening import OpenSource, seekable
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, SourceError
from batchstat.storage.shown import one_line

_MOST_RECORDS = 1 << 20  # limit for the numbers of a chunk
_PARSING = threading.Lock()  # CPython's parser seldom fails where two threads are in it (gh-106905)


def read_npy(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the numbers that begin in the split, as lengths of samples. Raises InputError."""
    if options.named_columns:
        raise InputError(f"{opened.path} has no column {options.named_columns[0]!r}", "remove it")
    try:
        with seekable(opened) as file:
            shape, dtype = _header(file)
            # Not by np.issubdtype, which counts timedeltas among the signed integers.
            if len(shape) != 1 or dtype.kind not in "iu" or shape[0] < 0:
                raise InputError(
                    f"{opened.path} has {dtype} of shape {shape} where whole numbers in one "
                    "dimension are expected"
                )
            array_begin, split = file.tell(), opened.split

            def first_number_from(position: int) -> int:
                rounded_up = (position - array_begin + dtype.itemsize - 1) // dtype.itemsize
                return min(max(rounded_up, 0), shape[0])

            # The numbers that begin in the split: from index `first` to before `stop`.
            first = first_number_from(split.first)
            stop = shape[0] if split.stop is None else first_number_from(split.stop)
            file.seek(array_begin + shape[0] * dtype.itemsize)
            # np.load would ignore more data, such as a second array.
            if file.read(1):
                raise ValueError("something follows its array")
            file.seek(array_begin + first * dtype.itemsize)
            for chunk_first in range(first, stop, _MOST_RECORDS):
                wanted_bytes = min(_MOST_RECORDS, stop - chunk_first) * dtype.itemsize
                data = file.read(wanted_bytes)
                if len(data) < wanted_bytes:
                    raise ValueError("it is cut short")
                # Arrow needs the byte order of this machine.
                numbers = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
                # For progress, in bytes on disk: what is read of a compressed file is more.
                yield Chunk(
                    values={"length": pa.array(numbers)},
                    columns=Columns(("length",)),
                    position=min(file.tell() - split.first, opened.size),
                    holds="length",
                    count_before=lambda: first,  # of the split, the same for all its chunks
                )
    except (ValueError, EOFError) as error:
        raise SourceError(f"{opened.path} is not a readable .npy file: {error}") from None


def _header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape of the array and the type of its numbers. Raises ValueError."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0}
    try:
        # Version 3.0 differs from 2.0 in how names of fields are encoded, and lengths have none.
        with _PARSING:
            shape, _, dtype = readers.get(version, np.lib.format.read_array_header_2_0)(file)
    except OSError:
        raise
    except Exception as error:  # NumPy parses the header as Python, and may raise anything
        raise ValueError(f"its header cannot be read: {one_line(error)}") from None
    return shape, dtype
