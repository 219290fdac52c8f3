"""The batches of a recording as samples and as a strategy of these, in the steps that were made."""

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
    """The batches of the first epoch of a recording.

    Attributes:
        collated: the samples, and the batches of these.
        per_step: the most batches that a step has on a rank.
        is_numbered: whether samples are told apart by their numbers, so that each is there once.
        draws_again: whether they are not told apart, since a sampler draws samples more than once.
        epochs: how many epochs were recorded.
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
    # The batches of the first epoch on each rank; what else was recorded is not described.
    firsts = [epochs_of_rank[0] for epochs_of_rank in epochs]
    _check_steps(name, recording, firsts)
    # Each part, what one forward computed, with the sample numbers of its rows. A backward may have
    # several forwards, each with a width of its own: here each counts as a batch of the step.
    parts = [
        (part, None if batch.numbers is None else batch.numbers[place])
        for rank in firsts
        for batch in rank
        for place, part in enumerate(batch.parts)
    ]
    turns, per_step = _batches_in_turns(firsts)
    # `parts` has all batches of rank 0 first, `turns` says which of them are computed together.
    # From here on they are in the sequence of training: those of the first turn first.
    has_batch = turns >= 0
    parts = [parts[place] for place in turns[has_batch]]
    turns[has_batch] = np.arange(len(parts))
    trainer = recording.ranks[0].trainer
    has_decoder = bool(trainer and trainer["has_decoder"])
    collated = as_collated(name, [part for part, _ in parts], has_decoder, is_recorded=True)
    collated = replace(collated, batches=replace(collated.batches, turns=turns))
    numbers = _numbers([numbers_of_part for _, numbers_of_part in parts], collated)
    # `numbered` is the same batches, with each sample once; None where numbers do not tell samples.
    draws_again, numbered = False, None
    if numbers is not None:
        # Some samples come again to fill up the last batch of each rank. If more do, the sampler
        # draws with replacement: a plan that computes each sample once would be another training.
        # That cannot be told where a batch has several forwards, which have the same samples, as
        # the two texts of a pair.
        batch_size = int(np.diff(collated.batches.batch_offsets).max())  # most rows of a batch
        have_one_forward = len(parts) == sum(map(len, firsts))
        distinct_numbers, _ = distinct(numbers)
        repeats = len(numbers) - len(distinct_numbers)
        draws_again = have_one_forward and repeats > batch_size * len(firsts)
        numbered = None if draws_again else _with_each_sample_once(collated, numbers)
    return RecordedBatches(
        collated=collated if numbered is None else numbered,
        per_step=per_step,
        is_numbered=numbered is not None,
        draws_again=draws_again,
        epochs=max(map(len, epochs)),
    )


def number_dispatched(ranks: Sequence[RecordedRank]) -> Sequence[RecordedRank]:
    """Return the ranks, with sample numbers where accelerate's dispatcher handed out their batches.

    Its first rank reads every batch, and recorded the number and the digest of each sample in it.
    It then sends each rank some rows, whose digests that rank recorded. So a row has the number of
    its digest; equal samples get their numbers in the sequence of training.
    """
    # digest -> (epoch, sample number) of every sample with it, in the sequence of training.
    handed: dict[str, deque[tuple[int, int]]] = {}
    for rank in ranks:
        for epoch, numbers, digests in rank.handed:
            # There are no digests where it is not known which tokens are real.
            for number, digest in zip(numbers, digests, strict=False):
                handed.setdefault(digest, deque()).append((epoch, number))
    if not handed:  # no dispatcher
        return ranks
    numbered: list[list[RecordedBatch]] = [[] for _ in ranks]
    all_batches = [(batch, index) for index, rank in enumerate(ranks) for batch in rank.batches]
    # In the sequence of training: by step, and within a step by rank.
    for batch, index in sorted(all_batches, key=lambda pair: pair[0].step):
        numbered[index].append(_find_numbers(batch, handed))
    return [replace(rank, batches=batches) for rank, batches in zip(ranks, numbered, strict=True)]


def _find_numbers(
    batch: RecordedBatch, handed: Mapping[str, deque[tuple[int, int]]]
) -> RecordedBatch:
    """Return a batch with the sample numbers of its digests, taken out of `handed`.

    A batch without digests, or with one that was not handed out, is returned as it is.
    """
    if not all(digest in handed for digests in batch.digests for digest in digests):
        return batch
    epochs: list[int] = []
    numbers: list[list[int]] = []
    for digests in batch.digests:
        numbers.append([])
        for digest in digests:
            same_digest = handed[digest]
            # The last one stays: a dispatcher fills up the last batch of an epoch with samples that
            # were handed out before.
            epoch, number = same_digest.popleft() if len(same_digest) > 1 else same_digest[0]
            epochs.append(epoch)
            numbers[-1].append(number)
    # The epoch of the first sample is that of the batch. Without digests there is none.
    return replace(batch, numbers=numbers, epoch=epochs[0]) if epochs else batch


def _epochs(rank: RecordedRank) -> list[list[RecordedBatch]]:
    """Return the batches of each epoch: those that one iterator of a loader handed out."""
    known_epochs = [batch.epoch for batch in rank.batches if batch.epoch is not None]
    # Without a loader, or where several loaders take turns, all are one epoch.
    if not known_epochs or known_epochs != sorted(known_epochs):
        return [list(rank.batches)]
    by_epoch: dict[int, list[RecordedBatch]] = {}
    epoch = known_epochs[0]
    for batch in rank.batches:
        # A batch without a known epoch belongs to that of the one before.
        epoch = epoch if batch.epoch is None else batch.epoch
        by_epoch.setdefault(epoch, []).append(batch)
    return list(by_epoch.values())


def _check_steps(name: str, recording: Recording, firsts: list[list[RecordedBatch]]) -> None:
    """Raise InputError if ranks have different numbers of steps in the first epoch."""
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


def _batches_in_turns(firsts: list[list[RecordedBatch]]) -> tuple[Ints, int]:
    """Line up the batches that ranks compute at the same time. A batch is given by the number of
    its part, counted through all batches of rank 0, then those of rank 1, and so on.

    Args:
        firsts: the batches of the first epoch on each rank.

    Returns:
        (n_turns, world_size) the batch of each rank in each turn; and the turns of a step, as many
        as the longest step has batches. Where a step has fewer, −1 stands for no batch.
    """
    # For each rank, the batches of each of its steps.
    ranks_steps: list[dict[int, list[int]]] = []
    index = 0
    for batches_of_rank in firsts:
        steps: dict[int, list[int]] = {}
        for batch in batches_of_rank:
            steps.setdefault(batch.step, []).extend(range(index, index + len(batch.parts)))
            index += len(batch.parts)
        ranks_steps.append(steps)
    per_step = max(len(indices) for steps in ranks_steps for indices in steps.values())
    # For each rank, its batches one after the other, each step filled up to `per_step` with −1.
    columns = []
    for steps in ranks_steps:
        rows = [indices + [-1] * (per_step - len(indices)) for indices in steps.values()]
        columns.append(np.array(rows, dtype=np.int64).reshape(-1))
    return np.stack(columns, axis=1), per_step


def _numbers(of_parts: Sequence[Sequence[int] | None], collated: CollatedBatches) -> Ints | None:
    """Return (n_samples,) the number of each sample, in the sequence of training; None where not
    every row is a sample with a known number.
    """
    if collated.batches.packs_rows or any(each is None for each in of_parts):
        return None
    numbers = np.array([number for each in of_parts for number in each or ()], dtype=np.int64)
    return numbers if len(numbers) == len(collated.samples.lengths) else None


def _with_each_sample_once(collated: CollatedBatches, numbers: Ints) -> CollatedBatches | None:
    """Return the batches with each sample number as one sample, however often it was computed.

    Samples are in the sequence in which they first came: numbers [7, 2, 7] are samples 7 and 2, and
    the batches hold places [0, 1, 0]. None where a sample had several lengths.
    """
    samples = collated.samples
    # Of each number, ascending, the entry where it first came; of each entry, which number it is.
    _, first_entries, by_number = np.unique(numbers, return_index=True, return_inverse=True)
    # `sequence` lists the numbers as they first came; its argsort is the place of each in that.
    sequence = np.argsort(first_entries)
    first_entries, places = first_entries[sequence], np.argsort(sequence)[by_number]
    lengths = samples.lengths[first_entries]
    # A sample with several lengths, as where texts are cut at random, is not one sample.
    if not np.array_equal(lengths[places], samples.lengths):
        return None
    trained = None if samples.trained is None else samples.trained.take(first_entries)
    return replace(
        collated,
        samples=Samples(lengths, np.arange(len(first_entries)), trained=trained),
        batches=replace(collated.batches, places=places),
    )
