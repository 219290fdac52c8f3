"""An epoch planned, distributed and measured."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import distribute, distribute_stream, plan_shares
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.base import Strategy
from batchstat.rng import window_rng
from batchstat.simulation.cost_model import CostModel
from batchstat.simulation.coverage import BatchEntries, Coverage, DistinctCounts, trace_samples
from batchstat.simulation.epoch_meter import EpochMeter, Measurement, measure


def measured(
    strategy: Strategy,
    work: EpochShares,
    basis: ResolvedSettings,
    *,
    by_sample: bool = True,
    model: CostModel | None = None,
) -> Measurement:
    """Plan, distribute and measure an epoch.

    Args:
        strategy: one strategy.
        work: the epoch.
        basis: the settings.
        by_sample: whether each sample is followed to its ranks if the distribution alone does not
            determine where it goes; else repeated, dropped and mixed samples are not reported.
        model: the cost model that estimates compute; None for total tokens.

    Raises:
        InputError: there is no batch, or no token.
    """
    how = measure_options(strategy, basis, model)
    plain = basis.sampler == "none" and not basis.keep_labels and work.samples.classes is None
    # If units hold each sample once, the distributed units determine what happens to every sample.
    in_parts = work.visits.is_split or strategy.cuts_samples
    whole = work.is_distributed and not in_parts and basis.remainder != "spread"
    if whole and (plain or not by_sample):
        tally = EpochMeter(basis.world_size, **how, keep_steps=basis.world_size > 1)
        for group in distribute_stream(_planned(strategy, work, basis), basis):
            tally.add(*group)
        return tally.measured(work.visits)
    noted: list[BatchPlan] | None = [] if by_sample else None
    planned = [
        BatchTable.of(plans if noted is None else _noted(plans, noted))
        for plans in plan_shares(strategy, work, basis)
    ]
    batches = BatchTable.concatenate(planned) if len(planned) > 1 else planned[0]
    turns = distribute(planned, work, basis)

    def followed() -> tuple[DistinctCounts, Coverage]:
        return trace_samples(_entries(noted or [], work), batches, turns, work.visits, work.samples)

    return measure(batches, turns, work.visits, followed if noted else None, **how)


def measure_options(
    strategy: Strategy, basis: ResolvedSettings, model: CostModel | None = None
) -> dict[str, Any]:
    """Return the arguments of a `EpochMeter` for a strategy and the settings."""
    rows_of = None if strategy.attends_within_samples else basis.max_length
    return {
        "tokens_per_batch": strategy.budget or basis.tokens_per_batch,
        "max_length": strategy.row_length or rows_of,
        "attends_within_samples": strategy.attends_within_samples,
        "gradient_accumulation_steps": basis.gradient_accumulation_steps,
        "even": basis.remainder == "dummy",
        "pad_to_multiple_of": strategy.pad_to_multiple_of,
        "cost": (1, 0) if model is None else (model.linear, model.quadratic),
    }


def _planned(
    strategy: Strategy, work: EpochShares, basis: ResolvedSettings
) -> Iterator[BatchTable]:
    """Yield the batches of the only share, from its histogram alone if possible."""
    rng = window_rng(basis.seed, basis.epoch, 0)
    summary = strategy.summary(work.visits.stats, rng)
    if summary is not None:
        yield BatchTable.from_summary(summary)
        return
    (plans,) = plan_shares(strategy, work, basis)
    some: list[BatchPlan] = []
    entries = 0
    for plan in plans:
        some.append(plan)
        entries += len(plan.lengths)
        if entries >= _TOGETHER:
            yield BatchTable.of(some)
            some, entries = [], 0
    if some:
        yield BatchTable.of(some)


_TOGETHER = 1 << 18
"""Entries that are measured together, since windows may be small."""


def _noted(plans: Iterator[BatchPlan], noted: list[BatchPlan]) -> Iterator[BatchPlan]:
    for plan in plans:
        noted.append(plan)
        yield plan


def _entries(plans: list[BatchPlan], work: EpochShares) -> BatchEntries:
    begins = [np.ones(len(p.samples), bool) if p.starts is None else p.starts == 0 for p in plans]
    return BatchEntries(
        places=work.samples.places(np.concatenate([plan.samples for plan in plans])),
        begins=np.concatenate(begins),
        lengths=np.concatenate([plan.lengths for plan in plans]),
    )
