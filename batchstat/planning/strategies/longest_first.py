"""`LongestFirst`: what strategies share that sort a window longest first."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.exact import moments
from batchstat.planning.algorithms.cutting import (
    falling_lengths,
    longest_first,
    narrow,
    one_left_out,
    plan_single_samples,
)
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan, Window, Windows
from batchstat.planning.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class LongestFirst(Strategy):
    """Sorts each window longest first, cuts it, shuffles batches; small windows together."""

    @abstractmethod
    def batch_offsets(self, falling: Ints, window: int) -> Ints:
        """Return offsets of batches of (n,) lengths, within every `window`, where they descend."""

    def without_dropped(self, windows: Windows) -> Windows:
        """Return the windows without what `drop_last` drops before sorting; all by default."""
        return windows

    def holds_more(self, falling: Ints, offsets: Ints) -> bool:  # noqa: ARG002
        """Return whether the last batch could hold more, so that `drop_last` drops one."""
        return False

    def plan(self, window: Window) -> BatchPlan:
        """Sort longest first, cut, shuffle: a window is planned as the only one of several."""
        size = max(len(window.lengths), 1)
        return self.plan_together(Windows(window.lengths, size, lambda _: window.rng, window.last))

    def plan_together(self, windows: Windows) -> BatchPlan:
        """Sort each window longest first, cut it into batches, and shuffle these."""
        windows = self.without_dropped(windows)
        lengths = narrow(windows.lengths)
        order = longest_first(lengths, windows.size)
        offsets, widths, sequence = self._batches(lengths.take(order), windows)
        return plan_single_samples(lengths, order, offsets, widths, sequence)

    def summary_together(self, windows: Windows) -> BatchTable:
        """Sort, cut and shuffle lengths alone: `plan_together` without its samples."""
        windows = self.without_dropped(windows)
        falling = falling_lengths(windows.lengths, windows.size)
        offsets, widths, sequence = self._batches(falling, windows)
        rows = np.diff(offsets)
        tokens, squares = moments(falling, offsets)
        # A row is one sample, so that rows are also entries.
        table = BatchTable.of_whole_samples(rows, widths, rows, tokens, squares)
        return table if sequence is None else table.take(sequence)

    def _batches(self, falling: Ints, windows: Windows) -> tuple[Ints, Ints, Ints | None]:
        """Cut sorted lengths into batches. Returns their offsets (n_batches + 1,), widths
        (n_batches,), and sequence, without one that is dropped; None for all as they were cut.
        """
        offsets = self.batch_offsets(falling, windows.size)
        longest = falling[offsets[:-1]].astype(np.int64, copy=False)
        widths = round_up(longest, self.pad_to_multiple_of)
        sequence = _shuffle(offsets, windows) if self._parameter("shuffle_batches") else None
        if self.keeps_short(windows) or not self.holds_more(falling, offsets):
            return offsets, widths, sequence
        # `drop_last` drops a batch of the last window: unshuffled, one is drawn, from `first` on.
        if sequence is not None:
            return offsets, widths, sequence[:-1]
        window = (len(falling) - 1) // windows.size
        first = int(np.searchsorted(offsets[:-1], window * windows.size))
        return offsets, widths, one_left_out(np.arange(len(widths)), windows.rng(window), first)


def _shuffle(offsets: Ints, windows: Windows) -> Ints:
    """Return (n_batches,) the numbers of batches, shuffled within each window."""
    # Without samples, there is one empty window.
    first_samples = np.arange(0, max(len(windows.lengths), 1), windows.size)
    # The first batch of each window: none spans two windows, so it begins with the window.
    first_batches = np.searchsorted(offsets[:-1], first_samples)
    sequence = np.arange(len(offsets) - 1)
    ends = [*first_batches[1:].tolist(), len(sequence)]
    for window, (first, end) in enumerate(zip(first_batches.tolist(), ends, strict=True)):
        # A window of one batch needs no generator.
        if end - first > 1:
            windows.rng(window).shuffle(sequence[first:end])
    return sequence
