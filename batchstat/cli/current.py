"""The current setup: a strategy, or what a trainer's own configuration means."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.configuration import Setting
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.planning.settings import Settings
from batchstat.simulation.results import ReportWarning

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.frameworks.setup import TrainingSetup
    from batchstat.gate.remedies import Alternative
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.results import StrategyResult

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


def alternatives(inputs: "Inputs", profile: "Profile") -> "Iterator[Alternative]":
    """Yield other values for keys of the trainer's configuration, those that pack samples last.

    Args:
        inputs: settings with a trainer's configuration.
        profile: the whole corpus.
    """
    from batchstat.gate.remedies import Alternative
    from batchstat.planning.strategies.spec import request_row
    from batchstat.simulation.preflight_changes import changed_setups

    def packs(spec: str) -> bool:
        return request_row(spec, inputs.settings.resolve(1, None)).strategy.packs_rows

    setup = inputs.setup
    assert setup is not None
    own = {each.name for each in fields(Settings)}
    origin = setup.path.as_posix()
    values = inputs.values.items()
    given = {key: each.value for key, each in values if key in own and each.origin != origin}
    now = packs(setup.strategy)
    found = [(not now and packs(x.strategy), x) for x in changed_setups(setup, profile, given)]
    for is_packed, each in sorted(found, key=lambda pair: pair[0]):
        costs = ("it needs varlen attention",) if is_packed else ()
        yield Alternative(each.keys, each.samples.profile, each.strategy, each.settings, costs)


_PYTHON = ("transformers", "trl")
"""Frameworks that the argument of a strategy is for."""


def argument_for(setup: "TrainingSetup | None", row: "StrategyResult") -> str:
    """Return what the user's trainer is to be passed for a strategy: keys where the user named its
    configuration; empty if it has none.
    """
    argument = row.request.strategy.argument
    if setup is None or setup.framework in _PYTHON or not argument:
        return argument
    from batchstat.frameworks import CONFIGURATIONS
    from batchstat.frameworks.files import read_setup
    from batchstat.render.text import key_values

    for keys in CONFIGURATIONS[setup.framework].alternatives(setup):
        try:
            changed = read_setup(setup.path, setup.framework, keys)
        except OptionError:  # they contradict other keys
            continue
        if changed.strategy.partition(":")[0] == row.name:
            return key_values(keys)
    return ""


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
