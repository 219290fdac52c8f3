"""The current setup: what is trained on a corpus, by a strategy, a trainer's own configuration, its
object, a loader or a recording.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchstat.errors import OptionError
from batchstat.planning.settings import Settings
from batchstat.recording.recording import read_recording
from batchstat.simulation.compare.named_rows import ParsedRow
from batchstat.trainers.base.samples import TrainedSamples
from batchstat.trainers.preflight.changes import CurrentTraining, Trainer
from batchstat.trainers.preflight.observed import WITHOUT_LABELS, Observed
from batchstat.trainers.preflight.observed_runs import observe_recording
from batchstat.trainers.preflight.samples import ALL_TRAINED, samples_and_settings
from batchstat.words import short


@dataclass(frozen=True, kw_only=True, eq=False)
class CurrentSetup(CurrentTraining):
    """What a trainer's configuration, its object, a loader or a recording trains on.

    Attributes:
        samples: what the trainer keeps of the corpus, with what it drops and holds out.
        row: the strategy, or a name and batches.
        trainer: the trainer, whose keys can be changed.
    """

    samples: TrainedSamples
    row: ParsedRow
    trainer: Trainer


def training_of(trainer: Trainer) -> CurrentSetup:
    """Return what a trainer trains on: the samples that it keeps, settings, and a strategy or
    batches.

    Raises:
        OptionError: settings that contradict each other.
        InputError: the trainer keeps no sample.
    """
    setup, observed = trainer.setup, trainer.observed
    # The warning where the corpus does not say which tokens carry loss.
    warning = ALL_TRAINED if observed is None else WITHOUT_LABELS
    samples, settings = samples_and_settings(setup, trainer.profile, trainer.settings, warning)
    row: ParsedRow = setup.batching.strategy
    if observed is not None and observed.batches is not None:
        # The batches that were seen, instead of those that a strategy would make.
        row = (observed.kind, observed.batches)
    return CurrentSetup(
        lengths=samples.profile,
        samples=samples,
        settings=settings,
        row=row,
        trainer=trainer,
        # A batch of an encoder and a decoder has two widths, of which a strategy plans one: no
        # strategy can be compared with it.
        strategies=() if observed is not None and observed.has_decoder else None,
    )


_DECIDED = ("world_size", "gradient_accumulation_steps", "max_length", "overflow")
"""Settings that are facts of a recording, and cannot be changed afterwards."""


def training_of_recording(observed: Observed, settings: Mapping[str, Any]) -> CurrentSetup:
    """Return what a recorded run trained on.

    Args:
        observed: the run.
        settings: fields of `batchstat.Settings` for the strategies that the run is compared with.

    Raises:
        OptionError: another value for a setting that the recording decides, or settings that
            contradict each other.
    """
    setup, profile = observed.setup, observed.profile
    recorded = vars(Settings(**{**setup.batching.settings, **observed.settings}))
    # The user may repeat the value of the recording for these, but not change it.
    for key in _DECIDED:
        if key in settings and settings[key] != recorded[key]:
            raise OptionError(
                f"{key}={short(settings[key])}: {profile.corpus.sources[0].path} was recorded with "
                f"{short(recorded[key])}",
                "leave it out, or record a run that has it",
            )
    merged = {**observed.settings, **settings}
    return training_of(Trainer(setup=setup, profile=profile, settings=merged, observed=observed))


def observe_folder(folder: Path) -> Observed:
    """Return what the run trained on that was recorded in a folder.

    Raises:
        InputError: a folder without a recording, or a recording that cannot be described.
    """
    observed = observe_recording(read_recording(folder), {})
    # Its samples are in no file: reports show the name of the folder in place of one.
    corpus = observed.profile.corpus
    source = replace(corpus.sources[0], path=folder.as_posix())
    profile = replace(observed.profile, corpus=replace(corpus, sources=(source,)))
    return replace(observed, profile=profile)
