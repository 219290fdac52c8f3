"""The current setup: what a configuration, an object, a loader or a recording trains on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchstat.errors import OptionError
from batchstat.findings import Finding
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.build import profile as count
from batchstat.profiling.profile import Profile
from batchstat.recording.recording import read_recording
from batchstat.simulation.compare.named_rows import ParsedRow
from batchstat.trainers.base.samples import TrainedSamples
from batchstat.trainers.base.setup import TrainingSetup
from batchstat.trainers.preflight.changes import ALL_TRAINED, CurrentTraining, Trainer
from batchstat.trainers.preflight.corpus import profile_keywords
from batchstat.trainers.preflight.observed import WITHOUT_LABELS, Observed
from batchstat.trainers.preflight.observed_runs import observe_recording
from batchstat.words import short


@dataclass(frozen=True, kw_only=True, eq=False)
class CurrentSetup(CurrentTraining):
    """What a trainer's configuration, its object, a loader or a recording trains on."""

    samples: TrainedSamples
    row: ParsedRow
    trainer: Trainer


def training_of_setup(
    setup: TrainingSetup, lengths: object, settings: Mapping[str, Any]
) -> CurrentSetup:
    """Return what a trainer's configuration trains on. Raises OptionError: lengths without their
    corpus, or settings that contradict each other; InputError: a corpus that cannot be read, or of
    which the trainer keeps no sample.
    """
    if lengths is None:
        lengths = count(**profile_keywords(setup))
    if not isinstance(lengths, Profile):
        # Lengths alone do not say what a trainer drops, or which records it holds out.
        raise OptionError(
            f"{setup.path.as_posix()}: which samples it keeps is unknown", "pass a profile"
        )
    return training_of(Trainer(setup=setup, profile=lengths, settings=settings))


def training_of(trainer: Trainer) -> CurrentSetup:
    """Return what a trainer trains on: the samples that it keeps, settings, and a strategy or
    batches. Raises OptionError: settings that contradict each other; InputError: no sample is kept.
    """
    setup, observed = trainer.setup, trainer.observed
    # No warning for labels of rows, nor for rows that belong together, where it is not known.
    warning = ALL_TRAINED if observed is None else WITHOUT_LABELS
    if trainer.profile.rows is not None or (observed is not None and observed.has_row_labels):
        warning = ""
    samples, settings = trainer.samples_and_settings(warning)
    row: ParsedRow = setup.batching.strategy
    if observed is not None and observed.batches is not None:
        # The batches that were seen, instead of those that a strategy would make.
        row = (observed.kind, observed.batches)
    warnings = _setup_warnings(trainer, samples) if observed is None else observed.warnings
    strategies: tuple[StrategySpec, ...] | None = None
    if observed is not None and observed.no_advice:
        strategies = ()
    elif observed is not None and observed.is_stream:  # without a sampler, only widths can change
        strategies = () if observed.unpadded is None else (observed.unpadded,)
    return CurrentSetup(
        lengths=samples.profile,
        samples=samples,
        settings=settings,
        row=row,
        trainer=trainer,
        warnings=tuple(warnings),
        strategies=strategies,
        takes_sampler=observed is None or observed.profile.is_indexed,
    )


def _setup_warnings(trainer: Trainer, samples: TrainedSamples) -> Iterator[Finding]:
    """Yield the warnings of a report whose current setup is a trainer's configuration."""
    setup, in_corpus = trainer.setup, len(trainer.profile)
    config, left_out = setup.path.as_posix(), in_corpus - len(samples.profile)
    if setup.assumption:
        yield Finding("config/unknown-keys", f"{config}: {setup.assumption}")
    yield from samples.warnings
    if left_out:
        yield Finding(
            "lost/left-out",
            f"{config} leaves out {left_out:,} of {in_corpus:,} samples: batchstat preflight says "
            "why",
        )


_DECIDED = ("world_size", "gradient_accumulation_steps", "max_length", "overflow")
"""Settings that are facts of a recording, and cannot be changed afterwards."""


def training_of_observed(observed: Observed, settings: Mapping[str, Any]) -> CurrentSetup:
    """Return what a trainer's object, a loader or a recorded run trains on. Raises OptionError:
    another value for a setting that the recording decides, or settings that contradict each other.
    """
    setup, profile = observed.setup, observed.profile
    if settings:
        recorded = vars(Settings(**{**setup.batching.settings, **observed.settings}))
        # The user may repeat the value of the recording for these, but not change it.
        for key in _DECIDED:
            if key in settings and settings[key] != recorded[key]:
                raise OptionError(
                    f"{key}={short(settings[key])}: {profile.corpus.sources[0].path} was recorded "
                    f"with {short(recorded[key])}",
                    "leave it out, or record a run that has it",
                )
    merged = {**observed.settings, **settings}
    return training_of(Trainer(setup=setup, profile=profile, settings=merged, observed=observed))


def observe_folder(folder: Path) -> Observed:
    """Return what the run trained on that was recorded in a folder. Raises InputError: a folder
    without a recording, or a recording that cannot be described.
    """
    observed = observe_recording(read_recording(folder))
    # Its samples are in no file: reports show the name of the folder in place of one.
    corpus = observed.profile.corpus
    source = replace(corpus.sources[0], path=folder.as_posix())
    profile = replace(observed.profile, corpus=replace(corpus, sources=(source,)))
    return replace(observed, profile=profile)
