"""The samples that a trainer batches: which it drops or truncates, in which sequence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from batchstat.errors import InputError
from batchstat.findings import Finding
from batchstat.lengths.arrays import Ints
from batchstat.lengths.max_length import Lost
from batchstat.profiling.profile import Profile


@dataclass(frozen=True, kw_only=True)
class TrainedSamples:
    """What a trainer keeps of a corpus."""

    profile: Profile
    dropped: Mapping[str, int] = field(default_factory=dict)
    lost: Lost = field(default_factory=Lost)
    warnings: tuple[Finding, ...] = ()  # caveats of these samples


Preparation = Callable[[Profile, int], TrainedSamples]
"""What a trainer keeps of a corpus under `max_length`. Raises InputError if nothing is left."""


def keep_all(profile: Profile, _max_length: int) -> TrainedSamples:
    """Keep every sample as it is."""
    return TrainedSamples(profile=profile)


def drop_untrained(profile: Profile, max_length: int) -> TrainedSamples:
    """Drop samples without a trained token among their first `max_length` tokens."""
    if profile.trained is None:  # every token is trained
        return keep_all(profile, max_length)
    kept = np.flatnonzero(profile.trained.counts(stops=max_length) > 0)
    if len(kept) == 0:
        raise InputError(
            f"no sample has a trained token within max_length={max_length}",
            "raise it, or check which tokens are trained",
        )
    if len(kept) == len(profile):
        return keep_all(profile, max_length)
    return keep_some(profile, kept, "without a trained token in max_length")


def keep_some(profile: Profile, kept: Ints, reason: str) -> TrainedSamples:
    """Keep some samples of a corpus, and count the others as dropped."""
    taken = profile.take(kept)
    dropped = len(profile) - len(kept)
    if not dropped:
        return TrainedSamples(profile=taken)
    lost = Lost(dropped_samples=dropped, dropped_tokens=profile.stats.sum - taken.stats.sum)
    return TrainedSamples(profile=taken, dropped={reason: dropped}, lost=lost)
