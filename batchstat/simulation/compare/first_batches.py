"""The first batches of an epoch, sample by sample: what is drawn of a plan."""

import numpy as np

from batchstat.planning.plan import BatchPlan
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.planning.windows import plan_windows

MOST_BATCHES = 64
"""Number of batches that are kept, in whole steps and at least one of these."""

_MOST_SAMPLES = 20_000
"""Samples that are planned for them; the default `read_ahead` is below that."""


def first_batches(request: RowRequest, shares: EpochShares) -> BatchPlan:
    """Return the first batches of a strategy's plan, of the first rank if each plans its own.

    A strategy that sorts more than 20,000 samples together is given only the first of them.
    """
    strategy, settings = request.strategy, request.settings
    size = min(strategy.window_size or _MOST_SAMPLES, _MOST_SAMPLES)
    share = shares.shares[0]
    begin = share.whole if strategy.is_given else next(share.pieces(size))
    plan = next(plan_windows(strategy, begin, seed=settings.seed, epoch=settings.epoch))
    within = int(np.searchsorted(plan.unit_offsets, MOST_BATCHES, side="right")) - 1
    units = min(max(within, 1), len(plan.unit_offsets) - 1)
    # Concatenating copies, so that the rest of the plan can be freed.
    return BatchPlan.concatenate([plan.first_units(units)])
