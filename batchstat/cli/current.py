"""The current setup of a command: a strategy, a trainer's own configuration, or a recording."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.configuration import Setting
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.gate.check import DEFAULT_CURRENT
from batchstat.planning.settings import Settings
from batchstat.simulation.compare.named_rows import Row
from batchstat.simulation.results import ReportWarning
from batchstat.storage.addresses import as_shown

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.current import CurrentSetup
    from batchstat.simulation.observed import Observed
    from batchstat.simulation.trainer_changes import Trainer
    from batchstat.trainers.base.setup import TrainingSetup

_READING = ("corpus", "tokenizer", "chat_template", *(each.name for each in fields(CorpusOptions)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Current:
    """What is trained on a corpus.

    Attributes:
        samples: the samples that are batched.
        settings: the settings for them.
        row: a strategy, or a name and batches; None where nothing is named.
        trainer: what the keys of a trainer can change; None where none is named by its file.
        strategies: what it can be compared with; None for any strategy.
        warnings: what a report has to say.
    """

    samples: "Profile"
    settings: Settings
    row: Row | None = None
    trainer: "Trainer | None" = None
    strategies: Sequence[Row] | None = None
    warnings: tuple[ReportWarning, ...] = ()

    @property
    def trained(self) -> Row:
        """What is trained, for a command that simulates one setup."""
        return DEFAULT_CURRENT if self.row is None else self.row


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
        if "corpus" in named:
            named = {**named, "corpus": tuple(map(as_shown, named["corpus"]))}
        found |= {key: Setting(value, origin) for key, value in named.items()}
    elif setup.unreadable:
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
    own = {**observed.setup.settings, **observed.settings}
    return {key: Setting(value, folder) for key, value in own.items()}


def current_of(inputs: "Inputs", profile: "Profile") -> Current:
    """Return what is trained on a corpus.

    Args:
        inputs: the settings in force.
        profile: the whole corpus.

    Raises:
        OptionError: a setting that the recording decides.
        InputError: the trainer keeps no sample.
    """
    if inputs.setup is None:
        return Current(samples=profile, settings=inputs.settings, row=inputs.current)
    from batchstat.simulation import current

    given = _given(inputs)
    found = (
        current.current_of(inputs.setup, profile, given)
        if inputs.observed is None
        else current.of_recording(inputs.observed, given)
    )
    return Current(
        samples=found.samples.profile,
        settings=found.settings,
        row=found.row,
        trainer=found.trainer,
        strategies=found.strategies,
        warnings=tuple(
            ReportWarning("configuration", each) for each in _warnings(inputs, profile, found)
        ),
    )


def _given(inputs: "Inputs") -> dict[str, object]:
    """Return the settings that are not of the current setup."""
    own = {each.name for each in fields(Settings)}
    read = inputs.settings
    return {
        key: getattr(read, key)
        for key, each in inputs.values.items()
        if key in own and each.origin not in inputs.setup_origins
    }


def _warnings(inputs: "Inputs", profile: "Profile", found: "CurrentSetup") -> list[str]:
    """Return what a report has to say of a setup."""
    assert inputs.setup is not None
    if inputs.observed is not None:
        return [*inputs.observed.warnings]
    config = inputs.setup.path.as_posix()
    left = len(profile) - len(found.samples.profile)
    warnings = [*found.samples.warnings]
    if left:
        warnings.append(
            f"{config} leaves out {left:,} of {len(profile):,} samples: batchstat preflight says "
            "why"
        )
    named, counter = inputs.setup.reading.get("tokenizer"), profile.tokenizer
    if not inputs.corpus and named and counter is not None and Path(named) != Path(counter.name):
        warnings.append(
            f"{config} trains with the tokenizer {named}, but {counter.name} counted the profile: "
            "pass the corpus, too"
        )
    return warnings
