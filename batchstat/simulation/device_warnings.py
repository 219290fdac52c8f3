"""Warnings about a calibrated device: what does not fit on it, and what is extrapolated."""

from collections.abc import Iterator, Sequence

from batchstat.calibration.calibration import Calibration
from batchstat.simulation.device import Device
from batchstat.simulation.results import ReportWarning, StrategyResult

_GIB = 2**30


def device_warnings(
    rows: Sequence[StrategyResult], device: Device | None, max_length: int
) -> Iterator[ReportWarning]:
    """Yield warnings about rows that do not fit in memory, and about extrapolated ones.

    Args:
        rows: the rows.
        device: the device; None for no warning.
        max_length: tokens of the widest row.
    """
    if device is None:
        return
    large = [row for row in rows if row.on_device.fits_memory is False]
    if large:
        most = device.calibration.most_bytes or 0
        shown = ", ".join(f"{row.label} ({_gib(row.counts.peak_bytes or 0)})" for row in large)
        fitting = device.tokens_that_fit(max_length) or 0
        remedy = (
            f"--tokens-per-batch {fitting} fits"
            if fitting >= max_length
            else f"not even one row of max_length={max_length:,} fits, so lower --max-length"
        )
        margin = "" if device.memory_residual is None else " with a margin of the worst residual"
        yield ReportWarning(
            "does_not_fit",
            f"peak memory is above the {_gib(most)} that fit on {device.calibration.hardware.name}"
            f"{margin}: {shown}: {remedy}",
        )
    beyond = [row.label for row in rows if row.on_device.is_extrapolated]
    if beyond:
        yield ReportWarning("extrapolated", f"{_range(device.calibration)}: {', '.join(beyond)}")


def _range(calibration: Calibration) -> str:
    packed = "" if calibration.has_packed else ", and no packed rows"
    return (
        f"time and memory are extrapolated, since the calibration has batches of at most "
        f"{calibration.most_tokens:,} tokens and rows of at most {calibration.widest:,}{packed}"
    )


def _gib(count: int) -> str:
    return f"{count / _GIB:,.1f} GiB"
