"""Which samples verl's SFT trainer batches, and for how many steps.

Checked against verl 0.9.1: `MultiTurnSFTDataset` of verl/utils/dataset/multiturn_sft_dataset.py,
`SFTTrainer` of verl/trainer/sft_trainer.py, `_build_lr_scheduler` of
verl/workers/engine/fsdp/transformer_impl.py.
"""

from dataclasses import dataclass

import numpy as np

from batchstat.errors import InputError
from batchstat.frameworks.samples import TrainedSamples
from batchstat.frameworks.setup import EpochSize, Schedule
from batchstat.profiling.profile import Profile


@dataclass(frozen=True, kw_only=True)
class VerlSamples:
    """verl's data set: the first samples or some drawn at random, refused where one is too long.

    Attributes:
        most: samples that it takes; all if negative.
        seed: of the draw; None where the first ones are taken.
        refuses_longer: whether a sample longer than `max_length` is refused.
        samples_per_step: samples of a step, over all ranks.
    """

    most: int
    seed: int | None
    refuses_longer: bool
    samples_per_step: int

    def __call__(self, profile: Profile, max_length: int) -> TrainedSamples:
        """Return what verl batches.

        Raises:
            InputError: too few samples for a step, or a longer sample is refused.
        """
        everything = len(profile)
        if 0 < self.most < everything:
            chosen = np.arange(self.most)
            if self.seed is not None:
                rng = np.random.default_rng(self.seed)
                chosen = rng.choice(everything, size=self.most, replace=False)
            profile = profile.take(chosen)
        if len(profile) < self.samples_per_step:
            raise InputError(
                f"verl trains no step on {len(profile):,} samples: lower "
                f"data.train_batch_size={self.samples_per_step}"
            )
        longest = int(profile.lengths.max())
        if self.refuses_longer and longest > max_length:
            raise InputError(
                f"a sample of {longest:,} tokens is longer than data.max_length={max_length}, "
                "which data.truncation=error refuses: raise it, or set data.truncation to right"
            )
        beyond = everything - len(profile)
        dropped = {"beyond data.train_max_samples": beyond} if beyond else {}
        return TrainedSamples(profile=profile, dropped=dropped)


@dataclass(frozen=True, kw_only=True)
class VerlSchedule(Schedule):
    """How long verl trains: a number of steps does not prolong the epochs.

    Attributes:
        warmup_given: steps of the warm-up; those of the share `warmup` where it is not positive.
    """

    warmup_given: int

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps."""
        return min(self._planned(epoch), int(self.epochs) * epoch.steps)

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up; the share is of the steps that are planned."""
        if self.warmup_given > 0:
            return self.warmup_given
        return int(self.warmup * self._planned(epoch))

    def _planned(self, epoch: EpochSize) -> int:
        return self.max_steps or int(self.epochs) * epoch.steps
