"""What every reader yields."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one file; the first chunk starts with its first record.

    Attributes:
        texts: (n,) large_string without nulls.
        labels: (n,) large_string, null where a record has none; None where no label is read.
        position: bytes of the file, as it lies on disk, that are read so far.
    """

    texts: pa.LargeStringArray
    labels: pa.LargeStringArray | None
    position: int
