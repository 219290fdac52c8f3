"""Which samples ranks compute, how often, and how classes mix; units as in `rank_idle`."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from batchstat.documents.grouping import ClassesPerBatch, Mixing
from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.lengths.exact import sums_at, total
from batchstat.lengths.stats import distinct
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.classes import Classes
from batchstat.planning.plan import BatchPlan
from batchstat.planning.shares import EpochShares


class DistinctCounts(NamedTuple):
    """Samples and tokens that end up in a batch, those that are computed again not counted."""

    samples: int  # samples of which at least a part is in a batch
    tokens: int  # their tokens that are in a batch
    headless: int = 0  # samples of which parts are in a batch, but not the first part


class RankSamples(NamedTuple):
    """What one rank computes."""

    samples: int  # number of samples, repeats counted
    batches: int  # number of batches
    classes: tuple[int, ...] = ()  # (n_classes,) samples of each class; empty without labels


@dataclass(frozen=True)
class Coverage:
    """Which samples of the corpus are computed."""

    corpus_samples: int  # samples of the corpus, including those never drawn
    times: tuple[tuple[int, int], ...]  # (times, samples computed so often), ascending from 1
    shared_samples: int  # samples that several ranks compute
    ranks: tuple[RankSamples, ...]  # what each rank computes
    mixing: Mixing | None = None  # how classes mix within batches; None if there are no labels

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
        """How far an accuracy over all computed samples may be from that over the corpus. It is the
        total variation distance of the two weightings. It is reached if all samples that are
        computed more often than others are right, and all others wrong, or the reverse.
        """
        computed = sum(times * samples for times, samples in self.times)
        return sum(
            samples * max(0.0, times / computed - 1 / self.corpus_samples)
            for times, samples in self.times
        )


class CoverageMeter:
    """Finds the `Coverage` of an epoch without following single samples: for plans in which each
    sample is in one unit, and computed as often as that is distributed. Units come group by group;
    only those of the first turn come again, to fill the last (`remainder=repeat`).
    """

    def __init__(self, world_size: int) -> None:
        """Start without units, for a number of ranks."""
        self._samples = np.zeros(world_size, dtype=np.int64)
        self._batches = np.zeros(world_size, dtype=np.int64)
        # Samples of all units that are not of the first turn: these are distributed once.
        self._samples_once = 0
        # Of each unit of the first turn: samples, times distributed, lowest and highest rank.
        self._unit_samples = np.zeros(world_size, dtype=np.int64)
        self._unit_times = np.zeros(world_size, dtype=np.int64)
        self._lowest_rank = np.full(world_size, world_size)
        self._highest_rank = np.full(world_size, -1)

    def add(self, batches: BatchTable, turns: Ints, unit_numbers: Ints) -> None:
        """Add the units of the next `batches`: (n_turns, world_size) the unit of each rank, −1 for
        none; and (n_units,) the number of each among all units of the epoch.
        """
        world_size = len(self._samples)
        samples_of_unit = batches.sum_by_unit(batches.samples)
        has_unit = turns >= 0
        # (n_turns, world_size) what each rank gets in each turn; `take` reads −1 as the last unit.
        samples = np.where(has_unit, samples_of_unit.take(turns), 0)
        batches_of_units = np.diff(batches.unit_offsets).take(turns)
        self._samples += samples.sum(axis=0)
        self._batches += np.where(has_unit, batches_of_units, 0).sum(axis=0)
        # Units of the first turn have the numbers below world_size, also where they are repeated.
        is_of_first_turn = has_unit & (unit_numbers.take(turns) < world_size)
        self._samples_once += int(samples.sum() - samples[is_of_first_turn].sum())
        # (n_places,) where `turns` has such a unit: the rank, which is the column, and the unit.
        ranks, units = np.nonzero(is_of_first_turn)[1], turns[is_of_first_turn]
        numbers = unit_numbers[units]
        self._unit_samples[numbers] = samples_of_unit[units]
        # ufunc.at also counts a unit that has several of these places.
        np.add.at(self._unit_times, numbers, 1)
        np.minimum.at(self._lowest_rank, numbers, ranks)
        np.maximum.at(self._highest_rank, numbers, ranks)

    def coverage(self, corpus_samples: int) -> Coverage:
        """Return the coverage of all units added, for a corpus of this many samples."""
        # All units after the first turn count as one more unit, which is distributed once.
        unit_samples = np.append(self._unit_samples, self._samples_once)
        times, index_in_times = np.unique(np.append(self._unit_times, 1), return_inverse=True)
        samples_by_times = sums_at(index_in_times, unit_samples, len(times)).tolist()
        pairs = zip(times.tolist(), samples_by_times, strict=True)
        return Coverage(
            corpus_samples=corpus_samples,
            # With fewer units than ranks, some units of the first turn do not exist: no samples.
            times=tuple((times, samples) for times, samples in pairs if samples),
            shared_samples=int(self._unit_samples[self._lowest_rank < self._highest_rank].sum()),
            ranks=_rank_records(self._samples, self._batches),
        )


def _rank_records(samples: Ints, batches: Ints) -> tuple[RankSamples, ...]:
    """Return a record for each rank; most of thousands of ranks are alike, and share one."""
    # (world_size,) each number of samples or batches as its index among the distinct ones.
    sample_codes, batch_codes = (np.unique(n, return_inverse=True)[1] for n in (samples, batches))
    # (world_size,) one number for each pair of these: equal pairs have equal numbers.
    pairs = sample_codes * (batch_codes.max() + 1) + batch_codes
    _, first_rank, record_of_rank = np.unique(pairs, return_index=True, return_inverse=True)
    records = list(map(RankSamples, samples[first_rank].tolist(), batches[first_rank].tolist()))
    return tuple(records[i] for i in record_of_rank.tolist())


def trace_samples(
    plan: BatchPlan, units: Ints, shares: EpochShares
) -> tuple[DistinctCounts, Coverage]:
    """Follow each sample of a plan of all batches to the ranks that compute it, by the unit of
    each, (n_turns, world_size), −1 for none. Returns the samples and tokens that are computed,
    those that are computed again not counted; and the coverage of the corpus.
    """
    samples, epoch = shares.samples, shares.epoch.whole
    n_samples, world_size = len(samples), units.shape[1]
    has_unit = units >= 0
    # (n_places,) where `units` has a unit: the rank, which is the column, and the unit.
    ranks, placed_units = np.nonzero(has_unit)[1], units[has_unit]
    # (n_batches,) the batches that ranks compute, and (n_entries,) the entries of these batches: by
    # their index in the plan, once for each time that they are computed.
    batch_offsets, batches = gather_groups(plan.unit_offsets, placed_units)
    entry_offsets, entries = gather_groups(plan.row_offsets[plan.batch_offsets], batches)
    # (n_entries,) the rank that computes each entry, and its sample, by the index in the corpus.
    rank_of_entry = np.repeat(np.repeat(ranks, np.diff(batch_offsets)), np.diff(entry_offsets))
    sample_of_entry = samples.indices_of(plan.samples[entries])
    # A split sample counts with its first part alone: one sample, however many parts it has.
    is_first = np.ones(len(entries), bool) if plan.starts is None else plan.starts[entries] == 0
    # (n_samples,) from here: how often each sample of the corpus is computed.
    times_begun = np.bincount(sample_of_entry[is_first], minlength=n_samples)
    is_computed = np.bincount(sample_of_entry, minlength=n_samples) > 0
    # If a dropped batch had the first part, the other parts still count as one sample.
    times = np.where(is_computed, np.maximum(times_begun, 1), 0)
    times_drawn = np.bincount(samples.indices_of(epoch.first_parts), minlength=n_samples)
    # No more tokens of a sample than the sampler drew.
    tokens = np.minimum(
        sums_at(samples.indices_of(epoch.samples), epoch.lengths, n_samples),
        _tokens_once(plan, sample_of_entry, entries, times_drawn),
    )
    unique = DistinctCounts(
        samples=int(np.minimum(times_drawn, times).sum()),
        tokens=total(tokens),
        headless=int(np.count_nonzero(is_computed & (times_begun == 0))),
    )
    distinct_times, samples_by_times = np.unique(times[times > 0], return_counts=True)
    mixing = None
    if samples.classes is not None:
        batch_of_entry = np.repeat(np.arange(len(batches)), np.diff(entry_offsets))
        codes = samples.classes.codes[sample_of_entry]
        mixing = class_mixing(batch_of_entry, codes, len(batches), len(samples.classes.names))
    shared = 0
    if world_size > 1:
        # Distinct pairs of a sample and a rank, as numbers: several, if several ranks compute it.
        pairs, _ = distinct(sample_of_entry * world_size + rank_of_entry)
        shared = int(np.count_nonzero(np.bincount(pairs // world_size) > 1))
    batches_by_rank = sums_at(ranks, np.diff(plan.unit_offsets)[placed_units], world_size)
    # A sample counts for the ranks that compute its first part.
    first_ranks, first_samples = rank_of_entry[is_first], sample_of_entry[is_first]
    return unique, Coverage(
        corpus_samples=n_samples,
        times=tuple(zip(distinct_times.tolist(), samples_by_times.tolist(), strict=True)),
        shared_samples=shared,
        ranks=_rank_records_by_class(first_ranks, first_samples, batches_by_rank, samples.classes),
        mixing=mixing,
    )


def _tokens_once(plan: BatchPlan, samples: Ints, entries: Ints, times_drawn: Ints) -> Ints:
    """Return (n_samples,) computed tokens, each at most as often as its sample was drawn."""
    lengths = plan.lengths[entries]
    if plan.starts is None:  # every entry is a whole sample
        return sums_at(samples, lengths, len(times_drawn))
    starts = plan.starts[entries]
    # Parts may overlap, where each rank cuts samples at places of its own. The starts and stops of
    # all parts of a sample, in sequence, cut it into stretches: parts [0, 10) and [5, 15) into
    # [0, 5) in one part, [5, 10) in two, and [10, 15) in one.
    cuts, samples = np.concatenate([starts, starts + lengths]), np.tile(samples, 2)
    order = np.lexsort((cuts, samples))  # by sample, then by position in it
    cuts, samples = cuts[order], samples[order]
    # (2 × n_computed,) parts that hold the stretch from each cut to the next: a start, which is in
    # the first half before sorting, opens a part, and a stop closes one.
    open_parts = np.cumsum(np.where(order < len(entries), 1, -1))
    tokens = np.diff(cuts, append=0) * np.minimum(open_parts, times_drawn[samples])
    # With no part open, the stretch is a gap, or leads on to the next sample.
    return sums_at(samples, np.where(open_parts > 0, tokens, 0), len(times_drawn))


def _rank_records_by_class(
    rank: Ints, sample: Ints, batches: Ints, classes: Classes | None
) -> tuple[RankSamples, ...]:
    """Return the samples, batches, and samples of each class of every rank."""
    world_size = len(batches)
    samples = np.bincount(rank, minlength=world_size)
    if classes is None:
        return _rank_records(samples, batches)
    # A table of ranks × classes; code −1, no class, counts in column 0, which is left out.
    columns = len(classes.names) + 1
    cells = rank * columns + classes.codes[sample] + 1
    table = np.bincount(cells, minlength=world_size * columns).reshape(world_size, columns)
    samples_by_class = map(tuple, table[:, 1:].tolist())
    return tuple(map(RankSamples, samples.tolist(), batches.tolist(), samples_by_class))


def class_mixing(batch: Ints, code: Ints, batches: int, classes: int) -> Mixing:
    """Measure how well batches mix the classes, by the batch, ascending, and the class of each of
    (n,) entries. Those without a class (−1) do not count. Let p be the probability that two random
    samples of one batch have the same class, and q that of two random samples of the epoch. The
    homogeneity is (p − q) / (1 − q): 0 if batches are as mixed as random ones, 1 if each has one
    class. This is Fleiss's kappa (1971) with batches as subjects.
    """
    batch, code = batch[code >= 0], code[code >= 0]
    # The cells of batches × classes that are not 0; above 8 per entry, sorting is faster.
    if batches * classes <= 8 * len(batch):
        table = np.bincount(batch * classes + code, minlength=batches * classes)
        cells = np.flatnonzero(table)
        counts = table[cells]
    else:
        cells, counts = np.unique(batch * classes + code, return_counts=True)
    classes_in_batch = np.bincount(cells // classes, minlength=batches)
    samples = np.bincount(batch, minlength=batches)
    squares = np.bincount(cells // classes, weights=counts * counts, minlength=batches)
    has_pairs = samples > 1
    # Of each batch with two samples or more, its samples × the probability that two of them have
    # the same class: among n samples, the sum of count × (count − 1) over its classes / (n − 1).
    same_class = (squares[has_pairs] - samples[has_pairs]) / (samples[has_pairs] - 1)
    # (n_classes,) samples of each class in the epoch, and of all classes.
    class_samples = np.bincount(code, minlength=classes).astype(np.float64)
    n = class_samples.sum()
    q = (class_samples * (class_samples - 1)).sum() / (n * (n - 1)) if n > 1 else 1.0
    homogeneity = None
    # With one class alone (q is 1), or no two samples in any batch, nothing is mixed.
    if has_pairs.any() and q < 1:
        p = same_class.sum() / samples[has_pairs].sum()
        homogeneity = float((p - q) / (1 - q))
    return Mixing(
        ClassesPerBatch(
            batches=batches,
            sum=int(classes_in_batch.sum()),
            min=int(classes_in_batch.min()),
            max=int(classes_in_batch.max()),
        ),
        single_class_batches=int(np.count_nonzero(classes_in_batch == 1)),
        homogeneity=homogeneity,
    )
