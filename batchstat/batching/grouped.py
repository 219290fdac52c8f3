"""`grouped`: steps of a fixed number of samples, each in a few batches of like length."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from batchstat.batching.cutting import cut_every, longest_of_each, one_sample_a_row, round_up
from batchstat.batching.edges import optimal_edges
from batchstat.batching.plan import BatchPlan, Window
from batchstat.batching.strategy import Strategy
from batchstat.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Grouped(Strategy):
    """Consecutive `batch_size` samples make a step, which is split by length into batches, each
    padded to its own longest; gradients are summed over the step.

    Group i holds lengths above threshold i - 1 up to threshold i, the last group what is above all;
    a group without samples makes no batch. Without `thresholds` there are `groups` groups, with the
    thresholds that pad least. Source: asym's batch grouping.
    """

    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)

    batch_size: int
    thresholds: tuple[int, ...] = ()
    groups: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(low >= high for low, high in pairwise((0, *self.thresholds))):
            raise OptionError(
                f"thresholds={','.join(map(str, self.thresholds))}: must be above 0 and rise, each "
                "once"
            )

    def plan(self, window: Window) -> BatchPlan:
        """Cut into steps, and these into groups."""
        thresholds = self.thresholds or optimal_edges(
            np.maximum(window.lengths, 1), self.groups, multiple=self.pad_to_multiple_of
        )
        n = len(window.lengths)
        steps = cut_every(n, self.batch_size, keep_short=not (self.drop_last and window.last))
        kept = window.lengths[: steps[-1]]
        group = np.searchsorted(thresholds, kept)
        step = np.arange(len(kept)) // self.batch_size
        order = np.lexsort((group, step))
        key = step[order] * (len(thresholds) + 1) + group[order]
        opened = np.flatnonzero(np.diff(key, prepend=-1))
        offsets = np.append(opened, len(kept))
        widths = round_up(longest_of_each(kept[order], offsets), self.pad_to_multiple_of)
        plan = one_sample_a_row(order, kept[order], offsets, widths)
        step_offsets = np.searchsorted(opened, steps)
        return BatchPlan(
            plan.samples,
            plan.lengths,
            plan.row_offsets,
            plan.batch_offsets,
            step_offsets,
            plan.widths,
        )
