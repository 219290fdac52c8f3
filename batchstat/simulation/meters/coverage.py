"""Sample coverage: which samples each rank computes, and how often."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from batchstat.documents.grouping import Mixing
from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.lengths.exact import sums_at, total
from batchstat.lengths.stats import distinct
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.classes import Classes
from batchstat.planning.plan import BatchPlan
from batchstat.planning.shares import EpochShares
from batchstat.simulation.meters.mixing import class_mixing


class DistinctCounts(NamedTuple):
    """Distinct samples and tokens that end up in a batch.

    Attributes:
        samples: samples of which at least a part is in a batch.
        tokens: their tokens that are in a batch.
        headless: samples whose first part is in no batch.
    """

    samples: int
    tokens: int
    headless: int = 0


class RankSamples(NamedTuple):
    """What one rank computes.

    Attributes:
        samples: number of samples, repeats counted.
        batches: number of batches.
        classes: (n_classes,) samples of each class; empty if there are no labels.
    """

    samples: int
    batches: int
    classes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """Which samples of the corpus are computed.

    Attributes:
        corpus_samples: samples of the corpus, including those never drawn.
        times: pairs (times, samples): the number of samples computed that many times; ascending
            from 1.
        shared_samples: samples that several ranks compute.
        ranks: what each rank computes.
        mixing: how classes mix within batches; None if there are no labels.
    """

    corpus_samples: int
    times: tuple[tuple[int, int], ...]
    shared_samples: int
    ranks: tuple[RankSamples, ...]
    mixing: Mixing | None = None

    @property
    def unique_samples(self) -> int:
        """Distinct samples that are computed."""
        return sum(samples for _, samples in self.times)

    @property
    def unseen_samples(self) -> int:
        """Samples of the corpus that are not computed."""
        return self.corpus_samples - self.unique_samples

    @property
    def coverage(self) -> float:
        """Distinct samples that are computed / samples of the corpus."""
        return self.unique_samples / self.corpus_samples

    @property
    def max_repeats(self) -> int:
        """Largest number of times any one sample is computed."""
        return self.times[-1][0]

    @property
    def accuracy_bound(self) -> float:
        """Largest difference between an accuracy over all computed samples and one over the corpus
        with each sample counted once: the total variation distance of the two, attained if all
        repeated samples are right and all others wrong, or the reverse.
        """
        computed = sum(times * samples for times, samples in self.times)
        return sum(
            samples * max(0.0, times / computed - 1 / self.corpus_samples)
            for times, samples in self.times
        )


class CoverageMeter:
    """Accumulates the `Coverage` of units that hold each sample once and are distributed in groups.

    Only units of the first turn are repeated, to fill the last turn.
    """

    def __init__(self, world_size: int) -> None:
        """Start without units, for a number of ranks."""
        self._samples = np.zeros(world_size, dtype=np.int64)
        self._batches = np.zeros(world_size, dtype=np.int64)
        self._once = 0
        # For each unit of the first turn: its samples, how often it is distributed, to which ranks.
        self._size = np.zeros(world_size, dtype=np.int64)
        self._times = np.zeros(world_size, dtype=np.int64)
        self._lowest = np.full(world_size, world_size)
        self._highest = np.full(world_size, -1)

    def add(self, batches: BatchTable, turns: Ints, numbers: Ints) -> None:
        """Add the next units.

        Args:
            batches: the batches of the units.
            turns: (n_turns, world_size) the unit of each rank; −1 where it has none.
            numbers: (n_units,) number of each unit among all units of the epoch.
        """
        world_size = len(self._samples)
        size = batches.sum_by_unit(batches.samples)
        held = turns >= 0
        samples = np.where(held, size.take(turns), 0)
        self._samples += samples.sum(axis=0)
        self._batches += np.where(held, np.diff(batches.unit_offsets).take(turns), 0).sum(axis=0)
        # The others are distributed once, so that their sum is enough; of these, each is followed.
        of_first = held & (numbers.take(turns) < world_size)
        self._once += int(samples.sum() - samples[of_first].sum())
        rank, unit = np.nonzero(of_first)[1], turns[of_first]
        of_epoch = numbers[unit]
        self._size[of_epoch] = size[unit]
        np.add.at(self._times, of_epoch, 1)
        np.minimum.at(self._lowest, of_epoch, rank)
        np.maximum.at(self._highest, of_epoch, rank)

    def coverage(self, corpus_samples: int) -> Coverage:
        """Return the coverage of all units added, for a corpus of this many samples."""
        times, which = np.unique(np.append(self._times, 1), return_inverse=True)
        held = sums_at(which, np.append(self._size, self._once), len(times))
        samples_by_times = zip(times.tolist(), held.tolist(), strict=True)
        return Coverage(
            corpus_samples=corpus_samples,
            times=tuple((often, samples) for often, samples in samples_by_times if samples),
            shared_samples=int(self._size[self._lowest < self._highest].sum()),
            ranks=_ranks(self._samples, self._batches),
        )


def _ranks(samples: Ints, batches: Ints) -> tuple[RankSamples, ...]:
    """Return what each rank computes; ranks with equal numbers share one record."""
    columns = [np.unique(each, return_inverse=True)[1] for each in (samples, batches)]
    cells = columns[0] * (columns[1].max() + 1) + columns[1]
    # Thousands of ranks have one of a few numbers, mostly of two.
    _, first, which = np.unique(cells, return_index=True, return_inverse=True)
    known = list(map(RankSamples, samples[first].tolist(), batches[first].tolist()))
    return tuple(known[i] for i in which.tolist())


def trace_samples(
    plan: BatchPlan, units: Ints, shares: EpochShares
) -> tuple[DistinctCounts, Coverage]:
    """Follow each sample to the ranks that compute it.

    Args:
        plan: all planned batches; its steps are the units.
        units: (n_turns, world_size) the unit of each rank; −1 where it has none.
        shares: the epoch.
    """
    samples, epoch = shares.samples, shares.epoch.whole
    n, world_size = len(samples), units.shape[1]
    held = units >= 0
    rank, unit = np.nonzero(held)[1], units[held]
    batch_offsets, batch = gather_groups(plan.unit_offsets, unit)
    entry_offsets, entry = gather_groups(plan.row_offsets[plan.batch_offsets], batch)
    ranks = np.repeat(np.repeat(rank, np.diff(batch_offsets)), np.diff(entry_offsets))
    place = samples.places(plan.samples[entry])
    # A split sample counts where its first part is, so that it is one sample however many parts it
    # has.
    begins = np.ones(len(entry), bool) if plan.starts is None else plan.starts[entry] == 0
    begun = np.bincount(place[begins], minlength=n)
    there = np.bincount(place, minlength=n) > 0
    # A part alone, whose beginning is in no batch, is still computed.
    times = np.where(there, np.maximum(begun, 1), 0)
    drawn = np.bincount(samples.places(epoch.first_parts), minlength=n)
    tokens = np.minimum(
        sums_at(samples.places(epoch.samples), epoch.lengths, n),
        _tokens_once(plan, place, entry, drawn),
    )
    unique = DistinctCounts(
        samples=int(np.minimum(drawn, times).sum()),
        tokens=total(tokens),
        headless=int(np.count_nonzero(there & (begun == 0))),
    )
    distinct_times, count = np.unique(times[times > 0], return_counts=True)
    mixing = None
    if samples.classes is not None:
        of_batch = np.repeat(np.arange(len(batch)), np.diff(entry_offsets))
        code = samples.classes.codes[place]
        mixing = class_mixing(of_batch, code, len(batch), len(samples.classes.names))
    shared = 0
    if world_size > 1:
        # A sample is shared where it stands in more than one pair of a sample and a rank.
        pairs = distinct(place * world_size + ranks)[0] // world_size
        shared = int(np.count_nonzero(np.bincount(pairs) > 1))
    batches_of_units = np.diff(plan.unit_offsets)[unit]
    batches_of_ranks = np.bincount(rank, weights=batches_of_units, minlength=world_size)
    return unique, Coverage(
        corpus_samples=n,
        times=tuple(zip(distinct_times.tolist(), count.tolist(), strict=True)),
        shared_samples=shared,
        ranks=_of_ranks(
            ranks[begins], place[begins], batches_of_ranks.astype(np.int64), samples.classes
        ),
        mixing=mixing,
    )


def _tokens_once(plan: BatchPlan, places: Ints, entry: Ints, drawn: Ints) -> Ints:
    """Return (n,) tokens of each sample in the entries computed, each token at most as often as its
    sample was drawn: a part computed again does not make up for one that is not. Parts of several
    ranks may overlap, where each rank cuts samples at places of its own.

    Args:
        plan: all planned batches.
        places: (n_computed,) the sample of each entry computed.
        entry: (n_computed,) the entries computed, repeats included.
        drawn: (n,) how often each sample was drawn.
    """
    lengths = plan.lengths[entry]
    if plan.starts is None:
        return sums_at(places, lengths, len(drawn))
    starts = plan.starts[entry]
    # Between the ends of parts, in sequence, all tokens of a sample are in equally many of them.
    sample, at = np.tile(places, 2), np.concatenate([starts, starts + lengths])
    order = np.lexsort((at, sample))
    sample, at = sample[order], at[order]
    parts = np.cumsum(np.where(order < len(entry), 1, -1))
    once = np.diff(at, append=0) * np.minimum(parts, drawn[sample])
    return sums_at(sample, np.where(parts > 0, once, 0), len(drawn))


def _of_ranks(
    ranks: Ints, places: Ints, batches: Ints, classes: Classes | None
) -> tuple[RankSamples, ...]:
    world_size = len(batches)
    samples = np.bincount(ranks, minlength=world_size)
    if classes is None:
        return _ranks(samples, batches)
    columns = len(classes.names) + 1
    cells = ranks * columns + classes.codes[places] + 1
    table = np.bincount(cells, minlength=world_size * columns).reshape(world_size, columns)
    columns_of_ranks = (samples.tolist(), batches.tolist(), table[:, 1:].tolist())
    return tuple(RankSamples(n, k, tuple(row)) for n, k, row in zip(*columns_of_ranks, strict=True))
