"""What else the reader of a table must know."""

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np

from batchstat.batching.cutting import round_up
from batchstat.profiling.stats import LengthStats
from batchstat.report import ReportWarning, StrategyResult
from batchstat.sampling import Epoch
from batchstat.settings import Basis

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
    long = int(np.count_nonzero(round_up(visits.lengths, basis.pad_to_multiple_of) > budget))
    if long:
        longest = int(visits.lengths.argmax())
        yield ReportWarning(
            "long_samples",
            f"longer than tokens_per_batch={budget:,}: {long:,} of {len(visits.lengths):,} "
            f"samples, the longest is record {visits.samples[longest]} with "
            f"{visits.lengths[longest]:,} tokens: even a batch of one is over the budget",
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
    if fixed and basis.batch_size == 1 and len(visits.lengths) > 1 and budget // width <= 1:
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
    if basis.deal == "unsynced" and basis.world_size > 1:
        reach = rows[0].counts.reach
        yield ReportWarning(
            "unsynced",
            f"each rank draws by random numbers of its own: {reach.shared_samples:,} samples are "
            f"computed by several ranks, and {reach.unseen_samples:,} of the corpus by none "
            f"({rows[0].label}): --deal samples shares the seed, and no sample is dealt twice",
        )
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
