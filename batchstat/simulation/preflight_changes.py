"""Changes of a trainer's configuration that save compute."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchstat.errors import BatchstatError, InputError
from batchstat.frameworks import CONFIGURATIONS
from batchstat.frameworks.files import read_setup
from batchstat.frameworks.samples import TrainedSamples
from batchstat.frameworks.setup import TrainingSetup
from batchstat.planning.settings import Settings
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare import simulate
from batchstat.simulation.preflight_samples import as_trained
from batchstat.simulation.results import Simulation

LEAST_SPEED_UP = 1.05
"""Changes that save less are not shown."""
MOST_LOST = 0.005
"""Share of the corpus that a change may lose beyond what is lost already."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Another value for some keys of the configuration, and what it gives.

    Attributes:
        keys: the keys with their values.
        simulation: the same corpus with these.
        speed_up: compute of the configuration as it is / compute with the change: time, on a
            calibrated device.
    """

    keys: Mapping[str, Any]
    simulation: Simulation
    speed_up: float

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch with the change."""
        return self.simulation.row.counts.steps


@dataclass(frozen=True, kw_only=True)
class ChangedSetup:
    """A configuration with other values for some keys.

    Attributes:
        keys: the keys with their values.
        samples: what the trainer then keeps of the corpus.
        strategy: the strategy.
        settings: the settings.
    """

    keys: Mapping[str, Any]
    samples: TrainedSamples
    strategy: str
    settings: Settings


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
        yield ChangedSetup(keys=keys, samples=samples, strategy=changed.strategy, settings=wanted)


def change_of(changed: ChangedSetup, now: Simulation) -> Change | None:
    """Return what a change gives, on the same device as now; None if it saves too little, loses
    more, or does not fit.
    """
    device = now.device and now.device.accumulating(changed.settings.gradient_accumulation_steps)
    try:
        simulation = simulate(changed.samples.profile, changed.strategy, changed.settings, device)
    except InputError:  # this corpus does not go with it
        return None
    before, after = now.row.counts, simulation.row.counts
    speed_up = before.compute / after.compute
    if speed_up < LEAST_SPEED_UP or after.lost_ratio > before.lost_ratio + MOST_LOST:
        return None
    if simulation.row.on_device.fits_memory is False:
        return None
    return Change(keys=changed.keys, simulation=simulation, speed_up=speed_up)
