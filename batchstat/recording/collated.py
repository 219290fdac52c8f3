"""Batches of token ids, as a loader yields or a run computed them: their rows become samples, and
the batches a strategy that plans these samples.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import length_hint
from typing import Any

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.planning.samples import Samples
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.recorder.read_batches import NOTHING, ReadBatch, single_samples
from batchstat.recording.recorder.reading import read_batch, settle
from batchstat.words import short

_MOST_WITHOUT_LENGTH = 100_000
"""Batches of an iterable without a length before it is taken to never end."""


UNMARKED = "nothing says what is padding, and no token that rows end in does: none is taken for it"
"""What the report says of recorded batches in which nothing marks padding."""


@dataclass(frozen=True)
class LoaderFacts:
    """How the batches of a loader were read."""

    by: Mapping[str, int]
    loss: Mapping[str, int]
    widths: Ints | None  # (n_batches, 2) the widths of encoder and decoder; None without a decoder
    trained_padding: int


@dataclass(frozen=True)
class CollatedBatches:
    """The batches of a loader."""

    samples: Samples
    batches: GivenBatches
    facts: LoaderFacts

    @property
    def constant_width(self) -> int | None:
        """Tokens to which every row of every batch is padded, as with padding="max_length".

        None if widths differ, or if every batch has a row as long as its width, so that it may be
        padded to its longest row.
        """
        widths = self.batches.widths
        # With a decoder, a width is the sum of two. In packed rows, the longest sample does not
        # tell what is padded.
        if widths is None or self.facts.widths is not None or self.batches.packs_rows:
            return None
        # A single batch has no other to compare its width with.
        if len(widths) < 2 or bool((widths != widths[0]).any()):
            return None
        # Each row is one sample here. (n_batches,) the tokens of the longest row of each batch.
        lengths = self.samples.lengths[self.batches.places]
        longest_rows = np.maximum.reduceat(lengths, self.batches.batch_offsets[:-1])
        return int(widths[0]) if bool((longest_rows < widths[0]).any()) else None


def collated_batches(
    name: str,
    batches: Iterable[Any],
    *,
    limit: int | None = None,
    pad_token_id: int | None = None,
    has_decoder: bool = False,
) -> CollatedBatches:
    """Return the batches of a loader, or of any iterable of dicts, tuples or token ids.

    Raises:
        InputError: no batch, one without token ids, one whose padding is unknown, or no end.
    """
    try:
        iterator = iter(batches)
    except TypeError:
        raise InputError(
            f"{name}={short(batches)}",
            "must be batches, such as a DataLoader, or sample numbers with their lengths",
        ) from None
    read_batches = []
    for number, batch in enumerate(islice(iterator, limit)):
        # A DataLoader has a length only if its data set has one; the hint is 0 without a length.
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
        read.ids = read.real_mask = None  # else the token ids of a whole epoch stay in memory
        read_batches.append(read)
    if not read_batches:
        raise InputError(f"{name}: there is no batch")
    return as_collated(name, read_batches, has_decoder)


def as_collated(
    name: str, batches: list[ReadBatch], has_decoder: bool = False, is_recorded: bool = False
) -> CollatedBatches:
    """Return batches that were read, as samples and as a strategy that makes these batches.

    Raises:
        InputError: batches of several kinds, or one whose padding is unknown; not if recorded.
    """
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
    # Sums over several kinds would have no one meaning. A run may have computed several, such as
    # those of two models: it is reported all the same.
    for number, kind in enumerate(kinds):
        if kind != kinds[0] and not is_recorded:
            raise InputError(
                f"{name}: batches of several kinds: batch 0 has {kinds[0]}, batch {number} has "
                f"{kind}",
                "pass one kind at a time",
            )
    return _as_plan(batches)


def _as_arrays(batch: Any) -> Any:
    """Return a batch in which lists of numbers, and lists of equally long lists, are arrays."""
    # A namedtuple, as torch's `default_collate` makes of samples that are namedtuples.
    if hasattr(batch, "_asdict"):
        batch = batch._asdict()
    if isinstance(batch, Mapping):
        return {key: _as_arrays(value) for key, value in batch.items()}
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
    # For each row, the real tokens of each of its samples.
    rows = [row for batch in read_batches for row in batch.real or ()]
    lengths = np.array([length for row in rows for length in row], dtype=np.int64)
    samples_per_row = np.array([len(row) for row in rows], dtype=np.int64)
    # Each entry of a row is a sample of its own, in the sequence of the batches.
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
        attends_within_samples=len(lengths) > len(rows),
    )
    # (width,) of each batch, or the widths of its encoder and decoder.
    widths = [each.widths for each in read_batches]
    facts = LoaderFacts(
        by=Counter(each.padding_source for each in read_batches),
        loss=Counter(each.loss for each in read_batches),
        widths=np.array(widths) if all(len(each) > 1 for each in widths) else None,
        trained_padding=sum(each.trained_padding for each in read_batches),
    )
    return CollatedBatches(Samples(lengths, places, trained=trained), batches, facts)
