"""The batches of a recording as samples and as a plan of these, in the steps that were made."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import distinct
from batchstat.planning.samples import Samples
from batchstat.recording.collated import CollatedBatches, as_collated
from batchstat.recording.recording import RecordedBatch, RecordedRank, Recording


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedBatches:
    """The batches of an epoch of a recording.

    Attributes:
        collated: the samples, and the batches of these.
        per_step: batches of a step on each rank, the most of any.
        is_numbered: whether samples are told apart by their numbers.
        draws_again: whether that is not so since a sampler draws samples more than once.
        epochs: how many epochs were recorded; the first is what is described.
    """

    collated: CollatedBatches
    per_step: int
    is_numbered: bool
    draws_again: bool
    epochs: int


def batches_of(recording: Recording) -> RecordedBatches:
    """Return the batches of the first epoch of a recording.

    Raises:
        InputError: nothing was recorded, ranks whose steps differ, or batches that cannot be
            described.
    """
    name = recording.folder.as_posix()
    if not recording.ranks:
        raise InputError(f"{name}: nothing was recorded: {recording.why_nothing}")
    epochs = [_epochs(rank) for rank in number_dispatched(recording.ranks)]
    firsts = [each[0] for each in epochs]
    _check_steps(name, recording, firsts)
    # Forwards of one backward have widths of their own, as if they were batches of a step.
    parts = [
        (part, None if batch.numbers is None else batch.numbers[place])
        for rank in firsts
        for batch in rank
        for place, part in enumerate(batch.parts)
    ]
    turns, per_step = _turns(firsts)
    # In the sequence of training, so that the first samples are those of the first step.
    is_made = turns >= 0
    parts = [parts[place] for place in turns[is_made]]
    turns[is_made] = np.arange(len(parts))
    trainer = recording.ranks[0].trainer
    has_decoder = bool(trainer and trainer["has_decoder"])
    collated = as_collated(name, [part for part, _ in parts], has_decoder, is_recorded=True)
    collated = replace(collated, batches=replace(collated.batches, turns=turns))
    numbers = _numbers([numbers for _, numbers in parts], collated)
    draws_again, numbered = False, None
    if numbers is not None:
        # Where more samples come again than fill up the last batches of all ranks, a sampler draws
        # with replacement, and to compute each sample once would be another training. The forwards
        # of one batch have the same samples, though, each in a form of its own.
        rows = int(np.diff(collated.batches.batch_offsets).max())
        is_alone = len(parts) == sum(map(len, firsts))
        draws_again = is_alone and len(numbers) - len(distinct(numbers)[0]) > rows * len(firsts)
        numbered = None if draws_again else _numbered(collated, numbers)
    return RecordedBatches(
        collated=collated if numbered is None else numbered,
        per_step=per_step,
        is_numbered=numbered is not None,
        draws_again=draws_again,
        epochs=max(map(len, epochs)),
    )


def number_dispatched(ranks: Sequence[RecordedRank]) -> Sequence[RecordedRank]:
    """Return the same with the sample numbers of rows that a dispatcher of accelerate cut out of
    the batches of the first rank: by their digests, in the sequence of training.
    """
    handed: dict[str, deque[tuple[int, int]]] = {}
    for rank in ranks:
        for epoch, numbers, digests in rank.handed:
            for number, digest in zip(numbers, digests, strict=False):
                handed.setdefault(digest, deque()).append((epoch, number))
    if not handed:
        return ranks
    made: list[list[RecordedBatch]] = [[] for _ in ranks]
    each = [(batch, place) for place, rank in enumerate(ranks) for batch in rank.batches]
    for batch, place in sorted(each, key=lambda pair: pair[0].step):
        made[place].append(_numbered_by_digests(batch, handed))
    return [replace(rank, batches=batches) for rank, batches in zip(ranks, made, strict=True)]


def _numbered_by_digests(
    batch: RecordedBatch, handed: Mapping[str, deque[tuple[int, int]]]
) -> RecordedBatch:
    if not all(digest in handed for digests in batch.digests for digest in digests):
        return batch
    epochs: list[int] = []
    numbers: list[list[int]] = []
    for digests in batch.digests:
        numbers.append([])
        for digest in digests:
            waiting = handed[digest]
            # The last sample of a digest comes again where an epoch is filled up.
            epoch, number = waiting.popleft() if len(waiting) > 1 else waiting[0]
            epochs.append(epoch)
            numbers[-1].append(number)
    return replace(batch, numbers=numbers, epoch=epochs[0]) if epochs else batch


def _epochs(rank: RecordedRank) -> list[list[RecordedBatch]]:
    """Return the batches of each epoch: each has an iterator of its own. All are one epoch where
    that is not known of any, or where several loaders take turns. A batch of which it is not known
    belongs to that of the one before.
    """
    known = [batch.epoch for batch in rank.batches if batch.epoch is not None]
    if not known or known != sorted(known):
        return [list(rank.batches)]
    made: dict[int, list[RecordedBatch]] = {}
    epoch = known[0]
    for batch in rank.batches:
        epoch = epoch if batch.epoch is None else batch.epoch
        made.setdefault(epoch, []).append(batch)
    return list(made.values())


def _check_steps(name: str, recording: Recording, firsts: list[list[RecordedBatch]]) -> None:
    """Raise InputError if ranks have different numbers of steps."""
    steps = {
        rank.rank: len({batch.step for batch in batches})
        for rank, batches in zip(recording.ranks, firsts, strict=True)
    }
    if len(set(steps.values())) > 1:
        listed = ", ".join(f"rank {rank} {number:,}" for rank, number in steps.items())
        raise InputError(
            f"{name}: ranks recorded different numbers of steps ({listed}): an unfinished run, or "
            "ranks that train apart; record it again to its end, or with --steps N"
        )


def _turns(firsts: list[list[RecordedBatch]]) -> tuple[Ints, int]:
    """Return (n_turns, world_size) the batch of each rank in each turn, −1 where it has none, so
    that each step has as many turns as the longest; and that number.
    """
    of_steps: list[dict[int, list[int]]] = []
    place = 0
    for rank in firsts:
        own: dict[int, list[int]] = {}
        for batch in rank:
            here = own.setdefault(batch.step, [])
            here += range(place, place + len(batch.parts))
            place += len(batch.parts)
        of_steps.append(own)
    per_step = max(len(places) for own in of_steps for places in own.values())
    columns = []
    for own in of_steps:
        rows = [places + [-1] * (per_step - len(places)) for places in own.values()]
        columns.append(np.array(rows, dtype=np.int64).reshape(-1))
    return np.stack(columns, axis=1), per_step


def _numbers(of_parts: Sequence[Sequence[int] | None], collated: CollatedBatches) -> Ints | None:
    """Return the number of each sample; None where they are not known of each row."""
    if collated.batches.packs_rows or any(each is None for each in of_parts):
        return None
    numbers = np.array([number for each in of_parts for number in each or ()], dtype=np.int64)
    return numbers if len(numbers) == len(collated.samples.lengths) else None


def _numbered(collated: CollatedBatches, numbers: Ints) -> CollatedBatches | None:
    """Return the same with each sample once, by its number, in the sequence in which they came;
    None where a number has had several lengths.
    """
    samples = collated.samples
    _, first, by_number = np.unique(numbers, return_index=True, return_inverse=True)
    sequence = np.argsort(first)
    first, places = first[sequence], np.argsort(sequence)[by_number]
    lengths = samples.lengths[first]
    if not np.array_equal(lengths[places], samples.lengths):
        return None
    trained = None if samples.trained is None else samples.trained.take(first)
    return replace(
        collated,
        samples=Samples(lengths, np.arange(len(first)), trained=trained),
        batches=replace(collated.batches, places=places),
    )
