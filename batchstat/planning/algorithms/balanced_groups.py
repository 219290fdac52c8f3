"""Numbers divided into groups of similar sums."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

_Group = tuple[int, int, list[int]]
"""−sum, −size and the negated positions in the sequence in which they joined: largest first."""


def balanced_groups(numbers: Sequence[int], n_groups: int, *, equal_size: bool) -> list[list[int]]:
    """Return positions of `numbers` (n,) in groups of similar sums, ascending within each group;
    the group of the largest sum is the first.

    The two partial divisions that differ most are joined, largest group to smallest, until one is
    left. Source: Karmarkar and Karp's largest differencing method, with ties as in verl's
    karmarkar_karp: the greater sum, then the more positions, then the later ones in sequence.

    Args:
        numbers: not negative, at least `n_groups`, so that no group is empty.
        n_groups: number of groups.
        equal_size: whether all groups get equally many; `n_groups` must then divide n.
    """
    order = sorted(range(len(numbers)), key=lambda i: (numbers[i], i))
    size = n_groups if equal_size else 1
    heap = []
    for first in range(0, len(order), size):
        groups = sorted((-numbers[i], -1, [-i]) for i in order[first : first + size])
        heap.append(_division(groups + [(0, 0, [])] * (n_groups - size)))
    heapify(heap)
    while len(heap) > 1:
        (_, one), (_, other) = heappop(heap), heappop(heap)
        joined = (
            (a + d, b + e, c + f) for (a, b, c), (d, e, f) in zip(one, reversed(other), strict=True)
        )
        heappush(heap, _division(sorted(joined)))
    return [sorted(-i for i in members) for _, _, members in heap[0][1]]


def _division(groups: list[_Group]) -> tuple[int, list[_Group]]:
    """Return groups, largest first, after smallest − largest sum: what a heap sorts them by."""
    return groups[0][0] - groups[-1][0], groups
