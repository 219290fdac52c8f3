"""The screen of `preflight`."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.documents.preflight import Proof
from batchstat.errors import counted
from batchstat.render.device import cost_of, duration, margin, money, peak_of, time_of
from batchstat.render.screens.advice import Advisor
from batchstat.render.screens.layout import (
    Line,
    Pasted,
    Rows,
    basis_line,
    device_lines,
    rank_idle,
)
from batchstat.render.screens.losses import loss_lines
from batchstat.render.screens.recording import run_lines, run_source
from batchstat.render.text import decimal, key_value, one_line, percent, span
from batchstat.simulation.compare.changes import Change
from batchstat.simulation.meters.token_weights import UNKNOWN
from batchstat.simulation.results import Simulation
from batchstat.trainers.preflight.report import Preflight
from batchstat.trainers.registry import CONFIGURATIONS

_WITH_DECODER = (
    "What would help is not simulated where an encoder and a decoder have widths of their own. Pad "
    "to the longest row of a batch, and batch samples of similar lengths."
)


def preflight_screen(
    report: Preflight, command: Callable[[Change], str], more: str = "", details: bool = False
) -> RenderableType:
    """Return what `preflight` prints: what the trainer does, and what to change.

    Args:
        report: the results.
        command: returns the line to paste for a change.
        more: the command that compares all strategies with this configuration, if there is one.
        details: whether every key of the configuration is listed.
    """
    simulation = report.simulation
    advisor = Advisor(report.changes, simulation.basis, simulation.device, command)
    has_decoder = report.observed is not None and report.observed.has_decoder
    what_helps = [Line("result", _WITH_DECODER)] if has_decoder else advisor.lines()
    parts = [*_what_it_does(report), Text(), *what_helps]
    if more:
        parts.append(Pasted("more", more))
    if details:
        parts += [Text(), *_keys(report)]
    return Group(*parts)


def _what_it_does(report: Preflight) -> Iterator[RenderableType]:
    row = report.simulation.row
    if report.setup.assumption:
        yield Line("if", report.setup.assumption)
    yield from _source(report)
    yield Line("data", " · ".join(_data(report)))
    yield Line("basis", _basis(report))
    yield from device_lines(report.simulation.device, report.simulation.basis)
    yield from loss_lines([row])
    padding = f"{percent(row.counts.padding_ratio)} of what is computed"
    yield Line("padding", f"{padding} · {_largest(report.simulation)}")
    yield Line("steps", " · ".join(_steps(report)))
    if report.num_examples is not None:
        rows = counted(report.num_examples, "packed row")
        mean = decimal(len(report.samples.profile) / report.num_examples)
        yield Line("rows", f"{rows}, {mean} samples each: the trainer's Num examples")
    if row.counts.ranks.world_size > 1:
        yield Line("ranks", _ranks(report))
    if row.on_device.seconds is not None:
        yield Line("time", " · ".join(_time(report)))
    if report.observed is not None and report.observed.run is not None:
        yield from run_lines(report.observed.run, report.saved)
    if loss := _loss(report):
        yield Line("loss", loss)
    if report.proof is not None:
        yield Line("proof", _proof(report.proof))


def _proof(proof: Proof) -> str:
    """Return what a plan and a recording have in common, and what would make them equal."""
    whole = f"{proof.batches:,} recorded batches of {one_line(proof.folder)}"
    if proof.is_equal:
        more = f", of {proof.planned:,} planned" if proof.planned > proof.batches else ""
        return f"equal in all {whole}{more}"
    words = f"{proof.equal:,} of {whole} are equal, then {proof.difference}"
    if proof.causes:
        return f"{words}; equal with {' or '.join(proof.causes)}"
    why = proof.hint or "no seed, epoch, world size, max_length or packing alone explains it"
    return f"{words}; {why}"


def _source(report: Preflight) -> Iterator[Line]:
    """Yield where the batches come from."""
    observed, setup = report.observed, report.setup
    if observed is None:
        path = one_line(setup.path.as_posix())
        yield Line("config", f"{path} · {setup.title}, as in {setup.version}")
    elif observed.run is not None:
        yield from run_source(observed.run)
    elif observed.trainer is None:
        batches = report.simulation.row.counts.batches
        yield Line("loader", f"{observed.kind} · {batches:,} batches were read")
    else:
        own = observed.trainer.why_loader
        read = f"its own loader was read, since {own}" if own else "its prepared data set was read"
        yield Line("trainer", f"{observed.kind} · {setup.path.name} · {read}")


def _basis(report: Preflight) -> str:
    """Return the settings; those of what does not happen to these samples are left out."""
    profile, row, observed = report.samples.profile, report.simulation.row, report.observed
    basis = replace(row.request.settings, loss=None)  # it has a line of its own
    longer = profile.stats.max > basis.max_length
    cuts = observed is None or observed.run is None
    basis_words = basis_line(basis, every=False, order=_order(report), overflows=longer, cuts=cuts)
    if observed is None or observed.batches is None:
        return f"{row.label} · {basis_words}"
    strategy = "" if observed.rows is None else report.setup.batching.strategy.text
    return " · ".join(filter(None, (strategy, basis_words, observed.padded)))


def _loss(report: Preflight) -> str:
    """Return how much trained tokens weigh; empty where none is known."""
    row, observed = report.simulation.row, report.observed
    if row.request.settings.loss == UNKNOWN:
        if observed is None or observed.trainer is None:
            return "the loop's own: not known"
        if observed.trainer.own_loss:
            return f"its own ({', '.join(observed.trainer.own_loss)}): not known"
        if observed.has_token_labels:
            why = "the model was not given, or did not use, the number of trained tokens"
            return f"not known: {why}"
    if observed is not None and not observed.has_token_labels:
        return "not known, since its labels are not of tokens"
    if row.trained is None or (weights := row.trained.weights) is None:
        return ""
    least, most = decimal(weights.p5), decimal(weights.p95)
    if least == most == decimal(1):
        return "ok: every trained token counts the same"
    framework = CONFIGURATIONS.get(report.setup.framework)  # none of a loader
    remedies = {} if framework is None else framework.weight_remedies
    remedy = remedies.get(row.request.settings.loss or "")
    words = f"a trained token weighs {least} to {most} in the gradient of its step (1 is exact)"
    return f"{words}: {remedy}" if remedy else words


def _order(report: Preflight) -> str:
    """Return how samples are shuffled; nothing if `order` says so."""
    request, observed = report.simulation.row.request, report.observed
    if observed is not None and observed.batches is not None:
        return "in the order of its loader"
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


def _data(report: Preflight) -> Iterator[str]:
    """Yield how many samples there are, what the trainer does not batch, and their tokens."""
    counts, samples, stats = report.simulation.row.counts, report.samples, report.profile.stats
    observed = report.observed
    dropped = counts.dropped_samples - samples.lost.dropped_samples
    kept = len(samples.profile) - dropped
    found = counted(len(report.profile), "sample")
    if observed is None:
        yield f"{found}, {kept:,} per epoch"
    else:
        how = "as the script tokenizes them" if observed.run is None else "recorded"
        yield f"{found} {how}" + (f", {kept:,} per epoch" if kept < len(report.profile) else "")
    yield from _dropped(report)
    if samples.held_out:
        yield f"{samples.held_out:,} held out for evaluation"
    trained = report.simulation.row.trained
    if trained is not None and trained.untrained_samples:
        yield f"{trained.untrained_samples:,} without a trained token (no loss)"
    yield f"{stats.sum:,} tokens"
    longest = int(np.count_nonzero(report.profile.lengths == stats.max))
    if report.observed is not None and longest > 1:
        yield f"{longest:,} end at exactly {stats.max:,}"


def _steps(report: Preflight) -> Iterator[str]:
    counts, schedule = report.simulation.row.counts, report.setup.schedule
    samples, tokens = decimal(report.samples_per_step), report.tokens_per_step
    per_step = f"{samples} samples and {tokens:,.0f} tokens each"
    run = None if report.observed is None else report.observed.run
    if run is not None and not (run.is_dry and run.trainer):
        # How long an epoch, or the whole training, would have been is not seen.
        yield f"{report.steps_per_epoch:,} of {counts.batches:,} batches"
        yield per_step
        return
    yield f"{report.steps_per_epoch:,} per epoch of {counts.batches:,} batches"
    lasts = f"{report.total_steps:,} in all"
    if schedule.max_steps is None:
        epochs = "1 epoch" if schedule.epochs == 1 else f"{schedule.epochs:g} epochs"
        yield f"{lasts} ({epochs})"
    else:
        kept = counted(len(report.samples.profile), "sample")
        yield f"{lasts} = {report.epochs:,.2f} epochs, {report.trained_samples:,} of {kept}"
    yield f"{report.warmup_steps:,} of warm-up"
    yield per_step


def _largest(simulation: Simulation) -> str:
    """Return the largest batch, and the memory that it needs where that is known."""
    row, device = simulation.row, simulation.device
    where = f"in step {row.counts.largest_step:,} of {row.counts.steps:,}"
    if row.counts.total_tokens == row.counts.batches * row.counts.max_batch_tokens:
        where = "in every step"
    words = f"largest batch {counted(row.counts.max_batch_tokens, 'token')}, {where}"
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


def _keys(report: Preflight) -> Iterator[RenderableType]:
    setup = report.setup
    rows = Rows("key that decides", "value")
    for key, value in setup.config.values().items():
        if key in setup.config.given or value is not None:
            rows.add(Text(key), key_value(value))
    yield rows
    if setup.unused:
        yield Text()
        yield Line("unused", ", ".join(map(one_line, setup.unused)))
