"""`hf-group-by-length`: how Hugging Face's Trainer groups samples by length."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.parameters import described, parameter
from batchstat.planning.algorithms.cutting import cut_every
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy

_MOST_GROUPED, _LEAST_GROUPS = 50, 4
"""transformers' mega_batch_mult: at most 50 batches per group, fewer where that makes under 4."""


@described(
    """Groups of `group` × `batch_size` × `gradient_accumulation_steps` consecutive samples are
    sorted longest first and cut every `batch_size`, across their borders; the longest sample of all
    is swapped with the first.

    `group` is 50 unless set, or smaller if the epoch would have fewer than four groups. The first
    batch holds the longest sample, so that running out of memory shows early. This is Hugging
    Face's Trainer with train_sampling_strategy='group_by_length' (transformers 5.2;
    group_by_length=True before). Source: transformers' get_length_grouped_indices.

    Ranks: accelerate distributes batches in turn, and fills up the last ones with the first samples
    (even_batches), or with dataloader_drop_last drops them. Last batch: kept; with one rank it is
    short. Longer samples: truncated by the tokenizer. Budget: none; `batch_size` samples (8 unless
    one is given), whatever their length.
    """
)
@dataclass(frozen=True, kw_only=True)
class HfGroupByLength(Strategy):
    order: ClassVar[str | None] = "shuffled"
    distribute: ClassVar[str | None] = "batches"
    remainder: ClassVar[str | None] = "fill"
    usual_batch_size: ClassVar[int | None] = 8
    loss: ClassVar[str] = "num-items-in-batch"
    needs_epoch: ClassVar[bool] = True

    batch_size: int
    gradient_accumulation_steps: int = 1
    group: int | None = parameter(
        "How many batches' worth of samples is sorted together; 50 unless set, or fewer "
        "where that makes less than four groups of the epoch.",
        None,
    )

    def plan(self, window: Window) -> BatchPlan:
        """Sort each group longest first, swap the longest of all to the front, and cut."""
        n = len(window.lengths)
        step_size = self.batch_size * self.gradient_accumulation_steps
        steps_per_group = self.group or min(n // (step_size * _LEAST_GROUPS), _MOST_GROUPED)
        # In samples; a group is at least a step, and at most the epoch.
        group_size = min(max(steps_per_group, 1) * step_size, max(n, 1))
        order = np.lexsort((-window.lengths, np.arange(n) // group_size))
        # The first of a group is its longest: the longest of all is one of these.
        firsts = np.arange(0, n, group_size)
        if n:  # else there is no longest one
            i_longest = firsts[np.argmax(window.lengths[order[firsts]])]
            order[[0, i_longest]] = order[[i_longest, 0]]
        offsets = cut_every(n, self.batch_size, keep_short=self.keeps_short(window))
        return self.batch_rows(window, order, offsets)
