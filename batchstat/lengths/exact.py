"""Whole numbers beyond 64 bits: sums and products that stay exact, whatever their size.

NumPy's integers wrap around silently. What may not fit is added in halves of 32 bits here, or
becomes an array of Python's integers (`object`), which NumPy adds and multiplies too, only slowly.
Ordinary numbers cost one look at the largest of them. All numbers are 0 or above.
"""

from collections.abc import Callable

import numpy as np

from batchstat.lengths.arrays import Ints

_LIMIT = 2**63
_HALF = 32
_LOW = 2**_HALF - 1
_EXACT_FLOATS = 2**53


def wide(numbers: Ints, most: int) -> Ints:
    """Return the numbers as they are, or as Python's integers where results as large as `most`
    would not fit 64 bits.
    """
    return numbers if most < _LIMIT else numbers.astype(object)


def product(one: Ints, other: Ints) -> Ints:
    """Return one × other, element by element."""
    most = _largest(one) * _largest(other)
    found: Ints = wide(one, most) * wide(other, most)
    return found


def total(numbers: Ints) -> int:
    """Return the sum of all numbers."""
    return int(added(numbers, lambda part: part.sum(keepdims=True), numbers.size).item())


def dot(one: Ints, other: Ints) -> int:
    """Return the sum of one × other, for arrays short enough for a loop where it is large."""
    if _largest(one) * total(other) < _LIMIT:
        return int(one @ other)
    return sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))


def sums(numbers: Ints, offsets: Ints) -> Ints:
    """Return (n_groups,) the sum of numbers[offsets[i] : offsets[i + 1]]; no group is empty."""
    if len(offsets) == 1:
        return numbers[:0]
    most = int(np.diff(offsets).max())
    return added(numbers, lambda part: np.add.reduceat(part, offsets[:-1]), most)


def sums_at(places: Ints, numbers: Ints, size: int) -> Ints:
    """Return (size,) the sum of the numbers (n,) at each of the places (n,)."""
    most = _largest(numbers) * len(numbers)
    if most < _EXACT_FLOATS:
        return np.bincount(places, weights=numbers, minlength=size).astype(np.int64)
    found = wide(np.zeros(size, dtype=np.int64), most)
    np.add.at(found, places, wide(numbers, most))
    return found


def added(numbers: Ints, add: Callable[[Ints], Ints], most: int) -> Ints:
    """Return add(numbers), exact.

    Args:
        numbers: of any shape.
        add: makes sums of them, of which it may lose what is above 64 bits.
        most: how many numbers there are in one sum at most.
    """
    if numbers.dtype == object or _largest(numbers) * most < _LIMIT:
        return add(numbers)
    if most >= 2 ** (_HALF - 1):
        return add(numbers.astype(object))
    high, low = add(numbers >> _HALF), add(numbers & _LOW)
    high = high + (low >> _HALF)
    most = _largest(high) + 1 << _HALF
    found: Ints = (wide(high, most) << _HALF) + (low & _LOW)
    return found


def _largest(numbers: Ints) -> int:
    return int(numbers.max(initial=0))
