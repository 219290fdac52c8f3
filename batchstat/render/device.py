"""Times, costs and memory on a calibrated device, in words and in columns of tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchstat.lengths.arrays import round_up
from batchstat.render.text import one_line
from batchstat.simulation.device import Device, OnDevice
from batchstat.simulation.results import StrategyResult

EXTRAPOLATED = "~"  # the sign of a number that is extrapolated
TOO_LARGE = "✗"  # the sign of a peak that does not fit, and of its row if that has no other

_GIB = 2**30
_UNITS = (
    *(("ms", 1e-3, 0.1), ("s", 1, 60), ("min", 60, 3_600), ("h", 3_600, 48 * 3_600)),
    ("days", 86_400, None),
)
"""Name, seconds of one, and the seconds from which the next unit is shown; None for the last."""


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, such as "1.5 min"."""
    unit, size = next((unit, size) for unit, size, end in _UNITS if end is None or seconds < end)
    # Below 1, two significant digits; above, one digit after the point.
    amount = seconds / size
    return f"{amount:#.2g} {unit}" if amount < 1 else f"{amount:,.1f} {unit}"


def gib(count: int) -> str:
    """Return a number of bytes in GiB."""
    return f"{count / _GIB:,.1f} GiB" if count >= _GIB else f"{count / _GIB:#.2g} GiB"


def money(cost: float) -> str:
    """Return a cost, in a currency that only its reader knows."""
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:#.2g}"


def time_of(epoch: OnDevice) -> str:
    """Return the time of an epoch; empty where it is not known."""
    return "" if epoch.seconds is None else _extrapolated_sign(epoch) + duration(epoch.seconds)


def cost_of(epoch: OnDevice) -> str:
    """Return the cost of an epoch; empty where it is not known."""
    return "" if epoch.cost is None else _extrapolated_sign(epoch) + money(epoch.cost)


def peak_of(epoch: OnDevice, peak_bytes: int | None) -> str:
    """Return the memory of the largest batch, with signs if it does not fit or is extrapolated."""
    if peak_bytes is None:
        return ""
    # `fits_memory` is None where that is not known, which is no reason for the sign.
    too_large_sign = TOO_LARGE if epoch.fits_memory is False else ""
    return too_large_sign + _extrapolated_sign(epoch) + gib(peak_bytes)


def device_columns(
    rows: Sequence[StrategyResult], device: Device | None
) -> dict[str, Callable[[StrategyResult], str]]:
    """Return the columns that a calibrated device adds, where any row has their numbers."""
    if device is None:
        return {}
    # Headings end in how far their numbers may be off, such as "time ±2.1%".
    time_margin, memory_margin = margin(device.time_residual), margin(device.memory_residual)
    columns: dict[str, Callable[[StrategyResult], str]] = {
        "time" + time_margin: lambda row: time_of(row.on_device),
        "peak" + memory_margin: lambda row: peak_of(row.on_device, row.counts.peak_bytes),
        "cost" + time_margin: lambda row: cost_of(row.on_device),
    }
    return {heading: cell for heading, cell in columns.items() if any(map(cell, rows))}


def margin(residual: float | None) -> str:
    """Return how far a fitted number may be off, such as " ±2.1%"; empty if not measured."""
    return "" if residual is None else f" ±{100 * residual:.1f}%"


def _extrapolated_sign(epoch: OnDevice) -> str:
    return EXTRAPOLATED if epoch.is_extrapolated else ""


def report_facts(report: Mapping[str, Any]) -> dict[str, str]:
    """Return what a check's report says of its device, by the word before it."""
    calibration, strategy, basis = report["calibration"], report["strategy"], report["basis"]
    if calibration is None:
        return {}
    epoch = OnDevice(**{key: strategy[key] for key in ("seconds", "cost", "is_extrapolated")})
    time_margin = margin(calibration["time_residual"])
    memory_margin = margin(calibration["memory_residual"])
    numbers = (
        (time_of(epoch), time_margin),
        (peak_of(epoch, strategy["peak_bytes"]), f"{memory_margin} at the peak"),
        (cost_of(epoch), f"{time_margin} is the cost"),
    )
    epoch_text = ", ".join(number + ending for number, ending in numbers if number)
    widest = round_up(basis["max_length"], basis["pad_to_multiple_of"])
    return {**device_facts(calibration, widest), "epoch": epoch_text}


def device_facts(calibration: Mapping[str, Any], widest: int) -> dict[str, str]:
    """Return what a report says of its calibration: each text by the word that stands before it."""
    facts = {"device": _device_line(calibration)}
    most_tokens = calibration["tokens_that_fit"]
    if most_tokens is None:  # it is not known what fits
        return facts
    if most_tokens == 0:  # not even the weights and the optimizer fit
        facts["fits"] = "no batch, whatever its size"
    elif most_tokens < widest:
        facts["fits"] = f"at most {most_tokens:,} tokens, not even one row of {widest:,}"
    else:
        facts["fits"] = f"tokens_per_batch up to {most_tokens:,}"
    return facts


def _device_line(calibration: Mapping[str, Any]) -> str:
    """Return the line on a calibrated device, and whether its numbers are estimates."""
    precision = " mixed precision" if calibration["mixed_precision"] else ""
    dtypes = [] if calibration["dtype"] is None else [calibration["dtype"] + precision]
    parts = [calibration["device"], *dtypes, calibration["model"]]
    parts += ["gradient checkpointing"] if calibration["gradient_checkpointing"] else []
    file = f"{one_line(calibration['file'].rsplit('/', 1)[-1])}: " if calibration["file"] else ""
    text = file + ", ".join(map(one_line, parts))
    if calibration["is_estimate"]:
        return f"{text}; an estimate of memory, nothing was measured"
    text += "; its measurement was interrupted" if not calibration["is_complete"] else ""
    if not (seconds := calibration["seconds_per_shape"]):
        return text
    return f"{text}; {duration(seconds)} for each new shape, in the first epoch"
