"""Whether an epoch drops the same samples as the next one, or others."""

from dataclasses import replace

import numpy as np

from batchstat.errors import NoBatchError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import distinct
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.meters.counts import PlanCounts


def count_dropped_again(request: RowRequest, shares: EpochShares, counts: PlanCounts) -> int | None:
    """Return how many of the samples that an epoch drops are dropped by the next one too; None
    where it drops none, or does not draw all of the corpus.

    Those that a trainer's configuration leaves out, or that are too long, are dropped each time.
    """
    if not counts.dropped_samples or not request.settings.draws_all:
        return None
    always = shares.epoch.lost.dropped_samples + shares.samples.lost.dropped_samples
    if counts.dropped_samples <= always:
        return counts.dropped_samples
    # A plan of the next epoch is the only way to know: what is dropped depends on its order.
    later = replace(request.settings, epoch=request.settings.epoch + 1)
    dropped = _dropped(request, shares)
    again = _dropped(replace(request, settings=later), make_shares(shares.samples, later))
    return always + len(np.intersect1d(dropped, again, assume_unique=True))


def _dropped(request: RowRequest, shares: EpochShares) -> Ints:
    """Return the records of an epoch that no batch holds."""
    try:
        trained, _ = distinct(plan_ranks(shares, request).records)
    except NoBatchError:
        trained = np.empty(0, dtype=np.int64)
    drawn, _ = distinct(shares.epoch.whole.samples)
    return np.setdiff1d(drawn, trained, assume_unique=True)
