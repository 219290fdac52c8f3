"""Batches of an epoch from the histogram of lengths alone, without expanding equal rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.lengths.exact import add_exactly
from batchstat.lengths.stats import LengthStats
from batchstat.planning.algorithms.cutting import one_left_out
from batchstat.planning.algorithms.packing import best_fit_of_counts
from batchstat.planning.batch_table import BatchTable


@dataclass(frozen=True, eq=False)
class RowRuns:
    """Rows of an epoch in runs, widest first: run i is `counts[i]` equal rows."""

    counts: Ints  # (n_runs,) rows of each run
    held: Ints  # (n_runs,) tokens in each of its rows, descending
    entries: Ints  # (n_runs,) entries in each of its rows
    squares: Ints  # (n_runs,) sum of the squared lengths of a row's entries

    @classmethod
    def of_samples(cls, stats: LengthStats) -> "RowRuns":
        """Return one row per sample: each distinct length is a run."""
        values, counts = stats.values[::-1].astype(np.int64), stats.counts[::-1]
        return cls(counts, values, np.ones_like(values), values**2)

    @classmethod
    def of_packed_samples(cls, stats: LengthStats, capacity: int, max_per_row: int) -> "RowRuns":
        """Return rows of best fit decreasing: at most `capacity` tokens and `max_per_row` samples.
        Each placement of the packing puts the same number of equally long samples into every row of
        a range of rows. Rows between two places where any range begins or ends are equal: a run.
        """
        values, counts = stats.values[::-1].astype(np.int64), stats.counts[::-1]
        placements, value_indices = best_fit_of_counts(values, counts, capacity, max_per_row)
        first_rows, end_rows = placements.row, placements.row + placements.rows
        # The rows at which any range begins or ends: from each to the next is a run.
        run_edges = np.unique(np.concatenate([first_rows, end_rows]))
        # The runs that each placement covers: from first_runs to before end_runs.
        first_runs = np.searchsorted(run_edges, first_rows)
        end_runs = np.searchsorted(run_edges, end_rows)

        def sums_per_row(numbers: Ints) -> Ints:
            # Add each number where its placement begins, subtract it where it ends, and sum up.
            changes = np.zeros(len(run_edges), dtype=np.int64)
            np.add.at(changes, first_runs, numbers)
            np.subtract.at(changes, end_runs, numbers)
            return np.cumsum(changes)[:-1]

        held = sums_per_row(placements.tokens)
        # Samples of one length: the sum of their squares is their tokens × the length.
        squares = sums_per_row(placements.tokens * values[value_indices])
        widest_first = np.argsort(-held, kind="stable")
        return cls(
            counts=np.diff(run_edges)[widest_first],
            held=held[widest_first],
            entries=sums_per_row(placements.per_row)[widest_first],
            squares=squares[widest_first],
        )

    def cut_within(self, budget: int, multiple: int, max_samples: int | None) -> tuple[Ints, bool]:
        """Return offsets of batches within `budget`, or of one row; whether the last has room."""
        # (n_runs,) rows of a batch that begins in each run. An empty row counts as one token.
        widths = np.maximum(round_up(self.held, multiple), 1)
        sizes = np.maximum(1, budget // widths)
        # Only where rows hold one sample each is there a limit on samples: it is one on rows.
        if max_samples is not None:
            sizes = np.minimum(sizes, max_samples)
        # For each run, the rows of it with which batches begin.
        first_rows, next_row = [np.zeros(0, dtype=np.int64)], 0
        for size, run_end in zip(sizes.tolist(), self._offsets[1:].tolist(), strict=True):
            # A batch of the runs before may have taken this run whole.
            if next_row < run_end:
                first_rows.append(np.arange(next_row, run_end, size))
                # The next batch begins where the last one is full, perhaps past the end of the run.
                next_row = int(first_rows[-1][-1]) + size
        n_rows = int(self._offsets[-1])
        return np.concatenate([*first_rows, [min(next_row, n_rows)]]), next_row > n_rows

    def batches(
        self,
        offsets: Ints,
        multiple: int,
        shuffle: np.random.Generator | None,
        leave_out: np.random.Generator | None = None,
    ) -> BatchTable:
        """Return batches of consecutive rows, at offsets as `cut_within` returns them, as a table.
        `shuffle` puts them in random sequence; `leave_out` draws the batch that `drop_last` drops.
        """
        rows = np.diff(offsets)
        # The run of each offset; the end of all rows counts as in the last run.
        runs = np.searchsorted(self._offsets, offsets, side="right") - 1
        runs = np.minimum(runs, len(self.counts) - 1)

        def batch_sums(numbers: Ints) -> Ints:
            sums_before_run = offsets_from_sizes(self.counts * numbers)
            # Rows of the runs before each offset, and of its own; differences survive a wrap.
            return np.diff(sums_before_run[runs] + (offsets - self._offsets[runs]) * numbers[runs])

        table = BatchTable.of_whole_samples(
            rows=rows,
            # The first row of a batch is its widest.
            widths=round_up(self.held[runs[:-1]], multiple),
            entries=batch_sums(self.entries),
            tokens=batch_sums(self.held),
            # Squares may need more than 64 bits, which `add_exactly` takes care of.
            squares=add_exactly(self.squares, batch_sums, int(rows.max(initial=0))),
        )
        sequence: Ints = np.arange(len(rows))
        if shuffle is not None:
            sequence = shuffle.permutation(len(rows))
        if leave_out is not None:
            # After a shuffle the last batch is as random as any.
            sequence = sequence[:-1] if shuffle is not None else one_left_out(sequence, leave_out)
        return table.take(sequence)

    @cached_property
    def _offsets(self) -> Ints:
        return offsets_from_sizes(self.counts)
