"""The settings that a current setup decides: a trainer's own configuration, or a recording."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from batchstat.cli.configuration import Setting
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.storage.shown import as_shown

if TYPE_CHECKING:
    from batchstat.trainers.base.setup import TrainingSetup
    from batchstat.trainers.preflight.observed import Observed

_READING = ("corpus", "tokenizer", "chat_template", *(each.name for each in fields(CorpusOptions)))
"""Settings that say which corpus is read, and how."""


def settings_of_setup(
    setup: "TrainingSetup", overriding: Mapping[str, Setting], overridden: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings that a trainer's configuration decides: those of batching, and those of
    reading a corpus, if any of the three names one. Raises InputError if it is not available.
    """
    from batchstat.trainers.preflight.corpus import profile_keywords

    origin = setup.path.as_posix()
    decided = {key: Setting(value, origin) for key, value in setup.batching.settings.items()}
    own_reading = setup.corpus.reading  # how the trainer reads its corpus, and which corpus
    given_reading = {key: overriding[key].value for key in _READING if key in overriding}
    if "corpus" in overridden and "corpus" not in own_reading:
        given_reading.setdefault("corpus", overridden["corpus"].value)
    if given_reading.get("corpus") or own_reading.get("corpus"):
        reading = profile_keywords(setup, **given_reading)
        reading["corpus"] = tuple(map(as_shown, reading["corpus"]))
        decided |= {key: Setting(value, origin) for key, value in reading.items()}
    elif setup.corpus.unreadable:  # it names a corpus, in a form that is not read
        raise InputError(setup.no_corpus)
    return decided


def settings_of_recording(
    observed: "Observed", overriding: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return what a recording decides; raise OptionError if `overriding` reads a corpus."""
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
