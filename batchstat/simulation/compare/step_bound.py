"""How near regrouped steps are to the least that any batches of their samples could take."""

from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.planning.algorithms.step_cuts import SortedSteps, cheapest_cuts
from batchstat.planning.rank_batches import RankBatches, plan_ranks
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.planning.strategies.spec import RowRequest

MOST_STEPS = 100  # steps that are drawn: the cheapest cut of one of 512 samples takes some 0.1 s


@dataclass(frozen=True)
class StepBound:
    """Steps that were drawn from an epoch of `regrouped`."""

    steps: int  # how many
    slowest: float  # what their slowest ranks compute, wherever ranks wait for each other
    # A lower bound of that: the cheapest cut of each step over its ranks, or its longest sample,
    # with the shortest ones beside it where ranks wait once per step.
    least: float

    @property
    def excess(self) -> float:
        """Share by which the slowest ranks are above the bound."""
        return self.slowest / self.least - 1


def step_bound(request: RowRequest, shares: EpochShares) -> StepBound:
    """Draw steps of an epoch of `regrouped`, and compare what ranks compute with a lower bound."""
    assert isinstance(request.strategy, Regrouped)
    planned = plan_ranks(shares, request)
    n_steps = int(planned.steps[-1]) + 1
    rng = np.random.default_rng((request.settings.seed, request.settings.epoch, MOST_STEPS))
    drawn = rng.permutation(n_steps)[:MOST_STEPS]
    pairs = [_of_step(planned, int(step), request, request.strategy) for step in drawn]
    slowest, least = np.sum(pairs, axis=0).tolist()
    return StepBound(len(drawn), slowest, least)


def _of_step(
    planned: RankBatches, step: int, request: RowRequest, strategy: Regrouped
) -> tuple[float, float]:
    """Return what the slowest rank of a step computes, and its lower bound."""
    rules = strategy.rules(request.settings)
    batches: Ints = np.flatnonzero(planned.steps == step)
    offsets, entries = gather_groups(planned.entry_offsets, batches)
    ranks, world_size = planned.ranks[batches], planned.world_size
    # The turn of each batch: how many of its rank come before it.
    turns = np.array([int((ranks[:i] == rank).sum()) for i, rank in enumerate(ranks)])
    costs = np.zeros((1, turns.max() + 1, world_size))
    costs[0, turns, ranks] = np.diff(offsets) * rules.row_costs(planned.widths[batches])
    slowest = rules.slowest(costs)[0]
    falling = -np.sort(-planned.lengths[entries])
    rows = rules.row_costs(rules.widths(falling))
    n = len(rows)
    sorted_step = SortedSteps(rows[None], np.full((1, n), n), np.array([n]))
    cheapest = sorted_step.batch_costs(cheapest_cuts(sorted_step, len(batches), 1)).sum()
    # A rank with the longest sample has other batches too: of one short sample at least.
    fewest = int(np.bincount(ranks, minlength=world_size).min())
    beside = 0.0 if rules.in_turns else rows[n - max(fewest - 1, 0) :].sum()
    return float(slowest), float(max(cheapest / world_size, rows[0] + beside))
