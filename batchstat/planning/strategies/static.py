"""`static`: what a DataLoader with a padding collator does; `fixed`: rows of one width."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.parameters import described
from batchstat.planning.algorithms.cutting import cut_every, whole_batches
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.packed import check_longest


@dataclass(frozen=True, kw_only=True)
class _Consecutive(Strategy):
    samples_per_second: ClassVar[int] = 10_000_000

    batch_size: int

    @property
    def window_size(self) -> int:
        """Samples in whole batches; affects only how much is held in memory at once."""
        return whole_batches(self.batch_size)

    def _offsets(self, window: Window) -> Ints:
        n = len(window.lengths)
        return cut_every(n, self.batch_size, keep_short=self.keeps_short(window))


@described("Batches of `batch_size` consecutive samples, padded to the longest of them.")
@dataclass(frozen=True, kw_only=True)
class Static(_Consecutive):
    in_short: ClassVar[str] = "pad to longest"

    def plan(self, window: Window) -> BatchPlan:
        """Cut every `batch_size` samples."""
        return self.batch_rows(window, np.arange(len(window.lengths)), self._offsets(window))


@described("Batches of `batch_size` consecutive samples, every row padded to `max_length` tokens.")
@dataclass(frozen=True, kw_only=True)
class Fixed(_Consecutive):
    in_short: ClassVar[str] = "pad to max_length"

    max_length: int

    @property
    def row_length(self) -> int:
        """`max_length`: every row is padded to it."""
        return self.max_length

    def plan(self, window: Window) -> BatchPlan:
        """Cut every `batch_size` samples. Raises InputError if one is longer than `max_length`."""
        check_longest("fixed", int(window.lengths.max(initial=0)), self.max_length)
        offsets = self._offsets(window)
        widths = np.full(len(offsets) - 1, self.max_length)
        return self.batch_rows(window, np.arange(len(window.lengths)), offsets, widths)
