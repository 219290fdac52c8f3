"""The screen of `preflight`: what a trainer does with its data, and what to change."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.render.device import cost_of, duration, margin, money, time_of
from batchstat.render.screens.advice import Advisor
from batchstat.render.screens.layout import Line, Pasted
from batchstat.render.screens.losses import loss_lines
from batchstat.render.screens.recording import proof_words, run_lines, run_source, unstepped_lines
from batchstat.render.screens.settings import keys_of_setup
from batchstat.render.screens.simulated import basis_line, device_lines, largest_batch, rank_idle
from batchstat.render.text import decimal, one_line, percent, span
from batchstat.simulation.compare.changes import Change, keeps_batches
from batchstat.simulation.meters.token_weights import UNKNOWN
from batchstat.trainers.preflight.observed import Observed
from batchstat.trainers.preflight.report import Preflight
from batchstat.trainers.registry import CONFIGURATIONS
from batchstat.words import counted

_OF_STREAM = (
    "A stream keeps its own order: batches of similar lengths need a buffer of its samples, such "
    "as that of batchstat.StreamBatcher."
)


def preflight_screen(
    report: Preflight, command: Callable[[Change], str], more: str = "", details: bool = False
) -> RenderableType:
    """Return what `preflight` prints: what the trainer does, then what to change."""
    parts = [*_what_it_does(report)]
    if not report.no_step:  # where nothing is trained, nothing about its batches would help
        parts += [Text(), *_what_helps(report, command)]
    if more:
        parts.append(Pasted("more", more))
    if details:
        parts += [Text(), *keys_of_setup(report.setup)]
    return Group(*parts)


def _what_helps(report: Preflight, command: Callable[[Change], str]) -> Iterator[RenderableType]:
    """Yield what to do first, to take out rows that hold no token; then what to change."""
    simulation, observed = report.simulation, report.observed
    facts, counts = observed and observed.loader, simulation.row.counts
    if facts and facts.empty_rows:
        gain = counts.total_tokens / (counts.total_tokens - facts.empty_tokens)
        rows = f"{facts.empty_rows:,} of {counted(counts.rows, 'row')}"
        words = f"Leave out rows without a token where they are made: {rows}, {gain:.2f}x"
        yield Line("first", words)
    if observed is not None and observed.has_decoder:
        why = "not simulated where an encoder and a decoder have widths of their own."
        yield Line("result", f"What would help is {why}{_of_decoder(report, observed)}")
        return
    if observed is not None and observed.per_prompt:
        why = "their lengths are not known before, so that no batching by length is offered."
        yield Line("result", f"Completions are generated: {why}")
        return
    is_stream = observed is not None and observed.is_stream and not keeps_batches(simulation.row)
    if report.changes.star or not is_stream:
        basis, device = simulation.basis, simulation.device
        yield from Advisor(report.changes, basis, device, command, report.saved).lines()
    if is_stream:
        yield Line("or" if report.changes.star else "result", _OF_STREAM)


def _of_decoder(report: Preflight, observed: Observed) -> str:
    """Return what may help an encoder and a decoder, and is not done already."""
    trainer, words = observed.trainer, ""
    if observed.padded.startswith("every row"):
        words = " Pad to the longest row of a batch, where you tokenize or collate."
    if trainer is not None and trainer.samples_by_arguments:
        framework = CONFIGURATIONS[report.setup.framework]
        keys = next(framework.alternatives(report.setup.config), None)  # None: grouped already
        written = keys and framework.written(keys, report.setup.path)
        return words + (f" Group samples by length: {written}." if written else "")
    return words + ("" if observed.is_stream else " Batch samples of similar lengths.")


def _what_it_does(report: Preflight) -> Iterator[RenderableType]:
    """Yield the source, data and settings, then what an epoch computes, pads and loses."""
    row = report.simulation.row
    if report.setup.assumption:
        yield Line("if", report.setup.assumption)
    yield from _source(report)
    yield Line("data", " · ".join(_data(report)))
    yield Line("basis", _basis(report))
    yield from device_lines(report.simulation.device, report.simulation.basis)
    yield from loss_lines([row])
    padding = f"{percent(row.counts.padding_ratio)} of what is computed"
    if row.counts.max_samples_per_batch == 1 and row.counts.batches > row.counts.steps:
        padding += " · each forward computes one row, which costs time, not padding"
    yield Line("padding", f"{padding} · {largest_batch(report.simulation)}")
    yield Line("steps", " · ".join(_steps(report)))
    if report.run is not None:
        yield from unstepped_lines(report.run, row.counts, report.batches)
    # The trainer's log counts packed rows as examples, which is not the number of samples.
    if report.num_examples is not None:
        rows = counted(report.num_examples, "packed row")
        samples_per_row = decimal(len(report.samples.profile) / report.num_examples)
        yield Line("rows", f"{rows}, {samples_per_row} samples each: the trainer's Num examples")
    if row.counts.ranks.world_size > 1:
        samples_of_ranks = [rank.samples for rank in row.counts.sample_coverage.ranks]
        samples = _each(min(samples_of_ranks), max(samples_of_ranks), "sample")
        steps = _each(row.counts.ranks.min_steps, row.counts.ranks.max_steps, "step")
        idle = percent(rank_idle(row))
        yield Line("ranks", f"{samples} and {steps} each · idle {idle} of the time")
    if time := " · ".join(_time(report)):
        yield Line("time", time)
    if report.run is not None:
        yield from run_lines(report.run)
    if loss := _loss(report):
        yield Line("loss", loss)
    if report.proof is not None:
        yield Line("proof", proof_words(report.proof))


def _source(report: Preflight) -> Iterator[Line]:
    """Yield where the batches come from: a configuration, a run, a loader, or an object."""
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
        why = observed.trainer.why_loader
        how = f"its own loader was read, since {why}" if why else "its prepared data set was read"
        yield Line("trainer", f"{observed.kind} · {setup.path.name} · {how}")


def _basis(report: Preflight) -> str:
    """Return the strategy, and the settings that have an effect on these samples."""
    row, observed = report.simulation.row, report.observed
    basis = replace(row.request.settings, loss=None)  # the loss has a line of its own
    # In a recorded run, max_length is no setting but the longest sample that was seen.
    settings = basis_line(
        basis,
        with_defaults=False,
        order=_order_words(report),
        with_overflow=report.samples.profile.stats.max > basis.max_length,
        with_max_length=report.run is None,
    )
    if observed is None or observed.batches is None:
        return f"{row.label} · {settings}"
    # Of batches that were read, only those of prepared rows have a strategy.
    strategy = "" if observed.rows is None else report.setup.batching.strategy.text
    return " · ".join(filter(None, (strategy, settings, observed.padded)))


def _loss(report: Preflight) -> str:
    """Return how unequally the loop weighs trained tokens, and the remedy; empty if unknown."""
    row, observed = report.simulation.row, report.observed
    # Of a loss of the loop's own, the weights are not known: what is known of it is said instead.
    if row.request.settings.loss == UNKNOWN:
        if observed is None or observed.trainer is None:
            return "the loop's own: not known"
        if observed.trainer.own_loss:
            return f"its own ({', '.join(observed.trainer.own_loss)}): not known"
        if observed.has_token_labels:
            why = "the model was not given, or did not use, the number of trained tokens"
            return f"not known: {why}"
    # Any loss may have labels that are not of tokens, such as classes.
    if observed is not None and not observed.has_token_labels:
        return "not known, since its labels are not of tokens"
    if row.trained is None or (weights := row.trained.weights) is None:
        return ""
    lowest, highest = decimal(weights.p5), decimal(weights.p95)
    # Compared as they are shown: with two digits.
    if lowest == highest == decimal(1):
        return "ok: every trained token counts the same"
    framework = CONFIGURATIONS.get(report.setup.framework)  # a loader has none
    version = "" if observed is None or observed.trainer is None else observed.trainer.version
    remedy = framework and framework.weight_remedy(row.request.settings, version)
    text = f"a trained token weighs {lowest} to {highest} in the gradient of its step (1 is exact)"
    return f"{text}: {remedy}" if remedy else text


def _order_words(report: Preflight) -> str:
    """Return how samples are shuffled, where the setting `order` does not say it."""
    request = report.simulation.row.request
    if report.observed is not None and report.observed.batches is not None:
        return "in the order of its loader"
    # TRL's strategy shuffles packed rows by itself, whatever `order` says.
    if request.strategy.shuffles_as is not None:
        return f"packed rows shuffled, seed {request.settings.seed}"
    # With the order `file`, records that do not ascend were shuffled before, by the trainer itself.
    ascends = bool((np.diff(report.samples.profile.records) > 0).all())
    return "samples shuffled" if request.settings.order == "file" and not ascends else ""


def _data(report: Preflight) -> Iterator[str]:
    """Yield how many samples there are and are batched, why others are not, and tokens."""
    row, samples, observed = report.simulation.row, report.samples, report.observed
    basis, longest = row.request.settings, report.profile.stats.max
    # The row's count also has the samples lost before batching, which `samples.profile` lacks.
    dropped = row.counts.dropped_samples - samples.lost.dropped_samples
    batched = len(samples.profile) - dropped
    total = _samples(report, len(report.profile), f"{len(report.profile):,}")
    if observed is None:
        yield f"{total}, {batched:,} per epoch"
    else:
        how = "as the script tokenizes them" if observed.run is None else "recorded"
        if observed.epoch is not None and observed.epoch.samples is not None:
            total = f"{len(report.profile):,} of {counted(observed.epoch.samples, 'sample')}"
        per_epoch = f", {batched:,} per epoch" if batched < len(report.profile) else ""
        yield f"{total} {how}{per_epoch}"
    for reason, number in samples.dropped.items():
        yield f"{number:,} dropped {reason}"
    longer_samples, _ = samples.profile.stats.above(basis.max_length)
    if basis.overflow == "drop" and longer_samples:
        yield f"{longer_samples:,} dropped longer than max_length"
        dropped -= longer_samples
    if dropped:
        yield f"{dropped:,} dropped with the last batches"
    if (trained := row.trained) is not None and trained.untrained_samples:
        yield f"{trained.untrained_samples:,} without a trained token (no loss)"
    yield f"{report.profile.tokens:,} tokens"
    longest_samples = int(np.count_nonzero(report.profile.lengths == longest))
    # Probably truncated, by a script whose `max_length` is not seen.
    if observed is not None and longest_samples > 1:
        yield f"{longest_samples:,} end at exactly {longest:,}"


def _samples(report: Preflight, number: float, shown: str) -> str:
    """Return a number of samples, as it is shown, with the rows that each is made of."""
    if (rows := report.profile.rows) is not None:
        return rows.in_words(number, shown)
    if (observed := report.observed) and (per_prompt := observed.per_prompt):
        if observed.has_whole_groups:
            return f"{number / per_prompt:,g} prompts of {per_prompt:,} completions"
        return f"{shown} completions, {per_prompt:,} of each prompt in all steps together"
    return f"{shown} {'sample' if shown == '1' else 'samples'}"


def _steps(report: Preflight) -> Iterator[str]:
    """Yield how many steps an epoch and the training have, and what a step has."""
    counts, schedule = report.simulation.row.counts, report.setup.schedule
    samples = _samples(report, report.samples_per_step, decimal(report.samples_per_step))
    per_step = f"{samples} and {report.tokens_per_step:,.0f} tokens each"
    run, observed = report.run, report.observed
    epoch = None if observed is None else observed.epoch
    if report.no_step:
        yield "no optimizer step was taken: nothing was trained"
        return
    part = f"{counts.steps:,} of {report.batches - (run.unstepped_batches if run else 0):,} batches"
    # Only a Trainer says how long an epoch is, and how long training lasts.
    is_unknown = observed is not None and epoch is None and observed.is_part
    if is_unknown or (run is not None and epoch is None and not (run.is_dry and run.trainer)):
        yield part
        if counts.steps:
            yield per_step
        return
    yield f"{report.steps_per_epoch:,} per epoch of {report.whole_epoch.batches:,} batches"
    if epoch is not None:
        yield f"{part} {'read' if run is None else 'recorded'}"
    total = f"{report.total_steps:,} in all"
    if schedule.max_steps is None:
        total += f" ({schedule.epochs:g} epoch{'s' * (schedule.epochs != 1)})"
    else:  # training ends after a number of steps, from which epochs follow
        total += f" = {report.epochs:,.2f} epochs"
        if (in_epoch := report.whole_epoch.samples) is not None:
            total += f", {report.trained_samples:,} of {counted(in_epoch, 'sample')}"
    yield total
    yield f"{report.warmup_steps:,} of warm-up"
    yield per_step


def _each(fewest: int, most: int, word: str) -> str:
    return counted(fewest, word) if fewest == most else f"{span(fewest, most)} {word}s"


def _time(report: Preflight) -> Iterator[str]:
    """Yield time and cost of an epoch and of the training, where times are known."""
    row, device, seconds = report.simulation.row, report.simulation.device, report.total_seconds
    if device is None or seconds is None:
        return
    uncertainty = margin(device.time_residual)
    yield f"{time_of(row.on_device)}{uncertainty} per epoch"
    yield f"{duration(seconds)} in all"
    if report.total_cost is not None:
        yield f"cost {cost_of(row.on_device)}{uncertainty} per epoch"
        yield f"{money(report.total_cost)} in all"
