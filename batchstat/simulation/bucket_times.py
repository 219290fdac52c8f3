"""How long an epoch takes by the number of buckets: batches, and compiling one shape per bucket."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from batchstat.calibration.calibration import PER_SECOND, Calibration
from batchstat.errors import InputError
from batchstat.lengths.exact import sums_at
from batchstat.lengths.stats import LengthStats
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.strategies.bucket_edges import Cost


@dataclass(frozen=True)
class BucketTime:
    """The time of training with optimal edges.

    Attributes:
        wanted: requested number of buckets.
        edges: upper edges, ascending and inclusive; possibly fewer than requested.
        batch_seconds: of the batches of all epochs, on each rank.
        compile_seconds: of compiling one shape per bucket, once.
    """

    wanted: int
    edges: tuple[int, ...]
    batch_seconds: float
    compile_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of batches and of compiling."""
        return self.batch_seconds + self.compile_seconds


def time_of_samples(calibration: Calibration, basis: ResolvedSettings) -> Cost:
    """Return what a sample takes by the edge of its bucket: its tokens, its pairs, and its share of
    what a batch of as many rows as the budget holds takes whatever is in it.

    Raises:
        InputError: the calibration has no time, or none that depends on batches.
    """
    if calibration.time is None:
        raise InputError(
            f"the calibration of {calibration.setup.model} is an estimate of memory and has no "
            "time: measure it with batchstat calibrate"
        )
    cost = calibration.cost
    per_batch = cost.per_batch + cost.per_step // basis.gradient_accumulation_steps
    if not (per_batch or cost.per_token or cost.per_pair):
        raise InputError(
            f"the calibration of {calibration.setup.model} has no time per batch, token or pair: "
            "measure it again with batchstat calibrate"
        )

    def time(edge: int) -> int:
        rows = max(1, basis.tokens_per_batch // edge)
        return cost.per_token * edge + cost.per_pair * edge**2 - (-per_batch // rows)

    return time


def times_of(
    found: Iterable[tuple[int, tuple[int, ...]]],
    stats: LengthStats,
    price: Cost,
    calibration: Calibration,
    epochs: int,
    ranks: int,
) -> tuple[BucketTime, ...]:
    """Return the times of edges found for several numbers of buckets.

    Args:
        found: numbers of buckets with their edges.
        stats: lengths of the samples of an epoch.
        price: see `time_of_samples`.
        calibration: what compiling a shape takes.
        epochs: number of epochs after which training ends.
        ranks: number of ranks that share the batches; each compiles all shapes.
    """
    return tuple(
        BucketTime(
            wanted,
            edges,
            epochs * _paid(edges, stats, price) / (PER_SECOND * ranks),
            len(edges) * calibration.cost.per_shape / PER_SECOND,
        )
        for wanted, edges in found
    )


def _paid(edges: tuple[int, ...], stats: LengthStats, price: Cost) -> float:
    held = sums_at(np.searchsorted(edges, stats.values), stats.counts, len(edges))
    paid: float = sum(price(edge) * n for edge, n in zip(edges, held.tolist(), strict=True))
    return paid


def fastest(times: tuple[BucketTime, ...]) -> BucketTime:
    """Return the least time; of equal ones, that with the fewest buckets."""
    return min(times, key=lambda each: (each.seconds, len(each.edges), each.wanted))
