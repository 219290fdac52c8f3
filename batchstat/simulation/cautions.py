"""What else the reader of a table must know."""

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np

from batchstat.batching.cutting import round_up
from batchstat.report import ReportWarning, StrategyResult
from batchstat.sampling import Epoch
from batchstat.sampling.balancing.per_batch import PerBatch
from batchstat.settings import Basis
from batchstat.stats import LengthStats

_ALIKE = 0.5
"""A correlation of neighbouring batches above this shows in the loss."""

_CERTAIN = 3
"""Standard errors, of about 1 / √steps, above which it is no chance."""


def cautions(
    rows: Sequence[StrategyResult], visits: Epoch, basis: Basis, stats: LengthStats
) -> Iterator[ReportWarning]:
    """Long samples, batches over their budget, peaks that differ, batches of one, batches that
    come sorted.
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
    over = [
        f"{row.label} {row.counts.over_budget_batches:,} of {row.counts.batches:,} "
        f"(largest {row.counts.max_batch_tokens:,})"
        for row in rows
        if row.counts.over_budget_batches
    ]
    if over:
        yield ReportWarning("over_budget", f"batches over their budget: {'; '.join(over)}")
    above = [
        f"{row.label} ({row.counts.max_batch_tokens:,})"
        for row in rows
        if not row.counts.over_budget_batches and row.counts.max_batch_tokens > budget
    ]
    if above:
        yield ReportWarning(
            "unequal_peak",
            f"not at equal peak memory: batches above {budget:,} tokens in {', '.join(above)}",
        )
    width = -(-basis.max_length // basis.pad_to_multiple_of) * basis.pad_to_multiple_of
    fixed = any("batch_size" in row.params for row in rows)
    if fixed and basis.batch_size == 1 and visits.count > 1 and budget // width <= 1:
        short = stats.percentile(990)
        yield ReportWarning(
            "batch_of_one",
            f"batch_size is 1, since max_length={basis.max_length:,} leaves room for one sample in "
            f"tokens_per_batch={budget:,}: "
            + (
                f"--max-length {short} would cut 1% of the samples"
                if short < basis.max_length
                else "raise --tokens-per-batch"
            ),
        )
    yield from _of_ranks(rows, basis)
    yield from _of_classes(rows, basis)
    sorted_rows = [
        f"{row.label} ({correlation:.2f})"
        for row in rows
        if (correlation := row.counts.grouping.neighbour_correlation or 0) > _ALIKE
        and correlation * sqrt(row.counts.steps) > _CERTAIN
    ]
    if sorted_rows:
        yield ReportWarning(
            "alike_neighbours",
            "batches that follow one another are of like length, which the loss will show: "
            f"{', '.join(sorted_rows)}, 1 is sorted: shuffle the samples or the batches",
        )


def _first_of(visits: Epoch, length: int) -> int:
    """The record of the first visit of a length."""
    parts = visits.pieces(_AT_ONCE)
    found = ((part, np.flatnonzero(part.lengths == length)) for part in parts)
    return next(int(part.samples[places[0]]) for part, places in found if len(places))


_AT_ONCE = 1 << 20


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
