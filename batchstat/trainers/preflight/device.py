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
    """Return the device that a configuration trains on, after a check that the device was measured
    in the way in which the configuration trains.

    Raises:
        InputError: the calibration is of another dtype or gradient checkpointing.
    """
    device = as_device(calibration, cost_per_hour, model, settings)
    # Measurements of the user's own function, or of a recorded run, do not say how it trained.
    if device is None or not device.calibration.setup.is_described:
        return device
    calibrated, shown_name = device.calibration.setup, device.file or "the calibration"
    pairs = {
        "dtype": (calibrated.dtype, setup.dtype),
        "gradient_checkpointing": (calibrated.gradient_checkpointing, setup.gradient_checkpointing),
    }
    for name, (measured, trained) in pairs.items():
        # None: the configuration does not say it, and the trainer's default is not known here.
        if trained is not None and trained != measured:
            words = [str(value).lower() for value in (measured, trained)]
            raise InputError(
                f"{shown_name} was measured with {name}={words[0]}, but {setup.path.as_posix()} "
                f"trains with {name}={words[1]}",
                "run batchstat calibrate with it",
            )
    return device
