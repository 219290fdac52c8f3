"""The screen of `calibrate`: what a batch takes, how exact that is, and what to run next."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.calibration.calibration import Calibration, MemoryFit, Setup, TimeFit
from batchstat.errors import counted
from batchstat.render.screens.layout import Line, Pasted, Rows
from batchstat.render.text import percent

_GIB = 2**30


def calibration_screen(calibration: Calibration, path: str) -> RenderableType:
    """Return what `calibrate` prints.

    Args:
        calibration: what was measured.
        path: the file it is in.
    """
    parts: list[RenderableType] = [*_facts(calibration), Text(), _table(calibration), Text()]
    if calibration.time is not None:
        parts.append(Line("time", _time(calibration.time)))
    if calibration.memory is not None:
        parts.append(Line("memory", _memory(calibration.memory)))
    parts.append(Line("range", _range(calibration)))
    return Group(*parts, Pasted("use", f"batchstat compare --calibration {path}"))


def _facts(calibration: Calibration) -> Iterator[Line]:
    hardware = calibration.hardware
    memory = "" if hardware.memory is None else f", {hardware.memory / _GIB:.1f} GiB"
    yield Line("device", f"{hardware.name} ({hardware.device}){memory}")
    yield Line("model", f"{calibration.setup.model}: {setup_words(calibration.setup)}")


def setup_words(setup: Setup) -> str:
    """Return how a model was trained, in a few words."""
    words = [setup.dtype + (" mixed precision" if setup.mixed_precision else "")]
    words += [f"{setup.attention} attention", setup.optimizer]
    words += ["gradient checkpointing"] if setup.gradient_checkpointing else []
    words += ["compiled"] if setup.compile else []
    return ", ".join(words)


def _table(calibration: Calibration) -> Rows:
    has_memory = calibration.memory is not None
    columns = ["batch", "tokens", "time", "tokens/s", "fit"]
    rows = Rows(*columns, *(["peak", "fit"] if has_memory else []))
    for point in calibration.points:
        tokens = point.shape.tokens
        cells = [f"{tokens:,}", seconds_text(point.seconds), f"{tokens / point.seconds:,.0f}"]
        cells.append(_off(calibration.seconds(point.shape), point.seconds))
        if has_memory and point.peak is not None:
            cells.append(f"{point.peak / _GIB:.2f} GiB")
            cells.append(_off(calibration.bytes(point.shape), point.peak))
        rows.add(Text(str(point.shape)), *cells)
    return rows


def _off(fitted: float | None, measured: float) -> str:
    return "" if fitted is None else f"{100 * (fitted / measured - 1):+.1f}%"


def seconds_text(seconds: float) -> str:
    """Return a time with three digits, in the unit that suits it."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size or unit == "ms":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def _time(fit: TimeFit) -> str:
    parts = [
        f"{seconds_text(fit.per_batch)} per batch",
        f"{fit.per_token * 1e6:.3g} µs per token",
        f"{fit.per_pair * 1e9:.3g} ns per pair of tokens in a row",
    ]
    parts += [f"{seconds_text(fit.per_step)} per update"] if fit.per_step else []
    parts += [f"{seconds_text(fit.per_shape)} to compile a shape"] if fit.per_shape else []
    return f"{' + '.join(parts)}: ±{percent(fit.residual)}, at most {percent(fit.worst)} off"


def _memory(fit: MemoryFit) -> str:
    fixed = f"{fit.fixed / _GIB:.2f} GiB + {fit.per_token / 1024:,.1f} KiB per token"
    pairs = f" + {fit.per_pair:.3g} bytes per pair" if fit.per_pair else ""
    if fit.residual is None or fit.worst is None:
        return f"{fixed}{pairs}: an estimate"
    return f"{fixed}{pairs}: ±{percent(fit.residual)}, at most {percent(fit.worst)} off"


def _range(calibration: Calibration) -> str:
    words = (
        f"{counted(len(calibration.points), 'batch', 'batches')} measured, up to "
        f"{calibration.most_tokens:,} tokens and rows of {calibration.widest:,}; "
        "beyond, compare says extrapolated"
    )
    fits = calibration.tokens_that_fit(calibration.widest)
    if fits is not None:
        words += f"; tokens_per_batch up to {fits:,} fits"
    return words
