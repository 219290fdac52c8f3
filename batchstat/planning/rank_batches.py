"""`RankBatches`: one rank's batches in one epoch, as arrays."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchstat.errors import NoBatchError
from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.lengths.exact import sums_at, total
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import (
    distribute,
    plan_shares,
    rebatches,
    trained_to_balance,
)
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import RowRequest


@dataclass(frozen=True)
class Batch:
    """One batch of one rank; empty where the rank gets an empty batch.

    Attributes:
        number: index among the rank's batches of the epoch, from 0.
        records: record numbers of its samples, in row order; a sample that is split appears once
            per part.
        starts: first token of each.
        stops: one past the last token of each.
        rows: number of samples in each row, in order: 1 unless rows are packed.
        width: tokens to which the rows are padded. With `document_multiple`, whoever collates them
            pads each sample of a row first.
        step: index of its step in the epoch.
        ends_step: whether the optimizer steps after it.
        weight: weight of its mean loss over samples in the loss of the step. Gradients of the
            weighted losses, summed over the batches of a step and averaged over the ranks, equal
            those of the mean over all samples of the step.
        token_weight: the same for a mean loss over tokens: over the trained ones, where they are
            known. The first token of a sample does not count, since nothing predicts it.
        repeated: whether each sample, or part of one, was computed before as a whole and only evens
            out the ranks. Where ranks cut samples at places of their own, parts overlap, and more
            tokens are computed again than those of such parts.
        trained_tokens: number of its trained tokens, those without a loss not counted; None if
            they are unknown, so that `token_weight` is of all tokens.
    """

    number: int
    records: list[int]
    starts: list[int]
    stops: list[int]
    rows: list[int]
    width: int
    step: int
    ends_step: bool
    weight: float
    token_weight: float
    repeated: list[bool]
    trained_tokens: int | None


class StepTotals(NamedTuple):
    """What the steps of an epoch have over all ranks.

    Attributes:
        samples: (n_steps,) entries of each step.
        tokens: (n_steps,) tokens of each step that carry loss.
        batches: (n_steps, world_size) batches of each step on each rank, empty ones not counted.
    """

    samples: Ints
    tokens: Ints
    batches: Ints


@dataclass(frozen=True, eq=False)
class RankBatches:
    """Batches of rows of entries, either of one rank in sequence or of all ranks.

    Attributes:
        records: (n_entries,) record number of each.
        starts: (n_entries,) first token of each; None if every sample is whole or truncated.
        lengths: (n_entries,) tokens of each.
        trained: (n_entries,) trained tokens of each that carry loss; None if they are unknown.
        repeated: (n_entries,) whether each only evens out the ranks: if several ranks compute a
            sample, the first one in the sequence of rounds is the one that counts.
        row_offsets: (n_rows + 1,) entries of each row.
        batch_offsets: (n_batches + 1,) rows of each batch; no rows where a rank gets an empty
            batch.
        widths: (n_batches,) tokens to which its rows are padded.
        steps: (n_batches,) step of each batch, ascending on each rank.
        ranks: (n_batches,) rank of each batch.
        world_size: number of ranks.
        joins_samples: whether a row is one text to the loss, so that of its tokens only the first
            has none; else the first of each sample.
        of_all_ranks: the steps of all ranks, where these are the batches of one.
    """

    records: Ints
    starts: Ints | None
    lengths: Ints
    trained: Ints | None
    repeated: npt.NDArray[np.bool_]
    row_offsets: Ints
    batch_offsets: Ints
    widths: Ints
    steps: Ints
    ranks: Ints
    world_size: int
    joins_samples: bool = False
    of_all_ranks: StepTotals | None = None

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
        # Nothing predicts the first token of a sample; in a row that is one text, only the first
        # sample's, as the end of one sample predicts the beginning of the next.
        if not self.joins_samples:
            return np.maximum(self.lengths - 1, 0)
        tokens = self.lengths.copy()
        firsts = first_entries(self.row_offsets)
        tokens[firsts] = np.maximum(tokens[firsts] - 1, 0)
        return tokens

    @cached_property
    def step_totals(self) -> StepTotals:
        """What each step has over all ranks."""
        if self.of_all_ranks is not None:
            return self.of_all_ranks
        entries = np.diff(self.entry_offsets)
        step_of_entry, n_steps = np.repeat(self.steps, entries), int(self.steps.max()) + 1
        places = (self.steps * self.world_size + self.ranks)[entries > 0]
        batches = np.bincount(places, minlength=n_steps * self.world_size)
        return StepTotals(
            np.bincount(step_of_entry, minlength=n_steps),
            sums_at(step_of_entry, self.loss_tokens, n_steps),
            batches.reshape(n_steps, self.world_size),
        )

    def of_rank(self, rank: int) -> "RankBatches":
        """Return the batches of one rank."""
        own = np.flatnonzero(self.ranks == rank)
        batch_offsets, rows = gather_groups(self.batch_offsets, own)
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
            widths=self.widths[own],
            steps=self.steps[own],
            ranks=self.ranks[own],
            of_all_ranks=self.step_totals,
        )

    def batch(self, place: int) -> Batch:
        """Return one batch with all its details; only for the batches of a single rank."""
        rows = self.row_offsets[self.batch_offsets[place] : self.batch_offsets[place + 1] + 1]
        entries = slice(rows[0], rows[-1])
        lengths, step = self.lengths[entries], self.steps[place]
        starts = np.zeros_like(lengths) if self.starts is None else self.starts[entries]
        trained = None if self.trained is None else total(self.trained[entries])
        tokens = total(self.loss_tokens[entries])
        return Batch(
            number=place,
            records=self.records[entries].tolist(),
            starts=starts.tolist(),
            stops=(starts + lengths).tolist(),
            rows=np.diff(rows).tolist(),
            width=int(self.widths[place]),
            step=int(step),
            ends_step=place + 1 == len(self) or bool(self.steps[place + 1] != step),
            weight=float(len(lengths) * self.world_size / self.step_totals.samples[step]),
            token_weight=tokens * self.world_size / max(1, int(self.step_totals.tokens[step])),
            repeated=self.repeated[entries].tolist(),
            trained_tokens=trained,
        )


def first_entries(rows: Ints) -> Ints:
    """Return the first entry of each row that has one, given (n_rows + 1,) offsets."""
    return rows[:-1][np.diff(rows) > 0]


def plan_ranks(shares: EpochShares, request: RowRequest) -> RankBatches:
    """Return the batches of all ranks in the epoch of the settings, in the sequence of
    distribution.

    Raises:
        NoBatchError: no batches are left.
    """
    settings, samples = request.settings, shares.samples
    planned = [list(plans) for plans in plan_shares(request.strategy, shares, settings)]
    trained_in = trained_to_balance(shares, settings)
    rounds = distribute(
        [[BatchTable.of(plans, trained_in)] for plans in planned],
        shares,
        settings,
        request.strategy.turns,
    )
    none = np.empty((0, settings.world_size), dtype=np.int64)
    units = np.concatenate([none, *(each.units for each in rounds)])
    if not (units >= 0).any():
        raise NoBatchError()
    plan = BatchPlan.concatenate([plan for plans in planned for plan in plans])
    distributed = _distributed(plan, units, keep_empty=settings.remainder == "dummy")
    # One more batch than the plan has, without rows, is that of a rank that gets none.
    with_empty = np.append(plan.batch_offsets, plan.batch_offsets[-1])
    batch_offsets, rows = gather_groups(with_empty, distributed.batches)
    row_offsets, entries = gather_groups(plan.row_offsets, rows)
    lengths = plan.lengths[entries]
    starts = None if plan.starts is None else plan.starts[entries]
    joins = request.strategy.joins_samples
    follows = None
    if joins:
        follows = np.ones(len(lengths), dtype=np.bool_)
        follows[first_entries(row_offsets)] = False
    trained = samples.trained_tokens(plan.samples[entries], starts, lengths, follows)
    again = rebatches(request.strategy, settings) or request.strategy.repeats_samples
    if shares.is_distributed and not again:
        # Every draw is in exactly one unit, so only whole units are repeated.
        repeated = np.repeat(distributed.repeated, np.diff(row_offsets[batch_offsets]))
    else:
        repeated = _repeated(plan.samples[entries], starts, shares)
    return RankBatches(
        records=plan.samples[entries],
        starts=starts,
        lengths=lengths,
        trained=trained,
        repeated=repeated,
        row_offsets=row_offsets,
        batch_offsets=batch_offsets,
        widths=np.append(plan.widths, 0)[distributed.batches],
        steps=distributed.turns // settings.gradient_accumulation_steps,
        ranks=distributed.ranks,
        world_size=settings.world_size,
        joins_samples=joins,
    )


class _Distributed(NamedTuple):
    """(n,) batches of all ranks in sequence, the number of batches of the plan for an empty one;
    the round and rank of each, and whether its unit was distributed before.
    """

    batches: Ints
    turns: Ints
    ranks: Ints
    repeated: npt.NDArray[np.bool_]


def _distributed(plan: BatchPlan, turns: Ints, *, keep_empty: bool) -> _Distributed:
    # A rank without a unit gets one more than the plan has, of one empty batch.
    units = np.where(turns < 0, len(plan.unit_offsets) - 1, turns).ravel()
    offsets, batches = gather_groups(np.append(plan.unit_offsets, len(plan) + 1), units)
    place = np.repeat(np.arange(len(units)), np.diff(offsets))
    kept = (batches < len(plan)) | keep_empty
    turn, rank = np.divmod(place[kept], turns.shape[1])
    again = np.ones(len(units), dtype=np.bool_)
    again[np.unique(units, return_index=True)[1]] = False
    return _Distributed(batches[kept], turn, rank, again[place[kept]])


def _repeated(records: Ints, starts: Ints | None, shares: EpochShares) -> npt.NDArray[np.bool_]:
    """Return (n_entries,) whether each entry is one more of its sample, or of its part of one, than
    the sampler draws.
    """
    samples = shares.samples.places(records)
    drawn_samples = shares.samples.places(shares.epoch.whole.first_parts)
    times_drawn = np.bincount(drawn_samples, minlength=len(shares.samples))
    # Both sorts are stable: of equal entries, those that are computed first come first.
    if starts is None:
        by_part = np.argsort(samples, kind="stable")
        is_another = np.diff(samples[by_part]) != 0
    else:
        by_part = np.lexsort((starts, samples))
        is_another = (np.diff(samples[by_part]) != 0) | (np.diff(starts[by_part]) != 0)
    first_of_part = np.concatenate([[0], np.flatnonzero(is_another) + 1])
    entries_of_part = np.diff([*first_of_part, len(by_part)])
    times_before = np.arange(len(by_part)) - np.repeat(first_of_part, entries_of_part)
    repeated = np.empty(len(by_part), dtype=bool)
    repeated[by_part] = times_before >= times_drawn[samples[by_part]]
    return repeated
