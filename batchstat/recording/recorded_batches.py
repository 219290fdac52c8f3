"""The batches of a recording as samples and as a strategy of these, in the steps that were made."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import distinct
from batchstat.planning.samples import Samples
from batchstat.recording.collated import CollatedBatches, as_collated, sample_numbers
from batchstat.recording.recorder.read_batches import ReadBatch
from batchstat.recording.recording import RecordedBatch, RecordedRank, Recording
from batchstat.recording.rows_together import rows_together, with_rows_joined


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedBatches:
    """The batches of the first epoch of a recording."""

    collated: CollatedBatches
    per_step: int
    is_numbered: bool
    draws_again: bool
    epochs: int | None  # how many were recorded; None where it is not known: then all are one
    data_sets: int  # number of data sets that have sample numbers of their own
    loaders: int  # number of loaders that the epoch has
    batches_of_rank: int  # of its first rank
    # (why, samples, real tokens) of each batch, on all ranks, that is in no step of the epoch.
    unstepped: Sequence[tuple[str, int, int]]


def batches_of(recording: Recording) -> RecordedBatches:
    """Return the batches of the first epoch of a recording. Raises InputError: nothing was
    recorded, steps of ranks differ, or batches cannot be described.
    """
    name = recording.folder.as_posix()
    if not recording.ranks:
        raise InputError(f"{name}: nothing was recorded: {recording.why_nothing}")
    ranks = number_dispatched(recording.ranks)
    # A dry run read less than an epoch on some ranks: of all, only what was computed.
    if len({bool(rank.why_partly) for rank in ranks}) > 1:
        computed = [[each for each in rank.batches if each.began is not None] for rank in ranks]
        ranks = [replace(r, batches=own) for r, own in zip(ranks, computed, strict=True)]
    known_epochs = [_epochs(rank) for rank in ranks]
    is_known = recording.is_dry or None not in known_epochs
    epochs_of_ranks = [
        epochs if epochs is not None and is_known else [list(rank.batches)]
        for rank, epochs in zip(ranks, known_epochs, strict=True)
    ]
    first_epochs = [_first_epoch(epochs) for epochs in epochs_of_ranks]
    _check_steps(name, recording, first_epochs)
    # Each forward of a backward counts as a batch of its step, unless all have the same samples.
    trainer = recording.ranks[0].trainer or {}
    kind = trainer.get("together", "")
    batches = list(chain.from_iterable(first_epochs))
    together = rows_together(batches, kind)
    # Of each batch: its forwards, its numbers, their data set, and why it is in no step, or "".
    parts: list[Sequence[ReadBatch]] = []
    numbers_of_parts: list[Sequence[int] | None] = []
    data_of_batches: list[int] = []
    whys: list[str] = []
    for batch in batches:
        lists: Sequence[Sequence[int] | None] = batch.numbers or [None] * len(batch.parts)
        sources = batch.sources or [None] * len(batch.parts)
        if together is None:
            parts += [[part] for part in batch.parts]
        else:
            parts.append(batch.parts)
            lists, sources = [list(dict.fromkeys(lists[0] or ())) or None], sources[:1]
        numbers_of_parts += lists
        data_of_batches += [0 if source is None else source[1] for source in sources]
        whys += [batch.unstepped] * len(lists)
    if together is not None:
        first_epochs = [[replace(b, parts=b.parts[:1]) for b in each] for each in first_epochs]
    turns, per_step, n_steps = _batches_in_turns(first_epochs)
    # `parts` has all batches of rank 0 first, `turns` says which of them are computed together.
    # From here on they are in the sequence of training: those of the first turn first.
    has_batch = turns >= 0
    sequence = turns[has_batch].tolist()
    turns[has_batch] = np.arange(len(sequence))
    has_decoder = bool(trainer.get("has_decoder"))
    in_sequence = [part for i in sequence for part in parts[i]]
    collated = as_collated(name, in_sequence, has_decoder, is_recorded=True)
    if together is not None:
        collated = with_rows_joined(collated, [together[i] for i in sequence], kind)
    in_turns = replace(collated.batches, turns=turns, finished_steps=n_steps)
    collated = replace(collated, batches=in_turns)
    unstepped = _unstepped(collated, [whys[i] for i in sequence])
    numbers = sample_numbers([numbers_of_parts[i] for i in sequence], collated)
    data_sets, places = np.unique([data_of_batches[i] for i in sequence], return_inverse=True)
    if numbers is not None and len(data_sets) > 1:  # samples of each data set get numbers of theirs
        of_samples = np.repeat(places, np.diff(collated.batches.batch_offsets))
        numbers = numbers + of_samples * (int(numbers.max()) + 1)
    n_repeats = 0 if numbers is None else len(numbers) - len(distinct(numbers)[0])
    # Some samples come again to fill up the last batch of each rank. If more do, the sampler draws
    # with replacement: a plan that computes each sample once would be another training. Not told
    # where a batch has several forwards, which have the same samples, as the two texts of a pair.
    most_fillers = collated.batches.batch_capacity * len(first_epochs)
    draws_again = len(parts) == len(batches) and n_repeats > most_fillers
    numbered = None  # the same batches with each sample once, where numbers tell samples apart
    if numbers is not None and not draws_again:
        numbered = _with_each_sample_once(collated, numbers, is_indexed=len(data_sets) == 1)
    return RecordedBatches(
        collated=numbered or collated,
        per_step=per_step,
        is_numbered=numbered is not None,
        draws_again=draws_again,
        epochs=max(map(len, epochs_of_ranks)) if is_known else None,
        data_sets=len(data_sets),
        loaders=len({tuple(each[1:]) for batch in batches for each in batch.sources if each}),
        batches_of_rank=len(first_epochs[0]),
        unstepped=unstepped,
    )


def number_dispatched(ranks: Sequence[RecordedRank]) -> Sequence[RecordedRank]:
    """Return the ranks, with sample numbers where accelerate's dispatcher handed out their batches.
    Its first rank reads every batch, and recorded the number and the digest of each sample in it.
    It then sends each rank some rows, whose digests that rank recorded. So a row has the number of
    its digest; equal samples get their numbers in the sequence of training.
    """
    # digest -> (epoch, sample number) of every sample with it, in the sequence of training.
    handed_out: dict[str, deque[tuple[int, int]]] = {}
    for rank in ranks:
        for epoch, numbers, digests in rank.handed:
            # There are no digests where it is not known which tokens are real.
            for number, digest in zip(numbers, digests, strict=False):
                handed_out.setdefault(digest, deque()).append((epoch, number))
    if not handed_out:  # no dispatcher
        return ranks
    numbered: list[list[RecordedBatch]] = [[] for _ in ranks]  # the batches of each rank
    all_batches = [(batch, index) for index, rank in enumerate(ranks) for batch in rank.batches]
    # In the sequence of training: by step, and within a step by rank.
    for batch, index in sorted(all_batches, key=lambda pair: pair[0].step):
        numbered[index].append(_with_handed_numbers(batch, handed_out))
    return [replace(rank, batches=batches) for rank, batches in zip(ranks, numbered, strict=True)]


def _with_handed_numbers(
    batch: RecordedBatch, handed_out: Mapping[str, deque[tuple[int, int]]]
) -> RecordedBatch:
    """Return a batch with the epoch and the sample numbers of its digests."""
    # A batch without digests, or with one that was not handed out, is returned as it is.
    if not all(digest in handed_out for digests in batch.digests for digest in digests):
        return batch
    epoch = None  # of the batch: that of its first sample
    numbers: list[list[int]] = []  # of each part of the batch
    for digests in batch.digests:
        numbers.append([])
        for digest in digests:
            samples = handed_out[digest]
            # The last stays: an epoch's last batch is filled up with samples handed out before.
            epoch_of_sample, number = samples.popleft() if len(samples) > 1 else samples[0]
            epoch = epoch_of_sample if epoch is None else epoch
            numbers[-1].append(number)
    return batch if epoch is None else replace(batch, numbers=numbers, epoch=epoch, sources=())


def _epochs(rank: RecordedRank) -> list[list[RecordedBatch]] | None:
    """Return the batches of each epoch, which begins where a loader begins again; None where that
    is not known. Loaders of other data sets may come one after the other in it, or take turns.
    """
    drawn: dict[int, set[int]] = {}  # the sample numbers of each iterator
    for batch in rank.batches:
        for source, numbers in zip(batch.sources, batch.numbers or (), strict=False):
            if source is not None:
                drawn.setdefault(source[0], set()).update(numbers)
    epochs: list[list[RecordedBatch]] = []
    epoch_of: dict[int, int] = {}  # the epoch of each iterator
    current: list[Sequence[int]] = []  # the sources of the last epoch, one of each iterator
    for batch in rank.batches:
        sources = [source for source in batch.sources if source is not None]
        if not sources and batch.epoch is not None:
            sources = [(batch.epoch, 0, 0)]
        if not sources and not rank.is_once:
            return None
        new = [source for source in sources if source[0] not in epoch_of]
        if not epochs or any(_begins_again(one, other, drawn) for one in new for other in current):
            epochs.append([])
            current = []
        for source in sources:
            # An iterator that goes on while another one begins again.
            if epoch_of.setdefault(source[0], len(epochs)) != len(epochs):
                return None
        current += new
        epochs[-1].append(batch)
    return epochs


def _begins_again(one: Sequence[int], other: Sequence[int], drawn: Mapping[int, set[int]]) -> bool:
    if one[1] != other[1]:  # of another data set
        return False
    # Two loaders may have a part of the samples each, as the stages of a curriculum.
    numbers, others = drawn.get(one[0]), drawn.get(other[0])
    return one[2] == other[2] or not numbers or not others or not numbers.isdisjoint(others)


def _first_epoch(epochs: list[list[RecordedBatch]]) -> list[RecordedBatch]:
    """Return the batches of the first epoch; those of a step that a later one ends are in none."""
    later_steps = {batch.step for epoch in epochs[1:] for batch in epoch if not batch.unstepped}
    why = "are in a step that ends in the next epoch"
    return [
        replace(batch, unstepped=batch.unstepped or why) if batch.step in later_steps else batch
        for batch in epochs[0]
    ]


def _check_steps(name: str, recording: Recording, first_epochs: list[list[RecordedBatch]]) -> None:
    """Raise InputError if ranks have different numbers of steps in the first epoch."""
    steps = {
        rank.rank: len({batch.step for batch in batches if not batch.unstepped})
        for rank, batches in zip(recording.ranks, first_epochs, strict=True)
    }
    if len(set(steps.values())) > 1:
        listed = ", ".join(f"rank {rank} {number:,}" for rank, number in steps.items())
        raise InputError(
            f"{name}: ranks recorded different numbers of steps ({listed}): an unfinished run, or "
            "ranks that train apart",
            "record it again to its end, or with --steps N",
        )


def _batches_in_turns(first_epochs: list[list[RecordedBatch]]) -> tuple[Ints, int, int]:
    """Line up batches computed at once: their turns, the most of a step, the number of steps."""
    # For each rank, the indices of the parts of each of its steps, and of those in none.
    steps_of_ranks: list[dict[int, list[int]]] = []
    others_of_ranks: list[list[int]] = []
    index = 0
    for batches in first_epochs:
        steps: dict[int, list[int]] = {}
        others: list[int] = []
        for batch in batches:
            indices = others if batch.unstepped else steps.setdefault(batch.step, [])
            indices.extend(range(index, index + len(batch.parts)))
            index += len(batch.parts)
        steps_of_ranks.append(steps)
        others_of_ranks.append(others)
    per_step = max((len(each) for steps in steps_of_ranks for each in steps.values()), default=1)
    most_others = max(map(len, others_of_ranks))
    columns = []  # of each rank: its parts one after the other
    for steps, others in zip(steps_of_ranks, others_of_ranks, strict=True):
        filled_steps = [indices + [-1] * (per_step - len(indices)) for indices in steps.values()]
        filled = [*chain(*filled_steps), *others, *[-1] * (most_others - len(others))]
        columns.append(np.array(filled, dtype=np.int64))
    return np.stack(columns, axis=1), per_step, len(steps_of_ranks[0])


def _unstepped(collated: CollatedBatches, whys: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return (why, samples, real tokens) of each batch that is in no step."""
    batches, rows = collated.batches, collated.samples.rows
    real = collated.samples.lengths if rows is None else rows.lengths.sum(axis=1)
    offsets = batches.row_offsets[batches.batch_offsets]  # of the samples of each batch
    tokens = np.diff(np.concatenate([[0], np.cumsum(real[batches.places])])[offsets])
    counts = zip(whys, np.diff(offsets).tolist(), tokens.tolist(), strict=True)
    return [(why, samples, real_tokens) for why, samples, real_tokens in counts if why]


def _with_each_sample_once(
    collated: CollatedBatches, numbers: Ints, is_indexed: bool
) -> CollatedBatches | None:
    """Return the batches with each sample number as one sample, however often it was computed."""
    samples = collated.samples
    lengths = samples.lengths[:, None] if samples.rows is None else samples.rows.lengths
    # number -> its place in the sequence in which numbers first came.
    place_of: dict[int, int] = {}
    listed = [place_of.setdefault(number, len(place_of)) for number in numbers.tolist()]
    places: Ints = np.array(listed, dtype=np.int64)
    # (n_distinct,) where each number first came: the first entry that holds its place.
    _, first_entries = np.unique(places, return_index=True)
    # A sample with several lengths, as where texts are cut at random, is not one sample.
    if not np.array_equal(lengths[first_entries][places], lengths):
        return None
    trained = None if samples.trained is None else samples.trained.take(first_entries)
    return replace(
        collated,
        samples=Samples(
            samples.lengths[first_entries],
            numbers[first_entries],
            trained=trained,
            is_indexed=is_indexed,
            rows=samples.rows and samples.rows.take(first_entries),
        ),
        batches=replace(collated.batches, places=places),
    )
