"""The current setup: a strategy, or what a trainer's own configuration means."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.configuration import Setting
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.planning.settings import Settings
from batchstat.simulation.results import ReportWarning

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.frameworks.setup import TrainingSetup
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.trainer_changes import Trainer

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
    from batchstat.simulation.preflight_corpus import profile_keywords

    origin = setup.path.as_posix()
    found = {key: Setting(value, origin) for key, value in setup.settings.items()}
    given = {key: above[key].value for key in _READING if key in above}
    if "corpus" not in given and "corpus" not in setup.reading and "corpus" in below:
        given["corpus"] = below["corpus"].value
    if given.get("corpus") or setup.reading.get("corpus"):
        named = profile_keywords(setup, **given)
        found |= {key: Setting(value, origin) for key, value in named.items()}
    elif setup.unreadable:
        raise InputError(setup.no_corpus)
    return found


def trainer_of(inputs: "Inputs", profile: "Profile") -> "Trainer | None":
    """Return the trainer whose configuration is the current setup; None where none is named.

    Args:
        inputs: the settings in force.
        profile: the whole corpus.
    """
    from batchstat.simulation.trainer_changes import Trainer

    if inputs.setup is None:
        return None
    own = {each.name for each in fields(Settings)}
    origin = inputs.setup.path.as_posix()
    values = inputs.values.items()
    given = {key: each.value for key, each in values if key in own and each.origin != origin}
    return Trainer(setup=inputs.setup, profile=profile, settings=given)


def trained_samples(
    inputs: "Inputs", profile: "Profile"
) -> "tuple[Profile, Settings, tuple[ReportWarning, ...]]":
    """Return the samples that are batched, the settings for them, and what a report has to say.

    Raises:
        InputError: the trainer keeps none.
    """
    if inputs.setup is None:
        return profile, inputs.settings, ()
    from batchstat.simulation.preflight_samples import as_trained

    given = {each.name: getattr(inputs.settings, each.name) for each in fields(Settings)}
    if given["max_length"] is None:
        del given["max_length"]
    samples, settings = as_trained(inputs.setup, profile, given)
    config = inputs.setup.path.as_posix()
    left = len(profile) - len(samples.profile)
    found = [*samples.warnings]
    if left:
        found.append(
            f"{config} leaves out {left:,} of {len(profile):,} samples: batchstat preflight says "
            "why"
        )
    named, counter = inputs.setup.reading.get("tokenizer"), profile.tokenizer
    if not inputs.corpus and named and counter is not None and Path(named) != Path(counter.name):
        found.append(
            f"{config} trains with the tokenizer {named}, but {counter.name} counted the profile: "
            "pass the corpus, too"
        )
    return samples.profile, settings, tuple(ReportWarning("configuration", each) for each in found)
