"""Array types, and helpers for flat arrays and offsets that the whole package needs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.floating]

_Numbers = TypeVar("_Numbers", int, Ints)
_Part = TypeVar("_Part")

IN_CACHE = 1 << 17
"""Numbers whose arrays stay in the processor's cache."""


def round_up(numbers: _Numbers, multiple: int) -> _Numbers:
    """Round a whole number, or each number of an array, up to a multiple of `multiple`."""
    return numbers if multiple == 1 else -(-numbers // multiple) * multiple


def offsets_from_sizes(sizes: Ints) -> Ints:
    """Return (n + 1,) where each of n groups begins, and where the last one ends.

    Sizes that are Python integers, as `exact` makes them, stay exact.
    """
    offsets = np.zeros(len(sizes) + 1, dtype=object if sizes.dtype == object else np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def expand_ranges(first: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Lay n ranges of consecutive numbers end to end: their offsets (n + 1,), and the numbers."""
    offsets = offsets_from_sizes(sizes)
    numbers = np.repeat(first - offsets[:-1], sizes)
    for begin in range(0, len(numbers), IN_CACHE):
        part = numbers[begin : begin + IN_CACHE]
        part += np.arange(begin, begin + len(part))
    return offsets, numbers


def gather_groups(offsets: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return the offsets (len(order) + 1,) of the groups in `order`, and their items' positions."""
    first = offsets[order]
    return expand_ranges(first, offsets[order + 1] - first)


def in_pieces(
    parts: Iterable[_Part],
    size: int,
    count: Callable[[_Part], int],
    concatenate: Callable[[Sequence[_Part]], _Part],
    take: Callable[[_Part, Ints], _Part],
) -> Iterator[_Part]:
    """Yield the items of `parts`, `size` at a time; the last piece may have fewer."""
    held: list[_Part] = []
    waiting = 0
    for part in parts:
        held.append(part)
        waiting += count(part)
        if waiting < size:
            continue
        whole = concatenate(held)
        full = waiting - waiting % size
        for first in range(0, full, size):
            yield take(whole, np.arange(first, first + size))
        held, waiting = [take(whole, np.arange(full, waiting))], waiting - full
    if waiting:
        yield concatenate(held)
