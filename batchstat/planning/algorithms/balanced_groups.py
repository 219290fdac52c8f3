"""Numbers divided into groups of similar sums."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

_Group = tuple[int, int, list[int]]
"""(−sum, −number of members, negated positions in the sequence in which they joined): negated, so
that an ascending sort puts the largest group first."""


def balanced_groups(numbers: Sequence[int], n_groups: int, *, equal_size: bool) -> list[list[int]]:
    """Divide `numbers` (n,) into groups of similar sums. Returns the positions of each group,
    ascending; the group of the largest sum is the first. The numbers 4, 5, 6, 7 and 2 groups give
    the positions [0, 3] and [1, 2].

    This is Karmarkar and Karp's largest differencing method. It begins with a partial division for
    each number (or for each `n_groups` numbers, if all groups get equally many), and joins the two
    divisions that differ most, largest group to smallest, until one division is left. Ties are
    decided as in verl's karmarkar_karp: the greater sum first, then the more positions, then the
    later ones in sequence.

    Args:
        numbers: not negative, at least `n_groups`, so that no group is empty.
        n_groups: number of groups.
        equal_size: whether all groups get equally many; `n_groups` must then divide n.
    """
    rising = sorted(range(len(numbers)), key=lambda i: (numbers[i], i))
    # A partial division at the beginning has one number in each of so many groups; its other groups
    # are empty.
    n_filled = n_groups if equal_size else 1
    heap = []
    for first in range(0, len(rising), n_filled):
        # A group is (sum, size, positions), all negated: an ascending sort puts the largest first.
        groups = sorted((-numbers[i], -1, [-i]) for i in rising[first : first + n_filled])
        heap.append(_heap_item(groups + [(0, 0, [])] * (n_groups - n_filled)))
    heapify(heap)
    while len(heap) > 1:
        # The two partial divisions whose groups differ most.
        (_, division), (_, other) = heappop(heap), heappop(heap)
        # The largest group of one joins the smallest of the other: this evens out the sums.
        pairs = zip(division, reversed(other), strict=True)
        joined = (
            (sum_a + sum_b, size_a + size_b, positions_a + positions_b)
            for (sum_a, size_a, positions_a), (sum_b, size_b, positions_b) in pairs
        )
        heappush(heap, _heap_item(sorted(joined)))
    return [sorted(-i for i in positions) for _, _, positions in heap[0][1]]


def _heap_item(groups: list[_Group]) -> tuple[int, list[_Group]]:
    """Return (key, groups) of a partial division, largest group first. The key is the smallest −
    the largest sum, so that a heap yields the division first whose groups differ most.
    """
    return groups[0][0] - groups[-1][0], groups
