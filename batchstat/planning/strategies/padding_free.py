"""`padding-free`: samples concatenated into one row per batch."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import offsets_from_sizes, round_up, sum_groups
from batchstat.parameters import MAX_INT, described
from batchstat.planning.algorithms.packing import next_fit
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import PacksDocuments


@described(
    """Consecutive samples are concatenated into one row per batch, within `tokens_per_batch`.

    Attention must keep samples apart, as variable-length kernels do (Hugging Face's
    DataCollatorWithFlattening). The only padding comes from `pad_to_multiple_of` and
    `document_multiple`.
    """
)
@dataclass(frozen=True, kw_only=True)
class PaddingFree(PacksDocuments):
    in_short: ClassVar[str] = "end to end"
    samples_per_second: ClassVar[int] = 10_000_000
    attends_within_samples = True  # variable-length kernels keep samples apart

    tokens_per_batch: int
    max_samples: int | None = None

    def plan(self, window: Window) -> BatchPlan:
        """Concatenate samples into one row per batch; a sample above the budget is alone."""
        multiple = self.pad_to_multiple_of
        # The row is rounded up afterwards: what fits must fit in whole multiples.
        capacity = self.tokens_per_batch // multiple * multiple
        padded = round_up(window.lengths, self.document_multiple)
        row_sizes = next_fit(padded, capacity, self.max_samples or MAX_INT).per_row
        offsets = offsets_from_sizes(row_sizes)
        widths = round_up(sum_groups(padded, offsets), multiple)
        # A row whose width reaches the capacity holds no more, and is not dropped.
        is_full = len(widths) == 0 or widths[-1] >= capacity
        if not self.keeps_short(window) and not is_full:
            offsets, widths = offsets[:-1], widths[:-1]
        n = offsets[-1]
        batches = np.arange(len(offsets))
        return BatchPlan(
            samples=np.arange(n),
            lengths=window.lengths[:n],
            row_offsets=offsets,
            batch_offsets=batches,
            unit_offsets=batches,
            widths=widths,
            document_multiple=self.document_multiple,
        )
