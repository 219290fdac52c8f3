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


def settings_of_setup(
    setup: "TrainingSetup", above: Mapping[str, Setting], below: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings of a trainer's configuration, by the names of `KEYS`.

    Args:
        setup: what the configuration means.
        above: settings that override it; without a corpus here, there or below, none of those that
            read one are returned.
        below: settings that it overrides.

    Raises:
        InputError: the corpus that it names or its tokenizer is not available.
    """
    from batchstat.trainers.preflight.corpus import profile_keywords

    origin = setup.path.as_posix()
    found = {key: Setting(value, origin) for key, value in setup.batching.settings.items()}
    given = {key: above[key].value for key in _READING if key in above}
    if "corpus" not in given and "corpus" not in setup.corpus.reading and "corpus" in below:
        given["corpus"] = below["corpus"].value
    if given.get("corpus") or setup.corpus.reading.get("corpus"):
        named = profile_keywords(setup, **given)
        if "corpus" in named:
            named = {**named, "corpus": tuple(map(as_shown, named["corpus"]))}
        found |= {key: Setting(value, origin) for key, value in named.items()}
    elif setup.corpus.unreadable:
        raise InputError(setup.no_corpus)
    return found


def settings_of_recording(observed: "Observed", above: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a recording, by the names of `KEYS`.

    Args:
        observed: what was recorded.
        above: settings that stand beside it or above.

    Raises:
        OptionError: one that reads a corpus.
    """
    folder = observed.profile.corpus.sources[0].path
    for key in _READING:
        if key in above:
            raise OptionError(
                f"{key.replace('_', '-')} (set in {above[key].origin}): the recording in {folder} "
                "brings its own samples: remove it"
            )
    own = {**observed.setup.batching.settings, **observed.settings}
    return {key: Setting(value, folder) for key, value in own.items()}


def current_of(inputs: "Inputs", profile: "Profile") -> "Trained":
    """Return what is trained on a corpus.

    Args:
        inputs: the settings in force.
        profile: the whole corpus.

    Raises:
        OptionError: a setting that the recording decides.
        InputError: the trainer keeps no sample.
    """
    from batchstat.trainers.preflight.changes import Trained, Trainer

    if inputs.setup is None:
        return Trained(lengths=profile, settings=inputs.settings, row=inputs.current)
    from batchstat.trainers.preflight import current

    own = inputs.setup_origins
    # What stands above the current setup, which decides the rest itself.
    given = {
        key: value
        for key, value in vars(inputs.settings).items()
        if key in inputs.values and inputs.values[key].origin not in own
    }
    if inputs.observed is not None:
        return current.of_recording(inputs.observed, given).warned(inputs.observed.warnings)
    found = current.current_of(Trainer(setup=inputs.setup, profile=profile, settings=given))
    return found.warned(_warnings(inputs, found))


def _warnings(inputs: "Inputs", now: "CurrentSetup") -> list[str]:
    """Return what a report has to say of a trainer's configuration."""
    from batchstat.trainers.preflight.named import setup_warnings

    warnings, setup = setup_warnings(now), now.trainer.setup
    named, counter = setup.corpus.reading.get("tokenizer"), now.trainer.profile.tokenizer
    if not inputs.corpus and named and counter is not None and Path(named) != Path(counter.name):
        warnings.append(
            f"{setup.path.as_posix()} trains with the tokenizer {named}, but "
            f"{counter.name} counted the profile: pass the corpus, too"
        )
    return warnings
