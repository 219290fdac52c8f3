"""What bucket edges minimise: a cost of samples by their edge, or the time of batches."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from batchstat.calibration.calibration import PER_SECOND
from batchstat.calibration.cost_model import BatchCost
from batchstat.documents.buckets import BucketTime
from batchstat.errors import InputError, NoBatchError
from batchstat.lengths.arrays import Floats, Ints, offsets_from_sizes
from batchstat.lengths.stats import LengthStats
from batchstat.planning.algorithms.bucket_edges import Cost, check_least, each_optimal_edges
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.simulation.device import Device
from batchstat.simulation.rows import make_row

_MOST_CANDIDATES = 4096  # distinct lengths that are tried as edges where time is minimised


@dataclass(frozen=True)
class SampleCost:
    """A cost that depends on the edge above each sample alone, such as padding."""

    of_sample: Cost  # returns the cost of a sample in a row of a width; it rises with the width

    def of_edges(self, edges: tuple[int, ...], samples: list[int]) -> float:
        """Return the cost of all buckets: `samples[i]` samples in rows as wide as `edges[i]`."""
        return sum(self.of_sample(edge) * n for edge, n in zip(edges, samples, strict=True))

    def best_edges(self, lengths: LengthStats, most: int, least: int) -> list[tuple[int, ...]]:
        """Return, for 1, 2, … `most` buckets, the edges that cost least."""
        values, counts = lengths.values, lengths.counts
        return list(each_optimal_edges(values, counts, most, cost=self.of_sample, least=least))


@dataclass(frozen=True)
class BatchTime:
    """The time of an epoch's batches, and of their new shapes. A bucket makes full batches, and one
    short batch of the samples that are left, all as wide as its edge: two shapes, each new once.
    Exact on one rank with one batch per step, if every sample is drawn once and no batch is
    dropped. Else close: ranks share batches evenly, and batches of a step its update.
    """

    cost: BatchCost  # what a batch costs
    settings: ResolvedSettings  # the budget, ranks and batches per step
    epochs: int  # number of epochs after which training ends: shapes are new in the first

    @property
    def _batch_overhead(self) -> float:
        update_share = self.cost.per_step / self.settings.gradient_accumulation_steps
        return self.cost.per_batch + update_share

    def _row_time(self, width: int) -> float:
        return float(self.cost.per_token * width + self.cost.per_pair * width**2)

    def _rows_per_batch(self, width: int) -> int:
        return max(1, self.settings.tokens_per_batch // width)

    def of_sample(self, width: int) -> float:
        """Return the time of a row of one sample, with its share of the time per batch."""
        return self._row_time(width) + self._batch_overhead / self._rows_per_batch(width)

    def of_edges(self, edges: tuple[int, ...], samples: list[int]) -> float:
        """Return the time of all buckets."""
        pairs = zip(edges, samples, strict=True)
        # `_bucket_time` takes an array of numbers of samples: here it has one.
        return sum(float(self._bucket_time(edge, np.array([n]))[0]) for edge, n in pairs)

    def _bucket_time(self, edge: int, samples: Ints) -> Floats:
        """Return the time that one bucket takes, for (n,) numbers of samples in it."""
        full_batches, left_over = np.divmod(samples, self._rows_per_batch(edge))
        batches = full_batches + np.minimum(left_over, 1)  # one is short if samples are left
        # All full batches have one shape, and the short batch has another.
        shapes = np.minimum(full_batches, 1) + np.minimum(left_over, 1)
        # Each shape is new to every rank, once in all epochs.
        per_shape = self.cost.per_shape * self.settings.world_size / self.epochs
        training = self._row_time(edge) * samples + self._batch_overhead * batches
        return np.asarray(training + per_shape * shapes, dtype=np.float64)

    def best_edges(self, lengths: LengthStats, most: int, least: int) -> list[tuple[int, ...]]:
        """Return the edges that take the least time, for 1, 2, … `most` buckets. Exact, by dynamic
        programming over the n distinct lengths: the best b buckets of the shortest j lengths are
        the best b − 1 of the shortest i, for some i < j, and one of the lengths between. Every i is
        tried, as a short batch makes times jump; of the lengths, at most 4,096, spread evenly.
        """
        edges, counts, n_tried = lengths.values, lengths.counts, max(_MOST_CANDIDATES, most)
        if len(edges) > n_tried:
            tried = np.linspace(0, len(edges) - 1, n_tried).astype(np.int64)
            # A bucket holds the samples up to its own edge, less those up to the edge before it.
            edges, counts = edges[tried], np.diff(np.cumsum(counts)[tried], prepend=0)
        # (n + 1,) [j]: samples of the shortest j lengths.
        samples_up_to = offsets_from_sizes(counts)
        check_least(least, int(samples_up_to[-1]))
        # (most + 1, n + 1) [b, j]: the least time of b buckets for the shortest j lengths, if any.
        least_time = np.full((most + 1, len(edges) + 1), np.inf)
        least_time[0, 0] = 0
        # (most + 1, n + 1) [b, j]: the i at which the last of these b buckets begins.
        last_starts = np.zeros(least_time.shape, dtype=np.int64)
        for j, edge in enumerate(edges.tolist(), 1):
            # (j,) for each i below j: the samples and the time of a last bucket that begins there.
            in_last = samples_up_to[j] - samples_up_to[:j]
            last_time = np.where(in_last >= least, self._bucket_time(edge, in_last), np.inf)
            # (most, j) [b − 1, i]: b − 1 buckets for the shortest i lengths, then the last bucket.
            times = least_time[:-1, :j] + last_time
            last_starts[1:, j] = times.argmin(axis=1)
            least_time[1:, j] = times.min(axis=1)
        # So many buckets hold all lengths; with more, one would have fewer than `least` samples.
        possible = int(np.isfinite(least_time[1:, -1]).sum())
        return [_trace_edges(edges, last_starts, min(n, possible)) for n in range(1, most + 1)]


EdgeCost = SampleCost | BatchTime  # what bucket edges minimise


def _trace_edges(edges: Ints, last_starts: Ints, buckets: int) -> tuple[int, ...]:
    """Return the edges of the best `buckets` buckets, found from the last bucket to the first."""
    chosen, lengths_left = [], len(edges)
    for bucket in range(buckets, 0, -1):
        chosen.append(int(edges[lengths_left - 1]))  # the longest length is the bucket's edge
        lengths_left = int(last_starts[bucket, lengths_left])
    return tuple(reversed(chosen))


def batch_time(device: Device, basis: ResolvedSettings, epochs: int) -> BatchTime:
    """Return the time of batches on a calibrated device, as the cost that bucket edges minimise.
    Raises InputError: the calibration has no times, noisy ones, or none that depends on the batch.
    """
    calibration = device.calibration
    if device.is_noisy:
        raise InputError(
            f"the times of the calibration are ±{device.time_residual:.0%}, too noisy to minimise",
            "measure again on an idle device",
        )
    if not device.is_timed:
        raise InputError(
            f"the calibration of {calibration.setup.model} only estimates memory",
            "measure its time with batchstat calibrate",
        )
    cost = calibration.cost
    # The fit may have found no time but that of new shapes, which says nothing about edges.
    if not (cost.per_batch or cost.per_step or cost.per_token or cost.per_pair):
        raise InputError(
            f"the calibration of {calibration.setup.model} has no time per batch, token or pair",
            "measure it again with batchstat calibrate",
        )
    return BatchTime(cost, basis, epochs)


def rows_as_wide_as(edges: tuple[int, ...]) -> StrategySpec:
    """Return the strategy `boundaries` with rows padded to these edges; it keeps short batches."""
    return StrategySpec.of("boundaries", boundaries=edges, pad="edge")


def simulate_times(
    edges_by_number: Iterable[tuple[int, tuple[int, ...]]],
    shares: EpochShares,
    basis: ResolvedSettings,
    device: Device,
    epochs: int,
) -> Iterator[BucketTime]:
    """Yield how long training takes with the best edges, for each number of buckets."""
    cost = device.cost
    for number, edges in edges_by_number:
        try:
            row = make_row(rows_as_wide_as(edges).request(basis), shares, None, device)
        except NoBatchError:
            continue
        of_new_shapes = row.counts.distinct_shapes * cost.per_shape  # picoseconds, as all compute
        yield BucketTime(
            wanted=number,
            edges=edges,
            # The compute of one epoch includes new shapes, of which later epochs have none.
            batch_seconds=epochs * (row.counts.compute - of_new_shapes) / PER_SECOND,
            shape_seconds=of_new_shapes / PER_SECOND,
            shapes=row.counts.distinct_shapes,
            is_extrapolated=row.on_device.is_extrapolated,
            fits_memory=row.on_device.fits_memory,
        )


def fastest(times: tuple[BucketTime, ...]) -> BucketTime:
    """Return the number of buckets with the least time; of equal times, the fewest buckets."""
    return min(times, key=lambda time: (time.seconds, len(time.edges), time.wanted))
