"""Rows of a report: strategies planned and measured on the same epoch."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from batchstat.calibration.cost_model import CostModel
from batchstat.documents.spreads import SeedSpread
from batchstat.errors import InputError, NoBatchError
from batchstat.findings import Finding
from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import distinct, log_edges
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.rules import FROM_ONE_PLAN
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.compare.estimate import Drawn
from batchstat.simulation.device import Device, OnDevice, batch_cost
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.measure import measure
from batchstat.simulation.meters.token_weights import measure_trained
from batchstat.simulation.results import StrategyResult


def count_dropped_again(request: RowRequest, shares: EpochShares, counts: PlanCounts) -> int | None:
    """Count the samples that an epoch drops and the next epoch drops too: samples dropped in every
    epoch are never trained on. None where the epoch drops none, its sampler does not draw all of
    the corpus, or its batches were made elsewhere: what the next epoch drops is not known then.
    """
    if not counts.dropped_samples or not request.settings.draws_all:
        return None
    # Samples that are too long, or that a trainer's configuration leaves out, are always dropped.
    dropped_always = shares.epoch.lost.dropped_samples + shares.samples.lost.dropped_samples
    if counts.dropped_samples <= dropped_always:
        return counts.dropped_samples
    if request.strategy.is_given:
        return None
    # A plan of the next epoch is the only way to know: what is dropped depends on its order.
    later = replace(request.settings, epoch=request.settings.epoch + 1)
    dropped = _dropped_records(request, shares)
    dropped_later = _dropped_records(
        replace(request, settings=later), make_shares(shares.samples, later)
    )
    return dropped_always + len(np.intersect1d(dropped, dropped_later, assume_unique=True))


def _dropped_records(request: RowRequest, shares: EpochShares) -> Ints:
    """Return the records that the epoch draws and no batch holds."""
    try:
        in_batches, _ = distinct(plan_ranks(shares, request).records)
    except NoBatchError:
        in_batches = np.empty(0, dtype=np.int64)
    drawn, _ = distinct(shares.epoch.whole.samples)
    return np.setdiff1d(drawn, in_batches, assume_unique=True)


class EpochCache:
    """The epochs of a corpus, which rows of the same order and distribution share."""

    def __init__(
        self, samples: Samples, model: CostModel | None = None, device: Device | None = None
    ) -> None:
        """Start with the samples of a corpus, and without any epoch of them."""
        self.samples, self._model, self._device = samples, model, device
        self._shares: dict[tuple[str, str, str, int], EpochShares] = {}

    def of(self, settings: ResolvedSettings) -> EpochShares:
        """Return the epoch under these settings."""
        # Where one plan is made for all ranks, the epoch is the same for any number of ranks.
        ranks = 1 if settings.distribute in FROM_ONE_PLAN else settings.world_size
        # Which ranks get the batches of one plan changes nothing of the epoch.
        distribute = "" if settings.distribute in FROM_ONE_PLAN else settings.distribute
        # Rows of one report differ in no other setting that an epoch depends on.
        key = (settings.order, distribute, settings.remainder, ranks)
        if key not in self._shares:
            self._shares[key] = make_shares(self.samples, settings)
        return self._shares[key]

    def row(self, request: RowRequest) -> StrategyResult:
        """Measure one row. Raises as `make_row` does."""
        return make_row(request, self.of(request.settings), self._model, self._device)

    def counts(self, request: RowRequest) -> PlanCounts:
        """Return the counts of a row, without following each sample."""
        return measure(request, self.of(request.settings), by_sample=False).counts


def make_rows(
    requests: list[RowRequest], epochs: EpochCache
) -> tuple[list[StrategyResult], list[Finding]]:
    """Measure the requested rows. Returns the rows that have a batch, and a warning for each row
    that has none, as where `drop_last` leaves nothing. Raises InputError: no row has a batch.
    """
    rows, empty_rows = [], []
    for request in requests:
        try:
            rows.append(epochs.row(request))
        except NoBatchError as error:
            # The only row of a report is what the user asked for: without it there is no report.
            if len(requests) == 1:
                raise
            empty_rows.append(Finding("strategy/no-batch", f"{request.spec} is not shown: {error}"))
    if not rows:
        raise InputError("; ".join(warning.message for warning in empty_rows))
    return rows, empty_rows


def make_row(
    request: RowRequest, shares: EpochShares, model: CostModel | None, device: Device | None
) -> StrategyResult:
    """Measure one row. Raises InputError: there is no batch, or no token."""
    counts, widths, meetings = measure(request, shares, cost=batch_cost(model, device))
    trained, on_device = None, OnDevice()
    if device is not None:
        on_device = device.epoch(request, counts, widths.max, shares.epoch.stats.max)
    # Weights of tokens need the loss, and a second plan that follows each sample. Which tokens of a
    # row carry loss is not known where a sample is made of several.
    if request.settings.loss is not None and shares.samples.rows is None:
        trained = measure_trained(plan_ranks(shares, request), request, shares.samples)
    return StrategyResult(
        request=request,
        counts=counts,
        # Four bins from each power of two to the next.
        widths=widths.histogram(log_edges(widths.min, widths.max, per_octave=4)),
        # One rank waits for no other: its steps make no timeline.
        meetings=meetings if request.settings.world_size > 1 else None,
        trained=trained,
        dropped_again=count_dropped_again(request, shares, counts),
        on_device=on_device,
    )


def over_seeds(
    rows: Sequence[StrategyResult], samples: Samples, seeds: int
) -> list[StrategyResult]:
    """Return the rows with their spread over `seeds` seeds, of which they have the first."""
    counts_by_row = [[row.counts] for row in rows]
    for offset in range(1, seeds):
        epochs = EpochCache(samples)  # a new one: epochs of all seeds look the same to a cache
        for row, counts in zip(rows, counts_by_row, strict=True):
            settings = row.request.settings
            other_seed = replace(settings, seed=settings.seed + offset)
            counts.append(epochs.counts(replace(row.request, settings=other_seed)))
    spreads = (
        SeedSpread.of([c.padding_ratio for c in counts], [c.batches for c in counts])
        for counts in counts_by_row
    )
    return [replace(row, seeds=spread) for row, spread in zip(rows, spreads, strict=True)]


def estimated(rows: Sequence[StrategyResult], drawn: Drawn) -> list[StrategyResult]:
    """Return the rows of a subsample with an interval, from how much its groups differ."""
    groups = [EpochCache(group) for group in drawn.groups]
    with_interval = []
    for row in rows:
        ratios = [epochs.counts(row.request).padding_ratio for epochs in groups]
        with_interval.append(
            replace(row, interval=drawn.interval(row.counts.padding_ratio, ratios))
        )
    return with_interval
