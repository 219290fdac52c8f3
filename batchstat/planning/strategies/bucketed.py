"""`bucketed`: samples of similar length share a batch of a fixed size."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import described, parameter
from batchstat.planning.algorithms.cutting import cut_every
from batchstat.planning.algorithms.histogram import RowRuns
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import Windows
from batchstat.planning.strategies.longest_first import LongestFirst


@described(
    """Each window of `read_ahead` samples is sorted longest first and cut every `batch_size`.

    The window's remainder is a batch of its own; the window's batches are then shuffled. With
    `drop_last`, as many samples as the remainder of the last window has are dropped from its end,
    before it is sorted: those that a plain loop drops, of any length. Source: infinibatch's
    BucketedReadaheadBatchIterator with a constant size.
    """
)
@dataclass(frozen=True, kw_only=True)
class Bucketed(LongestFirst):
    in_short: ClassVar[str] = "equal samples"
    samples_per_second: ClassVar[int] = 10_000_000

    batch_size: int
    read_ahead: int
    shuffle_batches: bool = parameter(
        "Whether the batches of a window are shuffled, or come as they were cut.", True
    )

    def batch_offsets(self, falling: Ints, window: int) -> Ints:
        """Cut every `batch_size`."""
        return cut_every(len(falling), self.batch_size, window)

    def without_dropped(self, windows: Windows) -> Windows:
        """Return the windows without what `drop_last` drops: what fills no batch at the end."""
        if self.keeps_short(windows):
            return windows
        n = len(windows.lengths)
        last_begin = (n - 1) // windows.size * windows.size
        n_dropped = (n - last_begin) % self.batch_size
        return replace(windows, lengths=windows.lengths[: n - n_dropped])

    def summary(self, stats: LengthStats, rng: np.random.Generator) -> BatchTable | None:
        """Return the batches of an epoch that is one window, from the histogram of its lengths."""
        n_dropped = self.drop_last and stats.count % self.batch_size
        # The histogram does not say which samples a window has, nor which are dropped at its end.
        if stats.count > self.read_ahead or n_dropped:
            return None
        runs = RowRuns.of_samples(stats)
        offsets = cut_every(stats.count, self.batch_size)
        return runs.batches(offsets, self.pad_to_multiple_of, rng if self.shuffle_batches else None)
