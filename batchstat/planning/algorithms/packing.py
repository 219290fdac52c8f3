"""Classic bin packing of samples into rows, on the histogram of lengths where possible.

Best fit takes samples longest first. Samples of equal length are interchangeable, so they are
placed together: whole runs of rows with the same room take the same number of them. Which sample
goes where is derived afterwards, for all at once, and equals the result of a loop over the samples.
An empty sample counts as one token, or a row could hold infinitely many.

Each method returns a `Packing`, from which the rows are laid out at once.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from batchstat.lengths.arrays import IN_CACHE, Ints, expand_ranges, offsets_from_sizes
from batchstat.lengths.exact import sums


class Packing(NamedTuple):
    """The rows of (n,) lengths: runs of consecutive lengths in consecutive rows, the same number in
    each.

    Attributes:
        row: (m,) the first row of each run.
        rows: (m,) number of its rows.
        each: (m,) lengths that each of these rows gets.
        before: (m,) lengths that each of them has from earlier runs.
        tokens: (m,) sum of the lengths that each of them gets.
    """

    row: Ints
    rows: Ints
    each: Ints
    before: Ints
    tokens: Ints

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int((self.row + self.rows).max(initial=0))

    @property
    def totals(self) -> tuple[Ints, Ints]:
        """(n_rows,) tokens and lengths of each row."""
        ends, size = self.row + self.rows, self.n_rows + 1

        def of_rows(numbers: Ints) -> Ints:
            # A bin has only what rows begin or end with: floating point is exact.
            begun = np.bincount(self.row, weights=numbers, minlength=size)
            ended = np.bincount(ends, weights=numbers, minlength=size)
            return np.cumsum((begun - ended).astype(np.int64))[:-1]

        return of_rows(self.tokens), of_rows(self.each)

    def places(self, first: Ints) -> Iterator[tuple[slice, Ints]]:
        """Yield lengths, a cache's size at a time, with the place of each of them.

        Args:
            first: (n_rows,) the place of each row's first length.
        """
        begins = offsets_from_sizes(self.rows * self.each)
        steps = np.searchsorted(begins[:-1], np.arange(0, begins[-1], IN_CACHE))
        for begin, end in pairwise(np.unique([*steps, len(self.row)]).tolist()):
            row, rows, each, before, _ = (column[begin:end] for column in self)
            places = first.take(expand_ranges(row, rows)[1])
            places += np.repeat(before, rows)
            yield (
                slice(int(begins[begin]), int(begins[end])),
                expand_ranges(places, np.repeat(each, rows))[1],
            )


class _Run(NamedTuple):
    """Consecutive rows with the same room left.

    Attributes:
        row: the first row.
        rows: number of rows.
        room: tokens that fit into each row.
        held: samples in each row.
    """

    row: int
    rows: int
    room: int
    held: int


def best_fit(lengths: Ints, capacity: int, most: int) -> Packing:
    """Pack `lengths` (n,), descending, each into the fullest row that has room for it.

    Of equally full rows, the one that became so first is used; a new row if none has room. Best fit
    decreasing, as in TRL's packing and in any textbook; on the histogram as in Graphcore's
    longest-pack-first, but exact. The number of steps depends on the distinct lengths and the
    distinct room in rows, not on the samples.
    """
    if len(lengths) == 0:
        return Packing(*np.zeros((5, 0), dtype=np.int64))
    begins = np.append(0, np.flatnonzero(lengths[1:] != lengths[:-1]) + 1)
    counts = np.diff(begins, append=len(lengths))
    values = lengths[begins].astype(np.int64)
    return best_fit_of_counts(values, counts, capacity, most)[0]


def best_fit_of_counts(
    lengths: Ints, counts: Ints, capacity: int, most: int
) -> tuple[Packing, Ints]:
    """Do the same for distinct `lengths` (n_distinct,), descending, and their counts; also return
    (m,) which of them each run of the packing is of.
    """
    sizes = np.maximum(lengths, 1).tolist()
    placed = list(_best_fit(sizes, counts.tolist(), capacity, most))
    *runs, kinds = np.array(placed, dtype=np.int64).reshape(-1, 5).T
    row, rows, each, before = runs
    return Packing(row, rows, each, before, each * lengths[kinds]), kinds


def first_fit(lengths: Ints, capacity: int, most: int) -> Packing:
    """Pack `lengths` (n,) in the given order, each into the first row that has room for it.

    Each node of a tree over the rows holds the most room of any row below it. A length above the
    capacity fills a row. Source: axolotl's pack_group.
    """
    leaves = 1 << max(len(lengths) - 1, 1).bit_length()
    tree = [capacity] * (2 * leaves)
    held = [0] * len(lengths)
    rows: list[int] = []
    before: list[int] = []
    for length in np.clip(lengths, 1, capacity).tolist():
        at = 1
        while at < leaves:
            at *= 2
            if tree[at] < length:
                at += 1
        row = at - leaves
        rows.append(row)
        before.append(held[row])
        held[row] += 1
        tree[at] = tree[at] - length if held[row] < most else 0
        while at > 1:
            at //= 2
            room = max(tree[2 * at], tree[2 * at + 1])
            if tree[at] == room:
                break
            tree[at] = room
    one = np.ones(len(rows), dtype=np.int64)
    row, held_before = np.array([rows, before], dtype=np.int64)
    return Packing(row, one, one, held_before, lengths)


def next_fit(lengths: Ints, capacity: int, most: int) -> Packing:
    """Pack `lengths` (n,) in the given order, each into the last row, or a new one if it has no
    room.
    """
    ends = np.cumsum(lengths).tolist()
    starts, first, before = [], 0, 0
    while first < len(ends):
        starts.append(first)
        stop = bisect_right(ends, before + capacity, lo=first)
        first = min(max(stop, first + 1), first + most)
        before = ends[first - 1]
    each = np.diff(np.array([*starts, len(ends)]))
    return whole_rows(lengths, each)


def whole_rows(lengths: Ints, each: Ints) -> Packing:
    """Return rows of consecutive lengths, so many in each."""
    row, one, none = np.arange(len(each)), np.ones_like(each), np.zeros_like(each)
    return Packing(row, one, each, none, sums(lengths, offsets_from_sizes(each)))


def _best_fit(
    sizes: list[int], counts: list[int], capacity: int, most: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield samples of one size in consecutive rows, the same number in each: the first row, the
    number of rows, what each gets and what it had before, and the index of the size.
    """
    open_runs: dict[int, deque[_Run]] = {}
    rooms: list[int] = []  # that open rows have, rising
    n_rows = 0

    def put(run: _Run, *, back: bool = True) -> None:
        if run.rows == 0 or run.held == most or run.room == 0:
            return
        if run.room not in open_runs:
            open_runs[run.room] = deque()
            insort(rooms, run.room)
        queue = open_runs[run.room]
        (queue.append if back else queue.appendleft)(run)

    for kind, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        while count:
            fitting = bisect_left(rooms, size)
            if fitting < len(rooms):
                room = rooms[fitting]
                first, rows, _, held = open_runs[room].popleft()
                if not open_runs[room]:
                    del open_runs[room], rooms[fitting]
            else:
                room, held = max(capacity, size), 0
                first, rows = n_rows, -(-count // min(max(capacity // size, 1), most))
                n_rows += rows
            # As many into each row as fit, and what is left of them into one more row.
            each = min(room // size, most - held)
            full = min(rows, count // each)
            left = count - full * each if full < rows else 0
            for n, taken in ((full, each), (1 if left else 0, left)):
                if n:
                    yield first, n, taken, held, kind
                    put(_Run(first, n, room - taken * size, held + taken))
                    first, rows, count = first + n, rows - n, count - n * taken
            put(_Run(first, rows, room, held), back=False)
