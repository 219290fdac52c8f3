"""Arrays with one number per sample, in memory or, if they are large, in a temporary file."""

import errno
import os
import shutil
import tempfile
from typing import IO

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.storage.shown import one_line

HELD = 1 << 26  # samples whose numbers stay in memory; larger arrays are in a file


def new_array(n: int, most: int) -> Ints:
    """Return an uninitialised array (n,) for numbers up to `most`. Raises InputError."""
    if n <= HELD:
        return np.empty(n, dtype=np.int64)
    dtype = np.int32 if most < 2**31 else np.int64  # half the disk space, where that suffices
    try:
        # Closing the file leaves the mapping; the file is gone when the array is.
        with tempfile.TemporaryFile() as file:
            _reserve(file, n * np.dtype(dtype).itemsize)
            return np.memmap(file, dtype=dtype, mode="r+", shape=(n,))
    except OSError as error:
        raise InputError(
            f"no space for the lengths of {n:,} samples in the folder for temporary files: "
            f"{one_line(error)}",
            "set TMPDIR to another folder",
        ) from None


def _reserve(file: IO[bytes], size: int) -> None:
    """Extend a file to a size and reserve disk space for all of it. Raises OSError."""
    # Writing to a mapped page without disk space raises no error: it kills the process.
    if shutil.disk_usage(tempfile.gettempdir()).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file.truncate(size)
    # Without it, as on macOS and Windows, only the free space above was checked.
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno == errno.ENOSPC:  # other errors: file systems that cannot reserve
                raise
