"""Numbers of a set of lengths: exact, and all of them observed values or counts."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import dot

_AT_ONCE = 1 << 22
"""Lengths that are sorted together."""

PERCENTILES = (500, 900, 950, 990, 999)
"""In thousandths, so that ranks are computed in whole numbers."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many lengths fall between two edges.

    Attributes:
        edges: (n_bins + 1,) whole numbers; bin i holds edges[i] ≤ length < edges[i + 1].
        counts: (n_bins,).
    """

    edges: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LengthStats:
    """A set of lengths by its distinct values.

    Attributes:
        values: (n_distinct,) the lengths that occur, rising.
        counts: (n_distinct,) how often each occurs.
    """

    values: Ints
    counts: Ints

    @classmethod
    def of(cls, lengths: Ints) -> "LengthStats":
        """The statistics of `lengths` (n,); n is at least 1."""
        found = None
        for first in range(0, len(lengths), _AT_ONCE):
            values, counts = np.unique(lengths[first : first + _AT_ONCE], return_counts=True)
            part = cls(values.astype(np.int64), counts)
            found = part if found is None else found.with_more(part)
        assert found is not None, "n is at least 1"
        return found

    def with_more(self, other: "LengthStats") -> "LengthStats":
        """The statistics of these lengths and the others together."""
        values = np.union1d(self.values, other.values)
        counts = np.zeros(len(values), dtype=np.int64)
        for each in (self, other):
            counts[np.searchsorted(values, each.values)] += each.counts
        return LengthStats(values, counts)

    @property
    def count(self) -> int:
        """How many lengths."""
        return int(self.counts.sum())

    @property
    def sum(self) -> int:
        """All tokens."""
        return dot(self.values, self.counts)

    @property
    def min(self) -> int:
        """The shortest."""
        return int(self.values[0])

    @property
    def max(self) -> int:
        """The longest."""
        return int(self.values[-1])

    @property
    def mean(self) -> float:
        """Tokens a sample."""
        return self.sum / self.count

    @property
    def std(self) -> float:
        """The population's standard deviation, from exact sums."""
        squares = sum(
            int(v) * int(v) * int(c) for v, c in zip(self.values, self.counts, strict=True)
        )
        return sqrt(squares * self.count - self.sum**2) / self.count

    def percentile(self, thousandths: int) -> int:
        """The smallest length that at least this share of the lengths does not exceed."""
        rank = -(-self.count * thousandths // 1000)
        return int(self.values[np.searchsorted(np.cumsum(self.counts), rank)])

    def above(self, limit: int) -> tuple[int, int]:
        """How many lengths are above `limit`, and by how many tokens together."""
        first = np.searchsorted(self.values, limit, side="right")
        counts = self.counts[first:]
        return int(counts.sum()), dot(self.values[first:] - limit, counts)

    def cut(self, max_length: int, overflow: str) -> "LengthStats":
        """The lengths of what is left where longer ones are cut (`truncate`), left out (`drop`), or
        become parts of `max_length` and a rest (`split`).
        """
        last = np.searchsorted(self.values, max_length, side="right")
        kept = LengthStats(self.values[:last], self.counts[:last])
        values, counts = self.values[last:].astype(np.int64), self.counts[last:]
        if overflow == "drop" or len(values) == 0:
            return kept
        if overflow == "truncate":
            return kept.with_more(LengthStats(np.array([max_length]), counts.sum(keepdims=True)))
        rest = (values - 1) % max_length + 1
        sizes, which = np.unique(rest, return_inverse=True)
        ends = np.bincount(which, weights=counts, minlength=len(sizes)).astype(np.int64)
        full = dot((values - rest) // max_length, counts)
        parts = LengthStats(np.array([max_length]), np.array([full]))
        return kept.with_more(parts).with_more(LengthStats(sizes, ends))

    def histogram(self, edges: tuple[int, ...]) -> Histogram:
        """The lengths between `edges`, which hold all of them."""
        places = np.searchsorted(edges, self.values, side="right") - 1
        counts = np.bincount(places, weights=self.counts, minlength=len(edges) - 1)
        return Histogram(edges, tuple(int(count) for count in counts))


def checked_lengths(lengths: npt.ArrayLike) -> Ints:
    """(n,) tokens a sample, as whole numbers of 64 bits.

    Raises:
        OptionError: they are no whole numbers in one dimension, or one is negative, too large or
            masked.
        InputError: there is none.
    """
    if isinstance(lengths, np.ma.MaskedArray) and np.ma.is_masked(lengths):
        at = int(np.flatnonzero(np.ma.getmaskarray(lengths))[0])
        raise OptionError(f"lengths[{at}] is masked: leave such samples out with .compressed()")
    try:
        array = np.asarray(lengths)
    except ValueError as error:
        raise OptionError(f"lengths are no array: {error}") from None
    if array.size == 0:
        raise InputError("no lengths: at least one sample is needed")
    # NumPy counts timedeltas among the signed integers.
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise OptionError(
            f"lengths must be whole numbers in one dimension, and are {array.dtype} of shape "
            f"{array.shape}: give tokens a sample, or a Profile"
        )
    bad = np.flatnonzero((array < 0) | (array >= 2**31))
    if len(bad):
        raise OptionError(
            f"lengths[{bad[0]}] is {array[bad[0]]}: must be between 0 and {2**31 - 1:,}"
        )
    return array.astype(np.int64)


def log_edges(low: int, high: int, per_octave: int = 1) -> tuple[int, ...]:
    """Whole-number edges evenly spaced on a log scale, from at or below `low` to above `high`.

    Every power of two between them is an edge; a length of 0 has a bin of its own.
    """
    first, last = max(low, 1).bit_length() - 1, max(high, 1).bit_length()
    steps = range(first * per_octave, last * per_octave + 1)
    powers = sorted({round(2 ** (step / per_octave)) for step in steps})
    return (0, *powers) if low == 0 else tuple(powers)
