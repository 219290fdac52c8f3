"""Better batches of optimizer steps: of many at once, or of one in the process that trains, which
loads this folder by its place: what is imported here is in the grammar of Python 3.8, on NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .rank_loads import SWAPS, meet_in_turns, share_evenly
from .step_cuts import (
    SortedSteps,
    cheapest_cuts,
    cut_by_target,
    cuts_by_targets,
    fitting,
    least_targets,
    strides,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchstat.lengths.arrays import Floats, Ints


@dataclass(frozen=True)
class StepRules:
    """What the batches of a step keep to, and what they cost."""

    world_size: int
    tokens_per_batch: int
    pad_to_multiple_of: int = 1
    in_turns: bool = False  # whether ranks wait for each other in every batch, not once per step
    equal_sizes: bool = False  # whether all batches of a step have equally many samples
    pairs: int | None = None  # pairs of tokens that attention computes in the time of one token
    row_length: int | None = None  # tokens of every row; None for those of its batch's longest

    def widths(self, longest: Ints) -> Ints:
        """Return the widths of batches whose longest samples have these lengths."""
        widths = longest if self.row_length is None else np.full_like(longest, self.row_length)
        multiple = self.pad_to_multiple_of
        return widths if multiple == 1 else -(-widths // multiple) * multiple

    def row_costs(self, widths: Ints) -> Floats:
        """Return the cost of rows of these widths: their tokens, or with `pairs` also their pairs
        of tokens; an empty row costs a token. Floats hold the square of any width.
        """
        tokens = np.maximum(widths, 1).astype(np.float64)
        return tokens if self.pairs is None else tokens * self.pairs + tokens**2

    def slowest(self, costs: Floats) -> Floats:
        """Return (n_steps,) what the slowest rank computes, summed over the meetings of ranks, of
        (n_steps, n_turns, world_size) `costs` of batches.
        """
        slowest: Floats = (
            costs.max(axis=2).sum(axis=1) if self.in_turns else costs.sum(axis=1).max(axis=1)
        )
        return slowest


def regrouped_step(lengths: Ints, sizes: Ints, rules: StepRules) -> tuple[Ints, Ints] | None:
    """Regroup a step as `regroup` does those of an epoch. `lengths` (n,) are of its samples, turn
    by turn and in a turn rank by rank; `sizes` (n_turns, world_size) of its batches, 0 for none.
    Returns the positions (n,) of the samples in their new sequence, and the new sizes; None where
    the step stays as it is.
    """
    lengths, sizes = np.asarray(lengths, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    places = np.flatnonzero(sizes)
    rows, n = sizes.ravel()[places], len(lengths)
    per_rank = min(int((sizes > 0).sum(axis=0).max()), n // rules.world_size)
    n_batches = per_rank * rules.world_size
    # One rank with one batch has nothing to regroup, and no rank without a batch.
    if n_batches < 2 or (rules.equal_sizes and (rows * n_batches != n).any()):
        return None
    widths = rules.widths(np.maximum.reduceat(lengths, np.cumsum(rows) - rows))
    costs = np.zeros((1, *sizes.shape))
    costs.ravel()[places] = rows * rules.row_costs(widths)
    # Stable, so that equal lengths stay in their sequence.
    order = np.argsort(-lengths, kind="stable")
    today = rules.slowest(costs), (rows * widths).max(keepdims=True)
    found, better = better_batches(lengths[order][None], np.array([n]), *today, per_rank, rules)
    if len(better) == 0:
        return None
    batches = np.split(order, found.offsets[0, 1:-1])
    in_turn = [batches[number] for number in np.argsort(found.places[0])]
    new_sizes = np.zeros_like(sizes)
    new_sizes.ravel()[:n_batches] = [len(batch) for batch in in_turn]
    return np.concatenate(in_turn), new_sizes


def better_batches(
    lengths: Ints, sizes: Ints, costs: Floats, largest: Ints, per_rank: int, rules: StepRules
) -> tuple[SharedBatches, Ints]:
    """Return `per_rank` batches for each rank, and the steps for which they are better than today's
    of `costs` (n_steps,) for the slowest rank and `largest` (n_steps,) tokens; with `equal_sizes`,
    today's have them too. `lengths` (n_steps, n) fall along a step and are filled up after its
    `sizes` (n_steps,) samples; `strides` are the same for all steps.
    """
    widths, n_batches = rules.widths(lengths), per_rank * rules.world_size
    most_rows = np.maximum(rules.tokens_per_batch // np.maximum(widths, 1), 1)
    steps = SortedSteps(rules.row_costs(widths), most_rows, sizes)
    if rules.equal_sizes:
        offsets = np.arange(n_batches + 1) * (sizes // n_batches)[:, None]
        found = _shared(steps, offsets, rules.world_size, in_turns=rules.in_turns)
    else:
        steps = fitting(steps, n_batches, np.maximum(widths, 1))
        stride = int(strides(sizes[:1], np.array([n_batches]))[0])
        found = best_batches(steps, per_rank, rules.world_size, stride, in_turns=rules.in_turns)
    widths_of_batches = np.take_along_axis(widths, found.offsets[:, :-1], axis=1)
    new_largest = (np.diff(found.offsets, axis=1) * widths_of_batches).max(axis=1)
    # Where ranks have unlike numbers of batches, the largest may have to grow: that step is kept.
    # One that comes to fit is changed even if it then computes more. No batches of a step are
    # smaller than its longest sample.
    budget = np.maximum(rules.tokens_per_batch, widths[:, 0])
    is_better = (found.costs < costs) & (new_largest <= np.maximum(largest, budget))
    return found, np.flatnonzero(is_better | ((largest > budget) & (new_largest <= budget)))


class SharedBatches(NamedTuple):
    """Batches of steps, given to ranks."""

    offsets: Ints  # (n_steps, n_batches + 1) samples of each batch
    costs: Floats  # (n_steps,) what the slowest rank computes, summed over the meetings of ranks
    places: Ints  # (n_steps, n_batches) turn × `world_size` + rank of each


def best_batches(
    steps: SortedSteps, per_rank: int, world_size: int, stride: int, *, in_turns: bool
) -> SharedBatches:
    """Cut steps into `per_rank` batches for each rank, and give these to ranks; `in_turns` where
    ranks wait for each other in every batch. `stride` is that of `cheapest_cuts`, 0 without it.
    """
    n_batches = per_rank * world_size

    def shared(offsets: Ints, swaps: int = SWAPS) -> SharedBatches:
        return _shared(steps, offsets, world_size, swaps, in_turns=in_turns)

    # With one batch per rank only the largest counts, which is then as small as it can be.
    if per_rank == 1:
        return shared(cut_by_target(steps, n_batches, least_targets(steps, n_batches)))
    cheapest = [shared(cheapest_cuts(steps, n_batches, stride))] if stride else []
    if cheapest and world_size == 1:
        return cheapest[0]
    # Swaps take most of the time, so that only the best of these cuts is shared with them.
    by_targets = _best(shared(offsets, swaps=0) for offsets in cuts_by_targets(steps, n_batches))
    return _best([shared(by_targets.offsets), *cheapest])


def _shared(
    steps: SortedSteps, offsets: Ints, world_size: int, swaps: int = SWAPS, *, in_turns: bool
) -> SharedBatches:
    costs = steps.batch_costs(offsets)
    # One rank waits for nobody, and ranks with one batch each meet after it.
    if in_turns or world_size in (1, costs.shape[1]):
        return SharedBatches(offsets, *meet_in_turns(costs, world_size))
    return SharedBatches(offsets, *share_evenly(costs, world_size, swaps))


def _best(results: Iterable[SharedBatches]) -> SharedBatches:
    """Return the result that costs least, for each step; of equal ones the first."""
    best, *others = results
    for other in others:
        better = np.flatnonzero(other.costs < best.costs)
        for array, of_other in zip(best, other):
            array[better] = of_other[better]
    return best
