"""Batches of token ids, as loaders yield or runs compute them, as samples and their strategy."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import length_hint
from types import SimpleNamespace
from typing import Any

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes, sum_groups
from batchstat.lengths.stats import distinct
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.planning.samples import Samples
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.recorder.arguments import WholeNumbers, as_rows
from batchstat.recording.recorder.loaders import Loaders
from batchstat.recording.recorder.patches import Patches, patch_loaders
from batchstat.recording.recorder.read_batches import NOTHING, ReadBatch, single_samples
from batchstat.recording.recorder.reading import read_batch, settle
from batchstat.words import short

_MOST_WITHOUT_LENGTH = 100_000  # batches of an iterable before it is taken to never end


UNMARKED = "nothing says what is padding, and no token that rows end in does: none is taken for it"
"""What the report says of recorded batches in which nothing marks padding."""


@dataclass(frozen=True)
class LoaderFacts:
    """How the batches of a loader were read."""

    by: Mapping[str, int]
    loss: Mapping[str, int]
    widths: Ints | None  # (n_batches, 2) the widths of encoder and decoder; None without a decoder
    trained_padding: int
    empty_rows: int = 0  # rows without a token
    empty_tokens: int = 0  # their padding


@dataclass(frozen=True)
class CollatedBatches:
    """The batches of a loader."""

    samples: Samples
    batches: GivenBatches
    facts: LoaderFacts

    @property
    def constant_widths(self) -> tuple[int, ...]:
        """Tokens to which all rows are padded, as with padding="max_length": of each forward. Empty
        if widths differ, or may be those of the longest rows.
        """
        batches, rows = self.batches, self.samples.rows
        widths = batches.forward_widths
        if widths is None and batches.widths is not None:
            widths = batches.widths[:, None]
        # With a decoder, a width is the sum of two; a packed row is longer than its samples.
        if widths is None or self.facts.widths is not None or batches.packs_rows:
            return ()
        # A single batch has no other to compare its width with.
        if len(widths) < 2 or bool((widths != widths[0]).any()):
            return ()
        # (n_rows, k) the tokens of each row; of several where a sample is made of rows.
        lengths = sum_groups(self.samples.lengths[batches.places], batches.row_offsets)[:, None]
        if rows is not None:
            lengths = rows.lengths[batches.places]
        # (n_batches, n_forwards) the tokens of the longest row of each forward.
        longest = np.maximum.reduceat(lengths, batches.batch_offsets[:-1])
        firsts = offsets_from_sizes(np.array(batches.forwards))[:-1]
        longest = np.maximum.reduceat(longest, firsts, axis=1)
        return tuple(widths[0].tolist()) if bool((longest < widths).any()) else ()


def collated_batches(
    name: str,
    batches: Iterable[Any],
    *,
    limit: int | None = None,
    pad_token_id: int | None = None,
    has_decoder: bool = False,
) -> CollatedBatches:
    """Return the batches of a loader, or of any iterable of dicts, tuples or token ids. The records
    of their samples are the numbers that the loader's sampler drew, where each row has one. Raises
    InputError: no batch, one without token ids, one whose padding is unknown, or no end.
    """
    read_batches, numbers = list[ReadBatch](), list[list[int] | None]()
    with _noted_loaders() as loaders:
        try:
            iterator = iter(batches)
        except TypeError:
            raise InputError(
                f"{name}={short(batches)}",
                "must be batches, such as a DataLoader, or sample numbers with their lengths",
            ) from None
        for number, batch in enumerate(islice(iterator, limit)):
            # A DataLoader has a length only if its data set has one: else the hint is 0.
            if number >= _MOST_WITHOUT_LENGTH and not length_hint(batches):
                raise InputError(
                    f"{name}: has no end after {number:,} batches", "pass steps=N for the first N"
                )
            read = read_batch(_as_arrays(batch), pad_token_id)
            if read is None:
                raise InputError(
                    f"{name}: batch {number} has no token ids, which are whole numbers in rows of "
                    "equal length",
                    "pass lists of sample numbers with their lengths instead",
                )
            fetched = loaders.take_with_tensors(WholeNumbers(batch).tensors)
            fetched = fetched or loaders.take_with_ids(read, None, loaders.epochs)
            numbers.append(None if fetched is None else fetched.numbers)
            read.ids = read.real_mask = None  # else the token ids of an epoch stay in memory
            read_batches.append(read)
    if not read_batches:
        raise InputError(f"{name}: there is no batch")
    collated = as_collated(name, read_batches, has_decoder)
    records = sample_numbers(numbers, collated)
    # With samples that were drawn more than once, a plan that draws each once is another training.
    if records is None or len(distinct(records)[0]) < len(records):
        return collated
    return replace(collated, samples=replace(collated.samples, records=records, is_indexed=True))


@contextmanager
def _noted_loaders() -> Iterator[Loaders]:
    """Note what torch's loaders draw and yield inside the context, as the recorder does."""
    loaders, patches = Loaders(keeps_batches=False), Patches()
    recorder = SimpleNamespace(loaders=loaders, safely=lambda note, *args: note(*args))
    # Not imported: whoever has a loader of torch has done so.
    if module := sys.modules.get("torch.utils.data.dataloader"):
        patch_loaders(module._BaseDataLoaderIter, recorder, patches)
    try:
        yield loaders
    finally:
        patches.restore()


def sample_numbers(
    numbers_of_batches: Sequence[Sequence[int] | None], collated: CollatedBatches
) -> Ints | None:
    """Return (n_samples,) the number of each sample, or None where a row has no known one."""
    offsets, lengths = collated.batches.batch_offsets, collated.samples.lengths
    counts = [-1 if numbers is None else len(numbers) for numbers in numbers_of_batches]
    if collated.batches.packs_rows or counts != np.diff(offsets).tolist():
        return None
    numbers = np.array([*chain.from_iterable(filter(None, numbers_of_batches))], dtype=np.int64)
    if len(numbers) != len(lengths) or int(numbers.min(initial=0)) < 0:
        return None
    # A collator may sort rows by length, as torch's packed sequences want them: then no row has the
    # number that was drawn in its place. A sampler that sorts puts similar lengths into a batch.
    steps = np.diff(lengths)
    steps[offsets[1:-1] - 1] = 0  # from one batch to the next
    is_sorted = steps.min(initial=0) == 0 or steps.max(initial=0) == 0
    spread = np.abs(lengths[offsets[:-1]] - lengths[offsets[1:] - 1]).mean()
    # By chance, so many steps in one direction are one in a million.
    is_sorted_anew = is_sorted and np.count_nonzero(steps) >= 20 and spread > lengths.std() / 2
    return None if is_sorted_anew else numbers


def as_collated(
    name: str, batches: list[ReadBatch], has_decoder: bool = False, is_recorded: bool = False
) -> CollatedBatches:
    """Return batches that were read, as samples and as a strategy that makes these batches. Raises
    InputError: batches of several kinds, or one whose padding is unknown; not if recorded.
    """
    for number, batch in enumerate(batches):
        if batch.doubt:
            raise InputError(f"{name}: batch {number}: {batch.doubt}")
    # Fills in what a single batch cannot tell, such as a padding token that nothing marks.
    settle(batches, has_decoder)
    for number, batch in enumerate(batches):
        if is_recorded and batch.real is None and batch.padding_source == NOTHING:
            batch.padding_source, batch.real = UNMARKED, single_samples([batch.width] * batch.rows)
        if batch.real is None:
            raise InputError(
                f"{name}: padding unknown: batch {number} says nothing of it, as it has no "
                "attention_mask, lengths or position_ids",
                "pass pad_token_id, the tokenizer's",
            )
    kinds = [
        batch.padding_source + (" and a decoder" if len(batch.widths) > 1 else "")
        for batch in batches
    ]
    # Sums over several kinds have no one meaning; a run, as of two models, is reported.
    for number, kind in enumerate(kinds):
        if kind != kinds[0] and not is_recorded:
            raise InputError(
                f"{name}: batches of several kinds: batch 0 has {kinds[0]}, batch {number} has "
                f"{kind}",
                "pass one kind at a time",
            )
    if not any(any(row) for batch in batches for row in batch.real or ()):
        by = batches[0].padding_source
        raise InputError(f"{name}: no real token: by {by} every token of every batch is padding")
    return _as_plan(batches)


def _as_arrays(batch: Any, name: str = "") -> Any:
    """Return a batch, or its value `name`, with arrays of rows in place of lists of numbers."""
    if hasattr(batch, "dtype") and hasattr(batch, "ndim"):
        rows = as_rows(batch, name)
        return batch if rows is None else rows
    # A namedtuple, as torch's `default_collate` makes of samples that are namedtuples.
    if hasattr(batch, "_asdict"):
        batch = batch._asdict()
    if isinstance(batch, Mapping):
        return {key: _as_arrays(value, str(key)) for key, value in batch.items()}
    if not isinstance(batch, list | tuple) or not batch:
        return batch
    if isinstance(batch[0], int):  # such as the lengths of rows
        return np.array(batch) if all(isinstance(each, int) for each in batch) else batch
    row_lengths = {len(each) if isinstance(each, list | tuple) else 0 for each in batch}
    # Rows of token ids, which are equally long and not empty.
    if len(row_lengths) == 1 and 0 not in row_lengths and isinstance(batch[0][0], int):
        return np.array(batch)
    return [_as_arrays(each) for each in batch]  # arrays, rows of several lengths, or batches


def _as_plan(read_batches: list[ReadBatch]) -> CollatedBatches:
    """Return the samples of batches, in their sequence, and the strategy that makes the batches."""
    for batch in read_batches:
        if not any(batch.real or ()):  # no batch of a plan is empty: a row stands for it
            batch.real = [[0], *(batch.real or ())[1:]]
            batch.trained = batch.trained and [[0], *batch.trained[1:]]
    rows = [row for batch in read_batches for row in batch.real or ()]
    lengths = np.array([length for row in rows for length in row], dtype=np.int64)
    samples_per_row = np.array([len(row) for row in rows], dtype=np.int64)
    empty = [sum(not any(row) for row in batch.real or ()) for batch in read_batches]
    places = np.arange(len(lengths))
    trained = None  # where one batch does not tell it
    if all(each.trained is not None for each in read_batches):
        counts = [count for batch in read_batches for row in batch.trained or () for count in row]
        trained = TokenRanges.of_counts(np.array(counts, dtype=np.int64))
    batches = GivenBatches(
        places=places,
        row_offsets=offsets_from_sizes(samples_per_row),
        batch_offsets=offsets_from_sizes(np.array([batch.rows for batch in read_batches])),
        widths=np.array([each.width for each in read_batches], dtype=np.int64),
        # Rows of several samples came with positions or offsets, by which attention is kept apart.
        attends_within_samples=bool((samples_per_row > 1).any()),
    )
    # (width,) of each batch, or the widths of its encoder and decoder.
    widths = [each.widths for each in read_batches]
    facts = LoaderFacts(
        by=Counter(each.padding_source for each in read_batches),
        loss=Counter(each.loss for each in read_batches),
        widths=np.array(widths) if all(len(each) > 1 for each in widths) else None,
        trained_padding=sum(each.trained_padding for each in read_batches),
        empty_rows=sum(empty),
        empty_tokens=sum(n * each.width for n, each in zip(empty, read_batches, strict=True)),
    )
    return CollatedBatches(Samples(lengths, places, trained=trained), batches, facts)
