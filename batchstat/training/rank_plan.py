"""`RankPlan`: the batches of one rank in one epoch, as they were simulated."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from batchstat.batches import Batches
from batchstat.batching import BatchPlan, Ints, Strategy
from batchstat.batching.plan import spans, take_groups
from batchstat.epochs import Work, deal, make_work, plan_shares
from batchstat.errors import NoBatchError
from batchstat.ranks import steps_of
from batchstat.sampling import Samples
from batchstat.settings import Basis


@dataclass(frozen=True, eq=False)
class RankPlan:
    """What a rank does, and of all ranks what it must know for that.

    Attributes:
        plan: all that is planned; a step of it is a unit.
        turns: (n_turns, world_size) which unit each rank has; −1 where it has none.
        rank: which one this is.
        basis: the settings.
        work: what the epoch visits.
    """

    plan: BatchPlan
    turns: Ints
    rank: int
    basis: Basis
    work: Work

    @classmethod
    def of(cls, samples: Samples, strategy: Strategy, basis: Basis, rank: int) -> "RankPlan":
        """The epoch of `basis`.

        Raises:
            InputError: classes that cannot be drawn as asked, or no batch that is left.
        """
        work = make_work(samples, basis)
        shares = [list(plans) for plans in plan_shares(strategy, work, basis)]
        batches = [Batches.of(plans) for plans in shares]
        turns = deal(batches, work, basis)
        if not (turns >= 0).any():
            raise NoBatchError(
                "no batch is left for any rank: lower world_size or batch_size, or leave drop_last "
                "and tail=drop out"
            )
        plan = BatchPlan.concatenate([plan for plans in shares for plan in plans])
        return cls(plan, turns, rank, basis, work)

    @cached_property
    def entry_offsets(self) -> Ints:
        """(n_batches + 1,) the entries of each batch that is planned."""
        return self.plan.row_offsets[self.plan.batch_offsets]

    @cached_property
    def _own(self) -> tuple[Ints, Ints]:
        """This rank's batches in their sequence, and the turn of each."""
        units = self.turns[:, self.rank]
        held = units >= 0
        sizes = np.diff(self.plan.step_offsets)
        many = np.where(held, sizes[units], 1)
        offsets, batches = spans(np.where(held, self.plan.step_offsets[units], 0), many)
        batches[offsets[:-1][~held]] = -1
        turns = np.repeat(np.arange(len(units)), many)
        kept = (batches >= 0) | (self.basis.tail == "empty")
        return batches[kept], turns[kept]

    @property
    def batches(self) -> Ints:
        """(n,) which batches this rank has, in their sequence; −1 where it takes an empty one."""
        return self._own[0]

    @property
    def steps(self) -> Ints:
        """(n,) which step each belongs to."""
        return self._own[1] // self.basis.accumulate

    def weights(self, *, by_tokens: bool) -> npt.NDArray[np.float64]:
        """(n,) the share of each batch in its step, times `world_size`.

        So that gradients of the mean loss of each batch, weighted, summed over the batches of a
        step and averaged over the ranks, are those of the mean loss over all of the step.

        Args:
            by_tokens: whether the loss is a mean over tokens; else over samples.
        """
        entries = np.diff(self.entry_offsets)
        sizes = (
            np.add.reduceat(self.plan.lengths, self.entry_offsets[:-1]) if by_tokens else entries
        )
        of_units = np.add.reduceat(sizes, self.plan.step_offsets[:-1])
        of_steps = steps_of(self.turns, of_units, self.basis.accumulate).sum(axis=1)
        own = np.where(self.batches < 0, 0, sizes[self.batches])
        shares: npt.NDArray[np.float64] = own * self.basis.world_size / of_steps[self.steps]
        return shares

    @cached_property
    def repeated(self) -> npt.NDArray[np.bool_]:
        """(n_entries of this rank,) whether what the sampler draws is there already without it.

        Of several ranks that compute a sample, the first one in the sequence of turns is the one
        that counts.
        """
        ranks = np.broadcast_to(np.arange(self.turns.shape[1]), self.turns.shape)
        held = self.turns >= 0
        units, rank = self.turns[held], ranks[held]
        batch_offsets, batches = take_groups(self.plan.step_offsets, units)
        offsets, entries = take_groups(self.entry_offsets, batches)
        of_rank = np.repeat(np.repeat(rank, np.diff(batch_offsets)), np.diff(offsets))
        samples = self.work.samples.places(self.plan.samples[entries])
        starts = np.zeros_like(samples) if self.plan.starts is None else self.plan.starts[entries]
        visits = self.work.visits
        visited = self.work.samples.places(visits.samples)
        first = visited if visits.starts is None else visited[visits.starts == 0]
        drawn = np.bincount(first, minlength=len(self.work.samples))
        order = np.lexsort((starts, samples))
        key_changes = np.flatnonzero((np.diff(samples[order]) != 0) | (np.diff(starts[order]) != 0))
        begins = np.concatenate([[0], key_changes + 1])
        nth = np.arange(len(order)) - np.repeat(begins, np.diff([*begins, len(order)]))
        repeated = np.empty(len(order), dtype=bool)
        repeated[order] = nth >= drawn[samples[order]]
        own: npt.NDArray[np.bool_] = repeated[of_rank == self.rank]
        return own
