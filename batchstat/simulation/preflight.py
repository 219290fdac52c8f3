"""`preflight`: what a trainer's own configuration does to a corpus."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

from batchstat.errors import BatchstatError, InputError, OptionError
from batchstat.frameworks import CONFIGURATIONS
from batchstat.frameworks.files import read_setup
from batchstat.frameworks.samples import TrainedSamples, without_remainder
from batchstat.frameworks.setup import EpochSize, Schedule, TrainingSetup
from batchstat.parameters import checks_keywords
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.profiling.build import profile as count
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare import simulate
from batchstat.simulation.preflight_corpus import profile_keywords
from batchstat.simulation.preflight_warnings import (
    configuration_warnings,
    simulation_warnings,
    warmup_warnings,
)
from batchstat.simulation.results import ReportWarning, Simulation

LEAST_SPEED_UP = 1.05
"""Changes that save less are not shown."""
MOST_LOST = 0.005
"""Share of the corpus that a change may lose beyond what is lost already."""


_UNMARKED = ("tokens", "length")
"""Contents that do not say by themselves which tokens carry loss."""
_ALL_TRAINED = (
    "every token is taken as trained: where only some carry loss, pass token ids with labels, "
    "--trained-column"
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """Another value for some keys of the configuration, and what it gives.

    Attributes:
        keys: the keys with their values.
        simulation: the same corpus with these.
        speed_up: compute of the configuration as it is / compute with the change.
        steps_per_epoch: optimizer steps of an epoch with the change.
    """

    keys: Mapping[str, Any]
    simulation: Simulation
    steps_per_epoch: int
    speed_up: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Preflight:
    """What a trainer does with a corpus by its own configuration.

    Example:
        >>> report = batchstat.preflight("sample_data/sft.yaml")
        >>> report
        Preflight('hf-trainer:batch_size=4', 25.5% padding, 15 steps per epoch, 45 in all)

    Attributes:
        created: time of creation, ISO 8601 in UTC.
        setup: what the configuration means.
        profile: the corpus, before the trainer drops anything.
        samples: what it keeps of it.
        simulation: an epoch of it.
        changes: changes that save compute, those that save most first.
    """

    created: str
    setup: TrainingSetup
    profile: Profile
    samples: TrainedSamples
    simulation: Simulation
    changes: tuple[Change, ...]

    def __repr__(self) -> str:
        """Return the setup, its padding and its steps on one line."""
        counts = self.simulation.row.counts
        return (
            f"Preflight({self.setup.strategy!r}, {counts.padding_ratio:.1%} padding, "
            f"{self.steps_per_epoch:,} steps per epoch, "
            f"{self.total_steps:,} in all)"
        )

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch."""
        return self.setup.schedule.steps_per_epoch(self._epoch)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.setup.schedule.total_steps(self._epoch)

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up."""
        return self.setup.schedule.warmup_steps(self._epoch)

    @property
    def _epoch(self) -> EpochSize:
        return _epoch_size(self.samples, self.simulation)

    @property
    def warnings(self) -> tuple[ReportWarning, ...]:
        """What the report may not be true of, and what else to know about its numbers."""
        return (
            *configuration_warnings(self.setup, self.samples, self.profile.tokenizer),
            *warmup_warnings(self.warmup_steps, self.total_steps),
            *simulation_warnings(self.setup, self.simulation.warnings),
        )


@checks_keywords(Settings)
def preflight(
    config: str | Path,
    profile: Profile | None = None,
    *,
    framework: str | None = None,
    **settings: Unpack[SettingsOptions],
) -> Preflight:
    """Report what a trainer's own configuration does to a corpus.

    Args:
        config: a JSON or YAML file of transformers' `TrainingArguments`, TRL's `SFTConfig`,
            the configuration of axolotl, torchtune or verl's SFT or PPO trainer, or the arguments
            of LLaMA-Factory, ms-swift or slime.
        profile: the corpus, counted as `profile_keywords` says; by default the one that the
            configuration names. For reinforcement learning, its rollouts.
        framework: the one that it is for; by default the one that knows most of its keys.
        settings: fields of `batchstat.Settings` that it does not have, such as `world_size=8`;
            others override it.

    Example:
        >>> report = batchstat.preflight("sample_data/sft.yaml", world_size=4)
        >>> report.total_steps, report.warmup_steps
        (12, 1)
        >>> report.changes[0].keys
        {'packing': True}

    Raises:
        OptionError: a configuration with an unknown key, an invalid value, or one whose batches are
            not modelled.
        InputError: a configuration, corpus or tokenizer that is not available.
    """
    setup = read_setup(config, framework)
    if "world_size" in settings:
        setup = replace(setup, ranks_from="")
    if profile is None:
        profile = count(**profile_keywords(setup))
    samples, wanted = as_trained(setup, profile, settings)
    simulation = _simulated(setup, samples, wanted)
    found = (_change(each, simulation) for each in changed_setups(setup, profile, settings))
    changes = [change for change in found if change is not None]
    return Preflight(
        created=datetime.now(UTC).isoformat(),
        setup=setup,
        profile=profile,
        samples=samples,
        simulation=simulation,
        changes=tuple(sorted(changes, key=lambda each: -each.speed_up)),
    )


def _simulated(setup: TrainingSetup, samples: TrainedSamples, settings: Settings) -> Simulation:
    """Return an epoch; what is wrong with the settings is said of the configuration's own keys."""
    try:
        return simulate(samples.profile, setup.strategy, settings)
    except (InputError, OptionError) as error:
        message = setup.with_own_keys(str(error))
        if message == str(error):
            raise
        kind = OptionError if isinstance(error, OptionError) else InputError
        raise kind(message) from None


def _settings(
    setup: TrainingSetup, profile: Profile, settings: Mapping[str, Any]
) -> dict[str, Any]:
    found = {**setup.settings, **settings}
    if setup.max_length_of_corpus and "max_length" not in settings:
        found["max_length"] = profile.stats.max
    return found


def as_trained(
    setup: TrainingSetup, profile: Profile, settings: Mapping[str, Any]
) -> tuple[TrainedSamples, Settings]:
    """Return what a trainer keeps of a corpus, and the settings for it; those given override its.

    A corpus that is not known to have untrained tokens has none: all but the first of each sample
    carry loss, which nothing predicts.

    Raises:
        OptionError: settings that contradict each other.
        InputError: it keeps no sample.
    """
    wanted = Settings(**_settings(setup, profile, settings))
    limit = wanted.resolve(longest=profile.stats.max, stated_max=profile.stated_max).max_length
    samples = setup.prepare(profile, limit)
    if setup.leaves_out_remainder:
        samples = without_remainder(samples, wanted.world_size)
    if samples.profile.trained is None and profile.corpus.options.content in _UNMARKED:
        samples = replace(samples, warnings=(*samples.warnings, _ALL_TRAINED))
    return replace(samples, profile=replace(samples.profile, lost=samples.lost)), wanted


@dataclass(frozen=True, kw_only=True)
class ChangedSetup:
    """A configuration with other values for some keys.

    Attributes:
        keys: the keys with their values.
        samples: what the trainer then keeps of the corpus.
        strategy: the strategy.
        settings: the settings.
        schedule: how long training lasts.
    """

    keys: Mapping[str, Any]
    samples: TrainedSamples
    strategy: str
    settings: Settings
    schedule: Schedule


def changed_setups(
    setup: TrainingSetup, profile: Profile, settings: Mapping[str, Any]
) -> Iterator[ChangedSetup]:
    """Yield changes of a configuration's keys that may save compute.

    Args:
        setup: what the configuration means as it is.
        profile: the corpus.
        settings: fields of `batchstat.Settings` that override the configuration.
    """
    for keys in CONFIGURATIONS[setup.framework].alternatives(setup):
        try:
            changed = read_setup(setup.path, setup.framework, keys)
            samples, wanted = as_trained(changed, profile, settings)
        except BatchstatError:  # they contradict other keys, or do not go with this corpus
            continue
        yield ChangedSetup(
            keys=keys,
            samples=samples,
            strategy=changed.strategy,
            settings=wanted,
            schedule=changed.schedule,
        )


def _change(changed: ChangedSetup, now: Simulation) -> Change | None:
    """Return what a change gives; None if it saves too little, or loses more."""
    try:
        simulation = simulate(changed.samples.profile, changed.strategy, changed.settings)
    except InputError:  # this corpus does not go with it
        return None
    before, after = now.row.counts, simulation.row.counts
    speed_up = before.compute / after.compute
    if speed_up < LEAST_SPEED_UP or after.lost_ratio > before.lost_ratio + MOST_LOST:
        return None
    steps = changed.schedule.steps_per_epoch(_epoch_size(changed.samples, simulation))
    return Change(
        keys=changed.keys, simulation=simulation, speed_up=speed_up, steps_per_epoch=steps
    )


def _epoch_size(samples: TrainedSamples, simulation: Simulation) -> EpochSize:
    counts, ranks = simulation.row.counts, simulation.basis.world_size
    return EpochSize(
        samples=len(samples.profile),
        batches=counts.batches // ranks,
        steps=counts.steps,
        world_size=ranks,
    )
