"""How long axolotl trains, which it counts before training."""

import math
from dataclasses import dataclass

from batchstat.trainers.base.rules import EpochSize, Schedule

_WARMUP_SHARE, _MOST_WARMUP = 0.03, 100


@dataclass(frozen=True, kw_only=True)
class AxolotlSchedule(Schedule):
    """How long axolotl trains.

    Source: calculate_total_num_steps of src/axolotl/utils/trainer.py, and
    _configure_warmup_and_logging of src/axolotl/core/builders/base.py, in axolotl 0.19.

    Attributes:
        max_steps: as in `Schedule`, or negative where the Trainer counts the steps itself.
        packing: whether samples are packed.
        samples_per_step: samples per step on each rank, where they are not.
        counted_accumulation: batches per step on each rank with which steps are counted.
        drop_last: whether an epoch is counted as one step less where samples are packed.
        warmup_given: steps of the warm-up; None if a share decides.
        warmup_ratio: the share of the warm-up; None for axolotl's own.
    """

    packing: bool
    samples_per_step: int
    counted_accumulation: int
    drop_last: bool = False
    warmup_given: int | None = None
    warmup_ratio: float | None = None

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps: the Trainer's own where axolotl counts none."""
        steps = self.max_steps or self._counted(epoch)
        return steps if steps > 0 else math.ceil(self.epochs * epoch.steps)

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up; of a single one, axolotl makes two."""
        counted = self._counted(epoch)
        total = min(self.max_steps, counted) if self.max_steps else counted
        if self.warmup_given is not None:
            steps = self.warmup_given
        elif total == 0:  # a share of what the Trainer counts, then
            ratio = _WARMUP_SHARE if self.warmup_ratio is None else self.warmup_ratio
            return math.ceil(self.total_steps(epoch) * ratio)
        elif total < 0:
            # drop_last takes a step for each epoch that begins: axolotl's count may be -1.
            steps = 0
        elif self.warmup_ratio is not None:
            steps = int(self.warmup_ratio * total)
        else:
            steps = min(int(_WARMUP_SHARE * total), _MOST_WARMUP)
        return 2 if steps == 1 else steps

    def _counted(self, epoch: EpochSize) -> int:
        if not self.packing:
            per_step = self.samples_per_step * epoch.world_size
            return math.ceil(epoch.samples * self.epochs / per_step)
        counted = math.floor(max(1, epoch.batches // self.counted_accumulation) * self.epochs)
        return counted - math.ceil(self.epochs) if self.drop_last else counted
