"""What an epoch visits, shared out to the ranks, planned by a strategy and measured."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from batchstat.batches import Batches
from batchstat.batching import BatchPlan, Ints, Strategy
from batchstat.batching.planning import plan_windows
from batchstat.batching.spreading import spread_tail
from batchstat.errors import InputError
from batchstat.metrics import PlanCounts, measure
from batchstat.profiling.stats import LengthStats
from batchstat.ranks import steps_of
from batchstat.reach import Entries, follow
from batchstat.sampling import (
    Epoch,
    Samples,
    deal_balanced,
    deal_in_turn,
    deal_parts,
    make_epoch,
    make_order,
    some_of,
    torch_permutation,
)
from batchstat.sampling.balancing.natural import Natural
from batchstat.settings import Basis


@dataclass(frozen=True, eq=False)
class Work:
    """An epoch, and what of it is planned together.

    Attributes:
        samples: the corpus.
        visits: all of it that is visited, in sequence; where ranks draw for themselves, what any
            of them draws.
        shares: what each rank plans by itself; `visits`, once, where batches are dealt.
    """

    samples: Samples
    visits: Epoch
    shares: tuple[Epoch, ...]

    @property
    def is_dealt(self) -> bool:
        """Whether one plan is dealt, and not a share planned by each rank."""
        return self.shares[0] is self.visits


def make_work(samples: Samples, basis: Basis) -> Work:
    """The epoch of the samples of a corpus.

    Raises:
        InputError: classes that cannot be drawn as asked, or `overflow=drop` leaves no sample.
    """
    if basis.deal == "unsynced":
        return _unsynced(samples, basis)
    order = "file" if basis.deal in ("samples", "chunks") else basis.order
    visits = _visits(samples, _sequence(drawn(samples, basis), order, basis), basis)
    n = len(visits.lengths)
    if basis.deal == "samples":
        shares = _dealt_samples(n, basis)
    elif basis.deal == "chunks":
        shares = [
            part[make_order(len(part), basis.order, seed=basis.seed, epoch=basis.epoch)]
            for part in deal_parts(n, basis.world_size, basis.tail)
        ]
    else:
        return Work(samples, visits, (visits,))
    return Work(samples, visits, tuple(visits.take(share) for share in shares))


def drawn(samples: Samples, basis: Basis) -> Ints:
    """(n_drawn,) which samples an epoch visits, as the sampler draws them.

    Raises:
        InputError: no labels for a sampler that goes by them, or classes it cannot draw.
    """
    sampler = basis.sampler
    if isinstance(sampler, Natural) and not basis.keep_labels:
        return np.arange(len(samples))
    if samples.classes is None:
        what = "keep_labels" if basis.keep_labels else f"balance={basis.balance}"
        raise InputError(f"{what} goes by labels, and none were read: pass --label-column")
    return sampler.draw(samples.classes, seed=basis.seed, epoch=basis.epoch)


def _sequence(chosen: Ints, order: str, basis: Basis) -> Ints:
    """What is drawn, in the sequence of an order."""
    if basis.sampler.has_sequence:
        if basis.order == "shuffled":
            return chosen
        chosen = np.sort(chosen)
    return chosen[make_order(len(chosen), order, seed=basis.seed, epoch=basis.epoch)]


def _visits(samples: Samples, sequence: Ints, basis: Basis) -> Epoch:
    records, lengths = samples.records[sequence], samples.lengths[sequence]
    return some_of(make_epoch(records, lengths, basis.max_length, basis.overflow), basis.max_length)


def _dealt_samples(n: int, basis: Basis) -> list[Ints]:
    """Positions for each rank, as torch's DistributedSampler has them."""
    if basis.order == "shuffled":
        sequence = torch_permutation(n, basis.seed + basis.epoch)
    else:
        sequence = make_order(n, basis.order, seed=basis.seed, epoch=basis.epoch)
    turns = deal_in_turn(n, basis.world_size, basis.tail)
    return [sequence[column[column >= 0]] for column in turns.T]


def _unsynced(samples: Samples, basis: Basis) -> Work:
    """Each rank draws and shuffles by a seed of its own, and takes its turns of that."""
    shares = []
    most = np.zeros(len(samples), dtype=np.int64)
    for rank in range(basis.world_size):
        own = replace(basis, seed=basis.seed + rank)
        chosen = drawn(samples, own)
        np.maximum(most, np.bincount(chosen, minlength=len(samples)), out=most)
        visits = _visits(samples, _sequence(chosen, basis.order, own), basis)
        column = deal_in_turn(len(visits.lengths), basis.world_size, basis.tail)[:, rank]
        shares.append(visits.take(column[column >= 0]))
    by_any = np.repeat(np.arange(len(samples)), most)
    return Work(samples, _visits(samples, by_any, basis), tuple(shares))


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
    split, drawn = work.visits.starts is not None, basis.balance != "none" or basis.keep_labels
    unknown = not work.is_dealt or split or drawn or work.samples.classes is not None
    spread = basis.tail == "spread" and basis.world_size > 1
    unknown = unknown or spread
    noted: list[BatchPlan] | None = [] if by_sample and unknown else None
    planned = []
    for share in work.shares:
        plans = plan_windows(strategy, share, seed=basis.seed, epoch=basis.epoch)
        if spread:
            plans = _spread(plans, basis.world_size, strategy.pad_to_multiple_of)
        planned.append(Batches.of(plans if noted is None else _noted(plans, noted)))
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
        even=basis.tail == "empty",
        followed=follow(_entries(noted, work), batches, turns, work.visits, work.samples)
        if noted and (turns >= 0).any()
        else None,
    )
    costs = batches.of_units(batches.total_tokens)
    return Measured(counts, LengthStats.of(dealt.widths), steps_of(turns, costs, basis.accumulate))


def _spread(plans: Iterator[BatchPlan], world_size: int, multiple: int) -> Iterator[BatchPlan]:
    windows = list(plans)
    if windows:
        yield spread_tail(BatchPlan.concatenate(windows), world_size, multiple)


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
