"""Classic bin packing of samples into rows, on the histogram of lengths where possible. Best fit
takes samples longest first. Samples of equal length are interchangeable, so they are placed
together: whole runs of rows with the same room take the same number of them. Which sample goes
where is derived afterwards, for all at once, and equals the result of a loop over the samples. An
empty sample counts as one token, or a row could hold infinitely many.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from batchstat.lengths.arrays import IN_CACHE, Ints, expand_ranges, offsets_from_sizes
from batchstat.lengths.exact import sums
from batchstat.lengths.stats import distinct


class Packing(NamedTuple):
    """Where (n,) lengths go: run by run, the next ones to `rows` rows from `row` on, equally many.
    [6, 4, 4] in rows of 8: the runs (row 0, 1 row, 1 length each) and (row 1, 1 row, 2).
    """

    row: Ints  # (m,) the first row of each run
    rows: Ints  # (m,) number of its rows
    per_row: Ints  # (m,) lengths that each of these rows gets
    before: Ints  # (m,) lengths that each of them has from earlier runs
    tokens: Ints  # (m,) sum of the lengths that each of them gets

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int((self.row + self.rows).max(initial=0))

    @property
    def totals(self) -> tuple[Ints, Ints]:
        """(n_rows,) tokens and (n_rows,) number of lengths of each row."""
        ends, size = self.row + self.rows, self.n_rows + 1

        def sums_by_row(numbers: Ints) -> Ints:
            # Add each number at the first row of its run, subtract it after the last, and sum up.
            # `bincount` adds floats, exactly here: a bin has only what begins or ends at one row.
            added = np.bincount(self.row, weights=numbers, minlength=size)
            subtracted = np.bincount(ends, weights=numbers, minlength=size)
            return np.cumsum((added - subtracted).astype(np.int64))[:-1]

        return sums_by_row(self.tokens), sums_by_row(self.per_row)

    def places(self, row_begins: Ints) -> Iterator[tuple[slice, Ints]]:
        """Yield pieces of the lengths that fit into the cache, as slices, and (n_piece,) where each
        of them goes in an array of all rows, in which row i begins at `row_begins[i]`.
        """
        offsets = offsets_from_sizes(self.rows * self.per_row)
        # The run with which each piece begins: a run is never divided.
        first_runs = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], IN_CACHE))
        for first_run, end_run in pairwise(np.unique([*first_runs, len(self.row)]).tolist()):
            row, n_rows, per_row, before, _ = (column[first_run:end_run] for column in self)
            # Where the lengths of each row begin: earlier runs have put `before` lengths there.
            _, rows = expand_ranges(row, n_rows)
            begins = row_begins.take(rows)
            begins += np.repeat(before, n_rows)
            # From there on, `per_row` lengths of the run follow one another.
            _, places = expand_ranges(begins, np.repeat(per_row, n_rows))
            yield slice(int(offsets[first_run]), int(offsets[end_run])), places


class _OpenRows(NamedTuple):
    """Consecutive rows with the same room left, and with the same number of samples."""

    first: int  # the first row
    n_rows: int  # number of rows
    room: int  # tokens that still fit into each row
    samples: int  # samples in each row


def best_fit(lengths: Ints, capacity: int, max_per_row: int) -> Packing:
    """Pack `lengths` (n,), descending, each into the fullest row that has room for it, with at most
    `max_per_row` lengths in a row. [6, 4, 3, 2] and a capacity of 8 give [6, 2] and [4, 3]. Of
    equally full rows, the one that became so first is used; a new row if none has room. Best fit
    decreasing, as in TRL's packing and in any textbook; on the histogram as in Graphcore's
    longest-pack-first, but exact: in steps of distinct lengths and distinct room, not of samples.
    """
    values, counts = distinct(lengths)
    return best_fit_of_counts(values[::-1], counts[::-1], capacity, max_per_row)[0]


def best_fit_of_counts(
    lengths: Ints, counts: Ints, capacity: int, max_per_row: int
) -> tuple[Packing, Ints]:
    """Pack samples given as distinct `lengths` (n_distinct,), descending, and their `counts`, as
    `best_fit` does. Returns the packing, and (m,) the index of the length that each run places.
    """
    sizes = np.maximum(lengths, 1).tolist()
    runs = list(_best_fit(sizes, counts.tolist(), capacity, max_per_row))
    # (m, 5), also if there are no runs; each column is one of the five arrays.
    row, rows, per_row, before, index = np.array(runs, dtype=np.int64).reshape(-1, 5).T
    return Packing(row, rows, per_row, before, tokens=per_row * lengths[index]), index


def first_fit(lengths: Ints, capacity: int, max_per_row: int) -> Packing:
    """Pack `lengths` (n,) in the given order, each into the first row that has room for it, with at
    most `max_per_row` lengths in a row. A length above the capacity fills a row. Source: axolotl's
    pack_group. The rows are the leaves of a binary tree in an array: node i has the children 2i and
    2i + 1, and holds the most room of any row below it. So a row is found in log2(n) steps.
    """
    # A power of two, at least one leaf per length: each may need a row of its own.
    leaves = 1 << max(len(lengths) - 1, 1).bit_length()
    tree = [capacity] * (2 * leaves)
    n_held = [0] * len(lengths)
    rows: list[int] = []
    before: list[int] = []
    # An empty length takes a token of room, and one above the capacity a whole row.
    for length in np.clip(lengths, 1, capacity).tolist():
        node = 1
        # Down from the root: left if a row below there has room, else right.
        while node < leaves:
            node *= 2
            if tree[node] < length:
                node += 1
        row = node - leaves
        rows.append(row)
        before.append(n_held[row])
        n_held[row] += 1
        # A row with `max_per_row` lengths has no room for any.
        tree[node] = tree[node] - length if n_held[row] < max_per_row else 0
        # Up again: correct the nodes above, until one has as much room as before.
        while node > 1:
            node //= 2
            room = max(tree[2 * node], tree[2 * node + 1])
            if tree[node] == room:
                break
            tree[node] = room
    one = np.ones(len(rows), dtype=np.int64)
    row, held_before = np.array([rows, before], dtype=np.int64)
    return Packing(row=row, rows=one, per_row=one, before=held_before, tokens=lengths)


def next_fit(lengths: Ints, capacity: int, max_per_row: int) -> Packing:
    """Pack `lengths` (n,) in the given order, each into the last row, or into a new one if that has
    no room or already has `max_per_row`. [3, 4, 5] and a capacity of 8 give [3, 4] and [5].
    """
    ends = np.cumsum(lengths).tolist()
    starts, first, tokens_before = [], 0, 0
    while first < len(ends):
        starts.append(first)
        # The lengths before `end` fit; a row gets at least one, and at most `max_per_row`.
        end = bisect_right(ends, tokens_before + capacity, lo=first)
        first = min(max(end, first + 1), first + max_per_row)
        tokens_before = ends[first - 1]
    per_row = np.diff(np.array([*starts, len(ends)]))
    return whole_rows(lengths, per_row)


def whole_rows(lengths: Ints, per_row: Ints) -> Packing:
    """Return rows of consecutive lengths, `per_row[i]` in row i. Each row is a run."""
    row, ones, zeros = np.arange(len(per_row)), np.ones_like(per_row), np.zeros_like(per_row)
    tokens = sums(lengths, offsets_from_sizes(per_row))
    return Packing(row=row, rows=ones, per_row=per_row, before=zeros, tokens=tokens)


def _best_fit(
    sizes: list[int], counts: list[int], capacity: int, max_per_row: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Pack falling `sizes` with their counts by best fit. Yields runs, as `Packing` has them."""
    # Open rows by their room; of those with the same room, the ones at the front are filled first.
    queues: dict[int, deque[_OpenRows]] = {}
    rooms: list[int] = []  # the keys of `queues`, rising
    n_rows = 0

    def keep_open(group: _OpenRows, *, at_front: bool) -> None:
        """Queue rows for later samples among those with the same room, unless they are full."""
        if group.n_rows == 0 or group.samples == max_per_row or group.room == 0:
            return
        if group.room not in queues:
            queues[group.room] = deque()
            insort(rooms, group.room)
        queue = queues[group.room]
        (queue.appendleft if at_front else queue.append)(group)

    for index, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        # Each pass places some of the `count` samples, in `rows` equal rows from `first` on.
        while count:
            smallest = bisect_left(rooms, size)
            if smallest < len(rooms):
                # The smallest room that is enough: the fullest rows.
                room = rooms[smallest]
                first, rows, _, before = queues[room].popleft()
                if not queues[room]:
                    del queues[room], rooms[smallest]
            else:
                # None has room: as many new rows as needed; a sample above the capacity fills one.
                room, before = max(capacity, size), 0
                first, rows = n_rows, -(-count // min(max(capacity // size, 1), max_per_row))
                n_rows += rows
            # The first rows get as many samples as fit, `most`; one more row gets what is left.
            most = min(room // size, max_per_row - before)
            full_rows = min(rows, count // most)
            left = count - full_rows * most if full_rows < rows else 0
            for n, per_row in ((full_rows, most), (1 if left else 0, left)):
                if n:
                    yield first, n, per_row, before, index
                    filled = _OpenRows(first, n, room - per_row * size, before + per_row)
                    keep_open(filled, at_front=False)
                    first, rows, count = first + n, rows - n, count - n * per_row
            # Rows that got nothing are still the next of their room.
            keep_open(_OpenRows(first, rows, room, before), at_front=True)
