"""Sample coverage: which samples each rank computes, and how often.

A unit is the batches that reach one rank together. In a turn, each rank gets a unit.
"""

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
    """Samples and tokens that end up in a batch, those that are computed again not counted.

    Attributes:
        samples: samples of which at least a part is in a batch.
        tokens: their tokens that are in a batch.
        headless: samples of which parts are in a batch, but not the first part.
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
        times: pairs (times, samples): how many samples are computed that many times; ascending
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
        """How far an accuracy over all computed samples may be from the accuracy over the corpus,
        where each sample counts once.

        It is the total variation distance of the two weightings. It is reached if all samples that
        are computed more often than others are right, and all others wrong, or the reverse.
        """
        computed = sum(times * samples for times, samples in self.times)
        return sum(
            samples * max(0.0, times / computed - 1 / self.corpus_samples)
            for times, samples in self.times
        )


class CoverageMeter:
    """Finds the `Coverage` of an epoch without following single samples, which would take memory:
    for plans in which each sample is in one unit. Then how often a sample is computed is how often
    its unit is distributed.

    Units come group by group. Only units of the first turn are distributed more than once: they
    fill the last turn (`remainder=repeat`).
    """

    def __init__(self, world_size: int) -> None:
        """Start without units, for a number of ranks."""
        self._samples = np.zeros(world_size, dtype=np.int64)
        self._batches = np.zeros(world_size, dtype=np.int64)
        # Samples of all units that are not of the first turn: these are distributed once.
        self._samples_once = 0
        # For each unit of the first turn: its samples, how often it is distributed, and the lowest
        # and the highest rank that gets it.
        self._unit_samples = np.zeros(world_size, dtype=np.int64)
        self._unit_times = np.zeros(world_size, dtype=np.int64)
        self._lowest_rank = np.full(world_size, world_size)
        self._highest_rank = np.full(world_size, -1)

    def add(self, batches: BatchTable, turns: Ints, numbers: Ints) -> None:
        """Add the next units.

        Args:
            batches: the batches of the units.
            turns: (n_turns, world_size) the unit of each rank; −1 where it has none.
            numbers: (n_units,) number of each unit among all units of the epoch.
        """
        world_size = len(self._samples)
        samples_of_unit = batches.sum_by_unit(batches.samples)
        has_unit = turns >= 0
        # `take` reads −1 as the last unit: np.where puts 0 there.
        samples = np.where(has_unit, samples_of_unit.take(turns), 0)
        batches_of_turns = np.diff(batches.unit_offsets).take(turns)
        self._samples += samples.sum(axis=0)
        self._batches += np.where(has_unit, batches_of_turns, 0).sum(axis=0)
        # Units of the first turn have the numbers below world_size, also where they are repeated.
        is_of_first = has_unit & (numbers.take(turns) < world_size)
        self._samples_once += int(samples.sum() - samples[is_of_first].sum())
        # For each place of such a unit: the rank, which is the column of `turns`, and the unit.
        rank, unit = np.nonzero(is_of_first)[1], turns[is_of_first]
        number = numbers[unit]
        self._unit_samples[number] = samples_of_unit[unit]
        # ufunc.at also counts a unit that comes twice among these.
        np.add.at(self._unit_times, number, 1)
        np.minimum.at(self._lowest_rank, number, rank)
        np.maximum.at(self._highest_rank, number, rank)

    def coverage(self, corpus_samples: int) -> Coverage:
        """Return the coverage of all units added, for a corpus of this many samples."""
        # The samples of all units after the first turn count as one more unit, distributed once.
        # `group` says for each unit which of the distinct `times` is its own.
        times, group = np.unique(np.append(self._unit_times, 1), return_inverse=True)
        samples = sums_at(group, np.append(self._unit_samples, self._samples_once), len(times))
        # With fewer units than ranks, some units of the first turn do not exist: no samples.
        samples_by_times = zip(times.tolist(), samples.tolist(), strict=True)
        return Coverage(
            corpus_samples=corpus_samples,
            times=tuple((times, count) for times, count in samples_by_times if count),
            shared_samples=int(self._unit_samples[self._lowest_rank < self._highest_rank].sum()),
            ranks=_rank_records(self._samples, self._batches),
        )


def _rank_records(samples: Ints, batches: Ints) -> tuple[RankSamples, ...]:
    """Return a record for each rank. Ranks with equal numbers share one: of thousands of ranks,
    most have one of two pairs of numbers.

    Args:
        samples: (world_size,) samples of each rank.
        batches: (world_size,) batches of each rank.
    """
    codes = [np.unique(numbers, return_inverse=True)[1] for numbers in (samples, batches)]
    # One number for each pair of samples and batches: equal pairs have equal numbers.
    pairs = codes[0] * (codes[1].max() + 1) + codes[1]
    _, first_rank, record_of_rank = np.unique(pairs, return_index=True, return_inverse=True)
    records = list(map(RankSamples, samples[first_rank].tolist(), batches[first_rank].tolist()))
    return tuple(records[i] for i in record_of_rank.tolist())


def trace_samples(
    plan: BatchPlan, units: Ints, shares: EpochShares
) -> tuple[DistinctCounts, Coverage]:
    """Follow each sample of a plan to the ranks that compute it.

    Args:
        plan: all planned batches; its steps are the units.
        units: (n_turns, world_size) the unit of each rank; −1 where it has none.
        shares: the epoch.
    """
    samples, epoch = shares.samples, shares.epoch.whole
    n_samples, world_size = len(samples), units.shape[1]
    has_unit = units >= 0
    # For each place with a unit: the rank, which is the column of `units`, and the unit.
    rank, unit = np.nonzero(has_unit)[1], units[has_unit]
    # The batches of these units, the entries of these batches, and for each entry the rank that
    # computes it, and its sample, by the index in the corpus.
    batch_offsets, batch = gather_groups(plan.unit_offsets, unit)
    entry_offsets, entry = gather_groups(plan.row_offsets[plan.batch_offsets], batch)
    rank_of_entry = np.repeat(np.repeat(rank, np.diff(batch_offsets)), np.diff(entry_offsets))
    sample = samples.indices_of(plan.samples[entry])
    # A split sample counts with its first part alone: one sample, however many parts it has.
    is_first_part = np.ones(len(entry), bool) if plan.starts is None else plan.starts[entry] == 0
    times_begun = np.bincount(sample[is_first_part], minlength=n_samples)
    is_computed = np.bincount(sample, minlength=n_samples) > 0
    # If a dropped batch had the first part, the other parts still count as one sample.
    times = np.where(is_computed, np.maximum(times_begun, 1), 0)
    times_drawn = np.bincount(samples.indices_of(epoch.first_parts), minlength=n_samples)
    # No more tokens of a sample than the sampler drew.
    tokens = np.minimum(
        sums_at(samples.indices_of(epoch.samples), epoch.lengths, n_samples),
        _tokens_once(plan, sample, entry, times_drawn),
    )
    unique = DistinctCounts(
        samples=int(np.minimum(times_drawn, times).sum()),
        tokens=total(tokens),
        headless=int(np.count_nonzero(is_computed & (times_begun == 0))),
    )
    distinct_times, count = np.unique(times[times > 0], return_counts=True)
    mixing = None
    if samples.classes is not None:
        batch_of_entry = np.repeat(np.arange(len(batch)), np.diff(entry_offsets))
        code = samples.classes.codes[sample]
        mixing = class_mixing(batch_of_entry, code, len(batch), len(samples.classes.names))
    shared = 0
    if world_size > 1:
        # Each distinct pair of a sample and a rank, as one number, without how often it occurs. A
        # sample that is in several pairs is computed by several ranks.
        sample_of_pair = distinct(sample * world_size + rank_of_entry)[0] // world_size
        shared = int(np.count_nonzero(np.bincount(sample_of_pair) > 1))
    batches_of_ranks = sums_at(rank, np.diff(plan.unit_offsets)[unit], world_size)
    # A sample counts for the ranks that compute its first part.
    rank_begun, sample_begun = rank_of_entry[is_first_part], sample[is_first_part]
    return unique, Coverage(
        corpus_samples=n_samples,
        times=tuple(zip(distinct_times.tolist(), count.tolist(), strict=True)),
        shared_samples=shared,
        ranks=_rank_records_by_class(rank_begun, sample_begun, batches_of_ranks, samples.classes),
        mixing=mixing,
    )


def _tokens_once(plan: BatchPlan, sample: Ints, entry: Ints, times_drawn: Ints) -> Ints:
    """Count the tokens of each sample that are computed, each token at most as often as its sample
    was drawn: a part that is computed twice does not make up for a part that is not computed.
    Returns (n_samples,).

    Args:
        plan: all planned batches.
        sample: (n_computed,) the sample of each entry computed.
        entry: (n_computed,) the entries computed, by their index in the plan, repeats included.
        times_drawn: (n_samples,) how often the sampler draws each sample.
    """
    lengths = plan.lengths[entry]
    if plan.starts is None:
        return sums_at(sample, lengths, len(times_drawn))
    starts = plan.starts[entry]
    # Parts may overlap, where each rank cuts samples at places of its own. The starts and stops of
    # all parts of a sample, in sequence, cut it into stretches: parts [0, 10) and [5, 15) into
    # [0, 5) in one part, [5, 10) in two, and [10, 15) in one.
    sample, cut = np.tile(sample, 2), np.concatenate([starts, starts + lengths])
    order = np.lexsort((cut, sample))
    sample, cut = sample[order], cut[order]
    # A start (the first half) opens a part, and a stop closes one.
    open_parts = np.cumsum(np.where(order < len(entry), 1, -1))
    tokens = np.diff(cut, append=0) * np.minimum(open_parts, times_drawn[sample])
    # With no part open, the stretch is a gap, or leads on to the next sample.
    return sums_at(sample, np.where(open_parts > 0, tokens, 0), len(times_drawn))


def _rank_records_by_class(
    rank: Ints, sample: Ints, batches: Ints, classes: Classes | None
) -> tuple[RankSamples, ...]:
    """Return the samples, batches, and samples of each class of every rank.

    Args:
        rank: (n,) the rank that computes each of n samples.
        sample: (n,) the index of each in the corpus.
        batches: (world_size,) batches of each rank.
        classes: the class of each sample of the corpus; None without labels.
    """
    world_size = len(batches)
    samples = np.bincount(rank, minlength=world_size)
    if classes is None:
        return _rank_records(samples, batches)
    # A table of ranks × classes. A sample without a class has code −1 and counts in column 0,
    # which is left out.
    columns = len(classes.names) + 1
    cells = rank * columns + classes.codes[sample] + 1
    table = np.bincount(cells, minlength=world_size * columns).reshape(world_size, columns)
    samples_by_class = map(tuple, table[:, 1:].tolist())
    return tuple(map(RankSamples, samples.tolist(), batches.tolist(), samples_by_class))
