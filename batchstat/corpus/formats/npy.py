"""NumPy's .npy: a one-dimensional array of lengths, already counted."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from batchstat.corpus.chunk import Chunk
from batchstat.corpus.faults import Faults
from batchstat.corpus.opening import OpenSource, seekable
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, SourceError

_MOST_RECORDS = 1 << 20


def read_npy(opened: OpenSource, options: CorpusOptions, _: Faults) -> Iterator[Chunk]:
    """Every number the length of a sample.

    Raises:
        InputError: no array, or not whole numbers in one dimension; columns are asked for.
    """
    if options.named_columns:
        raise InputError(f"{opened.path} has no column {options.named_columns[0]!r}: leave it out")
    try:
        with seekable(opened) as file:
            lengths = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise SourceError(f"{opened.path} is not a readable .npy file: {error}") from None
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise InputError(
            f"{opened.path} holds {lengths.dtype} of shape {lengths.shape} where whole numbers in "
            "one dimension are expected"
        )
    for first in range(0, len(lengths), _MOST_RECORDS):
        part = lengths[first : first + _MOST_RECORDS].astype(lengths.dtype.newbyteorder("="))
        yield Chunk(
            size=len(part),
            columns={"length": pa.array(part)},
            position=opened.position,
            content=("length",),
            counted=True,
        )
