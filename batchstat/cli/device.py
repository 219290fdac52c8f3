"""The calibrated device of a command."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchstat.parameters import option

if TYPE_CHECKING:
    from batchstat.calibration.cost_model import CostModel
    from batchstat.cli.inputs import Inputs
    from batchstat.simulation.device import Device


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """The device that trains, as it was calibrated."""

    calibration: Path | None = option(
        None,
        "The device: a file of calibrate, or a recorded run.",
        "Batching",
        "PATH",
        is_common=True,
    )
    cost_per_hour: float | None = option(
        None, "Cost of an hour of one device, in any currency.", "Batching", "2.49"
    )


def device_keywords(inputs: "Inputs") -> dict[str, Any]:
    """Return the calibration and the cost in force, as library functions take them."""
    return {key: inputs.get(key) for key in ("calibration", "cost_per_hour")}


def read_device(inputs: "Inputs", model: "CostModel | None" = None) -> "Device | None":
    """Return the calibrated device in force; None without a calibration. Raises OptionError: an
    invalid cost; InputError: a calibration that cannot be read, or of another model, dtype or
    gradient checkpointing than the trainer's configuration has.
    """
    from batchstat.simulation.device import as_device
    from batchstat.trainers.preflight.preflight import device_of

    read = as_device if inputs.setup is None else partial(device_of, inputs.setup)
    return read(**device_keywords(inputs), model=model, settings=inputs.settings)
