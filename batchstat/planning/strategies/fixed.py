"""`fixed`: every row padded to `max_length`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.parameters import described
from batchstat.planning.algorithms.cutting import cut_every, whole_batches
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.packed import check_longest


@described("Batches of `batch_size` consecutive samples, every row padded to `max_length` tokens.")
@dataclass(frozen=True, kw_only=True)
class Fixed(Strategy):
    in_short: ClassVar[str] = "pad to max_length"
    samples_per_second: ClassVar[int] = 10_000_000

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
        check_longest("fixed", int(window.lengths.max(initial=0)), self.max_length)
        offsets = cut_every(n, self.batch_size, keep_short=self.keeps_short(window))
        widths = np.full(len(offsets) - 1, self.max_length)
        return self.batch_rows(window, np.arange(n), offsets, widths)
