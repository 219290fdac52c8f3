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
    # How many numbers each first division has, in a group each; its other groups are empty.
    size = n_groups if equal_size else 1
    divisions = []
    for first in range(0, len(rising), size):
        groups = sorted((-numbers[i], -1, [-i]) for i in rising[first : first + size])
        divisions.append(_division(groups + [(0, 0, [])] * (n_groups - size)))
    heapify(divisions)
    # Joining the largest group of one to the smallest of the other evens out their differences.
    while len(divisions) > 1:
        (_, one), (_, other) = heappop(divisions), heappop(divisions)
        # Of two groups, add the (negative) sums and sizes, and chain the positions.
        joined = (
            (a + d, b + e, c + f) for (a, b, c), (d, e, f) in zip(one, reversed(other), strict=True)
        )
        heappush(divisions, _division(sorted(joined)))
    return [sorted(-i for i in members) for _, _, members in divisions[0][1]]


def _division(groups: list[_Group]) -> tuple[int, list[_Group]]:
    """Return (key, groups) of a partial division, largest group first. The heap sorts by the key,
    the smallest − the largest sum, so that it yields the division first that differs most.
    """
    return groups[0][0] - groups[-1][0], groups
