"""The samples that a trainer batches: which it drops, holds out or truncates, in which sequence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.lost import Lost
from batchstat.profiling.profile import Profile


@dataclass(frozen=True, kw_only=True)
class TrainedSamples:
    """What a trainer keeps of a corpus.

    Attributes:
        profile: the samples that it batches, in its sequence, as long as it makes them.
        dropped: number of samples that it drops, by the reason.
        held_out: number of samples that it evaluates on instead.
        lost: what it shortened and dropped of the samples that it is told to take. The samples
            beyond a limit on their number are counted in `dropped` alone.
        warnings: caveats of these samples.
    """

    profile: Profile
    dropped: Mapping[str, int] = field(default_factory=dict)
    held_out: int = 0
    lost: Lost = field(default_factory=Lost)
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
    return keep_some(profile, kept, "without a trained token in max_length")


def keep_some(profile: Profile, kept: Ints, reason: str) -> TrainedSamples:
    """Keep the samples at these positions, in this sequence, and drop the others for a reason."""
    left = len(profile) - len(kept)
    if not left:
        return TrainedSamples(profile=profile.take(kept))
    found = profile.take(kept)
    lost = Lost(dropped_samples=left, dropped_tokens=profile.stats.sum - found.stats.sum)
    return TrainedSamples(profile=found, dropped={reason: left}, lost=lost)
