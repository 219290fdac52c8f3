"""`token-budget`: as many samples per batch as the budget of total tokens holds."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import described
from batchstat.planning.algorithms.cutting import cut_by_budget, holds_more
from batchstat.planning.algorithms.histogram import RowRuns
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.strategies.longest_first import LongestFirst


@described(
    """Each window is sorted longest first; a batch takes as many samples as its longest allows.

    That is `tokens_per_batch` // width, at least 1 and at most `max_samples`; the window's batches
    are then shuffled. With `drop_last`, one of the last window's batches, drawn at random, is
    dropped if the last one could hold more. Source: infinibatch's BucketedReadaheadBatchIterator
    with a size that depends on the first sample.
    """
)
@dataclass(frozen=True, kw_only=True)
class TokenBudget(LongestFirst):
    in_short: ClassVar[str] = "equal tokens"
    samples_per_second: ClassVar[int] = 10_000_000

    tokens_per_batch: int
    read_ahead: int
    max_samples: int | None = None
    shuffle_batches: bool = True

    def batch_offsets(self, falling: Ints, window: int) -> Ints:
        """Cut by the budget."""
        padded = self._padded(falling)
        return cut_by_budget(padded, self.tokens_per_batch, self.max_samples, window)

    def holds_more(self, falling: Ints, offsets: Ints) -> bool:
        """Return whether the last batch could hold more."""
        return holds_more(self._padded(falling), offsets, self.tokens_per_batch, self.max_samples)

    def _padded(self, falling: Ints) -> Ints:
        # Lengths may have 16 bits, which a multiple can exceed.
        multiple = self.pad_to_multiple_of
        return falling if multiple == 1 else round_up(falling.astype(np.int64), multiple)

    def summary(self, stats: LengthStats, rng: np.random.Generator) -> BatchTable | None:
        """Return the batches of an epoch that is one window, from the histogram of its lengths."""
        # Several windows: which sample is in which, the histogram does not say.
        if stats.count > self.read_ahead:
            return None
        runs = RowRuns.of_samples(stats)
        budget, multiple = self.tokens_per_batch, self.pad_to_multiple_of
        offsets, has_room = runs.cut_within(budget, multiple, self.max_samples)
        leave_out = rng if self.drop_last and has_room else None
        shuffle = rng if self.shuffle_batches else None
        return runs.batches(offsets, multiple, shuffle=shuffle, leave_out=leave_out)
