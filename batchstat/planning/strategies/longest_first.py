"""`LongestFirst`: what strategies share that sort a window longest first."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.exact import moments
from batchstat.planning.algorithms.cutting import (
    falling_lengths,
    longest_first,
    narrowed,
    one_left_out,
    one_sample_a_row,
)
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan, Window, Windows
from batchstat.planning.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class LongestFirst(Strategy):
    """A strategy that sorts each window longest first, cuts it into batches and shuffles these.

    Small windows are planned together, by the same steps for all of them at once.
    """

    @abstractmethod
    def cut(self, falling: Ints, window: int) -> Ints:
        """Return offsets of batches.

        Args:
            falling: (n,) lengths; every `window` of them descend, and no batch spans two windows.
            window: samples per window; the last may be short.
        """

    def kept(self, windows: Windows) -> Windows:
        """Return the windows without what `drop_last` drops before they are sorted."""
        return windows

    def holds_more(self, falling: Ints, offsets: Ints) -> bool:  # noqa: ARG002
        """Return whether the last batch could hold more, so that `drop_last` drops one."""
        return False

    def plan(self, window: Window) -> BatchPlan:
        """Sort longest first, cut, shuffle."""
        size = max(len(window.lengths), 1)
        rng = window.rng
        return self.plan_together(Windows(window.lengths, size, lambda _: rng, window.last))

    def plan_together(self, windows: Windows) -> BatchPlan:
        """Do the same for several windows."""
        windows = self.kept(windows)
        lengths = narrowed(windows.lengths)
        order = longest_first(lengths, windows.size)
        return one_sample_a_row(lengths, order, *self._batches(lengths.take(order), windows))

    def summary_together(self, windows: Windows) -> BatchTable:
        """Sort, cut and shuffle lengths alone."""
        windows = self.kept(windows)
        falling = falling_lengths(windows.lengths, windows.size)
        offsets, widths, sequence = self._batches(falling, windows)
        rows = np.diff(offsets)
        table = BatchTable.of_whole_samples(rows, widths, rows, *moments(falling, offsets))
        return table if sequence is None else table.take(sequence)

    def _batches(self, falling: Ints, windows: Windows) -> tuple[Ints, Ints, Ints | None]:
        """Return offsets and widths of batches as they are cut, and their shuffled sequence."""
        offsets = self.cut(falling, windows.size)
        longest = falling[offsets[:-1]].astype(np.int64, copy=False)
        widths = round_up(longest, self.pad_to_multiple_of)
        sequence = _shuffled(offsets, windows) if self._parameter("shuffle_batches") else None
        if self.keeps_short(windows) or not self.holds_more(falling, offsets):
            return offsets, widths, sequence
        if sequence is not None:  # the last one of a random sequence is a random one
            return offsets, widths, sequence[:-1]
        last = (len(falling) - 1) // windows.size
        first = int(np.searchsorted(offsets[:-1], last * windows.size))
        return offsets, widths, one_left_out(np.arange(len(widths)), windows.rng(last), first)


def _shuffled(offsets: Ints, windows: Windows) -> Ints:
    """Return (n_batches,) batches in random order within each window."""
    firsts = np.arange(0, max(len(windows.lengths), 1), windows.size)
    edges = np.searchsorted(offsets[:-1], firsts)
    sequence = np.arange(len(offsets) - 1)
    ends = [*edges[1:].tolist(), len(sequence)]
    for window, (first, end) in enumerate(zip(edges.tolist(), ends, strict=True)):
        # A window of one batch needs no generator.
        if end - first > 1:
            windows.rng(window).shuffle(sequence[first:end])
    return sequence
