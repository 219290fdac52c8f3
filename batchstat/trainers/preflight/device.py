"""The calibrated device that a trainer's configuration trains on."""

from pathlib import Path

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel
from batchstat.errors import InputError
from batchstat.planning.settings import Settings
from batchstat.simulation.device import Device, as_device
from batchstat.trainers.base.setup import TrainingSetup


def device_of(
    setup: TrainingSetup,
    calibration: Calibration | str | Path | None,
    cost_per_hour: float | None,
    model: CostModel | None = None,
    settings: Settings | None = None,
) -> Device | None:
    """Return what `as_device` returns, for a configuration that trains as it was measured.

    Raises:
        InputError: a calibration of another dtype or gradient checkpointing.
    """
    device = as_device(calibration, cost_per_hour, model, settings)
    if device is None or not device.calibration.setup.is_described:
        return device
    own, named = device.calibration.setup, device.file or "the calibration"
    pairs = {
        "dtype": (own.dtype, setup.dtype),
        "gradient_checkpointing": (own.gradient_checkpointing, setup.gradient_checkpointing),
    }
    for name, (measured, trained) in pairs.items():
        if trained is not None and trained != measured:
            words = [str(each).lower() for each in (measured, trained)]
            raise InputError(
                f"{named} was measured with {name}={words[0]}, but {setup.path.as_posix()} "
                f"trains with {name}={words[1]}: run batchstat calibrate with it"
            )
    return device
