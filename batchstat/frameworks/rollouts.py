"""Rollouts of reinforcement learning as a corpus: whole generations of them, in sequence."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchstat.errors import InputError
from batchstat.frameworks.samples import TrainedSamples, keep_some
from batchstat.frameworks.setup import EpochSize, Schedule
from batchstat.profiling.profile import Profile

WHICH_ROLLOUTS = (
    "names prompts, not rollouts: pass whole rollouts (prompt and response) as CORPUS, in the "
    "sequence of training; a file of their tokens as rollouts.jsonl --length-column tokens"
)
"""Why the corpus cannot be read, and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Rollouts:
    """All whole generations of a corpus of rollouts.

    Attributes:
        per_generation: rollouts of a generation.
        key: the key of the configuration that decides how many these are, for messages.
    """

    per_generation: int
    key: str

    def __call__(self, profile: Profile, _max_length: int) -> TrainedSamples:
        """Return what is trained on.

        Raises:
            InputError: there are fewer rollouts than those of a generation.
        """
        left = len(profile) % self.per_generation
        if left == len(profile):
            raise InputError(
                f"{len(profile):,} rollouts are fewer than the {self.per_generation:,} of a "
                f"generation: pass more, or lower {self.key}"
            )
        return keep_some(profile, np.arange(len(profile) - left), "of an incomplete generation")


@dataclass(frozen=True, kw_only=True)
class GenerationSchedule(Schedule):
    """How long training lasts where the trainer counts generations, each of several steps.

    Attributes:
        generations: the same, in generations.
        steps_per_pass: steps in which each rollout of a generation is trained on once.
        passes: how often it is.
        untrained: generations at the start whose rollouts are not trained on.
    """

    generations: Schedule
    steps_per_pass: int
    passes: int = 1
    untrained: int = 0

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps."""
        number = self._in_generations(self.generations.total_steps, epoch)
        return max(0, number - self.untrained) * self.steps_per_pass * self.passes

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up."""
        number = self._in_generations(self.generations.warmup_steps, epoch)
        return number * self.steps_per_pass * self.passes

    def _in_generations(self, asked: Callable[[EpochSize], int], epoch: EpochSize) -> int:
        return asked(
            EpochSize(
                samples=epoch.samples,
                batches=epoch.batches,
                steps=epoch.steps // self.steps_per_pass,
                world_size=epoch.world_size,
            )
        )
