"""`static`: what a DataLoader with a batch size and a padding collator does."""

from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import round_up
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.cutting import (
    cut_every,
    longest_of_each,
    one_sample_a_row,
    whole_batches,
)


@dataclass(frozen=True, kw_only=True)
class Static(Strategy):
    """Batches of `batch_size` consecutive samples, padded to the longest of them."""

    batch_size: int

    @property
    def window_size(self) -> int:
        """Samples in whole batches; affects only how much is held in memory at once."""
        return whole_batches(self.batch_size)

    def plan(self, window: Window) -> BatchPlan:
        """Cut every `batch_size` samples."""
        n = len(window.lengths)
        offsets = cut_every(n, self.batch_size, keep_short=not (self.drop_last and window.last))
        widths = round_up(longest_of_each(window.lengths, offsets), self.pad_to_multiple_of)
        return one_sample_a_row(np.arange(n), window.lengths, offsets, widths)
