"""Statistics of a set of lengths: exact, and based only on observed values and counts."""

from dataclasses import dataclass
from functools import reduce
from math import sqrt
from typing import Annotated

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import IN_CACHE, Ints
from batchstat.lengths.exact import dot, product, sums_at
from batchstat.parameters import described
from batchstat.records import Count, Record, allowed, told

_AT_ONCE = 1 << 22  # number of lengths that are sorted together: bounds the memory of sorting
_FEW = 1 << 12  # so many counters cost no more than sorting a few numbers

PERCENTILES = (500, 900, 950, 990, 999)  # in thousandths: ranks are computed in whole numbers


@described("How many values fall between two edges: four bins per octave.")
class Histogram(Record):
    edges: Annotated[tuple[Count, ...], allowed(minItems=2)] = told(
        "Bin i holds edges[i] <= value < edges[i + 1]."
    )
    counts: tuple[Count, ...] = told("How many fall between an edge and the next.")


@dataclass(frozen=True, eq=False)
class LengthStats:
    """A set of lengths by its distinct values."""

    values: Ints  # (n_distinct,) the lengths that occur, in ascending order
    counts: Ints  # (n_distinct,) how often each occurs

    @classmethod
    def of(cls, lengths: Ints) -> "LengthStats":
        """Return the statistics of `lengths` (n,), where n is at least 1."""
        # Lengths are counted in blocks, so that the memory for sorting does not grow with n.
        blocks = (lengths[i : i + _AT_ONCE] for i in range(0, len(lengths), _AT_ONCE))
        return reduce(cls.merge, (cls(*distinct(block)) for block in blocks))

    def merge(self, other: "LengthStats") -> "LengthStats":
        """Return the statistics of these lengths and the others together."""
        values = np.concatenate([self.values, other.values])
        counts = np.concatenate([self.counts, other.counts])
        # Here, values may be there twice, and are not sorted: `replace` does both.
        return LengthStats(values, counts).replace(values)

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
        # With n lengths: sqrt(n · Σx² - (Σx)²) / n; Python integers, as sums may exceed 64 bits.
        squares = dot(product(self.values, self.values), self.counts)
        return sqrt(squares * self.count - self.sum**2) / self.count

    def percentile(self, thousandths: int) -> int:
        """Return the shortest length that this share do not exceed: [1, 2, 3, 4] and 500 give 2."""
        rank = -(-self.count * thousandths // 1000)  # rounded up
        # The first distinct length up to which there are at least `rank` lengths.
        return int(self.values[np.searchsorted(np.cumsum(self.counts), rank)])

    def above(self, limit: int) -> tuple[int, int]:
        """Return how many lengths are above `limit`, and by how many tokens in total."""
        first = np.searchsorted(self.values, limit, side="right")
        counts = self.counts[first:]
        return int(counts.sum()), dot(self.values[first:] - limit, counts)

    def cut(self, max_length: int, overflow: str) -> "LengthStats":
        """Return the lengths after `overflow` of samples that are longer than `max_length`."""
        if overflow == "truncate":
            return self.replace(np.minimum(self.values, max_length))
        n_short = np.searchsorted(self.values, max_length, side="right")
        short = LengthStats(self.values[:n_short], self.counts[:n_short])
        longer = LengthStats(self.values[n_short:], self.counts[n_short:])
        if overflow == "drop" or len(longer.values) == 0:
            return short
        # A rest has 1 to `max_length` tokens: 9 tokens in parts of 4 leave 1, and 8 leave 4.
        rests = (longer.values - 1) % max_length + 1
        n_parts = dot((longer.values - rests) // max_length, longer.counts)
        parts = LengthStats(np.array([max_length]), np.array([n_parts]))
        return short.merge(parts).merge(longer.replace(rests))

    def replace(self, values: Ints) -> "LengthStats":
        """Return the statistics after each `self.values[i]` became `values[i]`, in any order."""
        # values[i] is new_lengths[position[i]].
        new_lengths, position = np.unique(values, return_inverse=True)
        return LengthStats(new_lengths, sums_at(position, self.counts, len(new_lengths)))

    def histogram(self, edges: tuple[int, ...]) -> Histogram:
        """Return the histogram of the lengths between `edges`, which span all of them."""
        counts, _ = np.histogram(self.values, edges, weights=self.counts)
        return Histogram(edges, tuple(counts.tolist()))


def distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values among n numbers, ascending, and how often each occurs."""
    largest = int(numbers.max(initial=0))
    # bincount would need a counter for every number up to the largest, and takes none below 0.
    if largest > max(len(numbers), _FEW) or numbers.min(initial=0) < 0:
        # With counts, NumPy sorts. Without, 2.3 hashes: 13 times as slow if most are distinct.
        values, counts = np.unique(numbers, return_counts=True)
        return values.astype(np.int64), counts
    # times[v] is how often v occurs, counted in parts that stay in the cache.
    times = np.bincount(numbers[:IN_CACHE], minlength=largest + 1)
    for first in range(IN_CACHE, len(numbers), IN_CACHE):
        part_times = np.bincount(numbers[first : first + IN_CACHE])
        times[: len(part_times)] += part_times
    values = np.flatnonzero(times)
    return values, times[values]


def validate_lengths(lengths: npt.ArrayLike) -> Ints:
    """Return a user's lengths as (n,) 64-bit integers. Raises OptionError: not whole numbers in one
    dimension, negative, too large or masked; InputError: there are no lengths.
    """
    if isinstance(lengths, np.ma.MaskedArray) and np.ma.is_masked(lengths):
        masked = int(np.flatnonzero(np.ma.getmaskarray(lengths))[0])
        raise OptionError(f"lengths[{masked}] is masked", "drop such samples with .compressed()")
    try:
        array = np.asarray(lengths)
    except ValueError as error:
        raise OptionError(f"lengths cannot be converted to an array: {error}") from None
    if array.size == 0:
        raise InputError("no lengths: at least one sample is needed")
    # By `kind`, because `np.issubdtype` counts timedeltas among the signed integers.
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise OptionError(
            f"lengths must be whole numbers in one dimension, not {array.dtype} of shape "
            f"{array.shape}",
            "pass tokens per sample, or a Profile",
        )
    # The square of a length must fit 64 bits.
    if array.min() < 0 or array.max() >= 2**31:
        bad = np.flatnonzero((array < 0) | (array >= 2**31))
        raise OptionError(
            f"lengths[{bad[0]}] is {array[bad[0]]}", f"must be between 0 and {2**31 - 1:,}"
        )
    return array.astype(np.int64)


def log_edges(low: int, high: int, per_octave: int = 1) -> tuple[int, ...]:
    """Return edges of bins, `per_octave` in each, that span a range: 3 to 9 -> (2, 4, 8, 16)."""
    # Exponents of the largest power of two up to `low`, and of the first one above `high`.
    first, last = max(low, 1).bit_length() - 1, max(high, 1).bit_length()
    # Exponents of the edges, in units of 1 / per_octave.
    exponents = range(first * per_octave, last * per_octave + 1)
    # A set: edges between small powers of two may round to the same whole number.
    edges = sorted({round(2 ** (exponent / per_octave)) for exponent in exponents})
    return (0, *edges) if low == 0 else tuple(edges)
