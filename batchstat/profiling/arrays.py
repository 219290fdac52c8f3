"""Arrays of a number for each sample, in memory or, where they are large, in a temporary file."""

import tempfile

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError
from batchstat.storage import one_line

Ints = npt.NDArray[np.integer]

HELD = 1 << 26
"""Samples whose numbers are held in memory; those of more are read from a file as they are used."""


def new_array(n: int, most: int) -> Ints:
    """(n,) numbers up to `most`, to be filled in.

    Raises:
        InputError: there is no room for a temporary file.
    """
    if n <= HELD:
        return np.empty(n, dtype=np.int64)
    kind = np.int32 if most < 2**31 else np.int64
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it is there as long as the array
        file.truncate(n * np.dtype(kind).itemsize)
        return np.memmap(file, dtype=kind, mode="r+", shape=(n,))
    except OSError as error:
        raise InputError(
            f"no room for the lengths of {n:,} samples in the folder for temporary files: "
            f"{one_line(error)}: set TMPDIR to another"
        ) from None
