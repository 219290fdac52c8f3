"""The samples that TRL's SFTTrainer batches: truncated, dropped, shuffled.

Checked against TRL 1.16: `SFTTrainer._prepare_dataset` in trl/trainer/sft_trainer.py; and
`Dataset.shuffle` of datasets.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from batchstat.errors import InputError, counted
from batchstat.frameworks.samples import (
    Preparation,
    TrainedSamples,
    drop_untrained,
    keep_all,
    train_all,
)
from batchstat.lengths.lost import Lost
from batchstat.profiling.profile import Profile

KEEP_END = "keep_end"


def preparation(values: Mapping[str, Any]) -> Preparation:
    """Return what prepares the samples by a configuration."""

    def prepare(profile: Profile, max_length: int) -> TrainedSamples:
        if values["assistant_only_loss"]:
            _check_answers(profile)
        is_pair = profile.corpus.options.content == "completion"
        if is_pair and values["completion_only_loss"] is False:
            profile = train_all(profile, max_length).profile
        found = keep_all(profile, max_length)
        if values["max_length"] is not None and not values["packing"]:
            if values["truncation_mode"] == KEEP_END:
                found = _without_beginning(profile, max_length)
            kept = drop_untrained(found.profile, max_length)
            found = replace(kept, lost=found.lost + kept.lost)
        if values["shuffle_dataset"]:
            order = np.random.default_rng(values["seed"]).permutation(len(found.profile))
            found = replace(found, profile=found.profile.take(order))
        return found

    return prepare


def _check_answers(profile: Profile) -> None:
    """Raise InputError where TRL does: for a chat without a token of an assistant."""
    if profile.trained is None or profile.corpus.options.content != "messages":
        return
    without = int(np.count_nonzero(profile.trained.counts() == 0))
    if without:
        raise InputError(
            f"{counted(without, 'chat')} of {len(profile):,} without a token of an assistant, at "
            "which TRL stops under assistant_only_loss=true: remove them, check their roles, or "
            "pass a template that marks answers with --chat-template"
        )


def _without_beginning(profile: Profile, max_length: int) -> TrainedSamples:
    """Return samples of which the last `max_length` tokens are left."""
    excess = np.maximum(profile.lengths - max_length, 0)
    kinds = {kind: ranges.since(excess) for kind, ranges in profile.kinds.items()}
    return TrainedSamples(
        profile=replace(profile, lengths=profile.lengths - excess, kinds=kinds),
        lost=Lost(
            truncated_samples=int(np.count_nonzero(excess)), truncated_tokens=int(excess.sum())
        ),
    )
