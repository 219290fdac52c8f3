"""Times, costs and memory on a calibrated device, in words and in columns of tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchstat.lengths.arrays import round_up
from batchstat.render.text import one_line
from batchstat.simulation.device import Device, OnDevice
from batchstat.simulation.results import StrategyResult

EXTRAPOLATED = "~"
"""The sign of a number that is extrapolated."""

TOO_LARGE = "✗"
"""The sign of a peak that does not fit, and of its row where nothing else is said of that first."""

_GIB = 2**30
_UNITS = (
    *(("ms", 1e-3, 0.1), ("s", 1, 60), ("min", 60, 3_600), ("h", 3_600, 48 * 3_600)),
    ("days", 86_400, None),
)
"""Units of time: the name, the seconds of one, and the seconds from which the next unit is shown;
None for the last.
"""


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


def time_of(row: OnDevice) -> str:
    """Return the time of an epoch; empty where it is not known."""
    return "" if row.seconds is None else _sign(row) + duration(row.seconds)


def cost_of(row: OnDevice) -> str:
    """Return the cost of an epoch; empty where it is not known."""
    return "" if row.cost is None else _sign(row) + money(row.cost)


def peak_of(row: OnDevice, peak_bytes: int | None) -> str:
    """Return the memory at the peak, with a sign before it where that does not fit; empty where it
    is not known.
    """
    if peak_bytes is None:
        return ""
    # `fits_memory` is None where that is not known.
    return (TOO_LARGE if row.fits_memory is False else "") + _sign(row) + gib(peak_bytes)


def device_columns(
    rows: Sequence[StrategyResult], device: Device | None
) -> dict[str, Callable[[StrategyResult], str]]:
    """Return the columns that a table of strategies gets from a calibrated device: by its heading,
    a function that returns the cell of a row. Columns whose numbers are not known for any row are
    left out.
    """
    columns: dict[str, Callable[[StrategyResult], str]] = {}
    if device is None:
        return columns
    time, memory = margin(device.time_residual), margin(device.memory_residual)
    if any(row.on_device.seconds is not None for row in rows):
        columns["time" + time] = lambda row: time_of(row.on_device)
    if any(row.counts.peak_bytes is not None for row in rows):
        columns["peak" + memory] = lambda row: peak_of(row.on_device, row.counts.peak_bytes)
    if any(row.on_device.cost is not None for row in rows):
        columns["cost" + time] = lambda row: cost_of(row.on_device)
    return columns


def margin(residual: float | None) -> str:
    """Return how far a fitted number may be off, such as " ±2.1%", to stand behind it; empty where
    nothing was measured.
    """
    return "" if residual is None else f" ±{100 * residual:.1f}%"


def _sign(row: OnDevice) -> str:
    return EXTRAPOLATED if row.is_extrapolated else ""


def report_facts(report: Mapping[str, Any]) -> dict[str, str]:
    """Return what a check's report says of its device and of an epoch on it: each text by the word
    that stands before it. Empty without a calibration.

    Args:
        report: the content of check.json.
    """
    calibration, numbers, basis = report["calibration"], report["strategy"], report["basis"]
    if calibration is None:
        return {}
    epoch = OnDevice(**{name: numbers[name] for name in ("seconds", "cost", "is_extrapolated")})
    time_off, memory_off = (margin(calibration[f"{name}_residual"]) for name in ("time", "memory"))
    # Each number with what follows it. One that is not known is empty, and left out.
    texts = (
        (time_of(epoch), time_off),
        (peak_of(epoch, numbers["peak_bytes"]), f"{memory_off} at the peak"),
        (cost_of(epoch), f"{time_off} is the cost"),
    )
    shown = ", ".join(text + ending for text, ending in texts if text)
    widest = round_up(basis["max_length"], basis["pad_to_multiple_of"])
    return {**device_facts(calibration, widest), "epoch": shown}


def device_facts(calibration: Mapping[str, Any], widest: int) -> dict[str, str]:
    """Return what a report says of its calibration: each text by the word that stands before it.

    Args:
        calibration: the calibration, as in the report.
        widest: tokens of the widest row that a batch may have.
    """
    words = {"device": _device(calibration)}
    # None if it is not known what fits, 0 if not even the weights and the optimizer do.
    if (fitting := calibration["tokens_that_fit"]) is not None:
        words["fits"] = f"tokens_per_batch up to {fitting:,}"
        if not fitting:
            words["fits"] = "no batch, whatever its size"
        elif fitting < widest:
            words["fits"] = f"at most {fitting:,} tokens, not even one row of {widest:,}"
    return words


def _device(calibration: Mapping[str, Any]) -> str:
    """Return the line on a calibrated device: its file, the device, the model, how it was trained,
    and whether the numbers are estimates.
    """
    mixed = " mixed precision" if calibration["mixed_precision"] else ""
    dtype = [] if calibration["dtype"] is None else [calibration["dtype"] + mixed]
    parts = [calibration["device"], *dtype, calibration["model"]]
    parts += ["gradient checkpointing"] if calibration["gradient_checkpointing"] else []
    file = f"{one_line(calibration['file'].rsplit('/', 1)[-1])}: " if calibration["file"] else ""
    text = file + ", ".join(one_line(each) for each in parts)
    if calibration["is_estimate"]:
        return f"{text}; an estimate of memory, nothing was measured"
    text += "; its measurement was interrupted" if not calibration["is_complete"] else ""
    return f"{text}; time of the first epoch, which compiles" if calibration["compile"] else text
