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
    begin = share.whole() if strategy.is_given else next(share.pieces(size))
    plan = next(plan_windows(strategy, begin, seed=settings.seed, epoch=settings.epoch))
    return _head(plan)


def _head(plan: BatchPlan) -> BatchPlan:
    """Return whole units, as copies so that the rest of the plan can be freed."""
    within = int(np.searchsorted(plan.unit_offsets, MOST_BATCHES, side="right")) - 1
    units = min(max(within, 1), len(plan.unit_offsets) - 1)
    batches = int(plan.unit_offsets[units])
    rows = int(plan.batch_offsets[batches])
    entries = int(plan.row_offsets[rows])
    return BatchPlan(
        samples=plan.samples[:entries].copy(),
        lengths=plan.lengths[:entries].copy(),
        row_offsets=plan.row_offsets[: rows + 1].copy(),
        batch_offsets=plan.batch_offsets[: batches + 1].copy(),
        unit_offsets=plan.unit_offsets[: units + 1].copy(),
        widths=plan.widths[:batches].copy(),
        starts=None if plan.starts is None else plan.starts[:entries].copy(),
        document_multiple=plan.document_multiple,
    )
