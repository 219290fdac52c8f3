"""`asym`: steps of a fixed number of samples, each in a few batches of similar length."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from batchstat.parameters import described, parameter
from batchstat.planning.algorithms.bucket_edges import check_edges, find_edges
from batchstat.planning.algorithms.cutting import cut_every
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy


@described(
    """Each step of `batch_size` consecutive samples is split by length into batches, each padded to
    its own longest; gradients are summed over the step.

    Group i holds lengths above threshold i - 1 up to threshold i, the last group those above all
    thresholds; a group without samples makes no batch. Without `thresholds`, a `rule` of
    `boundaries` finds those of `groups` groups (4 unless set, or as many as there are distinct
    lengths). Source: asym's batch grouping.

    Ranks: not defined; as set by --distribute and --remainder. Last batch: kept; the last step is
    short. Longer samples: in the last group. Budget: none; `batch_size` samples per step.
    """
)
@dataclass(frozen=True, kw_only=True)
class Asym(Strategy):
    varies_steps: ClassVar[bool] = True

    batch_size: int
    thresholds: tuple[int, ...] = parameter(
        "Upper edges of the groups into which a step is split; a rule finds them where "
        "none are given.",
        (),
    )
    groups: int | None = parameter("How many groups a rule finds thresholds for.", None)
    rule: str = "equal-cost"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_edges(self.rule, ("thresholds", self.thresholds), ("groups", self.groups))

    def plan(self, window: Window) -> BatchPlan:
        """Cut the samples into steps, which are units, and each into batches by group of length."""
        groups_set, multiple = ("groups", self.groups), self.pad_to_multiple_of
        thresholds = self.thresholds or find_edges(
            self.rule, window.lengths, groups_set, usual=4, multiple=multiple
        )
        n = len(window.lengths)
        steps = cut_every(n, self.batch_size, keep_short=self.keeps_short(window))
        # Without what `drop_last` drops of the last step.
        lengths = window.lengths[: steps[-1]]
        group = np.searchsorted(thresholds, lengths)
        step = np.arange(len(lengths)) // self.batch_size
        order = np.lexsort((group, step))
        # One number for each pair of step and group: a new number begins a batch.
        step_and_group = step[order] * (len(thresholds) + 1) + group[order]
        first_of_batch = np.flatnonzero(np.diff(step_and_group, prepend=-1))
        offsets = np.append(first_of_batch, len(lengths))
        plan = self.batch_rows(window, order, offsets)
        # The first batch of each step: no batch spans two steps.
        return replace(plan, unit_offsets=np.searchsorted(first_of_batch, steps))
