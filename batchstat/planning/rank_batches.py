"""`RankBatches`: one rank's batches in one epoch, as arrays."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchstat.errors import NoBatchError
from batchstat.lengths.arrays import Ints, first_of_groups, gather_groups
from batchstat.lengths.exact import sums_at, total
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import plan_and_distribute, remakes_last
from batchstat.planning.regrouping import regrouped_rounds
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.planning.strategies.spec import RowRequest


@dataclass(frozen=True)
class Batch:
    """One batch of one rank; empty where the rank gets an empty batch."""

    number: int  # index among the rank's batches of the epoch, from 0
    records: list[int]  # record numbers in row order; a sample that is split appears once per part
    starts: list[int]  # first token of each
    stops: list[int]  # one past the last token of each
    rows: list[int]  # number of samples in each row, in order: 1 unless rows are packed
    width: int  # tokens to which rows are padded; by `document_multiple`, samples first
    step: int  # index of its step in the epoch
    ends_step: bool  # whether the optimizer steps after it
    # Weight of its mean loss over samples in the loss of the step: the gradients, summed over a
    # step's batches and averaged over ranks, equal those of the mean over all its samples.
    weight: float
    # The same for a mean over (trained) tokens, without a sample's first, which nothing predicts.
    token_weight: float
    # Whether each sample, or part of one, was computed before as a whole and only evens out the
    # ranks. Where ranks cut samples at places of their own, overlaps are computed again, too.
    repeated: list[bool]
    trained_tokens: int | None  # number that carry loss; None if unknown: `token_weight` is of all


class StepTotals(NamedTuple):
    """What the steps of an epoch have over all ranks."""

    samples: Ints  # (n_steps,) entries of each step
    tokens: Ints  # (n_steps,) tokens of each step that carry loss
    batches: Ints  # (n_steps, world_size) batches of each step on each rank, empty ones not counted


@dataclass(frozen=True, eq=False)
class RankBatches:
    """Batches of rows of entries, either of one rank in sequence or of all ranks."""

    records: Ints  # (n_entries,) record number of each
    starts: Ints | None  # (n_entries,) first token of each; None if all are whole or truncated
    lengths: Ints  # (n_entries,) tokens of each
    trained: Ints | None  # (n_entries,) trained tokens that carry loss; None if unknown
    # (n_entries,) whether each only evens out the ranks: of several, the first rank's counts.
    repeated: npt.NDArray[np.bool_]
    row_offsets: Ints  # (n_rows + 1,) entries of each row
    batch_offsets: Ints  # (n_batches + 1,) rows of each batch; none where a rank's batch is empty
    widths: Ints  # (n_batches,) tokens to which its rows are padded
    steps: Ints  # (n_batches,) step of each batch, ascending on each rank
    ranks: Ints  # (n_batches,) rank of each batch
    world_size: int  # number of ranks
    joins_samples: bool = False  # whether only a row's first token has no loss, not each sample's
    of_all_ranks: StepTotals | None = None  # of the steps, where these are the batches of one rank

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.widths)

    @property
    def entry_offsets(self) -> Ints:
        """(n_batches + 1,) entries of each batch."""
        return self.row_offsets[self.batch_offsets]

    @cached_property
    def loss_tokens(self) -> Ints:
        """(n_entries,) tokens of each that carry loss: the trained ones, or all but the first."""
        if self.trained is not None:
            return self.trained
        if not self.joins_samples:
            return np.maximum(self.lengths - 1, 0)
        # The end of a sample predicts the next one: only a row's first token has no loss.
        tokens = self.lengths.copy()
        firsts = first_of_groups(self.row_offsets)
        tokens[firsts] = np.maximum(tokens[firsts] - 1, 0)
        return tokens

    @cached_property
    def step_totals(self) -> StepTotals:
        """The samples, tokens and batches of each step over all ranks."""
        if self.of_all_ranks is not None:
            return self.of_all_ranks
        entries = np.diff(self.entry_offsets)
        step_of_entry, n_steps = np.repeat(self.steps, entries), int(self.steps.max()) + 1
        # Batches of each pair, step × world_size + rank, counted at once; empty ones left out.
        step_and_rank = (self.steps * self.world_size + self.ranks)[entries > 0]
        batches = np.bincount(step_and_rank, minlength=n_steps * self.world_size)
        return StepTotals(
            samples=np.bincount(step_of_entry, minlength=n_steps),
            tokens=sums_at(step_of_entry, self.loss_tokens, n_steps),
            batches=batches.reshape(n_steps, self.world_size),
        )

    def of_rank(self, rank: int) -> "RankBatches":
        """Return the batches of one rank, with the totals of the steps of all ranks."""
        its_batches = np.flatnonzero(self.ranks == rank)
        batch_offsets, rows = gather_groups(self.batch_offsets, its_batches)
        row_offsets, entries = gather_groups(self.row_offsets, rows)
        return replace(
            self,
            records=self.records[entries],
            starts=None if self.starts is None else self.starts[entries],
            lengths=self.lengths[entries],
            trained=None if self.trained is None else self.trained[entries],
            repeated=self.repeated[entries],
            row_offsets=row_offsets,
            batch_offsets=batch_offsets,
            widths=self.widths[its_batches],
            steps=self.steps[its_batches],
            ranks=self.ranks[its_batches],
            of_all_ranks=self.step_totals,
        )

    def batch(self, number: int) -> Batch:
        """Return one batch of the rank with all its details; not for the batches of all ranks."""
        # Where its rows begin and the last one ends, in entries; an empty batch has one such edge.
        edges = self.row_offsets[self.batch_offsets[number] : self.batch_offsets[number + 1] + 1]
        entries = slice(edges[0], edges[-1])
        lengths, step = self.lengths[entries], self.steps[number]
        starts = np.zeros_like(lengths) if self.starts is None else self.starts[entries]
        trained = None if self.trained is None else total(self.trained[entries])
        tokens = total(self.loss_tokens[entries])
        return Batch(
            number=number,
            records=self.records[entries].tolist(),
            starts=starts.tolist(),
            stops=(starts + lengths).tolist(),
            rows=np.diff(edges).tolist(),
            width=int(self.widths[number]),
            step=int(step),
            # The last batch of the epoch, or the next one is of another step.
            ends_step=number + 1 == len(self) or bool(self.steps[number + 1] != step),
            # Its share of the step's samples, × ranks, since gradients are averaged over these.
            weight=float(len(lengths) * self.world_size / self.step_totals.samples[step]),
            # The same in tokens; a step without tokens that carry loss gives 0.
            token_weight=tokens * self.world_size / max(1, int(self.step_totals.tokens[step])),
            repeated=self.repeated[entries].tolist(),
            trained_tokens=trained,
        )


def plan_ranks(shares: EpochShares, request: RowRequest) -> RankBatches:
    """Plan an epoch: the batches of all ranks, turn by turn, rank by rank. Raises NoBatchError."""
    settings, strategy = request.settings, request.strategy
    plan, unit_of_rank = _planned(shares, request)
    keep_empty = settings.remainder == "dummy"
    batches, turns, ranks, is_repeat = _lay_out(plan, unit_of_rank, keep_empty=keep_empty)
    # Batch number len(plan) is added, with no rows: that of a rank that gets an empty batch.
    offsets_with_empty = np.append(plan.batch_offsets, plan.batch_offsets[-1])
    batch_offsets, rows = gather_groups(offsets_with_empty, batches)
    row_offsets, entries = gather_groups(plan.row_offsets, rows)
    records, lengths = plan.samples[entries], plan.lengths[entries]
    starts = None if plan.starts is None else plan.starts[entries]
    is_predicted = None
    # The first token of each entry is predicted by the one before it, except at a row's beginning.
    if strategy.joins_samples:
        is_predicted = np.ones(len(lengths), dtype=np.bool_)
        is_predicted[first_of_groups(row_offsets)] = False
    may_repeat = remakes_last(strategy, settings) or strategy.repeats_samples(settings)
    if shares.is_distributed and not may_repeat:
        # Every draw is in exactly one unit: only whole units are repeated, to fill the last turn.
        repeated = np.repeat(is_repeat, np.diff(row_offsets[batch_offsets]))
    else:
        # Each rank planned a share, or rows were repeated within the plan: compare entry by entry.
        repeated = _is_repeated(records, starts, shares)
    return RankBatches(
        records=records,
        starts=starts,
        lengths=lengths,
        trained=shares.samples.trained_tokens(records, starts, lengths, is_predicted),
        repeated=repeated,
        row_offsets=row_offsets,
        batch_offsets=batch_offsets,
        # The empty batch, which the plan does not have, is 0 wide.
        widths=np.append(plan.widths, 0)[batches],
        steps=turns // settings.gradient_accumulation_steps,
        ranks=ranks,
        world_size=settings.world_size,
        joins_samples=strategy.joins_samples,
    )


def _planned(shares: EpochShares, request: RowRequest) -> tuple[BatchPlan, Ints]:
    """Return the plan, and (n_turns, world_size) units, −1 for none. Raises NoBatchError."""
    if isinstance(request.strategy, Regrouped):
        rounds = list(regrouped_rounds(request, shares))
        if not rounds:
            raise NoBatchError()
        plans, turns = zip(*rounds, strict=True)
        begins = np.cumsum([0, *(plan.n_units for plan in plans[:-1])])
        units = [np.where(t < 0, -1, t + begin) for t, begin in zip(turns, begins, strict=True)]
        return BatchPlan.concatenate(plans), np.concatenate(units)
    return plan_and_distribute(shares, request)


def _lay_out(
    plan: BatchPlan, unit_of_rank: Ints, *, keep_empty: bool
) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_]]:
    """Lay the batches of the units of all ranks end to end, turn by turn and rank by rank. Returns
    (n,) each: the batch of the plan, where the number of its batches stands for an empty one; its
    turn; its rank; and whether its unit was distributed before.
    """
    n_units, world_size = len(plan.unit_offsets) - 1, unit_of_rank.shape[1]
    # (n_cells,) the unit of cell turn × world_size + rank; for −1, one more of an empty batch.
    units = np.where(unit_of_rank < 0, n_units, unit_of_rank).ravel()
    offsets, batches = gather_groups(np.append(plan.unit_offsets, len(plan) + 1), units)
    cell_of_batch = np.repeat(np.arange(len(units)), np.diff(offsets))
    if not keep_empty:
        is_kept = batches < len(plan)
        batches, cell_of_batch = batches[is_kept], cell_of_batch[is_kept]
    # A unit is repeated in all its cells but the first, which `unique` returns.
    _, first_cells = np.unique(units, return_index=True)
    is_repeat = np.ones(len(units), dtype=np.bool_)
    is_repeat[first_cells] = False
    turns, ranks = np.divmod(cell_of_batch, world_size)
    return batches, turns, ranks, is_repeat[cell_of_batch]


def _is_repeated(records: Ints, starts: Ints | None, shares: EpochShares) -> npt.NDArray[np.bool_]:
    """Return (n_entries,) whether each entry only evens out the ranks: as many equal ones, of the
    same sample and first token, come before it as the epoch draws its sample.
    """
    samples = shares.samples.indices_of(records)
    drawn_samples = shares.samples.indices_of(shares.epoch.whole.first_parts)
    times_drawn = np.bincount(drawn_samples, minlength=len(shares.samples))
    # Equal entries side by side. Both sorts are stable: those that are computed first come first.
    if starts is None:
        order = np.argsort(samples, kind="stable")
        differs_from_next = np.diff(samples[order]) != 0
    else:
        order = np.lexsort((starts, samples))
        differs_from_next = (np.diff(samples[order]) != 0) | (np.diff(starts[order]) != 0)
    # Where each group of equal entries begins, and how many entries it has.
    group_begins = np.append(0, np.flatnonzero(differs_from_next) + 1)
    group_sizes = np.diff(group_begins, append=len(order))
    # The position of an entry in its group: so many equal ones come before it.
    n_before = np.arange(len(order)) - np.repeat(group_begins, group_sizes)
    repeated = np.empty(len(order), dtype=bool)
    repeated[order] = n_before >= times_drawn[samples[order]]
    return repeated
