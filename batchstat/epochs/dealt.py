"""An epoch planned by a strategy, and its units dealt to the ranks."""

from collections.abc import Iterator, Sequence

import numpy as np

from batchstat.batches import Batches
from batchstat.batching import BatchPlan, Ints, Strategy
from batchstat.batching.planning import plan_windows
from batchstat.batching.spreading import spread_tail
from batchstat.epochs.work import Work
from batchstat.sampling import deal_balanced, deal_in_turn
from batchstat.settings import Basis


def plan_shares(strategy: Strategy, work: Work, basis: Basis) -> Iterator[Iterator[BatchPlan]]:
    """Of each share of the work, the plans of its windows in turn."""
    for share in work.shares:
        plans = plan_windows(strategy, share, seed=basis.seed, epoch=basis.epoch)
        if basis.tail == "spread" and basis.world_size > 1:
            plans = _spread(plans, basis.world_size, strategy.pad_to_multiple_of)
        yield plans


def deal(shares: Sequence[Batches], work: Work, basis: Basis) -> Ints:
    """(n_turns, world_size) which unit each rank has in each turn; −1 where it has none.

    Args:
        shares: what is planned of each; units are counted through all of them.
        work: the epoch.
        basis: the settings.
    """
    if not work.is_dealt:
        return _side_by_side([each.units for each in shares])
    (batches,) = shares
    if basis.deal == "balanced":
        costs = batches.of_units(batches.total_tokens)
        entropy = np.random.SeedSequence((basis.seed, basis.epoch), spawn_key=(1,))
        rng = np.random.default_rng(entropy)
        return deal_balanced(costs, basis.world_size, basis.tail, rng)
    return deal_in_turn(batches.units, basis.world_size, basis.tail)


def _spread(plans: Iterator[BatchPlan], world_size: int, multiple: int) -> Iterator[BatchPlan]:
    windows = list(plans)
    if windows:
        yield spread_tail(BatchPlan.concatenate(windows), world_size, multiple)


def _side_by_side(units: Sequence[int]) -> Ints:
    turns = np.full((max(units), len(units)), -1)
    first = 0
    for rank, size in enumerate(units):
        turns[:size, rank] = np.arange(first, first + size)
        first += size
    return turns
