"""An epoch planned, distributed and measured.

A unit is the batches that reach one rank together.
"""

from collections.abc import Iterator

import numpy as np

from batchstat.calibration.costs import TOTAL_TOKENS, BatchCost
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import (
    RankRound,
    distribute,
    plan_shares,
    remakes_last,
    tabulate_shares,
    trained_to_balance,
)
from batchstat.planning.rng import window_rng
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.meters.coverage import trace_samples
from batchstat.simulation.meters.epoch_meter import EpochMeter, Measurement


def measure(
    request: RowRequest,
    shares: EpochShares,
    *,
    by_sample: bool = True,
    cost: BatchCost = TOTAL_TOKENS,
) -> Measurement:
    """Plan an epoch, distribute its batches to the ranks, and measure them.

    Args:
        request: one strategy, with its settings.
        shares: the epoch.
        by_sample: whether each sample is followed to its ranks where that is needed to know which
            samples are repeated, dropped or mixed; False where the caller only needs padding and
            numbers of batches, which takes less time and memory.
        cost: the unit of compute.

    Raises:
        InputError: there is no batch, or no token.
    """
    strategy, settings = request.strategy, request.settings
    in_parts = shares.epoch.is_split or strategy.cuts_samples or strategy.repeats_samples
    # Whether each sample that is drawn is in one unit, as a whole.
    in_one_unit = shares.is_distributed and not in_parts and not remakes_last(strategy, settings)
    # If each is also drawn once, the distributed units say what happens to every sample: samples
    # are followed only for how classes mix.
    units_suffice = in_one_unit and settings.draws_all and shares.samples.classes is None
    by_sample = by_sample and not units_suffice
    meter = EpochMeter(request, cost)
    # Kept only to follow samples: all plans, and the units of each round.
    plans_kept: list[BatchPlan] = []
    rounds: list[RankRound] = []
    summary = None
    # If the whole epoch is one window, some strategies make its batches from the histogram, which
    # has fewer lengths than the epoch has samples. A histogram does not know the trained tokens.
    if in_one_unit and not by_sample and not settings.needs_trained:
        first_rng = window_rng(settings.seed, settings.epoch, 0)
        summary = strategy.summary(shares.epoch.stats, first_rng)
    # `planned` has, for each share of the epoch, an iterator over the tables of its batches.
    if summary is not None:
        planned = [iter([summary])]
    # Plans are kept to follow samples in, which takes memory that grows with the epoch.
    elif by_sample:
        # The samples whose trained tokens the tables count, or None.
        trained_in = trained_to_balance(shares, settings)

        def keep_and_tabulate(plans: Iterator[BatchPlan]) -> Iterator[BatchTable]:
            for plan in plans:
                plans_kept.append(plan)
                yield BatchTable.of([plan], trained_in)

        planned = list(map(keep_and_tabulate, plan_shares(strategy, shares, settings)))
    else:
        planned = list(tabulate_shares(strategy, shares, settings))
    for rank_round in distribute(planned, shares, settings, strategy.turns):
        meter.add(*rank_round)  # its batches, turns and numbers of units
        if by_sample:
            rounds.append(rank_round)
    traced = None
    # If no rank has a unit, `measurement` raises the error.
    if rounds and any((rank_round.turns >= 0).any() for rank_round in rounds):
        units = np.concatenate([rank_round.units for rank_round in rounds])
        traced = trace_samples(BatchPlan.concatenate(plans_kept), units, shares)
    return meter.measurement(shares.epoch, traced, shares.samples.lost)
