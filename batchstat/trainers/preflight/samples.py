"""What a trainer keeps of a corpus, and the settings that it batches it with."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from batchstat.findings import Finding
from batchstat.planning.settings import Settings
from batchstat.profiling.profile import Profile
from batchstat.trainers.base.samples import TrainedSamples
from batchstat.trainers.base.setup import TrainingSetup

ALL_TRAINED = (
    "every token is taken as trained: where only some carry loss, pass token ids with labels, "
    "--trained-column"
)


def samples_and_settings(
    setup: TrainingSetup,
    profile: Profile,
    settings: Mapping[str, Any],
    unmarked_warning: str = ALL_TRAINED,
) -> tuple[TrainedSamples, Settings]:
    """Return the samples of a corpus that a trainer batches, and the settings that it batches them
    with.

    If a corpus does not say which tokens carry loss, all do but the first of each sample, which
    nothing predicts.

    Raises:
        OptionError: settings that contradict each other.
        InputError: the trainer keeps no sample.
    """
    batching = setup.batching
    # For a trainer that truncates nothing, the longest sample is the limit.
    longest = profile.stats.max
    of_corpus = {"max_length": longest} if batching.max_length_of_corpus else {}
    merged = Settings(**{**batching.settings, **of_corpus, **settings})
    limit = merged.resolve(longest=longest, stated_max=profile.stated_max).max_length
    samples = batching.prepare(profile, limit)  # drops and truncates as the trainer does
    # Texts are trained whole, and chats say what is trained; token ids and lengths may hide it.
    if samples.profile.trained is None and profile.corpus.options.content in ("tokens", "length"):
        unmarked = Finding("trained/unmarked", unmarked_warning)
        samples = replace(samples, warnings=(*samples.warnings, unmarked))
    # The profile, too, says which tokens were lost.
    return replace(samples, profile=replace(samples.profile, lost=samples.lost)), merged
