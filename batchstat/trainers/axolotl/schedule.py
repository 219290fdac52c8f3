"""How long axolotl trains, which it counts before training."""

import math
from dataclasses import dataclass

from batchstat.trainers.axolotl.keys import AxolotlConfig
from batchstat.trainers.base.rules import EpochSize, Schedule

_WARMUP_SHARE, _MOST_WARMUP = 0.03, 100


@dataclass(frozen=True, kw_only=True)
class AxolotlSchedule(Schedule):
    """How long axolotl trains.

    Source: calculate_total_num_steps of src/axolotl/utils/trainer.py, and
    _configure_warmup_and_logging of src/axolotl/core/builders/base.py, in axolotl 0.19.

    Attributes:
        max_steps: as in `Schedule`, or negative where the Trainer counts the steps itself.
        config: the keys.
        samples_per_step: samples per step on each rank with which steps are counted.
    """

    config: AxolotlConfig
    samples_per_step: int

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps: the Trainer's own where axolotl counts none."""
        steps = self.max_steps or self._counted(epoch)
        return steps if steps > 0 else math.ceil(self.epochs * epoch.steps)

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up; of a single one, axolotl makes two."""
        counted, ratio = self._counted(epoch), self.config.warmup_ratio
        total = min(self.max_steps, counted) if self.max_steps else counted
        if self.config.warmup_steps is not None:
            steps = self.config.warmup_steps
        elif total == 0:  # a share of what the Trainer counts, then
            share = _WARMUP_SHARE if ratio is None else ratio
            return math.ceil(self.total_steps(epoch) * share)
        elif total < 0:
            # drop_last takes a step for each epoch that begins: axolotl's count may be -1.
            steps = 0
        elif ratio is not None:
            steps = int(ratio * total)
        else:
            steps = min(int(_WARMUP_SHARE * total), _MOST_WARMUP)
        return 2 if steps == 1 else steps

    def _counted(self, epoch: EpochSize) -> int:
        if not self.config.sample_packing:
            per_step = self.samples_per_step * epoch.world_size
            return math.ceil(epoch.samples * self.epochs / per_step)
        accumulation = self.samples_per_step // self.config.micro_batch_size
        counted = math.floor(max(1, epoch.batches // accumulation) * self.epochs)
        # An epoch counts as one step less then, where samples are packed.
        return counted - math.ceil(self.epochs) if self.config.dataloader_drop_last else counted
