"""The samples that a trainer batches: which it drops, holds out or truncates, in which sequence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.profiling.profile import Profile


@dataclass(frozen=True, kw_only=True)
class TrainedSamples:
    """What a trainer keeps of a corpus.

    Attributes:
        profile: the samples that it batches, in its sequence, as long as it makes them.
        dropped: number of samples that it drops, by the reason.
        held_out: number of samples that it evaluates on instead.
        truncated: number of samples that it shortened before it batches them, in `profile`.
        truncated_tokens: tokens that these lost.
        warnings: what may not be true of these samples.
    """

    profile: Profile
    dropped: Mapping[str, int] = field(default_factory=dict)
    held_out: int = 0
    truncated: int = 0
    truncated_tokens: int = 0
    warnings: tuple[str, ...] = ()


Preparation = Callable[[Profile, int], TrainedSamples]
"""Returns what a trainer keeps of a corpus, given its `max_length`. Raises InputError if nothing
is left."""


def keep_all(profile: Profile, _max_length: int) -> TrainedSamples:
    """Keep every sample as it is."""
    return TrainedSamples(profile=profile)


def drop_untrained(profile: Profile, max_length: int) -> TrainedSamples:
    """Drop samples none of whose tokens within `max_length` is trained."""
    if profile.trained is None:
        return keep_all(profile, max_length)
    kept = np.flatnonzero(profile.trained.counts(stops=max_length) > 0)
    if len(kept) == 0:
        raise InputError(
            f"no sample has a trained token within max_length={max_length}: raise it, or check "
            "which tokens are trained"
        )
    if len(kept) == len(profile):
        return keep_all(profile, max_length)
    dropped = {"without a trained token in max_length": len(profile) - len(kept)}
    return TrainedSamples(profile=profile.take(kept), dropped=dropped)


def train_all(profile: Profile, max_length: int) -> TrainedSamples:
    """Train on every token, also on those of prompts."""
    return keep_all(replace(profile, kinds={}), max_length)


def without_remainder(samples: TrainedSamples, ranks: int) -> TrainedSamples:
    """Return as many samples for each rank, without the last ones.

    Raises:
        InputError: there are fewer samples than ranks.
    """
    profile = samples.profile
    excess = len(profile) % ranks
    if excess == len(profile):
        raise InputError(f"{len(profile)} samples are fewer than {ranks} ranks: lower world_size")
    if not excess:
        return samples
    dropped = {**samples.dropped, f"so that {ranks} ranks have equally many": excess}
    kept = profile.take(np.arange(len(profile) - excess))
    return replace(samples, profile=kept, dropped=dropped)


def without_ids(tokenizes: str) -> str:
    """Return what is wrong with a corpus of other than token ids, given how they are made."""
    return (
        f"lacks the column input_ids or labels: {tokenizes}; if they have other names, pass "
        "--tokens-column and --trained-column"
    )
