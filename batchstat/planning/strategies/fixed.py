"""`fixed`: every row padded to `max_length`."""

from dataclasses import dataclass

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import round_up
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.cutting import cut_every, one_sample_a_row, whole_batches


@dataclass(frozen=True, kw_only=True)
class Fixed(Strategy):
    """Batches of `batch_size` consecutive samples, every row padded to `max_length` tokens."""

    batch_size: int
    max_length: int

    @property
    def window_size(self) -> int:
        """Samples in whole batches; affects only how much is held in memory at once."""
        return whole_batches(self.batch_size)

    @property
    def row_length(self) -> int:
        """`max_length`: every row is padded to it."""
        return self.max_length

    def plan(self, window: Window) -> BatchPlan:
        """Cut every `batch_size` samples. Raises InputError if one is longer than `max_length`."""
        n = len(window.lengths)
        if n and window.lengths.max() > self.max_length:
            raise InputError(
                f"fixed: a sample of {window.lengths.max()} tokens is longer than max_length="
                f"{self.max_length}: truncate samples with --max-length, for all strategies"
            )
        offsets = cut_every(n, self.batch_size, keep_short=not (self.drop_last and window.last))
        width = round_up(np.array(self.max_length), self.pad_to_multiple_of)
        widths = np.full(len(offsets) - 1, width)
        return one_sample_a_row(np.arange(n), window.lengths, offsets, widths)
