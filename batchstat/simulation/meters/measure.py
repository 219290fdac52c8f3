"""An epoch planned, distributed and measured."""

from collections.abc import Iterator

import numpy as np

from batchstat.calibration.costs import TOTAL_TOKENS, BatchCost
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import (
    RankRound,
    distribute,
    plan_shares,
    rebatches,
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
    """Plan, distribute and measure an epoch.

    Args:
        request: one strategy, with its settings.
        shares: the epoch.
        by_sample: whether each sample is followed to its ranks if the distribution alone does not
            determine where it goes; else repeated, dropped and mixed samples are not reported.
        cost: what compute is counted in.

    Raises:
        InputError: there is no batch, or no token.
    """
    strategy, settings = request.strategy, request.settings
    # If units hold each sample once, the distributed units determine what happens to every sample.
    in_parts = shares.epoch.is_split or strategy.cuts_samples or strategy.repeats_samples
    once = shares.is_distributed and not in_parts and not rebatches(strategy, settings)
    by_sample = by_sample and not (once and settings.draws_all and shares.samples.classes is None)
    meter = EpochMeter(request, cost)
    noted: list[BatchPlan] = []
    rounds: list[RankRound] = []
    summary = None
    # Of a whole epoch in one window, the histogram gives the batches: it has fewer lengths than the
    # epoch has samples.
    if once and not by_sample and not settings.needs_trained:
        rng = window_rng(settings.seed, settings.epoch, 0)
        summary = strategy.summary(shares.epoch.stats, rng)
    if summary is not None:
        planned = [iter([summary])]
    # Plans are kept to follow samples in, which takes memory that grows with the epoch.
    elif by_sample:
        trained_in = trained_to_balance(shares, settings)

        def noted_batches(plans: Iterator[BatchPlan]) -> Iterator[BatchTable]:
            for plan in plans:
                noted.append(plan)
                yield BatchTable.of([plan], trained_in)

        planned = list(map(noted_batches, plan_shares(strategy, shares, settings)))
    else:
        planned = list(tabulate_shares(strategy, shares, settings))
    for each in distribute(planned, shares, settings, strategy.turns):
        meter.add(*each)
        if by_sample:
            rounds.append(each)
    traced = None
    if rounds and any((each.turns >= 0).any() for each in rounds):  # else there is no batch
        units = np.concatenate([each.units for each in rounds])
        traced = trace_samples(BatchPlan.concatenate(noted), units, shares)
    return meter.measurement(shares.epoch, traced, shares.samples.lost)
