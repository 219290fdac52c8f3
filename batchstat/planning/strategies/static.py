"""`static`: what a DataLoader with a batch size and a padding collator does."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.parameters import described
from batchstat.planning.algorithms.cutting import cut_every, whole_batches
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy


@described("Batches of `batch_size` consecutive samples, padded to the longest of them.")
@dataclass(frozen=True, kw_only=True)
class Static(Strategy):
    in_short: ClassVar[str] = "pad to longest"
    samples_per_second: ClassVar[int] = 10_000_000

    batch_size: int

    @property
    def window_size(self) -> int:
        """Samples in whole batches; affects only how much is held in memory at once."""
        return whole_batches(self.batch_size)

    def plan(self, window: Window) -> BatchPlan:
        """Cut every `batch_size` samples."""
        n = len(window.lengths)
        offsets = cut_every(n, self.batch_size, keep_short=self.keeps_short(window))
        return self.batch_rows(window, np.arange(n), offsets)
