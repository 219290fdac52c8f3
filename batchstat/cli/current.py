"""The current setup of a command: a strategy, a trainer's own configuration, or a recording."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.configuration import Setting
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.findings import Finding
from batchstat.storage.shown import as_shown

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.profiling.profile import Profile
    from batchstat.trainers.base.setup import TrainingSetup
    from batchstat.trainers.preflight.changes import CurrentTraining
    from batchstat.trainers.preflight.current import CurrentSetup
    from batchstat.trainers.preflight.observed import Observed

_READING = ("corpus", "tokenizer", "chat_template", *(each.name for each in fields(CorpusOptions)))
"""Settings that say which corpus is read, and how."""


def settings_of_setup(
    setup: "TrainingSetup", overriding: Mapping[str, Setting], overridden: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings that a trainer's configuration decides, by the names of `KEYS`: those of
    batching, and those of reading a corpus, if any of the three names a corpus.

    Args:
        setup: what the configuration means.
        overriding: settings that override it.
        overridden: settings that it overrides; of these, only the corpus is used, where neither the
            configuration nor `overriding` names one.

    Raises:
        InputError: the corpus that it names or its tokenizer is not available.
    """
    from batchstat.trainers.preflight.corpus import profile_keywords

    origin = setup.path.as_posix()
    decided = {key: Setting(value, origin) for key, value in setup.batching.settings.items()}
    own_reading = setup.corpus.reading  # how the trainer reads its corpus, and which corpus
    given_reading = {key: overriding[key].value for key in _READING if key in overriding}
    if "corpus" in overridden and "corpus" not in own_reading:
        given_reading.setdefault("corpus", overridden["corpus"].value)
    if given_reading.get("corpus") or own_reading.get("corpus"):
        # These depend on the files of the corpus: a trainer has a list of column names, and reads
        # the first one that the files have.
        reading = profile_keywords(setup, **given_reading)
        reading["corpus"] = tuple(map(as_shown, reading["corpus"]))
        decided |= {key: Setting(value, origin) for key, value in reading.items()}
    elif setup.corpus.unreadable:  # it names a corpus, in a form that is not read
        raise InputError(setup.no_corpus)
    return decided


def settings_of_recording(
    observed: "Observed", overriding: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings that a recording decides, by the names of `KEYS`.

    Args:
        observed: what was recorded.
        overriding: settings that override them.

    Raises:
        OptionError: a setting in `overriding` that reads a corpus.
    """
    folder = observed.profile.corpus.sources[0].path  # the source of its samples is its folder
    for key in _READING:
        if key in overriding:
            raise OptionError(
                f"{key.replace('_', '-')} (set in {overriding[key].origin}): the recording in "
                f"{folder} brings its own samples",
                "remove it",
            )
    decided = {**observed.setup.batching.settings, **observed.settings}
    return {key: Setting(value, folder) for key, value in decided.items()}


def current_training(inputs: "Inputs", profile: "Profile") -> "CurrentTraining":
    """Return what the current setup trains on: samples, settings and a strategy or batches.

    A trainer may leave out samples of the corpus, truncate others, and decide settings.

    Args:
        inputs: the settings in force.
        profile: the profile of the whole corpus.

    Raises:
        OptionError: a setting that the recording decides.
        InputError: the trainer keeps no sample.
    """
    from batchstat.trainers.preflight.changes import CurrentTraining, Trainer

    if inputs.setup is None:  # a strategy, which trains on all samples
        return CurrentTraining(lengths=profile, settings=inputs.settings, row=inputs.current)
    from batchstat.trainers.preflight.current import training_of, training_of_recording

    # The settings that override the current setup: those in force that are not set by itself.
    own_keys = inputs.values.keys() - inputs.decided_by_setup
    overriding = {key: value for key, value in vars(inputs.settings).items() if key in own_keys}
    if inputs.observed is not None:
        training = training_of_recording(inputs.observed, overriding)
        return replace(training, warnings=inputs.observed.warnings)
    training = training_of(Trainer(setup=inputs.setup, profile=profile, settings=overriding))
    return replace(training, warnings=tuple(_warnings(inputs, training)))


def _warnings(inputs: "Inputs", current: "CurrentSetup") -> Iterator[Finding]:
    """Yield the warnings of a report on a trainer's configuration."""
    from batchstat.trainers.preflight.named import setup_warnings

    yield from setup_warnings(current)
    setup = current.trainer.setup
    trains_with = setup.corpus.reading.get("tokenizer")
    counter = current.trainer.profile.tokenizer
    # Without a corpus, the profile is the one in the results folder, which another tokenizer may
    # have counted than the one that trains.
    if inputs.corpus or not trains_with or counter is None:
        return
    if Path(trains_with) != Path(counter.name):  # as paths, ./qwen and qwen are equal
        yield Finding(
            "tokenizer/other",
            f"{setup.path.as_posix()} trains with the tokenizer {trains_with}, but "
            f"{counter.name} counted the profile: pass the corpus, too",
        )
