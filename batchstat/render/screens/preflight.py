"""The screen of `preflight`."""

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.errors import counted
from batchstat.render.device import cost_of, duration, margin, money, peak_of, time_of
from batchstat.render.screens.layout import (
    Line,
    Pasted,
    Rows,
    basis_line,
    device_lines,
    rank_idle,
)
from batchstat.render.text import decimal, key_value, key_values, one_line, percent, span
from batchstat.simulation.preflight import Preflight
from batchstat.simulation.preflight_changes import Change
from batchstat.simulation.results import Simulation


def preflight_screen(report: Preflight, compare: str, details: bool = False) -> RenderableType:
    """Return what `preflight` prints: what the trainer does, and what to change.

    Args:
        report: the results.
        compare: the command that compares all strategies with this configuration.
        details: whether every key of the configuration is listed.
    """
    parts = [*_what_it_does(report), Text(), *_changes(report), Pasted("more", compare)]
    if details:
        parts += [Text(), *_keys(report)]
    return Group(*parts)


def _what_it_does(report: Preflight) -> Iterator[RenderableType]:
    setup, row = report.setup, report.simulation.row
    path = one_line(setup.path.as_posix())
    yield Line("config", f"{path} · {setup.title}, by the rules of {setup.version}")
    yield Line("basis", f"{row.label} · {_basis(report)}")
    yield from device_lines(report.simulation.device, report.simulation.basis)
    yield Line("samples", " · ".join(_samples(report)))
    yield Line("steps", " · ".join(_steps(report)))
    yield Line("padding", " · ".join(_padding(report)))
    if row.counts.ranks.world_size > 1:
        yield Line("ranks", _ranks(report))
    if row.on_device.seconds is not None:
        yield Line("time", " · ".join(_time(report)))
    if (trained := row.trained) is not None and trained.weights is not None:
        weights = trained.weights
        yield Line(
            "weight",
            f"of a trained token in its step's gradient {decimal(weights.p5)} to "
            f"{decimal(weights.p95)} under loss {row.request.settings.loss} (1 is exact)",
        )


def _basis(report: Preflight) -> str:
    """Return the settings; those of what does not happen to these samples are left out."""
    profile, basis = report.samples.profile, report.simulation.row.request.settings
    longer = profile.stats.max > basis.max_length
    return basis_line(basis, every=False, order=_order(report), overflows=longer)


def _order(report: Preflight) -> str:
    """Return how samples are shuffled; nothing if `order` says so."""
    request = report.simulation.row.request
    as_order = request.strategy.shuffles_as
    if as_order is not None:
        what = "packed rows" if as_order == "blocks" else "samples"
        return f"{what} shuffled, seed {request.settings.seed}"
    is_sequence = bool((np.diff(report.samples.profile.records) > 0).all())
    return "" if is_sequence or request.settings.order != "file" else "samples shuffled"


def _dropped(report: Preflight) -> Iterator[str]:
    """Yield how many samples are not batched, with the reason."""
    for reason, number in report.samples.dropped.items():
        yield f"{number:,} dropped {reason}"
    row = report.simulation.row
    number = row.counts.dropped_samples - report.samples.lost.dropped_samples
    basis = row.request.settings
    if basis.overflow == "drop":
        longer, _ = report.samples.profile.stats.above(basis.max_length)
        if longer:
            yield f"{longer:,} dropped longer than max_length"
            number -= longer
    if number:
        yield f"{number:,} dropped with the last batches"


def _samples(report: Preflight) -> Iterator[str]:
    counts = report.simulation.row.counts
    samples = report.samples
    dropped = counts.dropped_samples - samples.lost.dropped_samples
    kept = len(samples.profile) - dropped
    yield f"{counted(len(report.profile), 'sample')}, {kept:,} per epoch"
    yield from _dropped(report)
    if samples.held_out:
        yield f"{samples.held_out:,} held out for evaluation"
    if counts.truncated_samples:
        share = percent(counts.truncated_ratio, 2)
        yield f"{counts.truncated_samples:,} truncated, {share} of the tokens"
    if counts.duplicated_samples:
        yield f"{counts.duplicated_samples:,} repeated to fill up ranks"
    trained = report.simulation.row.trained
    if trained is not None and trained.untrained_samples:
        yield f"{trained.untrained_samples:,} trained on without a trained token"


def _steps(report: Preflight) -> Iterator[str]:
    counts, schedule = report.simulation.row.counts, report.setup.schedule
    yield f"{report.steps_per_epoch:,} per epoch of {counts.batches:,} batches"
    lasts = f"{report.total_steps:,} in all"
    epochs = "1 epoch" if schedule.epochs == 1 else f"{schedule.epochs:g} epochs"
    yield lasts if schedule.max_steps else f"{lasts} ({epochs})"
    yield f"{report.warmup_steps:,} of warm-up"


def _padding(report: Preflight) -> Iterator[str]:
    row = report.simulation.row
    yield f"{percent(row.counts.padding_ratio)} of what is computed"
    yield _largest(report.simulation)


def _largest(simulation: Simulation) -> str:
    """Return the largest batch, and the memory that it needs where that is known."""
    row, device = simulation.row, simulation.device
    words = f"largest batch {counted(row.counts.max_batch_tokens, 'token')}"
    peak = peak_of(row.on_device, row.counts.peak_bytes)
    if not peak or device is None:
        return words
    unfitting = ", which does not fit" if row.on_device.fits_memory is False else ""
    return f"{words}, {peak}{margin(device.memory_residual)} at the peak{unfitting}"


def _ranks(report: Preflight) -> str:
    """Return what each rank gets, and how long it waits."""
    row = report.simulation.row
    held = [each.samples for each in row.counts.sample_coverage.ranks]
    samples = _each(min(held), max(held), "sample")
    steps = _each(row.counts.ranks.min_steps, row.counts.ranks.max_steps, "step")
    return f"{samples} and {steps} each · idle {percent(rank_idle(row))} of the time"


def _each(least: int, most: int, word: str) -> str:
    return counted(least, word) if least == most else f"{span(least, most)} {word}s"


def _time(report: Preflight) -> Iterator[str]:
    """Yield the time and the cost of an epoch, and of the whole training."""
    row, device = report.simulation.row, report.simulation.device
    assert device is not None
    assert report.total_seconds is not None
    after = margin(device.time_residual)
    yield f"{time_of(row.on_device)}{after} per epoch"
    yield f"{duration(report.total_seconds)} in all"
    if report.total_cost is not None:
        yield f"cost {cost_of(row.on_device)}{after} per epoch"
        yield f"{money(report.total_cost)} in all"


def _changes(report: Preflight) -> Iterator[RenderableType]:
    if not report.changes:
        yield Line("result", "no key of this configuration saves 5 % or more")
        return
    for word, change in zip(("change", "or", "or", "or"), report.changes, strict=False):
        is_timed = change.simulation.row.on_device.seconds is not None
        by = "by the calibration" if is_timed else "estimate"
        speed = f"{decimal(change.speed_up)}x the speed ({by})"
        yield Line(word, f"{key_values(change.keys)}: {speed}")
        yield Line("", " · ".join(_gives(change)))


def _gives(change: Change) -> Iterator[str]:
    row = change.simulation.row
    if row.on_device.seconds is not None:
        yield f"{time_of(row.on_device)} per epoch"
    yield f"{percent(row.counts.padding_ratio)} padding"
    yield f"{counted(change.steps_per_epoch, 'step')} per epoch"
    yield _largest(change.simulation)
    if row.packs_rows:
        yield "needs varlen attention"


def _keys(report: Preflight) -> Iterator[RenderableType]:
    setup = report.setup
    rows = Rows("key that decides", "value")
    for key, value in setup.values.items():
        if key in setup.given or value is not None:
            rows.add(Text(key), key_value(value))
    yield rows
    if setup.unused:
        yield Text()
        yield Line("unused", ", ".join(map(one_line, setup.unused)))
