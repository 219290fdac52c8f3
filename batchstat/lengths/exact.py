"""Whole numbers from 0 on, whatever their size: NumPy's integers wrap around silently. Those that
may not fit are added in halves of 32 bits here, or become Python integers (`object`), which is
slow. Ordinary numbers cost only a search for the largest.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from batchstat.lengths.arrays import IN_CACHE, Ints

_LIMIT = 2**63  # the first number above those of a signed integer of 64 bits
_HALF = 32
_LOW = 2**_HALF - 1  # mask of the low 32 bits of a number


def widen(numbers: Ints, bound: int) -> Ints:
    """Return numbers, as Python integers if results as large as `bound` do not fit 64 bits."""
    return numbers if bound < _LIMIT else numbers.astype(object)


def product(one: Ints, other: Ints) -> Ints:
    """Return one × other, element by element."""
    bound = _largest(one) * _largest(other)
    return widen(one, bound) * widen(other, bound)


def total(numbers: Ints) -> int:
    """Return the sum of all numbers."""
    return int(add_exactly(numbers, lambda part: part.sum(keepdims=True), numbers.size).item())


def dot(one: Ints, other: Ints) -> int:
    """Return the dot product of two arrays; slow if it is too large for 64 bits."""
    # This product is an upper bound of the result, and multiplies no arrays.
    if _largest(one) * total(other) < _LIMIT:
        return int(one @ other)
    return sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))


def sums(numbers: Ints, offsets: Ints) -> Ints:
    """Return (n_groups,) the sum of `numbers[offsets[i] : offsets[i + 1]]`; no group is empty."""
    if len(offsets) == 1:  # no groups: `max` raises on an empty array
        return numbers[:0]
    largest_group = int(np.diff(offsets).max())
    # reduceat adds from each offset up to the next one.
    return add_exactly(numbers, lambda part: np.add.reduceat(part, offsets[:-1]), largest_group)


def moments(numbers: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return the sums of groups, as `sums` does, and of their squares; numbers are below 2^31."""
    # Without groups, or where a sum of squares may not fit 64 bits: `sums` is slower, but right.
    if len(offsets) == 1 or _largest(numbers) ** 2 * len(numbers) >= _LIMIT:
        return sums(numbers, offsets), sums(numbers * numbers, offsets)
    squares = np.empty(len(offsets) - 1, dtype=np.int64)
    # Numbers are squared in parts of about IN_CACHE numbers, which stay in the cache. Parts have
    # whole groups: each begins with the first group at or after a multiple of IN_CACHE.
    part_begins = np.searchsorted(offsets[:-1], np.arange(offsets[0], offsets[-1], IN_CACHE))
    # `unique`, since after a very large group several multiples have the same next group.
    for first, last in pairwise(np.unique([*part_begins, len(squares)]).tolist()):
        part = numbers[offsets[first] : offsets[last]]  # the numbers of groups first to last - 1
        begins = offsets[first:last] - offsets[first]
        np.add.reduceat(part * part, begins, out=squares[first:last])
    return np.add.reduceat(numbers, offsets[:-1]), squares


def sums_at(positions: Ints, numbers: Ints, size: int) -> Ints:
    """Return (size,) sums by position: positions [0, 2, 0], numbers [5, 7, 1] -> [6, 0, 7]."""
    bound = _largest(numbers) * len(numbers)  # no sum is larger
    # bincount adds weights as floats of 64 bits, which hold every whole number up to here.
    if bound < 2**53:
        return np.bincount(positions, weights=numbers, minlength=size).astype(np.int64)
    totals = widen(np.zeros(size, dtype=np.int64), bound)
    np.add.at(totals, positions, widen(numbers, bound))
    return totals


def add_exactly(numbers: Ints, add: Callable[[Ints], Ints], max_summands: int) -> Ints:
    """Return `add(numbers)` without overflow; it sums at most `max_summands` numbers at once."""
    # `object` arrays hold Python integers, which never overflow; and ordinary sums fit.
    if numbers.dtype == object or _largest(numbers) * max_summands < _LIMIT:
        return add(numbers)
    # From 2^31 summands on, even a sum of 32-bit halves may not fit: Python integers, slowly.
    if max_summands >= 2 ** (_HALF - 1):
        return add(numbers.astype(object))
    high_sums, low_sums = add(numbers >> _HALF), add(numbers & _LOW)
    # A sum of low halves may have more than 32 bits: the upper ones belong to the high sum.
    high_sums = high_sums + (low_sums >> _HALF)
    bound = (_largest(high_sums) + 1) << _HALF  # no result is larger
    results: Ints = (widen(high_sums, bound) << _HALF) + (low_sums & _LOW)
    return results


def _largest(numbers: Ints) -> int:
    return int(numbers.max(initial=0))
