"""`padding-free`: no rows at all, but samples laid end to end."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.batching.packing import next_fit
from batchstat.batching.plan import BatchPlan, Window
from batchstat.batching.strategy import Strategy
from batchstat.options import MOST


@dataclass(frozen=True, kw_only=True)
class PaddingFree(Strategy):
    """Consecutive samples in one row for each batch, as many as `tokens_per_batch` holds.

    Attention has to know where samples begin, as variable-length kernels do (Hugging Face's
    DataCollatorWithFlattening). Only `pad_to_multiple_of` pads.
    """

    packs_rows: ClassVar[bool] = True

    tokens_per_batch: int
    max_samples: int | None = None

    @property
    def attends_within_samples(self) -> bool:
        """Variable-length kernels do."""
        return True

    def plan(self, window: Window) -> BatchPlan:
        """Consecutive samples; a sample above the budget is alone."""
        multiple = self.pad_to_multiple_of
        capacity = self.tokens_per_batch // multiple * multiple
        each = next_fit(window.lengths, capacity, self.max_samples or MOST).each
        offsets = np.concatenate([[0], np.cumsum(each)])
        ends = np.concatenate([[0], np.cumsum(window.lengths, dtype=np.int64)])
        widths = -(-np.diff(ends[offsets]) // multiple) * multiple
        full = len(widths) == 0 or widths[-1] >= capacity
        if self.drop_last and window.last and not full:
            offsets, widths = offsets[:-1], widths[:-1]
        n = offsets[-1]
        batches = np.arange(len(offsets))
        return BatchPlan(np.arange(n), window.lengths[:n], offsets, batches, batches, widths)
