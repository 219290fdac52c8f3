"""What bucket edges minimise: a cost of samples by the edge above them, or the time of batches and
of compiling their shapes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from batchstat.calibration.calibration import PER_SECOND
from batchstat.calibration.costs import BatchCost
from batchstat.documents.buckets import BucketTime
from batchstat.errors import InputError, NoBatchError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.stats import LengthStats
from batchstat.planning.algorithms.bucket_edges import Cost, check_least, each_optimal_edges
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.simulation.device import Device
from batchstat.simulation.rows import make_row

_MOST_CANDIDATES = 4096
"""Distinct lengths that are tried as edges where time is minimised."""

Floats = npt.NDArray[np.float64]


class EdgeCost(Protocol):
    """What bucket edges minimise."""

    def of_sample(self, width: int) -> float:
        """Return the cost of a sample in a row of a width."""

    def of_edges(self, edges: tuple[int, ...], samples: list[int]) -> float:
        """Return the cost of buckets that hold so many samples each, at least that of all samples
        without padding.
        """

    def each_best(self, lengths: LengthStats, most: int, least: int) -> list[tuple[int, ...]]:
        """Return the edges of 1, 2, … `most` buckets of at least `least` samples that cost the
        least; of fewer buckets, where there are not so many.
        """


@dataclass(frozen=True)
class SampleCost:
    """A cost of each sample by the edge above it, such as padding.

    Attributes:
        of_sample: the cost of a sample in a row of a width; it rises with the width.
    """

    of_sample: Cost

    def of_edges(self, edges: tuple[int, ...], samples: list[int]) -> float:
        """Return the cost of the samples of all buckets."""
        return sum(self.of_sample(edge) * n for edge, n in zip(edges, samples, strict=True))

    def each_best(self, lengths: LengthStats, most: int, least: int) -> list[tuple[int, ...]]:
        """Return the edges that cost the least."""
        values, counts = lengths.values, lengths.counts
        return list(each_optimal_edges(values, counts, most, cost=self.of_sample, least=least))


@dataclass(frozen=True)
class BatchTime:
    """The time of an epoch's batches, and of compiling their shapes.

    A bucket is cut into full batches and one short batch of the rest, all as wide as its edge; full
    and short ones are a shape each. That is exact on one rank with one batch per step, if every
    sample is drawn once and no batch is dropped. Else it is close: batches are shared evenly by the
    ranks, and updates by the batches of a step.

    Attributes:
        cost: what a batch costs.
        settings: the budget, ranks and batches per step.
        epochs: number of epochs after which training ends: shapes are compiled once.
    """

    cost: BatchCost
    settings: ResolvedSettings
    epochs: int

    @property
    def _per_batch(self) -> float:
        per_step = self.cost.per_step / self.settings.gradient_accumulation_steps
        return self.cost.per_batch + per_step

    def _of_row(self, width: int) -> float:
        return float(self.cost.per_token * width + self.cost.per_pair * width**2)

    def _rows(self, width: int) -> int:
        return max(1, self.settings.tokens_per_batch // width)

    def of_sample(self, width: int) -> float:
        """Return the time of a row, and its share of what a full batch takes whatever it holds."""
        return self._of_row(width) + self._per_batch / self._rows(width)

    def of_edges(self, edges: tuple[int, ...], samples: list[int]) -> float:
        """Return the time of all buckets."""
        pairs = zip(edges, samples, strict=True)
        return sum(float(self._of_bucket(edge, np.array([n]))[0]) for edge, n in pairs)

    def _of_bucket(self, edge: int, samples: Ints) -> Floats:
        """Return (n,) the time of a bucket that holds so many samples, summed over the ranks: of an
        epoch, with its share of compiling.
        """
        full, short = np.divmod(samples, self._rows(edge))
        batches = full + (short > 0)
        shapes = np.minimum(full, 1) + (short > 0)
        per_shape = self.cost.per_shape * self.settings.world_size / self.epochs
        time: Floats = self._of_row(edge) * samples + self._per_batch * batches + per_shape * shapes
        return time

    def each_best(self, lengths: LengthStats, most: int, least: int) -> list[tuple[int, ...]]:
        """Return the edges that take the least time.

        Exact: dynamic programming over the distinct lengths, in time proportional to buckets ×
        their square, since a short batch makes the time of a bucket jump. Of more than 4,096
        distinct lengths, that many are tried as edges.
        """
        values, counts = _candidates(lengths, max(_MOST_CANDIDATES, most))
        before = offsets_from_sizes(counts)
        check_least(least, int(before[-1]))
        best = np.full((most + 1, len(values) + 1), np.inf)
        best[0, 0] = 0
        cuts = np.zeros(best.shape, dtype=np.int64)
        for j, edge in enumerate(values.tolist(), 1):
            held = before[j] - before[:j]
            last = np.where(held >= least, self._of_bucket(edge, held), np.inf)
            times = best[:-1, :j] + last
            cuts[1:, j] = times.argmin(axis=1)
            best[1:, j] = times.min(axis=1)
        possible = int(np.isfinite(best[1:, -1]).sum())
        return [_traced(values, cuts, min(wanted, possible)) for wanted in range(1, most + 1)]


def _candidates(lengths: LengthStats, most: int) -> tuple[Ints, Ints]:
    """Return distinct lengths to try as edges, and how many samples each is the next one for."""
    values, counts = lengths.values, lengths.counts
    if len(values) <= most:
        return values, counts
    tried = np.linspace(0, len(values) - 1, most).astype(np.int64)
    return values[tried], np.diff(offsets_from_sizes(counts)[tried + 1], prepend=0)


def _traced(values: Ints, cuts: Ints, buckets: int) -> tuple[int, ...]:
    """Return the edges, followed from the last one."""
    found, at = [], len(values)
    for number in range(buckets, 0, -1):
        found.append(int(values[at - 1]))
        at = int(cuts[number, at])
    return tuple(reversed(found))


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
            f"the calibration of {calibration.setup.model} only estimates memory: measure its "
            "time with batchstat calibrate"
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
