"""How long training takes by the number of buckets: batches, and compiling their shapes."""

from collections.abc import Iterable, Iterator

from batchstat.calibration.calibration import PER_SECOND
from batchstat.documents.buckets import BucketTime
from batchstat.errors import InputError, NoBatchError
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.simulation.buckets.costs import BatchTime
from batchstat.simulation.device import Device
from batchstat.simulation.rows import make_row


def batch_time(device: Device, basis: ResolvedSettings, epochs: int) -> BatchTime:
    """Return the time that bucket edges minimise.

    Raises:
        InputError: the calibration has no time, or none that depends on batches.
    """
    calibration = device.calibration
    if device.is_noisy:
        raise InputError(
            f"the times of the calibration are ±{device.time_residual:.0%}, too noisy to minimise: "
            "measure again on an idle device"
        )
    if not device.is_timed:
        raise InputError(
            f"the calibration of {calibration.setup.model} is an estimate of memory and has no "
            "time: measure it with batchstat calibrate"
        )
    cost = calibration.cost
    if not (cost.per_batch or cost.per_step or cost.per_token or cost.per_pair):
        raise InputError(
            f"the calibration of {calibration.setup.model} has no time per batch, token or pair: "
            "measure it again with batchstat calibrate"
        )
    return BatchTime(cost, basis, epochs)


def rows_as_wide_as(edges: tuple[int, ...]) -> StrategySpec:
    """Return the strategy with rows as wide as edges, which keeps short batches."""
    return StrategySpec.of("boundaries", boundaries=edges, pad="edge")


def times_of(
    found: Iterable[tuple[int, tuple[int, ...]]],
    shares: EpochShares,
    basis: ResolvedSettings,
    device: Device,
    epochs: int,
) -> Iterator[BucketTime]:
    """Yield the times of edges found for several numbers of buckets, without those that the
    settings leave no batch. Each is simulated.

    Args:
        found: numbers of buckets with their edges.
        shares: the epoch.
        basis: the settings.
        device: the calibrated device.
        epochs: number of epochs after which training ends.
    """
    cost = device.cost
    for wanted, edges in found:
        try:
            row = make_row(rows_as_wide_as(edges).request(basis), shares, cost, device)
        except NoBatchError:
            continue
        compiling = row.counts.distinct_shapes * cost.per_shape
        yield BucketTime(
            wanted,
            edges,
            epochs * (row.counts.compute - compiling) / PER_SECOND,
            compiling / PER_SECOND,
            row.counts.distinct_shapes,
            row.on_device.is_extrapolated,
            row.on_device.fits_memory,
        )


def fastest(times: tuple[BucketTime, ...]) -> BucketTime:
    """Return the least time; of equal ones, that with the fewest buckets."""
    return min(times, key=lambda each: (each.seconds, len(each.edges), each.wanted))
