"""NumPy's .npy: a one-dimensional array of lengths."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.opening import OpenSource, seekable
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, SourceError
from batchstat.storage.shown import one_line

_MOST_RECORDS = 1 << 20


def read_npy(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield every number as the length of a sample.

    Raises:
        InputError: not an array of whole numbers in one dimension, or columns are requested.
    """
    if options.named_columns:
        raise InputError(f"{opened.path} has no column {options.named_columns[0]!r}: remove it")
    try:
        with seekable(opened) as file:
            shape, kind = _header(file)
            # NumPy counts timedeltas among the signed integers.
            if len(shape) != 1 or kind.kind not in "iu" or shape[0] < 0:
                raise InputError(
                    f"{opened.path} has {kind} of shape {shape} where whole numbers in one "
                    "dimension are expected"
                )
            begin, size = file.tell(), kind.itemsize
            stop = begin + shape[0] * size
            split = opened.split
            ends = (split.first, stop if split.stop is None else min(split.stop, stop))
            # The numbers that begin in the split.
            first, last = (max(-(-(end - begin) // size), 0) for end in ends)
            file.seek(stop)
            # np.load would leave it unread, such as a second array.
            if file.read(1):
                raise ValueError("something follows its array")
            file.seek(begin + first * size)
            for at in range(first, last, _MOST_RECORDS):
                wanted = min(_MOST_RECORDS, last - at) * size
                data = file.read(wanted)
                if len(data) < wanted:
                    raise ValueError("it is cut short")
                numbers = np.frombuffer(data, kind).astype(kind.newbyteorder("="))
                yield Chunk(
                    columns={"length": pa.array(numbers)},
                    position=min(file.tell() - split.first, opened.size),
                    read=Columns(("length",)),
                    counted=True,
                    before=lambda: first,
                )
    except (ValueError, EOFError) as error:
        raise SourceError(f"{opened.path} is not a readable .npy file: {error}") from None


def _header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0}
    try:
        # Version 3.0 differs from 2.0 in how names of fields are encoded, and lengths have none.
        shape, _, kind = readers.get(version, np.lib.format.read_array_header_2_0)(file)
    except OSError:
        raise
    except Exception as error:  # the header is parsed as Python, in more than one way
        raise ValueError(f"its header cannot be read: {one_line(error)}") from None
    return shape, kind
