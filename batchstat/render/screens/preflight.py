"""The screen of `preflight`."""

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.errors import counted
from batchstat.render.screens.layout import Line, Pasted, Rows, basis_line
from batchstat.render.text import decimal, key_value, key_values, one_line, percent
from batchstat.simulation.preflight import Change, Preflight
from batchstat.simulation.results import StrategyResult


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
    yield Line("samples", " · ".join(_samples(report)))
    yield Line("steps", " · ".join(_steps(report)))
    yield Line("padding", " · ".join(_padding(row)))
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
        last = "step, which is incomplete" if row.request.strategy.varies_steps else "batches"
        yield f"{number:,} dropped with the last {last}"


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


def _padding(row: StrategyResult) -> Iterator[str]:
    counts = row.counts
    yield f"{percent(counts.padding_ratio)} of what is computed"
    yield f"largest batch {counted(counts.max_batch_tokens, 'token')}"
    if counts.ranks.world_size > 1:
        yield f"ranks idle {percent(counts.ranks.idle)} of the time"


def _changes(report: Preflight) -> Iterator[RenderableType]:
    if not report.changes:
        yield Line("result", "no key of this configuration saves 5 % or more")
        return
    for word, change in zip(("change", "or", "or", "or"), report.changes, strict=False):
        yield Line(
            word, f"{key_values(change.keys)}: {decimal(change.speed_up)}x the speed (estimate)"
        )
        yield Line("", " · ".join(_gives(change)))


def _gives(change: Change) -> Iterator[str]:
    row = change.simulation.row
    yield f"{percent(row.counts.padding_ratio)} padding"
    yield f"{counted(change.steps_per_epoch, 'step')} per epoch"
    yield f"largest batch {counted(row.counts.max_batch_tokens, 'token')}"
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
