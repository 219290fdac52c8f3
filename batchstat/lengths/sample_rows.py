"""`SampleRows`: the rows of samples that are made of several, as pairs and views are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batchstat.lengths.arrays import Ints


@dataclass(frozen=True, eq=False)
class SampleRows:
    """The k rows of each of n samples, which are computed together whatever batch it is in."""

    lengths: Ints  # (n, k) tokens of each row
    # Rows in each forward of a batch: (2,) if one computes both; (1, 1) if each has its own width.
    forwards: tuple[int, ...]
    kind: str  # "view"; or "pair": chosen and rejected, whose loss asks for no other sample

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "SampleRows":
        """Return rows from their fields as JSON has them. Raises ValueError for other fields."""
        try:
            lengths, forwards = np.array(fields["lengths"]), tuple(map(int, fields["forwards"]))
            is_table = lengths.ndim == 2 and lengths.shape[1] == sum(forwards)
            are_rows = is_table and lengths.dtype.kind == "i" and min(forwards) > 0
            if are_rows and bool((lengths >= 0).all()) and isinstance(fields["kind"], str):
                return cls(lengths, forwards, fields["kind"])
        except (KeyError, TypeError, OverflowError):
            pass
        raise ValueError("not the rows of samples")

    def take(self, samples: Ints) -> "SampleRows":
        """Return the rows of the samples at these positions."""
        return replace(self, lengths=self.lengths[samples])

    def in_words(self, samples: float, shown: str) -> str:
        """Return a number of samples, as it is shown, with their rows: "48 pairs (96 rows)"."""
        k, plural = sum(self.forwards), "" if shown == "1" else "s"
        if self.kind == "pair":
            return f"{shown} pair{plural} ({samples * k:,.0f} rows)"
        return f"{shown} sample{plural} in {k:,} views each"
