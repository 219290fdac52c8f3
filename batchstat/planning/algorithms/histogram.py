"""Batches of an epoch from the histogram of lengths alone, without expanding equal rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.lengths.exact import added
from batchstat.lengths.stats import LengthStats
from batchstat.planning.algorithms.cutting import one_left_out
from batchstat.planning.algorithms.packing import best_fit_of_counts
from batchstat.planning.batch_table import BatchTable


@dataclass(frozen=True, eq=False)
class RowRuns:
    """Run-length encoded rows, widest first.

    Attributes:
        counts: (n_runs,) rows of each run.
        held: (n_runs,) tokens in each of its rows, descending.
        entries: (n_runs,) entries in each of its rows.
        squares: (n_runs,) sum of the squared lengths of a row's entries.
    """

    counts: Ints
    held: Ints
    entries: Ints
    squares: Ints

    @classmethod
    def of_samples(cls, stats: LengthStats) -> "RowRuns":
        """Return one row per sample."""
        values, counts = stats.values[::-1].astype(np.int64), stats.counts[::-1]
        return cls(counts, values, np.ones_like(values), values**2)

    @classmethod
    def packed(cls, stats: LengthStats, capacity: int, most: int) -> "RowRuns":
        """Return rows of at most `capacity` tokens and `most` samples, packed by best fit
        decreasing.

        Each run of the packing puts as many samples of one length into every row of a range. Where
        no range begins or ends, rows are equal: those are the runs.
        """
        values, counts = stats.values[::-1].astype(np.int64), stats.counts[::-1]
        packing, kinds = best_fit_of_counts(values, counts, capacity, most)
        first_rows, end_rows = packing.row, packing.row + packing.rows
        run_edges = np.unique(np.concatenate([first_rows, end_rows]))
        first_runs = np.searchsorted(run_edges, first_rows)
        end_runs = np.searchsorted(run_edges, end_rows)

        def sums_per_row(numbers: Ints) -> Ints:
            """Return (n_runs,) the sum over the placements that cover a row, of each run."""
            change = np.zeros(len(run_edges), dtype=np.int64)
            np.add.at(change, first_runs, numbers)
            np.subtract.at(change, end_runs, numbers)
            return np.cumsum(change)[:-1]

        held = sums_per_row(packing.tokens)
        widest_first = np.argsort(-held, kind="stable")
        return cls(
            np.diff(run_edges)[widest_first],
            held[widest_first],
            sums_per_row(packing.each)[widest_first],
            sums_per_row(packing.tokens * values[kinds])[widest_first],
        )

    def within(self, budget: int, multiple: int, max_samples: int | None) -> tuple[Ints, bool]:
        """Return offsets of batches with rows × width within `budget`, or of one row; and whether
        the last one could hold more.
        """
        padded = np.maximum(round_up(self.held, multiple), 1)
        sizes = np.maximum(1, budget // padded)
        if max_samples is not None:
            sizes = np.minimum(sizes, max_samples)
        parts, at = [], 0
        for size, end in zip(sizes.tolist(), self._offsets[1:].tolist(), strict=True):
            if at < end:
                starts = np.arange(at, end, size)
                parts.append(starts)
                at = int(starts[-1]) + size
        n = int(self._offsets[-1])
        offsets = np.concatenate([*parts, [min(at, n)]]) if parts else np.zeros(1, dtype=np.int64)
        return offsets, at > n

    def cut(
        self,
        offsets: Ints,
        multiple: int,
        shuffle: np.random.Generator | None,
        leave_out: np.random.Generator | None = None,
    ) -> BatchTable:
        """Return batches of consecutive rows, shuffled if a generator is given, and without one of
        them if one to draw it with is.
        """
        firsts = np.searchsorted(self._offsets, offsets[:-1], side="right") - 1
        rows = np.diff(offsets)

        def of_batches(numbers: Ints) -> Ints:
            # Cumulative sums may wrap around; their differences are still right.
            return np.diff(self._before(numbers, offsets))

        table = BatchTable.of_whole_samples(
            rows,
            round_up(self.held[firsts], multiple),
            of_batches(self.entries),
            of_batches(self.held),
            added(self.squares, of_batches, int(rows.max(initial=0))),
        )
        sequence: Ints = np.arange(len(firsts))
        if shuffle is not None:
            sequence = shuffle.permutation(len(firsts))
        if leave_out is not None:
            sequence = sequence[:-1] if shuffle is not None else one_left_out(sequence, leave_out)
        is_as_cut = shuffle is None and leave_out is None
        return table if is_as_cut else table.take(sequence)

    @cached_property
    def _offsets(self) -> Ints:
        return offsets_from_sizes(self.counts)

    def _before(self, numbers: Ints, places: Ints) -> Ints:
        """Return the sum of a number over all rows before each position."""
        whole = offsets_from_sizes(self.counts * numbers)
        run = np.minimum(np.searchsorted(self._offsets, places, side="right") - 1, len(numbers) - 1)
        sums: Ints = whole[run] + (places - self._offsets[run]) * numbers[run]
        return sums
