"""An epoch planned, distributed and measured. A unit: the batches that reach a rank together."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from batchstat.calibration.cost_model import TOTAL_TOKENS, BatchCost
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import RankRound, distribute, remakes_last, tabulate_shares
from batchstat.planning.regrouping import regrouped_rounds
from batchstat.planning.rng import window_rng
from batchstat.planning.samples import check_room
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.regrouped import Regrouped
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
    """Plan an epoch, distribute and measure its batches. Raises InputError: no batch or token."""
    strategy, settings, rows = request.strategy, request.settings, shares.samples.rows
    in_parts = shares.epoch.is_split or strategy.cuts_samples
    in_parts |= strategy.repeats_samples(settings)
    # Whether each sample that is drawn is in one unit, as a whole.
    in_one_unit = shares.is_distributed and not in_parts and not remakes_last(strategy, settings)
    # If each is also drawn once, units tell all of it but how classes mix.
    units_suffice = in_one_unit and settings.draws_all and shares.samples.classes is None
    by_sample = by_sample and not units_suffice
    meter = EpochMeter(request, cost, (1,) if rows is None else rows.forwards)
    # Kept only to follow samples, in memory that grows with the epoch: plans, units of rounds.
    plans_kept: list[BatchPlan] | None = [] if by_sample else None
    rounds: list[RankRound[BatchTable]] = []
    if isinstance(strategy, Regrouped):
        if by_sample:  # steps come one by one, but which samples are repeated takes all of them
            remedy = "count a part of it with subsample, or set order=file and remainder=drop"
            check_room("regrouped follows", shares.epoch.count, remedy)
        rank_rounds = _regrouped_rounds(request, shares, plans_kept)
    else:
        planned = _planned(request, shares, plans_kept, from_histogram=in_one_unit)
        rank_rounds = distribute(planned, shares, settings, strategy.turns)
    for rank_round in rank_rounds:
        meter.add(*rank_round)  # its batches, turns and numbers of units
        if by_sample:
            rounds.append(rank_round)
    traced, epoch = None, shares.epoch
    if rows is not None:  # a sample has the tokens of all its rows
        lengths = shares.samples.rows_of(epoch.whole.samples, epoch.whole.lengths).sum(axis=1)
        shares = replace(shares, epoch=replace(epoch.whole, lengths=lengths))
    # If no rank has a unit, `measurement` raises the error.
    if plans_kept and any((rank_round.turns >= 0).any() for rank_round in rounds):
        units = np.concatenate([rank_round.units for rank_round in rounds])
        traced = trace_samples(BatchPlan.concatenate(plans_kept), units, shares)
    return meter.measurement(shares.epoch, traced, shares.samples.lost)


def _regrouped_rounds(
    request: RowRequest, shares: EpochShares, plans_kept: list[BatchPlan] | None
) -> Iterator[RankRound[BatchTable]]:
    """Yield the rounds of `regrouped`; their plans are added to `plans_kept`, if it is given."""
    n_seen = 0
    for plan, turns in regrouped_rounds(request, shares):
        plan = request.strategy.in_rows(plan, shares.samples)
        if plans_kept is not None:
            plans_kept.append(plan)
        yield RankRound(BatchTable.of([plan]), turns, np.arange(n_seen, n_seen + plan.n_units))
        n_seen += plan.n_units


def _planned(
    request: RowRequest,
    shares: EpochShares,
    plans_kept: list[BatchPlan] | None,
    *,
    from_histogram: bool,
) -> list[Iterator[BatchTable]]:
    """Return, for each share of the epoch, an iterator over the tables of its batches."""
    strategy, settings = request.strategy, request.settings
    # If the whole epoch is one window, some strategies make its batches from the histogram, which
    # has fewer lengths than the epoch has samples. A histogram does not know the trained tokens.
    from_histogram &= plans_kept is None and settings.balance_by != "trained"
    if from_histogram and shares.samples.rows is None:
        first_rng = window_rng(settings.seed, settings.epoch, 0)
        summary = strategy.summary(shares.epoch.stats, first_rng)
        if summary is not None:
            return [iter([summary])]
    return list(tabulate_shares(strategy, shares, settings, plans_kept))
