"""Samples into rows of a capacity: the classic ways, by the histogram of lengths where that does.

Best fit sees samples longest first. Those of one length are alike, so that they are dealt with
together: whole runs of rows with the same room take the same number of them. Which sample goes
where is worked out afterwards, for all at once, and is what a loop over the samples would find. An
empty sample takes the place of one token, or rows of them would have no end.

Each method returns a `Packing`, from which the rows are laid out at once.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from batchstat.lengths.arrays import Ints, expand_ranges


class Packing(NamedTuple):
    """The rows of (n,) lengths, in runs of consecutive ones that share a row.

    Attributes:
        row: (m,) the row of each run.
        each: (m,) how many lengths it has; they add up to n.
        before: (m,) how many the row held already.
    """

    row: Ints
    each: Ints
    before: Ints


class Placement(NamedTuple):
    """Consecutive samples in consecutive rows, the same number in each.

    Attributes:
        row: the first.
        rows: how many.
        each: samples in each of them.
        before: samples that each of them held already.
        kind: which of the lengths.
    """

    row: int
    rows: int
    each: int
    before: int
    kind: int


class PlacedRuns(NamedTuple):
    """(n_placements,) the same for all placements, in their sequence."""

    row: Ints
    rows: Ints
    each: Ints
    before: Ints
    kind: Ints


class _Run(NamedTuple):
    """Consecutive rows with the same room left.

    Attributes:
        row: the first.
        rows: how many.
        room: tokens that each of them can still take.
        held: samples that each of them holds.
    """

    row: int
    rows: int
    room: int
    held: int


def best_fit(lengths: Ints, capacity: int, most: int) -> Packing:
    """Each of `lengths` (n,), which fall, in the fullest row that has room for it.

    Of rows that are equally full, the one that became so first; a new row where none has room. Best
    fit decreasing, as in TRL's packing and in any textbook; on the histogram as in Graphcore's
    longest-pack-first, but exact. Its steps are in the number of distinct lengths and of distinct
    room, not in the samples.
    """
    if len(lengths) == 0:
        return Packing(*np.zeros((3, 0), dtype=np.int64))
    begins = np.append(0, np.flatnonzero(lengths[1:] != lengths[:-1]) + 1)
    counts = np.diff(begins, append=len(lengths))
    found = placed_runs(lengths[begins], counts, capacity, most)
    return Packing(
        expand_ranges(found.row, found.rows)[1],
        np.repeat(found.each, found.rows),
        np.repeat(found.before, found.rows),
    )


def placed_runs(lengths: Ints, counts: Ints, capacity: int, most: int) -> "PlacedRuns":
    """The same for different `lengths` (n_distinct,), which fall, and how often each occurs."""
    sizes = np.maximum(lengths, 1).tolist()
    found = list(_best_fit(sizes, counts.tolist(), capacity, most))
    return PlacedRuns(*np.array(found, dtype=np.int64).reshape(-1, 5).T)


def first_fit(lengths: Ints, capacity: int, most: int) -> Packing:
    """Each of `lengths` (n,), as they come, in the first row that has room for it.

    A tree over the rows holds the most room that any row below has. A length above the capacity
    fills a row. Source: axolotl's pack_group.
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
    return Packing(np.array(rows), np.ones(len(rows), dtype=np.int64), np.array(before))


def next_fit(lengths: Ints, capacity: int, most: int) -> Packing:
    """Each of `lengths` (n,) in the last row, or in a new one where that has no room."""
    ends = np.cumsum(lengths).tolist()
    starts, first, before = [], 0, 0
    while first < len(ends):
        starts.append(first)
        stop = bisect_right(ends, before + capacity, lo=first)
        first = min(max(stop, first + 1), first + most)
        before = ends[first - 1]
    each = np.diff(np.array([*starts, len(ends)]))
    return Packing(np.arange(len(starts)), each, np.zeros(len(starts), dtype=np.int64))


def _best_fit(sizes: list[int], counts: list[int], capacity: int, most: int) -> Iterator[Placement]:
    open_runs: dict[int, deque[_Run]] = {}
    rooms: list[int] = []  # that open rows have, rising
    rows = 0

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
                run = open_runs[room].popleft()
                if not open_runs[room]:
                    del open_runs[room], rooms[fitting]
            else:
                each = min(max(capacity // size, 1), most)
                run = _Run(rows, -(-count // each), max(capacity, size), 0)
                rows += run.rows
            placements, rest, kept = _fill(run, size, count, most, kind)
            for placement, after in placements:
                yield placement
                put(after)
            put(rest, back=False)
            count = kept


def _fill(
    run: _Run, size: int, count: int, most: int, kind: int
) -> tuple[list[tuple[Placement, _Run]], _Run, int]:
    """`count` samples of one size into the rows of a run in turn, as many into each as fit.

    Returns what was placed with the runs that these rows are then, the rows that got none, and how
    many samples are left over.
    """
    each = min(run.room // size, most - run.held)
    whole = min(run.rows, count // each)
    some = count - whole * each if whole < run.rows else 0
    found = []
    for first, rows, taken in ((0, whole, each), (whole, 1 if some else 0, some)):
        if rows:
            placed = Placement(run.row + first, rows, taken, run.held, kind)
            left = _Run(placed.row, rows, run.room - taken * size, run.held + taken)
            found.append((placed, left))
    used = whole + (1 if some else 0)
    rest = _Run(run.row + used, run.rows - used, run.room, run.held)
    return found, rest, count - whole * each - some
