"""Warnings attached to a comparison."""

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np

from batchstat.documents.comparison import ReportWarning
from batchstat.lengths.arrays import round_up
from batchstat.lengths.stats import LengthStats
from batchstat.planning.rules import SHUFFLED
from batchstat.planning.samplers.per_batch import PerBatch
from batchstat.planning.settings import DEFAULT_BUDGET, ResolvedSettings
from batchstat.planning.shares import Epoch
from batchstat.simulation.device import Device
from batchstat.simulation.device_warnings import device_warnings
from batchstat.simulation.results import StrategyResult

_NOTICED = 0.1
"""How far the 5th or the 95th percentile of weights is from 1 where that matters."""

_MEANS = ("mean-per-batch", "axolotl")
"""Losses that are a mean over the tokens of each batch."""

_REMEDIES = {
    "mean-per-batch": "multiply each batch's mean loss by batch.token_weight",
    "num-items-per-rank": "set average_tokens_across_devices=True",
    "axolotl": "axolotl takes no weights; --distribute balanced --balance-by trained evens out the "
    "ranks",
    "sequence-mean": "use a mean over tokens, and multiply it by batch.token_weight",
}
"""By the losses that weigh tokens differently."""


def weight_warnings(
    rows: Sequence[StrategyResult], basis: ResolvedSettings
) -> Iterator[ReportWarning]:
    """Yield a warning about rows in which weights differ, and one about batches without a trained
    token.
    """
    remedy = _REMEDIES.get(basis.loss or "")
    if remedy is None:
        return
    apart = [
        f"{row.label} {weights.p5:.2f} to {weights.p95:.2f}"
        for row in rows
        if row.trained is not None
        and (weights := row.trained.weights) is not None
        and max(1 - weights.p5, weights.p95 - 1) >= _NOTICED
    ]
    if apart:
        yield ReportWarning(
            "token_weights",
            f"with loss={basis.loss}, trained tokens of a step have different weights (5th to 95th "
            f"percentile, 1 is exact): {', '.join(apart)}: {remedy}",
        )
    without = [
        f"{row.label} {row.trained.untrained_batches:,} of {row.counts.batches:,}"
        for row in rows
        if row.trained is not None and row.trained.untrained_batches
    ]
    if without and basis.loss in _MEANS:
        yield ReportWarning(
            "untrained_batches",
            f"batches without a trained token, whose mean loss is 0/0 (NaN): {', '.join(without)}: "
            "take 0 as the loss where batch.trained_tokens is 0, or remove samples without trained "
            "tokens",
        )


_ALIKE = 0.5
"""A correlation of consecutive batches above this shows in the loss."""

_AT_ONCE = 1 << 20
"""Samples that are searched at once for the longest."""

_CERTAIN = 3
"""Standard errors, of about 1 / √steps, above which a correlation is not chance."""


def simulation_warnings(
    rows: Sequence[StrategyResult],
    epoch: Epoch,
    basis: ResolvedSettings,
    stats: LengthStats,
    device: Device | None,
) -> tuple[ReportWarning, ...]:
    """Return what else to know about the numbers of rows, on a calibrated device where there is
    one.
    """
    return (
        *_of_long_samples(epoch, basis),
        *_of_peaks(rows, basis),
        *_of_single_samples(rows, epoch, basis, stats),
        *_of_ranks(rows, epoch, basis),
        *_of_classes(rows, basis),
        *weight_warnings(rows, basis),
        *_of_neighbours(rows, basis),
        *device_warnings(rows, device, basis.widest),
    )


def _of_long_samples(epoch: Epoch, basis: ResolvedSettings) -> Iterator[ReportWarning]:
    """Yield a warning about samples that are over the budget alone."""
    budget = basis.tokens_per_batch
    # On the histogram: a search through the samples is only for the record that is named.
    too_long = round_up(epoch.stats.values, basis.pad_to_multiple_of) > budget
    long = int(epoch.stats.counts[too_long].sum())
    if long:
        longest = epoch.stats.max
        parts = epoch.pieces(_AT_ONCE)
        places = ((part, np.flatnonzero(part.lengths == longest)) for part in parts)
        record = next(int(part.samples[found[0]]) for part, found in places if len(found))
        yield ReportWarning(
            "long_samples",
            f"{long:,} of {epoch.count:,} samples are longer than tokens_per_batch={budget:,}, "
            f"the longest is record {record} with {longest:,} tokens: even a "
            "batch of one is over the budget",
        )


def _of_neighbours(
    rows: Sequence[StrategyResult], basis: ResolvedSettings
) -> Iterator[ReportWarning]:
    """Yield a warning about consecutive batches of similar lengths."""
    alike = [
        row
        for row in rows
        if (correlation := row.counts.grouping.neighbour_correlation or 0) > _ALIKE
        and correlation * sqrt(row.counts.steps) > _CERTAIN
    ]
    if alike:
        shown = [
            f"{row.label} (correlation {row.counts.grouping.neighbour_correlation:.2f})"
            for row in alike
        ]
        remedies = ["--order shuffled"] if basis.order not in SHUFFLED else []
        if any(row.params.get("shuffle_batches") is False for row in alike):
            remedies.append("shuffle_batches=true")
        yield ReportWarning(
            "alike_neighbours",
            "consecutive batches have similar lengths, which will show in the loss: "
            + f"{', '.join(shown)}{': ' if remedies else ''}{' and '.join(remedies)}",
        )


def _of_peaks(rows: Sequence[StrategyResult], basis: ResolvedSettings) -> Iterator[ReportWarning]:
    """Yield warnings about batches over budget, and rows with different peak memory."""
    budget = basis.tokens_per_batch
    over = [
        f"{row.label} ({row.counts.over_budget_batches:,} of {row.counts.batches:,}, the largest "
        f"{row.counts.max_batch_tokens:,})"
        for row in rows
        if row.counts.over_budget_batches
    ]
    if over:
        # A row over budget by a single long sample alone may be recommended: every row has that
        # sample.
        never = any(row.counts.reducible_peak > budget for row in rows) and len(rows) > 1
        yield ReportWarning(
            "over_budget",
            f"batches over tokens_per_batch={budget:,}"
            f"{', which are never recommended' if never else ''}: {', '.join(over)}",
        )
    above = [
        f"{row.label} (up to {row.counts.max_batch_tokens:,})"
        for row in rows
        if not row.counts.over_budget_batches and row.counts.max_batch_tokens > budget
    ]
    below = [
        f"{row.label} (at most {capacity:,})"
        for row in rows
        if (capacity := _capacity(row, basis)) + basis.widest <= budget
    ]
    if above or (below and len(below) < len(rows)):
        yield ReportWarning(
            "unequal_peak",
            f"not at equal peak memory ({budget:,} total tokens per batch): "
            f"{', '.join([*above, *below])}; part of a speed-up may come from larger batches",
        )


def _capacity(row: StrategyResult, basis: ResolvedSettings) -> int:
    """Return the most total tokens per batch that the row's parameters allow."""
    strategy = row.request.strategy
    if strategy.batch_capacity is not None:
        return strategy.batch_capacity * basis.widest
    return strategy.budget or basis.tokens_per_batch


def _of_single_samples(
    rows: Sequence[StrategyResult], epoch: Epoch, basis: ResolvedSettings, stats: LengthStats
) -> Iterator[ReportWarning]:
    """Yield a warning about batches of one sample, where no more fit."""
    budget, width = basis.tokens_per_batch, basis.widest
    fixed = any(
        row.request.strategy.batch_capacity and not row.request.strategy.is_given for row in rows
    )
    if (
        not fixed
        or basis.batch_size > 1
        or basis.given_batch_size
        or epoch.count == 1
        or budget // width > 1
    ):
        return
    # A budget equal to the width may be derived from max_length, and then falls with it.
    lasting = min(budget, DEFAULT_BUDGET) if budget == width else budget
    half = lasting // 2 // basis.pad_to_multiple_of * basis.pad_to_multiple_of
    cut, _ = stats.above(half)
    share = f"{100 * cut / stats.count:.1f}%"
    shorter = f", or --max-length {half} ({share} of the samples are longer)" if half else ""
    yield ReportWarning(
        "batch_of_one",
        f"batch_size is 1, since tokens_per_batch={budget:,} holds only one sample of max_length="
        f"{basis.max_length:,}: for two, set --tokens-per-batch {2 * width}{shorter}",
    )


def _of_ranks(
    rows: Sequence[StrategyResult], epoch: Epoch, basis: ResolvedSettings
) -> Iterator[ReportWarning]:
    """Yield warnings about more ranks than samples, when numbers say little about batching, about
    ranks that wait indefinitely, and about ranks that share samples.
    """
    if (idle := basis.world_size - epoch.count) > 0:
        repeats = basis.remainder in ("repeat", "spread", "fill")
        what = "only compute samples that others compute too"
        yield ReportWarning(
            "more_ranks_than_samples",
            f"more ranks ({basis.world_size:,}) than samples ({epoch.count:,}): with "
            f"remainder={basis.remainder}, at least {idle:,} ranks "
            f"{what if repeats else 'have nothing to compute'}; lower --world-size",
        )
    uneven = [
        f"{row.label} {row.counts.ranks.min_steps:,} to {row.counts.ranks.max_steps:,}"
        for row in rows
        if row.counts.ranks.step_gap
    ]
    if uneven:
        yield ReportWarning(
            "unequal_steps",
            "ranks run different numbers of steps; collectives (all-reduce) will hang once the "
            f"shorter ranks finish: {'; '.join(uneven)}: use --distribute batches with "
            "--remainder repeat or drop for equal steps",
        )
    unlike = [
        f"{row.label} {min(batches):,} to {max(batches):,}"
        for row in rows
        if not row.counts.ranks.step_gap
        # Dummy batches are computed too, so that DDP meets as often on every rank.
        and row.remainder != "dummy"
        and basis.gradient_accumulation_steps > 1
        and len(batches := {rank.batches for rank in row.counts.sample_coverage.ranks}) > 1
    ]
    if unlike:
        yield ReportWarning(
            "unequal_batches",
            "ranks run the same number of steps but different numbers of batches, so training that "
            f"synchronises gradients after every batch will hang: {'; '.join(unlike)}: synchronise "
            "them once per step",
        )
    independent = [row for row in rows if row.distribute == "independent"]
    if independent and basis.world_size > 1:
        seen = independent[0].counts.sample_coverage
        yield ReportWarning(
            "independent",
            f"each rank has a different seed: {seen.shared_samples:,} samples are computed by "
            f"several ranks, and {seen.unseen_samples:,} of the corpus by none "
            f"({independent[0].label}): use --distribute samples, which shares the seed and gives "
            "each drawn sample to one rank, except those that fill the remainder",
        )


def _of_classes(rows: Sequence[StrategyResult], basis: ResolvedSettings) -> Iterator[ReportWarning]:
    """Yield a warning about batches that do not have the classes their sampler is made for."""
    sampler = basis.class_sampler
    if not isinstance(sampler, PerBatch):
        return
    others = [
        f"{row.label} {mixing.classes_per_batch.min} to {mixing.classes_per_batch.max}"
        for row in rows
        if (mixing := row.counts.sample_coverage.mixing) is not None
        and {mixing.classes_per_batch.min, mixing.classes_per_batch.max} != {sampler.classes}
    ]
    if others:
        yield ReportWarning(
            "other_batches",
            f"with sampler {basis.sampler}, these strategies do not keep its classes per batch: "
            f"{'; '.join(others)}: use static with batch_size={sampler.batch_size}, "
            "--distribute batches and --overflow truncate",
        )
