"""Which samples slime's SFT batches, and for how many steps.

Checked against slime 624b824: `Dataset.shuffle` of slime/utils/data.py, `get_samples` of
slime/rollout/data_source.py, `get_num_rollout_per_epoch` of slime/ray/rollout.py,
`get_optimizer_param_scheduler` of slime/backends/megatron_utils/model.py; samples
without an answer fail in `get_batch` of its data.py.
"""

import math
import random
from dataclasses import dataclass

import numpy as np

from batchstat.errors import InputError
from batchstat.frameworks.samples import TrainedSamples, keep_some
from batchstat.frameworks.setup import EpochSize, Schedule
from batchstat.profiling.chat_rows import chat_rows
from batchstat.profiling.profile import Profile


@dataclass(frozen=True, kw_only=True)
class SlimeSamples:
    """The first epoch of slime's data source: all whole rollouts of it.

    Attributes:
        seed: of Python's random numbers, which shuffle; None where the sequence is the corpus's.
        samples_per_rollout: samples of a rollout.
        turn_by_turn: whether each message is tokenized by itself.
    """

    seed: int | None
    samples_per_rollout: int
    turn_by_turn: bool

    def __call__(self, profile: Profile, _max_length: int) -> TrainedSamples:
        """Return what slime batches.

        Raises:
            InputError: too few samples, or one without a trained token, or with tools.
        """
        _check_answers(profile)
        if profile.corpus.options.may_hold_chats:
            _check_chats(profile, turn_by_turn=self.turn_by_turn)
        order = list(range(len(profile)))
        if self.seed is not None:
            random.Random(self.seed).shuffle(order)  # noqa: S311  (slime shuffles so)
        kept = len(order) - len(order) % self.samples_per_rollout
        if not kept:
            raise InputError(
                f"slime trains no rollout of {len(profile):,} samples: lower "
                f"rollout_batch_size={self.samples_per_rollout}"
            )
        return keep_some(profile, np.array(order[:kept]), "in a rollout with the next epoch's")


def _check_answers(profile: Profile) -> None:
    if profile.trained is None:
        return
    without = np.flatnonzero(profile.trained.counts() == 0)
    if len(without):
        raise InputError(
            f"record {int(profile.records[without[0]]):,} has no trained token, at which slime "
            "stops: remove it"
        )


def _check_chats(profile: Profile, *, turn_by_turn: bool) -> None:
    """Raise InputError for chats that slime treats otherwise."""
    rows = chat_rows(profile)
    if found := rows.with_step_mask:
        raise InputError(
            f"{found}: a message has step_loss_mask, by which slime does not train on it: pass "
            "token ids with --tokens-column and --trained-column"
        )
    if turn_by_turn and (found := rows.with_tools):
        raise InputError(
            f"{found}: a chat has tools or their results, which slime tokenizes by themselves: "
            "remove it, or pass token ids with --tokens-column and --trained-column"
        )


@dataclass(frozen=True, kw_only=True)
class SlimeSchedule(Schedule):
    """How long slime trains: so many epochs or, where `max_steps` is given, so many steps.

    Attributes:
        warmup_fraction: share of the steps over which the learning rate decays; None if
            `warmup_given` decides.
        warmup_given: steps of the warm-up.
        decay_steps: steps over which the learning rate decays; None for all of them.
        samples_per_step: samples of a step: the schedule counts them.
    """

    warmup_fraction: float | None
    warmup_given: int
    decay_steps: int | None
    samples_per_step: int

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up."""
        if self.warmup_fraction is None:
            return self.warmup_given
        # Of samples, not of steps, which decides how the product is rounded.
        decay = (self.decay_steps or self.total_steps(epoch)) * self.samples_per_step
        return math.ceil(self.warmup_fraction * decay / self.samples_per_step)
