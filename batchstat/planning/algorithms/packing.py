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
    """Where (n,) lengths go: run by run, the next `rows` × `per_row` lengths go to `rows`
    consecutive rows, `per_row` lengths to each row.

    Lengths [6, 4, 4] in two rows of 8 tokens: the run (row 0, 1 row, 1 length each) and the run
    (row 1, 1 row, 2 lengths each).

    Attributes:
        row: (m,) the first row of each run.
        rows: (m,) number of its rows.
        per_row: (m,) lengths that each of these rows gets.
        before: (m,) lengths that each of them has from earlier runs.
        tokens: (m,) sum of the lengths that each of them gets.
    """

    row: Ints
    rows: Ints
    per_row: Ints
    before: Ints
    tokens: Ints

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int((self.row + self.rows).max(initial=0))

    @property
    def totals(self) -> tuple[Ints, Ints]:
        """(n_rows,) tokens and (n_rows,) number of lengths of each row."""
        ends, size = self.row + self.rows, self.n_rows + 1

        def of_rows(numbers: Ints) -> Ints:
            """Return (n_rows,) the sum of `numbers` (one for each run) over the runs that cover a
            row.
            """
            # Add each number at its first row, subtract it after its last, and sum along the rows.
            # `bincount` adds floating point, which is exact here: a bin has only what begins or
            # ends at one row.
            added = np.bincount(self.row, weights=numbers, minlength=size)
            subtracted = np.bincount(ends, weights=numbers, minlength=size)
            return np.cumsum((added - subtracted).astype(np.int64))[:-1]

        return of_rows(self.tokens), of_rows(self.per_row)

    def places(self, first: Ints) -> Iterator[tuple[slice, Ints]]:
        """Yield, a cache's size at a time, a slice of the lengths, and the place of each of these
        in an array of all rows.

        Args:
            first: (n_rows,) the place of each row's first length.
        """
        begins = offsets_from_sizes(self.rows * self.per_row)
        # The run with which each piece begins: a run is never divided.
        first_runs = np.searchsorted(begins[:-1], np.arange(0, begins[-1], IN_CACHE))
        for begin, end in pairwise(np.unique([*first_runs, len(self.row)]).tolist()):
            row, rows, per_row, before, _ = (column[begin:end] for column in self)
            # For each row of each run: the place of the first length that the run puts there, after
            # those of earlier runs. `expand_ranges(…)[1]` are the numbers of the rows.
            first_places = first.take(expand_ranges(row, rows)[1])
            first_places += np.repeat(before, rows)
            # begins[i] is the first length of run i. In a row, its lengths take consecutive places.
            yield (
                slice(int(begins[begin]), int(begins[end])),
                expand_ranges(first_places, np.repeat(per_row, rows))[1],
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


def best_fit(lengths: Ints, capacity: int, max_per_row: int) -> Packing:
    """Pack `lengths` (n,), descending, each into the fullest row that has room for it, with at most
    `max_per_row` lengths in a row. [6, 4, 3, 2] and a capacity of 8 give the rows [6, 2] and [4,
    3].

    Of equally full rows, the one that became so first is used; a new row if none has room. Best fit
    decreasing, as in TRL's packing and in any textbook; on the histogram as in Graphcore's
    longest-pack-first, but exact. The number of steps depends on the distinct lengths and the
    distinct room in rows, not on the samples.
    """
    if len(lengths) == 0:
        return Packing(*np.zeros((5, 0), dtype=np.int64))
    # Where each distinct length begins: [6, 6, 4] gives [0, 2], and the counts 2 and 1.
    first_of_length = np.append(0, np.flatnonzero(lengths[1:] != lengths[:-1]) + 1)
    counts = np.diff(first_of_length, append=len(lengths))
    values = lengths[first_of_length].astype(np.int64)
    return best_fit_of_counts(values, counts, capacity, max_per_row)[0]


def best_fit_of_counts(
    lengths: Ints, counts: Ints, capacity: int, max_per_row: int
) -> tuple[Packing, Ints]:
    """Pack samples given as distinct `lengths` (n_distinct,), descending, and their `counts`, as
    `best_fit` does. Also returns (m,) the index in `lengths` of what each run places.
    """
    # An empty sample takes a token of room, or a row could hold infinitely many.
    sizes = np.maximum(lengths, 1).tolist()
    placed = list(_best_fit(sizes, counts.tolist(), capacity, max_per_row))
    # A column for each of the five numbers of the runs, also if there are no runs.
    *runs, kinds = np.array(placed, dtype=np.int64).reshape(-1, 5).T
    row, rows, per_row, before = runs
    return Packing(row, rows, per_row, before, per_row * lengths[kinds]), kinds


def first_fit(lengths: Ints, capacity: int, max_per_row: int) -> Packing:
    """Pack `lengths` (n,) in the given order, each into the first row that has room for it, with at
    most `max_per_row` lengths in a row. A length above the capacity fills a row. Source: axolotl's
    pack_group.

    The rows are the leaves of a binary tree in an array: node i has the children 2i and 2i + 1, and
    holds the most room of any row below it. So a row is found in log2(n) steps.
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
    no room or already has `max_per_row`. [3, 4, 5] and a capacity of 8 give the rows [3, 4] and
    [5].
    """
    ends = np.cumsum(lengths).tolist()
    starts, first, tokens_before = [], 0, 0
    while first < len(ends):
        starts.append(first)
        # The lengths before `end` fit into this row. It gets at least one, and at most
        # `max_per_row`; the next row begins after these.
        end = bisect_right(ends, tokens_before + capacity, lo=first)
        first = min(max(end, first + 1), first + max_per_row)
        tokens_before = ends[first - 1]
    per_row = np.diff(np.array([*starts, len(ends)]))
    return whole_rows(lengths, per_row)


def whole_rows(lengths: Ints, per_row: Ints) -> Packing:
    """Return rows of consecutive `lengths`: row i has the next `per_row[i]` of them. Each row is a
    run.
    """
    row, ones, zeros = np.arange(len(per_row)), np.ones_like(per_row), np.zeros_like(per_row)
    tokens = sums(lengths, offsets_from_sizes(per_row))
    return Packing(row=row, rows=ones, per_row=per_row, before=zeros, tokens=tokens)


def _best_fit(
    sizes: list[int], counts: list[int], capacity: int, max_per_row: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Pack samples of `sizes`, descending, each with its count, by best fit. Yields runs: samples
    of one size in consecutive rows, the same number in each.

    Rows with the same room and number of samples are kept together and are filled together.

    Yields:
        The first row, the number of rows, the samples that each gets, the samples that each had
        before, and the index of the size.
    """
    open_runs: dict[int, deque[_Run]] = {}
    rooms: list[int] = []  # that open rows have, rising
    n_rows = 0

    def put(run: _Run, *, back: bool = True) -> None:
        """Keep rows that have room for later samples, as the last of the rows with the same room,
        or as the first.
        """
        if run.rows == 0 or run.held == max_per_row or run.room == 0:
            return
        if run.room not in open_runs:
            open_runs[run.room] = deque()
            insort(rooms, run.room)
        # Of rows with the same room, the one at the front is filled first.
        queue = open_runs[run.room]
        (queue.append if back else queue.appendleft)(run)

    for kind, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        while count:
            fitting = bisect_left(rooms, size)
            if fitting < len(rooms):
                # The smallest room that is enough: the fullest rows.
                room = rooms[fitting]
                first, rows, _, held = open_runs[room].popleft()
                if not open_runs[room]:
                    del open_runs[room], rooms[fitting]
            else:
                # None has room: as many new rows as the samples of this size need. One above the
                # capacity fills a row.
                room, held = max(capacity, size), 0
                first, rows = n_rows, -(-count // min(max(capacity // size, 1), max_per_row))
                n_rows += rows
            # `full` rows get `per_row` samples, as many as fit; one more row gets what is left.
            per_row = min(room // size, max_per_row - held)
            full = min(rows, count // per_row)
            left = count - full * per_row if full < rows else 0
            for n, taken in ((full, per_row), (1 if left else 0, left)):
                if n:
                    yield first, n, taken, held, kind
                    put(_Run(first, n, room - taken * size, held + taken))
                    first, rows, count = first + n, rows - n, count - n * taken
            # Rows that got nothing stay the first of their room.
            put(_Run(first, rows, room, held), back=False)
