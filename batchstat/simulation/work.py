"""What an epoch visits, shared out to the ranks, planned by a strategy and measured."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from batchstat.batches import Batches
from batchstat.batching import BatchPlan, Ints, Strategy
from batchstat.batching.planning import plan_windows
from batchstat.metrics import PlanCounts, Unique, measure
from batchstat.profiling.stats import LengthStats
from batchstat.ranks import steps_of
from batchstat.sampling import (
    Epoch,
    deal_balanced,
    deal_in_turn,
    deal_parts,
    make_epoch,
    make_order,
    some_of,
    torch_permutation,
)
from batchstat.settings import Basis


@dataclass(frozen=True, eq=False)
class Work:
    """An epoch, and what of it is planned together.

    Attributes:
        visits: all of it.
        shares: what each rank plans by itself; all of it, once, where batches are dealt.
    """

    visits: Epoch
    shares: tuple[Epoch, ...]

    @property
    def is_dealt(self) -> bool:
        """Whether one plan is dealt, and not a share planned by each rank."""
        return self.shares[0] is self.visits


def make_work(lengths: Ints, records: Ints, basis: Basis) -> Work:
    """The epoch of samples of `lengths` (n,) tokens.

    Raises:
        InputError: `overflow=drop` leaves none.
    """
    order = "file" if basis.deal in ("samples", "chunks") else basis.order
    sequence = make_order(len(lengths), order, seed=basis.seed, epoch=basis.epoch)
    visits = make_epoch(records[sequence], lengths[sequence], basis.max_length, basis.overflow)
    n = len(some_of(visits, basis.max_length).lengths)
    if basis.deal == "samples":
        shares = _dealt_samples(n, basis)
    elif basis.deal == "chunks":
        shares = [
            part[make_order(len(part), basis.order, seed=basis.seed, epoch=basis.epoch)]
            for part in deal_parts(n, basis.world_size, basis.tail)
        ]
    else:
        return Work(visits, (visits,))
    return Work(visits, tuple(visits.take(share) for share in shares))


def _dealt_samples(n: int, basis: Basis) -> list[Ints]:
    """Positions for each rank, as torch's DistributedSampler has them."""
    if basis.order == "shuffled":
        sequence = torch_permutation(n, basis.seed + basis.epoch)
    else:
        sequence = make_order(n, basis.order, seed=basis.seed, epoch=basis.epoch)
    turns = deal_in_turn(n, basis.world_size, basis.tail)
    return [sequence[column[column >= 0]] for column in turns.T]


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


def measured(strategy: Strategy, work: Work, basis: Basis) -> Measured:
    """An epoch planned, dealt and measured.

    Raises:
        InputError: no batch is left, or no token.
    """
    by_record = not work.is_dealt or work.visits.starts is not None
    seen: list[tuple[Ints, Ints | None, Ints]] = []
    planned = []
    for share in work.shares:
        plans = plan_windows(strategy, share, seed=basis.seed, epoch=basis.epoch)
        planned.append(Batches.of(_noted(plans, seen) if by_record else plans))
    batches = Batches.concatenate(planned) if len(planned) > 1 else planned[0]
    rows_of = None if strategy.attends_within_samples else basis.max_length
    turns = _turns(batches, basis) if work.is_dealt else _side_by_side(planned)
    counts, dealt = measure(
        batches,
        turns,
        work.visits,
        tokens_per_batch=getattr(strategy, "tokens_per_batch", basis.tokens_per_batch),
        max_length=getattr(strategy, "max_length", rows_of),
        attends_within_samples=strategy.attends_within_samples,
        accumulate=basis.accumulate,
        unique=_unique(work.visits, seen, batches, turns) if by_record else None,
    )
    costs = batches.of_units(batches.total_tokens)
    return Measured(counts, LengthStats.of(dealt.widths), steps_of(turns, costs, basis.accumulate))


def _noted(
    plans: Iterator[BatchPlan], seen: list[tuple[Ints, Ints | None, Ints]]
) -> Iterator[BatchPlan]:
    for plan in plans:
        seen.append((plan.samples, plan.starts, plan.lengths))
        yield plan


def _turns(batches: Batches, basis: Basis) -> Ints:
    if basis.deal == "balanced":
        costs = batches.of_units(batches.total_tokens)
        entropy = np.random.SeedSequence((basis.seed, basis.epoch), spawn_key=(1,))
        rng = np.random.default_rng(entropy)
        return deal_balanced(costs, basis.world_size, basis.tail, rng)
    return deal_in_turn(batches.units, basis.world_size, basis.tail)


def _side_by_side(planned: list[Batches]) -> Ints:
    """(n_turns, world_size) the units of each rank in its own sequence."""
    turns = np.full((max(each.units for each in planned), len(planned)), -1)
    first = 0
    for rank, each in enumerate(planned):
        turns[: each.units, rank] = np.arange(first, first + each.units)
        first += each.units
    return turns


def _unique(
    visits: Epoch, seen: list[tuple[Ints, Ints | None, Ints]], batches: Batches, turns: Ints
) -> Unique:
    """What of the visits is in batches that are dealt."""
    if not seen:
        return Unique(0, 0, 0)
    dealt = np.zeros(batches.units, dtype=bool)
    dealt[turns[turns >= 0]] = True
    kept = np.repeat(np.repeat(dealt, np.diff(batches.unit_offsets)), batches.entries)
    samples = np.concatenate([samples for samples, _, _ in seen])[kept]
    begins = [np.ones(len(s), bool) if p is None else p == 0 for s, p, _ in seen]
    lengths = np.concatenate([lengths for _, _, lengths in seen])[kept]
    known, visit = np.unique(visits.samples, return_inverse=True)
    visited = np.bincount(visit, weights=visits.lengths)
    place = np.searchsorted(known, samples)
    computed = np.bincount(place, weights=lengths, minlength=len(known))
    begun = np.bincount(place, weights=np.concatenate(begins)[kept], minlength=len(known))
    there = np.bincount(place, minlength=len(known)) > 0
    return Unique(
        samples=int(np.count_nonzero(there)),
        tokens=int(np.minimum(visited, computed).sum()),
        headless=int(np.count_nonzero(there & (begun == 0))),
    )
