"""Warnings about a calibrated device: what does not fit on it, and what is extrapolated."""

import math
from collections.abc import Iterator, Sequence

from batchstat.calibration.calibration import Calibration
from batchstat.findings import Finding
from batchstat.simulation.device import Device
from batchstat.simulation.results import StrategyResult

DOES_NOT_FIT = "device/does-not-fit"  # id of the finding about rows that do not fit in memory
_GIB = 2**30


def device_warnings(
    rows: Sequence[StrategyResult], device: Device | None, max_length: int
) -> Iterator[Finding]:
    """Yield warnings about noisy times, memory, new shapes and extrapolated rows."""
    if device is None:
        return
    if device.is_noisy:
        name = device.file or "the calibration"
        yield Finding(
            "device/noisy",
            f"the times of {name} are ±{device.time_residual:.0%}, too noisy to say how long an "
            "epoch takes or what is faster: measure again on an idle device",
        )
    # None means that it is not known whether the row fits.
    too_large = [row for row in rows if row.on_device.fits_memory is False]
    if too_large:
        problem, remedy = unfitting(too_large, device), _remedy(device, max_length)
        yield Finding(DOES_NOT_FIT, f"{problem}: {remedy}")
    memory = device.calibration.memory
    # A user's own step function says nothing about how much of its peak is gradients.
    if device.accumulates and memory is not None and memory.gradients is None:
        yield Finding(
            "device/gradients-unknown",
            "peaks lack the gradients that gradient accumulation keeps, which are not known of "
            f"{device.calibration.setup.model}",
        )
    slowed = []
    for row in rows:
        shapes = row.counts.distinct_shapes
        share = device.seconds_per_shape * shapes / (row.on_device.seconds or math.inf)
        if share >= 0.1:
            slowed.append(f"{share:.0%} of {row.label} ({shapes:,} shapes)")
    if slowed:
        yield Finding(
            "device/new-shapes",
            f"new shapes, at {device.seconds_per_shape:.2g} s each, are a part of the first epoch: "
            f"{', '.join(slowed)}; --pad-to-multiple-of 64 makes fewer",
        )
    extrapolated = [row.label for row in rows if row.on_device.is_extrapolated]
    if extrapolated:
        rows_unknown = [row for row in rows if row.on_device.fits_memory is None]
        calibration = device.calibration
        no_packed = "" if calibration.has_packed else ", and no packed rows"
        # Without a limit of memory, as on a CPU, there is nothing to fit.
        has_limit = calibration.memory is not None and calibration.hardware.memory is not None
        unknown = ", and whether they fit is not known" if has_limit and rows_unknown else ""
        yield Finding(
            "device/extrapolated",
            "time and memory are extrapolated, since the calibration has batches of at most "
            f"{calibration.most_tokens:,} tokens and rows of at most {calibration.widest:,}"
            f"{no_packed}{unknown}: {', '.join(extrapolated)}",
        )


def unfitting(rows: Sequence[StrategyResult], device: Device) -> str:
    """Return the text that lists rows that do not fit in memory, with their peaks."""
    calibration, name = device.calibration, device.calibration.hardware.name
    # Where no batch of the calibration ran out of memory, peaks are held against all memory there
    # is, which is known, as else no row would be known not to fit: `or 0` is for the type alone.
    limit = f"the {_gib(calibration.hardware.memory or 0)} of {name}"
    if (most_bytes := calibration.most_bytes) is not None:
        margin = "" if calibration.is_estimate else " with a margin of the worst residual"
        limit = f"the {_gib(most_bytes)} that fit on {name}{margin}"
    # A row that is known not to fit has a peak: `or 0` never applies.
    shown = ", ".join(f"{row.label} ({_gib(row.counts.peak_bytes or 0)})" for row in rows)
    return f"peak memory is above {limit}: {shown}"


def _remedy(device: Device, max_length: int) -> str:
    """Return what to do about rows that do not fit in memory."""
    fitting_tokens = device.tokens_that_fit(max_length)
    # What fits is not known: with --tokens-per-batch, the largest batch is not searched.
    if fitting_tokens is None:
        return "lower --tokens-per-batch, or run batchstat calibrate without it to know what fits"
    if (excess := fixed_excess(device.calibration)) is not None:
        return excess
    if fitting_tokens < max_length:
        return f"not even one row of max_length={max_length:,} fits, so lower --max-length"
    return f"--tokens-per-batch {fitting_tokens} fits"


def fixed_excess(calibration: Calibration) -> str | None:
    """Return that weights, gradients and optimizer alone exceed the memory; None if they do not."""
    memory, limit = calibration.memory, calibration.most_bytes
    # A measured calibration ran at least one batch, so that only an estimate can exceed it.
    if not calibration.is_estimate or memory is None or limit is None or memory.fixed <= limit:
        return None
    setup = calibration.setup
    options = ["--dtype bfloat16"] if setup.dtype == "float32" else []
    options += ["--optimizer sgd"] if setup.optimizer != "sgd" else []
    other_options = f"with {' or '.join(options)}, or " if options else ""
    return (
        f"weights, gradients and optimizer state alone need {_gib(memory.fixed)}, so that no batch "
        f"fits: run batchstat calibrate {other_options}for a device with more memory"
    )


def _gib(count: int) -> str:
    return f"{count / _GIB:,.1f} GiB"
