"""Array types, and helpers for flat arrays and offsets that the whole package needs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.floating]

_Numbers = TypeVar("_Numbers", int, Ints)
_Part = TypeVar("_Part")

IN_CACHE = 1 << 17  # numbers whose arrays stay in the processor's cache


def round_up(numbers: _Numbers, multiple: int) -> _Numbers:
    """Round a whole number, or each number of an array, up to a multiple of `multiple`."""
    # -(-a // b) is a / b rounded up.
    return numbers if multiple == 1 else -(-numbers // multiple) * multiple


def offsets_from_sizes(sizes: Ints) -> Ints:
    """Return the borders of groups that lie end to end: sizes [3, 0, 2] -> offsets [0, 3, 3, 5].
    Sizes that are Python integers, beyond 64 bits, stay exact.
    """
    offsets = np.zeros(len(sizes) + 1, dtype=object if sizes.dtype == object else np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def expand_ranges(first: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the borders (n + 1,) of n ranges of consecutive numbers, and all their numbers, end to
    end: first [10, 50] and sizes [3, 2] -> [0, 3, 5] and [10, 11, 12, 50, 51].
    """
    offsets = offsets_from_sizes(sizes)
    # The number at position p of the result is first + p - (offset of its range): here without p.
    numbers = np.repeat(first - offsets[:-1], sizes)
    # Add p in place, a block at a time, so that no second array of this size is needed.
    for block_start in range(0, len(numbers), IN_CACHE):
        block = numbers[block_start : block_start + IN_CACHE]
        block += np.arange(block_start, block_start + len(block))
    return offsets, numbers


def sum_groups(numbers: Ints, offsets: Ints) -> Ints:
    """Return (n_groups,) the sum of each group, which may be empty, unlike in `exact.sums`."""
    # The running sum, from 0, at each offset; a group is the difference of two.
    return np.diff(offsets_from_sizes(numbers)[offsets])


def first_of_groups(offsets: Ints) -> Ints:
    """Return the position of the first item of each group that has one."""
    return offsets[:-1][np.diff(offsets) > 0]


def gather_groups(offsets: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return the borders of groups copied in `order`, and where each of their items is in the
    original: offsets [0, 3, 5] and order [1, 0] -> [0, 2, 5] and [3, 4, 0, 1, 2].
    """
    first = offsets[order]
    return expand_ranges(first, offsets[order + 1] - first)


def in_pieces(
    parts: Iterable[_Part],
    size: int,
    count: Callable[[_Part], int],
    concatenate: Callable[[Sequence[_Part]], _Part],
    take: Callable[[_Part, Ints], _Part],
) -> Iterator[_Part]:
    """Cut a stream of parts into pieces of `size` items: 3, 4 and 2 with size 4 -> 4, 4 and 1."""
    pending: list[_Part] = []
    n_pending = 0
    for part in parts:
        pending.append(part)
        n_pending += count(part)
        if n_pending < size:
            continue
        joined = concatenate(pending)
        n_full = n_pending - n_pending % size  # items of whole pieces
        for first in range(0, n_full, size):
            yield take(joined, np.arange(first, first + size))
        # What is left, fewer than `size` items, begins the next piece.
        pending, n_pending = [take(joined, np.arange(n_full, n_pending))], n_pending - n_full
    if n_pending:
        yield concatenate(pending)
