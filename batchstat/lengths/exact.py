"""Whole numbers beyond 64 bits: sums and products that stay exact, whatever their size.

NumPy's integers wrap around silently. Numbers that may not fit are added in halves of 32 bits here,
or become an array of Python integers (`object`), which NumPy also adds and multiplies, but slowly.
Ordinary numbers cost only a search for the largest. All numbers are 0 or above.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from batchstat.lengths.arrays import IN_CACHE, Ints

_LIMIT = 2**63
_HALF = 32
_LOW = 2**_HALF - 1
_EXACT_FLOATS = 2**53


def wide(numbers: Ints, most: int) -> Ints:
    """Return the numbers unchanged, or as Python integers if results up to `most` would not fit 64
    bits.
    """
    return numbers if most < _LIMIT else numbers.astype(object)


def product(one: Ints, other: Ints) -> Ints:
    """Return one × other, element by element."""
    most = _largest(one) * _largest(other)
    products: Ints = wide(one, most) * wide(other, most)
    return products


def total(numbers: Ints) -> int:
    """Return the sum of all numbers."""
    return int(added(numbers, lambda part: part.sum(keepdims=True), numbers.size).item())


def dot(one: Ints, other: Ints) -> int:
    """Return the sum of one × other; slow if it is too large for 64 bits."""
    if _largest(one) * total(other) < _LIMIT:
        return int(one @ other)
    return sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))


def sums(numbers: Ints, offsets: Ints) -> Ints:
    """Return (n_groups,) the sum of numbers[offsets[i] : offsets[i + 1]]; no group is empty."""
    if len(offsets) == 1:
        return numbers[:0]
    most = int(np.diff(offsets).max())
    return added(numbers, lambda part: np.add.reduceat(part, offsets[:-1]), most)


def moments(numbers: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return `sums` of the numbers, each below 2^31, and of their squares."""
    if len(offsets) == 1 or _largest(numbers) ** 2 * len(numbers) >= _LIMIT:
        return sums(numbers, offsets), sums(numbers * numbers, offsets)
    squares = np.empty(len(offsets) - 1, dtype=np.int64)
    steps = np.searchsorted(offsets[:-1], np.arange(offsets[0], offsets[-1], IN_CACHE))
    for first, last in pairwise(np.unique([*steps, len(squares)]).tolist()):
        part = numbers[offsets[first] : offsets[last]]
        begins = offsets[first:last] - offsets[first]
        np.add.reduceat(part * part, begins, out=squares[first:last])
    return np.add.reduceat(numbers, offsets[:-1]), squares


def sums_at(places: Ints, numbers: Ints, size: int) -> Ints:
    """Return (size,) the sum of the numbers (n,) at each of the positions (n,)."""
    most = _largest(numbers) * len(numbers)
    # bincount adds weights as floats of 64 bits.
    if most < _EXACT_FLOATS:
        return np.bincount(places, weights=numbers, minlength=size).astype(np.int64)
    totals = wide(np.zeros(size, dtype=np.int64), most)
    np.add.at(totals, places, wide(numbers, most))
    return totals


def added(numbers: Ints, add: Callable[[Ints], Ints], most: int) -> Ints:
    """Return add(numbers), exactly.

    Where a sum may not fit 64 bits, the high and the low bits of the numbers are summed apart, so
    that neither overflows, and put together; Python integers, which are slow, only where needed.

    Args:
        numbers: numbers in an array of any shape.
        add: returns sums of them, and may lose anything above 64 bits.
        most: maximum number of summands per sum.
    """
    if numbers.dtype == object or _largest(numbers) * most < _LIMIT:
        return add(numbers)
    # So many summands that the sum of a half would not fit either.
    if most >= 2 ** (_HALF - 1):
        return add(numbers.astype(object))
    high, low = add(numbers >> _HALF), add(numbers & _LOW)
    high = high + (low >> _HALF)
    bound = (_largest(high) + 1) << _HALF  # no result is larger
    # Python integers, if the bound does not fit 64 bits.
    results: Ints = (wide(high, bound) << _HALF) + (low & _LOW)
    return results


def _largest(numbers: Ints) -> int:
    return int(numbers.max(initial=0))
