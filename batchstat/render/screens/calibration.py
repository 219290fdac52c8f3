"""The screen of `calibrate`: what a batch takes, how exact that is, and what to run next."""

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.measured import TimeFit
from batchstat.render.device import duration, gib
from batchstat.render.screens.layout import Line, Pasted, Rows
from batchstat.render.text import batches, percent
from batchstat.simulation.device_warnings import fixed_excess

_USUAL_WIDTH = 4_096  # the width that an estimate is shown for


def calibration_screen(calibration: Calibration, path: str) -> RenderableType:
    """Return what `calibrate` prints: device, model, measured batches, fits, what fits."""
    hardware, setup, training = calibration.hardware, calibration.setup, list[str]()
    # Not of a recorded run or of a user's function, whose training the setup does not describe.
    if setup.is_described:
        training += [setup.dtype + (" mixed precision" if setup.mixed_precision else "")]
        training += [f"{setup.attention} attention", setup.optimizer]
        training += ["gradient checkpointing"] if setup.gradient_checkpointing else []
    training += ["compiled"] if setup.compile else []
    memory = "" if hardware.memory is None else f", {gib(hardware.memory)}"
    model = setup.model + (f": {', '.join(training)}" if training else "")
    parts: list[RenderableType] = [
        Line("device", f"{hardware.name} ({hardware.device}){memory}"),
        Line("model", model),
        Text(),
    ]
    if not calibration.is_estimate:
        parts += [_table(calibration), Text()]
    if calibration.time is not None:
        parts.append(Line("time", _time(calibration.time)))
    if (fit := calibration.memory) is not None:
        formula = f"{gib(fit.fixed)} + {fit.per_token / 1024:,.1f} KiB per token"
        formula += f" + {fit.per_pair:.3g} bytes per pair" if fit.per_pair else ""
        error = "an estimate"
        if fit.residual is not None and fit.worst is not None:
            error = f"±{percent(fit.residual)}, at most {percent(fit.worst)} off"
        parts.append(Line("memory", f"{formula}: {error}"))
    if not calibration.is_estimate:
        measured = f"{batches(len(calibration.points))} measured"
        if too_large := calibration.too_large:
            measured += f", {too_large:,} more ran out of memory"
        largest = f"{calibration.most_tokens:,} tokens and rows of {calibration.widest:,}"
        beyond = "beyond, numbers are extrapolated"
        parts.append(Line("range", f"{measured}, up to {largest}; {beyond}"))
    if fitting := _fitting(calibration):
        parts.append(Line("fits", fitting))
    return Group(*parts, Pasted("use", f"batchstat compare --calibration {path}"))


def _table(calibration: Calibration) -> Rows:
    """Return the table of the measured batches, and by how much the fit is off."""
    has_memory = calibration.memory is not None
    columns = ["batch", "tokens", "time", "tokens/s", "fit"]
    rows = Rows(*columns, *(["peak", "fit"] if has_memory else []))
    for point in calibration.points:
        tokens = point.shape.tokens
        cells = [f"{tokens:,}", duration(point.seconds), f"{tokens / point.seconds:,.0f}"]
        cells.append(_off(calibration.seconds(point.shape), point.seconds))
        if has_memory and point.peak is not None:
            cells.append(gib(point.peak))
            cells.append(_off(calibration.bytes(point.shape), point.peak))
        rows.add(Text(str(point.shape)), *cells)
    return rows


def _off(fitted: float | None, measured: float) -> str:
    return "" if fitted is None else f"{100 * (fitted / measured - 1):+.1f}%"


def _time(fit: TimeFit) -> str:
    """Return the formula that was fitted to the times of batches, with how far it is off."""
    parts = [
        f"{duration(fit.per_batch)} per batch",
        f"{fit.per_token * 1e6:.3g} µs per token",
        f"{fit.per_pair * 1e9:.3g} ns per pair of tokens in a row",
    ]
    parts += [f"{duration(fit.per_step)} per update"] if fit.per_step else []
    parts += [f"{duration(fit.per_shape)} for each new shape"] if fit.per_shape else []
    return f"{' + '.join(parts)}: ±{percent(fit.residual)}, at most {percent(fit.worst)} off"


def _fitting(calibration: Calibration) -> str:
    """Return which batches fit into memory; empty where memory is not known or has no limit."""
    if (excess := fixed_excess(calibration)) is not None:
        return excess
    # An estimate measures no batch, so it has no widest row.
    widest = calibration.widest or _USUAL_WIDTH
    most_tokens = calibration.tokens_that_fit(widest)
    if most_tokens is not None and most_tokens >= widest:
        return f"tokens_per_batch up to {most_tokens:,}, for rows of at most {widest:,} tokens"
    if most_tokens is not None:
        return f"at most {most_tokens:,} tokens, not even one row of {widest:,}"
    if calibration.memory is None or calibration.hardware.memory is None:
        return ""
    # Memory was measured, but the limit would follow from batches that ran out of it.
    return "every batch measured; none ran out of memory, so the limit is not known"
