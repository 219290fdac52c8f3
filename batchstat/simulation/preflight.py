"""`preflight`: what a trainer's own configuration does to a corpus."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

from batchstat.calibration.calibration import Calibration
from batchstat.errors import InputError, OptionError
from batchstat.frameworks.files import read_setup
from batchstat.frameworks.samples import TrainedSamples
from batchstat.frameworks.setup import EpochSize, TrainingSetup
from batchstat.parameters import checks_keywords
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.profiling.build import profile as count
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare import simulate
from batchstat.simulation.device import Device, as_device
from batchstat.simulation.preflight_changes import Change, change_of, changed_setups
from batchstat.simulation.preflight_corpus import profile_keywords
from batchstat.simulation.preflight_samples import as_trained, epoch_size
from batchstat.simulation.preflight_warnings import (
    configuration_warnings,
    schedule_warnings,
    simulation_warnings,
)
from batchstat.simulation.results import ReportWarning, Simulation


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
        return self.simulation.row.counts.steps

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
        return epoch_size(self.samples, self.simulation)

    @property
    def total_seconds(self) -> float | None:
        """Time of the whole training on the calibrated device; None where it is not known."""
        row, device = self.simulation.row, self.simulation.device
        if device is None or row.on_device.seconds is None:
            return None
        compiling = device.compile_seconds(row.counts.distinct_shapes)
        epochs = self.total_steps / row.counts.steps
        return compiling + (row.on_device.seconds - compiling) * epochs

    @property
    def total_cost(self) -> float | None:
        """Cost of that time; None where it is not known."""
        if (seconds := self.total_seconds) is None or (device := self.simulation.device) is None:
            return None
        return device.cost_of(seconds, self.simulation.basis.world_size)

    @property
    def warnings(self) -> tuple[ReportWarning, ...]:
        """What the report may not be true of, and what else to know about its numbers."""
        return (
            *configuration_warnings(self.setup, self.samples, self.profile.tokenizer),
            *schedule_warnings(self.warmup_steps, self.total_steps),
            *simulation_warnings(self.setup, self.simulation),
        )


@checks_keywords(Settings)
def preflight(
    config: str | Path,
    profile: Profile | None = None,
    *,
    framework: str | None = None,
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> Preflight:
    """Report what a trainer's own configuration does to a corpus.

    Args:
        config: a JSON or YAML file of transformers' `TrainingArguments`, TRL's `SFTConfig`,
            the configuration of axolotl, or the arguments of LLaMA-Factory.
        profile: the corpus, counted as `profile_keywords` says; by default the one that the
            configuration names.
        framework: the one that it is for; by default the one that knows most of its keys.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it:
            compute is time then, also in the speed-up of a change.
        cost_per_hour: of one such device.
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
        InputError: a configuration, corpus or tokenizer that is not available, or a calibration of
            another dtype or gradient checkpointing than the configuration trains with.
    """
    setup = read_setup(config, framework)
    device = as_device(calibration, cost_per_hour, trainer=setup)
    if profile is None:
        profile = count(**profile_keywords(setup))
    samples, wanted = as_trained(setup, profile, settings)
    if device is not None:
        device = device.accumulating(wanted.gradient_accumulation_steps)
    simulation = _simulated(setup, samples, wanted, device)
    found = (change_of(each, simulation) for each in changed_setups(setup, profile, settings))
    changes = [change for change in found if change is not None]
    return Preflight(
        created=datetime.now(UTC).isoformat(),
        setup=setup,
        profile=profile,
        samples=samples,
        simulation=simulation,
        changes=tuple(sorted(changes, key=lambda each: -each.speed_up)),
    )


def _simulated(
    setup: TrainingSetup, samples: TrainedSamples, settings: Settings, device: Device | None
) -> Simulation:
    """Return an epoch; what is wrong with the settings is said of the configuration's own keys."""
    try:
        return simulate(samples.profile, setup.strategy, settings, device)
    except (InputError, OptionError) as error:
        message = setup.with_own_keys(str(error))
        if message == str(error):
            raise
        kind = OptionError if isinstance(error, OptionError) else InputError
        raise kind(message) from None
