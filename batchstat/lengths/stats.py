"""Statistics of a set of lengths: exact, and based only on observed values and counts."""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import IN_CACHE, Ints
from batchstat.lengths.exact import dot
from batchstat.parameters import described
from batchstat.records import Count, Record, allowed, told

_AT_ONCE = 1 << 22
"""Number of lengths that are sorted together."""

PERCENTILES = (500, 900, 950, 990, 999)
"""In thousandths, so that ranks are computed in whole numbers."""


@described("How many values fall between two edges: four bins per octave.")
class Histogram(Record):
    edges: Annotated[tuple[Count, ...], allowed(minItems=2)] = told(
        "Bin i holds edges[i] <= value < edges[i + 1]."
    )
    counts: tuple[Count, ...] = told("How many fall between an edge and the next.")


@dataclass(frozen=True, eq=False)
class LengthStats:
    """A set of lengths by its distinct values.

    Attributes:
        values: (n_distinct,) the lengths that occur, in ascending order.
        counts: (n_distinct,) how often each occurs.
    """

    values: Ints
    counts: Ints

    @classmethod
    def of(cls, lengths: Ints) -> "LengthStats":
        """Return the statistics of `lengths` (n,), where n is at least 1."""
        stats = None
        for first in range(0, len(lengths), _AT_ONCE):
            values, counts = distinct(lengths[first : first + _AT_ONCE])
            part = cls(values, counts)
            stats = part if stats is None else stats.merge(part)
        assert stats is not None, "n is at least 1"
        return stats

    def merge(self, other: "LengthStats") -> "LengthStats":
        """Return the statistics of these lengths and the others together."""
        values = np.union1d(self.values, other.values)
        counts = np.zeros(len(values), dtype=np.int64)
        for each in (self, other):
            counts[np.searchsorted(values, each.values)] += each.counts
        return LengthStats(values, counts)

    @property
    def count(self) -> int:
        """Number of lengths."""
        return int(self.counts.sum())

    @property
    def sum(self) -> int:
        """Sum of all lengths, in tokens."""
        return dot(self.values, self.counts)

    @property
    def min(self) -> int:
        """Shortest length."""
        return int(self.values[0])

    @property
    def max(self) -> int:
        """Longest length."""
        return int(self.values[-1])

    @property
    def mean(self) -> float:
        """Tokens per sample."""
        return self.sum / self.count

    @property
    def std(self) -> float:
        """Population standard deviation, from exact sums."""
        squares = sum(
            int(v) * int(v) * int(c) for v, c in zip(self.values, self.counts, strict=True)
        )
        return sqrt(squares * self.count - self.sum**2) / self.count

    def percentile(self, thousandths: int) -> int:
        """Return the smallest length that at least this fraction of the lengths do not exceed."""
        rank = -(-self.count * thousandths // 1000)
        return int(self.values[np.searchsorted(np.cumsum(self.counts), rank)])

    def above(self, limit: int) -> tuple[int, int]:
        """Return how many lengths are above `limit`, and by how many tokens in total."""
        first = np.searchsorted(self.values, limit, side="right")
        counts = self.counts[first:]
        return int(counts.sum()), dot(self.values[first:] - limit, counts)

    def cut(self, max_length: int, overflow: str) -> "LengthStats":
        """Return the lengths after `overflow`: samples longer than `max_length` are truncated
        (`truncate`), dropped (`drop`), or split into parts of `max_length` and a rest (`split`).
        """
        last = np.searchsorted(self.values, max_length, side="right")
        kept = LengthStats(self.values[:last], self.counts[:last])
        values, counts = self.values[last:].astype(np.int64), self.counts[last:]
        if overflow == "drop" or len(values) == 0:
            return kept
        if overflow == "truncate":
            return kept.merge(LengthStats(np.array([max_length]), counts.sum(keepdims=True)))
        rest = (values - 1) % max_length + 1
        full = dot((values - rest) // max_length, counts)
        parts = LengthStats(np.array([max_length]), np.array([full]))
        return kept.merge(parts).merge(LengthStats(values, counts).replace(rest))

    def replace(self, values: Ints) -> "LengthStats":
        """Return the statistics with (n_distinct,) `values` in place of the distinct lengths."""
        distinct, which = np.unique(values, return_inverse=True)
        counts = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(counts, which, self.counts)
        return LengthStats(distinct, counts)

    def histogram(self, edges: tuple[int, ...]) -> Histogram:
        """Return the histogram of the lengths between `edges`, which span all of them."""
        places = np.searchsorted(edges, self.values, side="right") - 1
        counts = np.bincount(places, weights=self.counts, minlength=len(edges) - 1)
        return Histogram(edges, tuple(int(count) for count in counts))


def distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the distinct ones of (n,) numbers, ascending, and how often each occurs."""
    largest = int(numbers.max(initial=0))
    if largest > max(len(numbers), _FEW) or numbers.min(initial=0) < 0:
        # With counts, `np.unique` sorts. Without, it hashes since NumPy 2.3, which takes 13 times
        # as long where most are distinct.
        values, counts = np.unique(numbers, return_counts=True)
        return values.astype(np.int64), counts
    times = np.bincount(numbers[:IN_CACHE], minlength=largest + 1)
    for first in range(IN_CACHE, len(numbers), IN_CACHE):
        part = np.bincount(numbers[first : first + IN_CACHE])
        times[: len(part)] += part
    values = np.flatnonzero(times)
    return values, times[values]


_FEW = 1 << 12
"""Counters that cost no more than sorting a few numbers."""


def validate_lengths(lengths: npt.ArrayLike) -> Ints:
    """Return (n,) tokens per sample, as 64-bit integers.

    Raises:
        OptionError: not whole numbers in one dimension, or a number that is negative, too large or
            masked.
        InputError: there are no lengths.
    """
    if isinstance(lengths, np.ma.MaskedArray) and np.ma.is_masked(lengths):
        at = int(np.flatnonzero(np.ma.getmaskarray(lengths))[0])
        raise OptionError(f"lengths[{at}] is masked: drop such samples with .compressed()")
    try:
        array = np.asarray(lengths)
    except ValueError as error:
        raise OptionError(f"lengths cannot be converted to an array: {error}") from None
    if array.size == 0:
        raise InputError("no lengths: at least one sample is needed")
    # NumPy counts timedeltas among the signed integers.
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise OptionError(
            f"lengths must be whole numbers in one dimension, not {array.dtype} of shape "
            f"{array.shape}: pass tokens per sample, or a Profile"
        )
    if array.min() < 0 or array.max() >= 2**31:
        bad = np.flatnonzero((array < 0) | (array >= 2**31))
        raise OptionError(
            f"lengths[{bad[0]}] is {array[bad[0]]}: must be between 0 and {2**31 - 1:,}"
        )
    return array.astype(np.int64)


def log_edges(low: int, high: int, per_octave: int = 1) -> tuple[int, ...]:
    """Return whole-number edges, evenly spaced on a log scale, from at most `low` to above `high`.

    Every power of two between them is an edge; a length of 0 has a bin of its own.
    """
    first, last = max(low, 1).bit_length() - 1, max(high, 1).bit_length()
    steps = range(first * per_octave, last * per_octave + 1)
    powers = sorted({round(2 ** (step / per_octave)) for step in steps})
    return (0, *powers) if low == 0 else tuple(powers)
