"""`LongestFirst`: what strategies share that sort a window longest first."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.planning.plan import BatchPlan, Window, Windows
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.cutting import longest_first, one_sample_a_row


@dataclass(frozen=True, kw_only=True)
class LongestFirst(Strategy):
    """A strategy that sorts each window longest first, cuts it into batches and shuffles these.

    Small windows are planned together, by the same steps for all of them at once.
    """

    @abstractmethod
    def cut(self, falling: Ints, window: int, *, keep_short: bool) -> Ints:
        """Return offsets of batches.

        Args:
            falling: (n,) lengths; every `window` of them descend, and no batch spans two windows.
            window: samples per window; the last may be short.
            keep_short: whether the last batch of all is kept if it could hold more.
        """

    def plan(self, window: Window) -> BatchPlan:
        """Sort longest first, cut, shuffle."""
        size = max(len(window.lengths), 1)
        return self.plan_together(Windows(window.lengths, size, iter([window.rng]), window.last))

    def plan_together(self, windows: Windows) -> BatchPlan:
        """Do the same for several windows."""
        order = longest_first(windows.lengths, windows.size)
        falling = windows.lengths[order]
        offsets = self.cut(falling, windows.size, keep_short=self.keeps_short(windows))
        widths = round_up(falling[offsets[:-1]], self.pad_to_multiple_of)
        sequence = _shuffled(offsets, windows) if self._parameter("shuffle_batches") else None
        return one_sample_a_row(order, falling, offsets, widths, sequence)


def _shuffled(offsets: Ints, windows: Windows) -> Ints:
    """Return (n_batches,) batches in random order within each window."""
    firsts = np.arange(0, max(len(windows.lengths), 1), windows.size)
    edges = [*np.searchsorted(offsets[:-1], firsts).tolist(), len(offsets) - 1]
    sequence = np.empty(edges[-1], dtype=np.int64)
    for first, end, rng in zip(edges, edges[1:], windows.rngs, strict=False):
        sequence[first:end] = first + rng.permutation(end - first)
    return sequence
