"""Warnings attached to a comparison."""

from collections.abc import Iterator, Sequence
from math import sqrt

from batchstat.findings import Finding
from batchstat.lengths.arrays import round_up
from batchstat.lengths.stats import LengthStats
from batchstat.planning.rules import SHUFFLED
from batchstat.planning.samplers.per_batch import PerBatch
from batchstat.planning.settings import DEFAULT_BUDGET, ResolvedSettings
from batchstat.planning.shares import Epoch
from batchstat.simulation.device import Device
from batchstat.simulation.device_warnings import device_warnings
from batchstat.simulation.results import StrategyResult

_Warnings = Iterator[Finding]

_ALIKE = 0.5  # a correlation of consecutive batches above this shows in the loss
_CERTAIN = 3  # a correlation is not chance above this many standard errors; one is about 1 / √steps
_AT_ONCE = 1 << 20  # samples of a streamed epoch that are in memory, to search the longest
_NOTICED = 0.1  # how far the 5th or the 95th percentile of weights is from 1 where a warning is due

_REMEDIES = {
    "mean-per-batch": "multiply each batch's mean loss by batch.token_weight",
    "num-items-per-rank": "set average_tokens_across_devices=True",
    "axolotl": "axolotl takes no weights; --distribute balanced --balance-by trained evens out the "
    "ranks",
    "sequence-mean": "use a mean over tokens, and multiply it by batch.token_weight",
}
"""What to do, by the losses under which tokens of a step may have different weights."""


def weight_warnings(rows: Sequence[StrategyResult], basis: ResolvedSettings) -> _Warnings:
    """Yield warnings about rows whose trained tokens weigh differently, or that lack them."""
    remedy = _REMEDIES.get(basis.loss or "")
    if remedy is None:
        return
    unequal_rows = []
    for row in rows:
        weights = None if row.trained is None else row.trained.weights
        if weights is not None and max(1 - weights.p5, weights.p95 - 1) >= _NOTICED:
            unequal_rows.append(f"{row.label} {weights.p5:.2f} to {weights.p95:.2f}")
    if unequal_rows:
        yield Finding(
            "loss/unequal-weights",
            f"with loss={basis.loss}, trained tokens of a step have different weights (5th to 95th "
            f"percentile, 1 is exact): {', '.join(unequal_rows)}: {remedy}",
        )
    untrained_rows = [
        f"{row.label} {row.trained.untrained_batches:,} of {row.counts.batches:,}"
        for row in rows
        if row.trained is not None and row.trained.untrained_batches
    ]
    # Of the losses, these are a mean over the tokens of each batch.
    if untrained_rows and basis.loss in ("mean-per-batch", "axolotl"):
        yield Finding(
            "trained/empty-batches",
            "batches without a trained token, whose mean loss is 0/0 (NaN): "
            f"{', '.join(untrained_rows)}: take 0 as the loss where batch.trained_tokens is 0, or "
            "remove samples without trained tokens",
        )


def simulation_warnings(
    rows: Sequence[StrategyResult],
    epoch: Epoch,
    basis: ResolvedSettings,
    stats: LengthStats,
    device: Device | None,
) -> tuple[Finding, ...]:
    """Return the warnings about the rows of a report, in the order in which it shows them."""
    return (
        *_long_sample_warnings(epoch, basis),
        *_peak_warnings(rows, basis),
        *_single_sample_warnings(rows, epoch, basis, stats),
        *_rank_warnings(rows, epoch, basis),
        *_class_warnings(rows, basis),
        *weight_warnings(rows, basis),
        *_neighbour_warnings(rows, basis),
        *device_warnings(rows, device, basis.widest),
    )


def _long_sample_warnings(epoch: Epoch, basis: ResolvedSettings) -> _Warnings:
    """Yield a warning about samples that exceed the budget of a batch even alone."""
    budget = basis.tokens_per_batch
    # (n_distinct,) for each length that occurs, of which there are far fewer than samples.
    is_too_long = round_up(epoch.stats.values, basis.pad_to_multiple_of) > budget
    too_long = int(epoch.stats.counts[is_too_long].sum())
    if too_long:
        longest = epoch.stats.max
        # The histogram knows no records: the epoch is searched for the first of the longest ones.
        pieces = epoch.pieces(_AT_ONCE)
        records_of_pieces = (piece.samples[piece.lengths == longest] for piece in pieces)
        record = next(int(records[0]) for records in records_of_pieces if len(records))
        yield Finding(
            "padding/long-samples",
            f"{too_long:,} of {epoch.count:,} samples are longer than tokens_per_batch={budget:,}, "
            f"the longest is record {record} with {longest:,} tokens: even a "
            "batch of one is over the budget",
        )


def _neighbour_warnings(rows: Sequence[StrategyResult], basis: ResolvedSettings) -> _Warnings:
    """Yield a warning about rows whose loss goes up and down with the length of steps."""
    correlated_rows = []
    for row in rows:
        correlation = row.counts.grouping.neighbour_correlation or 0
        # Few steps correlate by chance: 1 / √steps is about one standard error.
        if correlation > _ALIKE and correlation * sqrt(row.counts.steps) > _CERTAIN:
            correlated_rows.append(row)
    if correlated_rows:
        shown = [
            f"{row.label} (correlation {row.counts.grouping.neighbour_correlation:.2f})"
            for row in correlated_rows
        ]
        remedies = ["--order shuffled"] if basis.order not in SHUFFLED else []
        # False: the strategy could shuffle its batches, but does not. Others lack the parameter.
        if any(row.params.get("shuffle_batches") is False for row in correlated_rows):
            remedies.append("shuffle_batches=true")
        yield Finding(
            "order/alike-neighbours",
            "consecutive batches have similar lengths, which will show in the loss: "
            + f"{', '.join(shown)}{': ' if remedies else ''}{' and '.join(remedies)}",
        )


def _peak_warnings(rows: Sequence[StrategyResult], basis: ResolvedSettings) -> _Warnings:
    """Yield warnings about batches over budget, and about rows with different peaks."""
    budget = basis.tokens_per_batch
    rows_over = [
        f"{row.label} ({row.counts.over_budget_batches:,} of {row.counts.batches:,}, the largest "
        f"{row.counts.max_batch_tokens:,})"
        for row in rows
        if row.counts.over_budget_batches
    ]
    if rows_over:
        # A batch of one long sample is in every row: `reducible_peak` leaves it out.
        is_excluded = any(row.counts.reducible_peak > budget for row in rows) and len(rows) > 1
        yield Finding(
            "padding/over-budget",
            f"batches over tokens_per_batch={budget:,}"
            f"{', which are never recommended' if is_excluded else ''}: {', '.join(rows_over)}",
        )
    # Within a budget of their own, which is among their parameters, but above the common one.
    rows_above = [
        f"{row.label} (up to {row.counts.max_batch_tokens:,})"
        for row in rows
        if not row.counts.over_budget_batches and row.counts.max_batch_tokens > budget
    ]
    # The budget has room for one more row of the widest width than their parameters allow.
    rows_below = [
        f"{row.label} (at most {_most_tokens(row, basis):,})"
        for row in rows
        if _most_tokens(row, basis) + basis.widest <= budget
    ]
    # If all rows are below the budget, no warning is due: their peaks are alike.
    if rows_above or (rows_below and len(rows_below) < len(rows)):
        yield Finding(
            "padding/unequal-peak",
            f"not at equal peak memory ({budget:,} total tokens per batch): "
            f"{', '.join(rows_above + rows_below)}; part of a speed-up may come from larger "
            "batches",
        )


def _most_tokens(row: StrategyResult, basis: ResolvedSettings) -> int:
    strategy = row.request.strategy
    if strategy.batch_capacity is not None:
        # A forward has several rows of a sample that is made of them; packed rows hold several.
        rows_of_sample = max(1, row.counts.rows // row.counts.sum_samples_per_batch)
        return strategy.batch_capacity * rows_of_sample * basis.widest
    return strategy.budget or basis.tokens_per_batch


def _single_sample_warnings(
    rows: Sequence[StrategyResult], epoch: Epoch, basis: ResolvedSettings, stats: LengthStats
) -> _Warnings:
    """Yield a warning if the budget leaves strategies such as static a batch size of 1."""
    budget, width = basis.tokens_per_batch, basis.widest
    derives_batch_size = any(
        row.request.strategy.batch_capacity and not row.request.strategy.is_given for row in rows
    )
    # None if the user chose the size, or the budget is not why: one sample, or two rows fit.
    if (
        not derives_batch_size
        or basis.batch_size > 1
        or basis.given_batch_size
        or epoch.count == 1
        or budget // width > 1
    ):
        return
    # A lower max_length lowers the default budget, too, but not below `DEFAULT_BUDGET`.
    budget_after = min(budget, DEFAULT_BUDGET) if budget == width else budget
    # With this max_length two samples fit: half of the budget, rounded down to a padded width.
    half = budget_after // 2 // basis.pad_to_multiple_of * basis.pad_to_multiple_of
    longer, _ = stats.above(half)
    share = f"{100 * longer / stats.count:.1f}%"
    shorter = f", or --max-length {half} ({share} of the samples are longer)" if half else ""
    yield Finding(
        "padding/batch-of-one",
        f"batch_size is 1, since tokens_per_batch={budget:,} holds only one sample of max_length="
        f"{basis.max_length:,}: for two, set --tokens-per-batch {2 * width}{shorter}",
    )


def _rank_warnings(
    rows: Sequence[StrategyResult], epoch: Epoch, basis: ResolvedSettings
) -> _Warnings:
    """Yield warnings about too many ranks, ranks that hang, and ranks that draw on their own."""
    if (ranks_without := basis.world_size - epoch.count) > 0:
        # These remainders give every rank a batch, of samples that another rank computes, too.
        repeats = basis.remainder in ("repeat", "spread", "fill")
        repeating = "only compute samples that others compute too"
        yield Finding(
            "ranks/more-than-samples",
            f"more ranks ({basis.world_size:,}) than samples ({epoch.count:,}): with "
            f"remainder={basis.remainder}, at least {ranks_without:,} ranks "
            f"{repeating if repeats else 'have nothing to compute'}; lower --world-size",
        )
    uneven_rows = [
        f"{row.label} {row.counts.ranks.min_steps:,} to {row.counts.ranks.max_steps:,}"
        for row in rows
        if row.counts.ranks.step_gap
    ]
    if uneven_rows:
        yield Finding(
            "ranks/unequal-steps",
            "ranks run different numbers of steps; collectives (all-reduce) will hang once the "
            f"shorter ranks finish: {'; '.join(uneven_rows)}: use --distribute batches with "
            "--remainder repeat or drop for equal steps",
        )
    # With gradient accumulation, the last step of some ranks may have fewer batches.
    uneven_batches = []
    for row in rows if basis.gradient_accumulation_steps > 1 else ():
        batches = {rank.batches for rank in row.counts.sample_coverage.ranks}
        # With dummy, ranks without a batch compute a dummy batch, and synchronise as the others.
        synchronises = len(batches) == 1 or row.remainder == "dummy"
        if not synchronises and not row.counts.ranks.step_gap:
            uneven_batches.append(f"{row.label} {min(batches):,} to {max(batches):,}")
    if uneven_batches:
        yield Finding(
            "ranks/unequal-batches",
            "ranks run the same number of steps but different numbers of batches, so training that "
            f"synchronises gradients after every batch will hang: {'; '.join(uneven_batches)}: "
            "synchronise them once per step",
        )
    independent_rows = [row for row in rows if row.distribute == "independent"]
    if independent_rows and basis.world_size > 1:
        # What ranks draw does not depend on the strategy: the first row stands for all.
        coverage = independent_rows[0].counts.sample_coverage
        yield Finding(
            "ranks/independent",
            f"each rank has a different seed: {coverage.shared_samples:,} samples are computed by "
            f"several ranks, and {coverage.unseen_samples:,} of the corpus by none "
            f"({independent_rows[0].label}): use --distribute samples, which shares the seed and "
            "gives each drawn sample to one rank, except those that fill the remainder",
        )


def _class_warnings(rows: Sequence[StrategyResult], basis: ResolvedSettings) -> _Warnings:
    """Yield a warning if batches lack the number of classes that metric learning needs."""
    sampler = basis.class_sampler
    if not isinstance(sampler, PerBatch):
        return
    unlike_rows = []
    for row in rows:
        mixing = row.counts.sample_coverage.mixing
        classes = None if mixing is None else mixing.classes_per_batch
        # Some batch has another number of classes than the sampler's.
        if classes is not None and {classes.min, classes.max} != {sampler.classes}:
            unlike_rows.append(f"{row.label} {classes.min} to {classes.max}")
    if unlike_rows:
        yield Finding(
            "classes/other-batches",
            f"with sampler {basis.sampler}, these strategies do not keep its classes per batch: "
            f"{'; '.join(unlike_rows)}: use static with batch_size={sampler.batch_size}, "
            "--distribute batches and --overflow truncate",
        )
