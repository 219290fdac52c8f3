"""Arrays of a number for each sample, in memory or, where they are large, in a temporary file."""

import errno
import os
import shutil
import tempfile
from typing import IO

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.storage.addresses import one_line

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
        with tempfile.TemporaryFile() as file:  # which is there as long as it is mapped
            _reserve(file, n * np.dtype(kind).itemsize)
            return np.memmap(file, dtype=kind, mode="r+", shape=(n,))
    except OSError as error:
        raise InputError(
            f"no room for the lengths of {n:,} samples in the folder for temporary files: "
            f"{one_line(error)}: set TMPDIR to another"
        ) from None


def _reserve(file: IO[bytes], size: int) -> None:
    """Makes a file that long, with room for all of it: what is mapped and has none is no error
    when it is written, but the end of the process.

    Raises:
        OSError: there is none.
    """
    if shutil.disk_usage(tempfile.gettempdir()).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file.truncate(size)
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno == errno.ENOSPC:  # others are of file systems that cannot do it
                raise
