"""What else the reader of a table must know."""

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np

from batchstat.lengths.arrays import round_up
from batchstat.lengths.stats import LengthStats
from batchstat.planning.epoch import Epoch
from batchstat.planning.samplers.per_batch import PerBatch
from batchstat.planning.settings import DEFAULT_BUDGET, Basis
from batchstat.simulation.comparison import ReportWarning, StrategyResult

_ALIKE = 0.5
"""A correlation of neighbouring batches above this shows in the loss."""

_CERTAIN = 3
"""Standard errors, of about 1 / √steps, above which it is no chance."""


def cautions(
    rows: Sequence[StrategyResult], visits: Epoch, basis: Basis, stats: LengthStats
) -> Iterator[ReportWarning]:
    """Long samples, batches over their budget, peaks that differ, batches of one, ranks and classes
    that are not as they seem, batches that come sorted.
    """
    budget = basis.tokens_per_batch
    too_long = round_up(visits.stats.values, basis.pad_to_multiple_of) > budget
    long = int(visits.stats.counts[too_long].sum())
    if long:
        longest = visits.stats.max
        yield ReportWarning(
            "long_samples",
            f"longer than tokens_per_batch={budget:,}: {long:,} of {visits.count:,} samples, the "
            f"longest is record {_first_of(visits, longest)} with {longest:,} tokens: even a batch "
            "of one is over the budget",
        )
    yield from _of_peaks(rows, basis)
    yield from _of_single_samples(rows, visits, basis, stats)
    if basis.world_size > visits.count:
        yield _more_ranks(visits.count, basis)
    yield from _of_ranks(rows, basis)
    yield from _of_classes(rows, basis)
    alike = [
        row
        for row in rows
        if (correlation := row.counts.grouping.neighbour_correlation or 0) > _ALIKE
        and correlation * sqrt(row.counts.steps) > _CERTAIN
    ]
    if alike:
        shown = [f"{r.label} ({r.counts.grouping.neighbour_correlation:.2f})" for r in alike]
        remedies = ["--order shuffled"] if basis.order != "shuffled" else []
        if any(row.params.get("shuffle_batches") is False for row in alike):
            remedies.append("shuffle_batches=true")
        yield ReportWarning(
            "alike_neighbours",
            "batches that follow one another are of like length, which the loss will show: "
            + f"{', '.join(shown)}, 1 is sorted{': ' if remedies else ''}{' and '.join(remedies)}",
        )


def _of_peaks(rows: Sequence[StrategyResult], basis: Basis) -> Iterator[ReportWarning]:
    """Batches over their budget, and rows that do not use the same memory."""
    budget = basis.tokens_per_batch
    over = [
        f"{row.label} ({row.counts.over_budget_batches:,} of {row.counts.batches:,}, the largest "
        f"{row.counts.max_batch_tokens:,})"
        for row in rows
        if row.counts.over_budget_batches
    ]
    if over:
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
        if (capacity := _capacity(row, basis)) + _widest(basis) <= budget
    ]
    if above or (below and len(below) < len(rows)):
        yield ReportWarning(
            "unequal_peak",
            f"not at equal peak memory: beside {budget:,} total tokens per batch, "
            f"{', '.join([*above, *below])}: part of a speed-up may come from larger batches",
        )


def _capacity(row: StrategyResult, basis: Basis) -> int:
    """The most total tokens that the row's parameters allow in a batch."""
    size = row.params.get("batch_size")
    budget: int = row.params.get("tokens_per_batch", basis.tokens_per_batch)
    return budget if size is None else size * _widest(basis)


def _widest(basis: Basis) -> int:
    return -(-basis.max_length // basis.pad_to_multiple_of) * basis.pad_to_multiple_of


def _of_single_samples(
    rows: Sequence[StrategyResult], visits: Epoch, basis: Basis, stats: LengthStats
) -> Iterator[ReportWarning]:
    """Batches of one sample, where nothing else fits."""
    budget, width = basis.tokens_per_batch, _widest(basis)
    fixed = any("batch_size" in row.params for row in rows)
    if not fixed or basis.batch_size > 1 or visits.count == 1 or budget // width > 1:
        return
    # A budget that max_length alone explains may be derived from it, and falls with it.
    lasting = min(budget, DEFAULT_BUDGET) if budget == width else budget
    half = lasting // 2 // basis.pad_to_multiple_of * basis.pad_to_multiple_of
    cut, _ = stats.above(half)
    share = f"{100 * cut / stats.count:.1f}%"
    shorter = f", or --max-length {half}, above which are {share} of the samples" if half else ""
    yield ReportWarning(
        "batch_of_one",
        f"batch_size is 1, since max_length={basis.max_length:,} leaves room for one sample in "
        f"tokens_per_batch={budget:,}: two need --tokens-per-batch {2 * width}{shorter}",
    )


def _first_of(visits: Epoch, length: int) -> int:
    """The record of the first visit of a length."""
    parts = visits.pieces(_AT_ONCE)
    found = ((part, np.flatnonzero(part.lengths == length)) for part in parts)
    return next(int(part.samples[places[0]]) for part, places in found if len(places))


_AT_ONCE = 1 << 20


def _more_ranks(samples: int, basis: Basis) -> ReportWarning:
    """More ranks than samples, so that the numbers are about something else than batching."""
    repeats = basis.tail in ("repeat", "spread")
    what = "compute only samples that others compute too" if repeats else "have nothing to compute"
    return ReportWarning(
        "more_ranks_than_samples",
        f"{basis.world_size:,} ranks and {samples:,} samples: with tail={basis.tail}, at least "
        f"{basis.world_size - samples:,} ranks {what}: lower --world-size",
    )


def _of_ranks(rows: Sequence[StrategyResult], basis: Basis) -> Iterator[ReportWarning]:
    """Ranks that wait for ever, and ranks that overlap."""
    uneven = [
        f"{row.label} {row.counts.ranks.min_steps:,} to {row.counts.ranks.max_steps:,}"
        for row in rows
        if row.counts.ranks.step_gap
    ]
    if uneven:
        yield ReportWarning(
            "unequal_steps",
            "ranks have unequal numbers of steps, and the ones that are done leave the others "
            f"waiting for ever in a collective: {'; '.join(uneven)}: --deal batches makes them "
            "equal with --tail repeat or drop",
        )
    unlike = [
        f"{row.label} {min(batches):,} to {max(batches):,}"
        for row in rows
        if not row.counts.ranks.step_gap
        and row.tail != "empty"
        and basis.accumulate > 1
        and len(batches := {rank.batches for rank in row.counts.reach.ranks}) > 1
    ]
    if unlike:
        yield ReportWarning(
            "unequal_batches",
            "ranks have as many steps, and not as many batches, which leaves some waiting for ever "
            f"where gradients are exchanged after every batch: {'; '.join(unlike)}: exchange them "
            "once a step",
        )
    unsynced = [row for row in rows if row.deal == "unsynced"]
    if unsynced and basis.world_size > 1:
        reach = unsynced[0].counts.reach
        yield ReportWarning(
            "unsynced",
            f"each rank draws by random numbers of its own: {reach.shared_samples:,} samples are "
            f"computed by several ranks, and {reach.unseen_samples:,} of the corpus by none "
            f"({unsynced[0].label}): --deal samples shares the seed, and deals each draw to one "
            "rank, but for what fills the tail",
        )


def _of_classes(rows: Sequence[StrategyResult], basis: Basis) -> Iterator[ReportWarning]:
    """Batches that are not those which their sampler is made for."""
    sampler = basis.sampler
    if not isinstance(sampler, PerBatch):
        return
    others = [
        f"{row.label} {mixing.min_classes} to {mixing.max_classes}"
        for row in rows
        if (mixing := row.counts.reach.mixing) is not None
        and {mixing.min_classes, mixing.max_classes} != {sampler.classes}
    ]
    if others:
        yield ReportWarning(
            "other_batches",
            f"{basis.balance}: batches hold other numbers of classes: {'; '.join(others)}: it is "
            f"kept by static with batch_size={sampler.batch_size}, --deal batches and --overflow "
            "truncate",
        )
