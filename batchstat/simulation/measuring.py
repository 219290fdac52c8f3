"""An epoch planned, dealt and measured."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from batchstat.batches import Batches
from batchstat.batching import BatchPlan, Ints, Strategy
from batchstat.epochs import Work, deal, plan_shares
from batchstat.metrics import PlanCounts, measure
from batchstat.profiling.stats import LengthStats
from batchstat.ranks import steps_of
from batchstat.reach import Entries, follow
from batchstat.settings import Basis


class Measured(NamedTuple):
    """What a strategy makes of an epoch.

    Attributes:
        counts: all numbers.
        widths: of its batches.
        steps: (n_steps, world_size) total tokens of each rank in each step.
    """

    counts: PlanCounts
    widths: LengthStats
    steps: Ints


def measured(strategy: Strategy, work: Work, basis: Basis, *, by_sample: bool = True) -> Measured:
    """An epoch planned, dealt and measured.

    Args:
        strategy: one strategy.
        work: the epoch.
        basis: the settings.
        by_sample: whether each sample is followed to its ranks where the deal alone does not say
            where it goes; else what is repeated, left out and mixed is not told.

    Raises:
        InputError: no batch is left, or no token.
    """
    plain = basis.balance == "none" and not basis.keep_labels and work.samples.classes is None
    whole = work.is_dealt and work.visits.starts is None and basis.tail != "spread"
    noted: list[BatchPlan] | None = [] if by_sample and not (plain and whole) else None
    planned = [
        Batches.of(plans if noted is None else _noted(plans, noted))
        for plans in plan_shares(strategy, work, basis)
    ]
    batches = Batches.concatenate(planned) if len(planned) > 1 else planned[0]
    rows_of = None if strategy.attends_within_samples else basis.max_length
    turns = deal(planned, work, basis)
    counts, dealt = measure(
        batches,
        turns,
        work.visits,
        tokens_per_batch=getattr(strategy, "tokens_per_batch", basis.tokens_per_batch),
        max_length=getattr(strategy, "max_length", rows_of),
        attends_within_samples=strategy.attends_within_samples,
        accumulate=basis.accumulate,
        even=basis.tail == "empty",
        followed=follow(_entries(noted, work), batches, turns, work.visits, work.samples)
        if noted and (turns >= 0).any()
        else None,
    )
    costs = batches.of_units(batches.total_tokens)
    return Measured(counts, LengthStats.of(dealt.widths), steps_of(turns, costs, basis.accumulate))


def _noted(plans: Iterator[BatchPlan], noted: list[BatchPlan]) -> Iterator[BatchPlan]:
    for plan in plans:
        noted.append(plan)
        yield plan


def _entries(plans: list[BatchPlan], work: Work) -> Entries:
    begins = [np.ones(len(p.samples), bool) if p.starts is None else p.starts == 0 for p in plans]
    return Entries(
        places=work.samples.places(np.concatenate([plan.samples for plan in plans])),
        begins=np.concatenate(begins),
        lengths=np.concatenate([plan.lengths for plan in plans]),
    )
