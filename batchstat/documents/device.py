"""The device that was calibrated, for which a report has times."""

from typing import Any

from batchstat.calibration.setup import OF_MODELS
from batchstat.documents.base import Document
from batchstat.parameters import described
from batchstat.records import Amount, Count, UnboundedRatio, told


@described("The calibration behind seconds, peak_bytes and cost.")
class Calibrated(Document):
    file: str | None = told(
        "The file of the calibration, or the folder of the recorded run; null where it was given "
        "as a record."
    )
    created: str = told("When it was measured, in UTC.")
    device: str = told("Name of the device.", of="hardware.name")
    model: str = told(
        "The model that was measured: its configuration, the function that runs a step, or the "
        "program that was recorded."
    )
    dtype: str | None = told(
        "What computes; under mixed precision, weights have float32. This and the next four are "
        "null for a function or a program, which decides them by itself."
    )
    mixed_precision: bool | None = told("Whether weights stay in float32 while dtype computes.")
    attention: str | None = told("Implementation of attention.")
    optimizer: str | None = told("Name of the optimizer.")
    gradient_checkpointing: bool | None = told(
        "Whether activations are computed again in the backward pass."
    )
    compile: bool = told("Whether torch.compile compiles each shape.")
    seconds_per_shape: Amount = told(
        "What the first batch of each (rows, width) takes longer than later ones: where it is not "
        "0, seconds are those of the first epoch."
    )
    is_estimate: bool = told(
        "Whether nothing was measured: memory is then a closed form, and there is no time."
    )
    time_residual: UnboundedRatio | None = told(
        "How far the fitted seconds of a batch are from measured ones: the ± of seconds and cost. "
        "Null for an estimate."
    )
    memory_residual: UnboundedRatio | None = told(
        "The same of peak_bytes; null where nothing was measured."
    )
    most_tokens: Count = told(
        "Total tokens of the largest batch measured; above it, numbers are extrapolated."
    )
    widest: Count = told("Tokens of the widest row measured that holds one sample.")
    is_complete: bool = told(
        "Whether nothing interrupted the measurement: else fewer batches were measured, or fewer "
        "times."
    )
    has_packed: bool = told("Whether rows of several samples were measured.")
    tokens_that_fit: Count | None = told(
        "The largest tokens_per_batch whose batches all fit, with rows of max_length; null where "
        "the limit is not known, as after a calibration that no batch ran out of memory in."
    )
    cost_per_hour: Amount | None = told("Of one device; null where it was not given.")


def calibrated(device: Any, widest: int) -> dict[str, Any] | None:
    """Return the facts of a `batchstat.simulation.device.Device`; None without one."""
    if device is None:
        return None
    calibration, setup = device.calibration, device.calibration.setup
    composed = {"tokens_that_fit": device.tokens_that_fit(widest)}
    # null where a function or a program was measured, which chose these by itself.
    if not setup.is_described:
        composed |= dict.fromkeys(OF_MODELS)
    return Calibrated.of(composed, device, calibration, setup)
