"""Rows of a report: strategies planned and measured on the same epoch, and whether each drops the
same samples in the next one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from batchstat.calibration.costs import TOTAL_TOKENS, BatchCost
from batchstat.documents.comparison import ReportWarning
from batchstat.documents.spreads import SeedSpread
from batchstat.errors import InputError, NoBatchError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import distinct, log_edges
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.rules import FROM_ONE_PLAN
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.compare.estimate import Drawn
from batchstat.simulation.device import Device, OnDevice
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.measure import measure
from batchstat.simulation.meters.token_weights import measure_trained
from batchstat.simulation.results import StrategyResult


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


class EpochCache:
    """The epochs of a corpus, made once per order and way of distributing."""

    def __init__(self, samples: Samples) -> None:
        """Start without epochs of `samples`."""
        self.samples = samples
        self._made: dict[tuple[str, str, str, int], EpochShares] = {}

    def of(self, settings: ResolvedSettings) -> EpochShares:
        """Return the epoch under these settings."""
        # Batches of one plan are distributed afterwards, whatever the number of ranks.
        ranks = 1 if settings.distribute in FROM_ONE_PLAN else settings.world_size
        key = (settings.order, settings.distribute, settings.remainder, ranks)
        if key not in self._made:
            self._made[key] = make_shares(self.samples, settings)
        return self._made[key]

    def counts(self, request: RowRequest) -> PlanCounts:
        """Return the counts of a row, without following each sample."""
        return measure(request, self.of(request.settings), by_sample=False).counts


def make_rows(
    requests: list[RowRequest],
    epochs: EpochCache,
    cost: BatchCost = TOTAL_TOKENS,
    device: Device | None = None,
) -> tuple[list[StrategyResult], list[ReportWarning]]:
    """Measure the rows that have a batch; return them, and warnings for those without one.

    Raises:
        InputError: none of them has a batch.
    """
    rows, empty = [], []
    for request in requests:
        try:
            rows.append(make_row(request, epochs.of(request.settings), cost, device))
        except NoBatchError as error:
            # Alone it is what was asked for; beside other rows a note is enough.
            if len(requests) == 1:
                raise
            empty.append(ReportWarning("no_batch", f"{request.spec} is not shown: {error}"))
    if not rows:
        raise InputError("; ".join(warning.message for warning in empty))
    return rows, empty


def make_row(
    request: RowRequest,
    shares: EpochShares,
    cost: BatchCost = TOTAL_TOKENS,
    device: Device | None = None,
) -> StrategyResult:
    """Measure one row.

    Args:
        request: the strategy, with its settings.
        shares: the epoch.
        cost: what compute is counted in: see `batch_cost`.
        device: the device that `cost` is of, if it was calibrated.

    Raises:
        InputError: there is no batch, or no token.
    """
    counts, widths, steps = measure(request, shares, cost=cost)
    trained, on_device = None, OnDevice()
    if device is not None:
        on_device = device.epoch(request, counts, widths.max, shares.epoch.stats.max)
    if request.settings.loss is not None:
        trained = measure_trained(plan_ranks(shares, request), request, shares.samples)
    return StrategyResult(
        request=request,
        counts=counts,
        widths=widths.histogram(log_edges(widths.min, widths.max, per_octave=4)),
        steps=steps if request.settings.world_size > 1 else None,
        trained=trained,
        dropped_again=count_dropped_again(request, shares, counts),
        on_device=on_device,
    )


def over_seeds(
    rows: Sequence[StrategyResult], samples: Samples, seeds: int
) -> list[StrategyResult]:
    """Return the rows with their spread over several seeds."""
    counts = [[row.counts] for row in rows]
    for seed in range(1, seeds):
        epochs = EpochCache(samples)
        for row, counts_of_row in zip(rows, counts, strict=True):
            settings = row.request.settings
            other = replace(settings, seed=settings.seed + seed)
            # Only padding and batches are shown of other seeds: no sample is followed.
            counts_of_row.append(epochs.counts(replace(row.request, settings=other)))
    spreads = (
        SeedSpread.of([c.padding_ratio for c in of_row], [c.batches for c in of_row])
        for of_row in counts
    )
    return [replace(row, seeds=spread) for row, spread in zip(rows, spreads, strict=True)]


def estimated(rows: Sequence[StrategyResult], drawn: Drawn) -> list[StrategyResult]:
    """Return the rows of a subsample with an interval for the whole corpus."""
    groups = [EpochCache(group) for group in drawn.groups]
    found = []
    for row in rows:
        ratios = [epochs.counts(row.request).padding_ratio for epochs in groups]
        found.append(replace(row, interval=drawn.interval(row.counts.padding_ratio, ratios)))
    return found
