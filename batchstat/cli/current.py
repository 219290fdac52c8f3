"""The current setup of a command: a strategy, a trainer's own configuration, or a recording."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.configuration import Setting
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.storage.shown import as_shown

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.profiling.profile import Profile
    from batchstat.trainers.base.setup import TrainingSetup
    from batchstat.trainers.preflight.changes import Trained
    from batchstat.trainers.preflight.current import CurrentSetup
    from batchstat.trainers.preflight.observed import Observed

_READING = ("corpus", "tokenizer", "chat_template", *(each.name for each in fields(CorpusOptions)))
"""Settings that say which corpus is read, and how."""


def settings_of_setup(
    setup: "TrainingSetup", above: Mapping[str, Setting], below: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings that a trainer's configuration decides, by the names of `KEYS`.

    Settings of batching are always among them. Settings that read a corpus are only if a corpus is
    named: by the configuration, in `above` or in `below`.

    Args:
        setup: what the configuration means.
        above: settings that override it.
        below: settings that it overrides; only the corpus is used of them, if nothing else has one.

    Raises:
        InputError: the corpus that it names or its tokenizer is not available.
    """
    from batchstat.trainers.preflight.corpus import profile_keywords

    origin = setup.path.as_posix()
    decided = {key: Setting(value, origin) for key, value in setup.batching.settings.items()}
    overriding = {key: above[key].value for key in _READING if key in above}
    # The trainer's own corpus overrides the one below.
    if "corpus" not in overriding and "corpus" not in setup.corpus.reading and "corpus" in below:
        overriding["corpus"] = below["corpus"].value
    if overriding.get("corpus") or setup.corpus.reading.get("corpus"):
        # What these are depends on the corpus: a trainer reads the first column of a list of names
        # that the corpus has.
        reading = profile_keywords(setup, **overriding)
        if "corpus" in reading:
            reading = {**reading, "corpus": tuple(map(as_shown, reading["corpus"]))}
        decided |= {key: Setting(value, origin) for key, value in reading.items()}
    elif setup.corpus.unreadable:  # it names a corpus, in a form that is not read
        raise InputError(setup.no_corpus)
    return decided


def settings_of_recording(observed: "Observed", above: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings that a recording decides, by the names of `KEYS`.

    Args:
        observed: what was recorded.
        above: settings that override them.

    Raises:
        OptionError: a setting in `above` that reads a corpus.
    """
    folder = observed.profile.corpus.sources[0].path  # the source of its samples is its folder
    for key in _READING:
        if key in above:
            raise OptionError(
                f"{key.replace('_', '-')} (set in {above[key].origin}): the recording in {folder} "
                "brings its own samples: remove it"
            )
    decided = {**observed.setup.batching.settings, **observed.settings}
    return {key: Setting(value, folder) for key, value in decided.items()}


def current_of(inputs: "Inputs", profile: "Profile") -> "Trained":
    """Return what the current setup trains on: samples, settings and a strategy or batches.

    A trainer may leave out samples of the corpus, truncate others, and decide settings.

    Args:
        inputs: the settings in force.
        profile: the profile of the whole corpus.

    Raises:
        OptionError: a setting that the recording decides.
        InputError: the trainer keeps no sample.
    """
    from batchstat.trainers.preflight.changes import Trained, Trainer

    if inputs.setup is None:  # a strategy, which trains on all samples
        return Trained(lengths=profile, settings=inputs.settings, row=inputs.current)
    from batchstat.trainers.preflight import current

    origins = inputs.setup_origins
    # Settings that override the current setup; it decides the others itself.
    overriding = {
        key: value
        for key, value in vars(inputs.settings).items()
        if key in inputs.values and inputs.values[key].origin not in origins
    }
    if inputs.observed is not None:
        return current.current_of_recording(inputs.observed, overriding).warned(
            inputs.observed.warnings
        )
    trained = current.current_of(Trainer(setup=inputs.setup, profile=profile, settings=overriding))
    return trained.warned(_warnings(inputs, trained))


def _warnings(inputs: "Inputs", current: "CurrentSetup") -> list[str]:
    """Return the warnings of a report on a trainer's configuration."""
    from batchstat.trainers.preflight.named import setup_warnings

    warnings, setup = setup_warnings(current), current.trainer.setup
    loaded, counter = setup.corpus.reading.get("tokenizer"), current.trainer.profile.tokenizer
    # Without a corpus, the profile is the one in the results folder: another tokenizer than the
    # one that the trainer loads may have counted it. Paths, as ./qwen and qwen are one folder.
    if not inputs.corpus and loaded and counter is not None and Path(loaded) != Path(counter.name):
        warnings.append(
            f"{setup.path.as_posix()} trains with the tokenizer {loaded}, but "
            f"{counter.name} counted the profile: pass the corpus, too"
        )
    return warnings
