"""Rows that belong together, as those of pairs and views, become samples made of rows."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.sample_rows import SampleRows
from batchstat.planning.samples import Samples
from batchstat.recording.collated import CollatedBatches
from batchstat.recording.recording import RecordedBatch


class Together(NamedTuple):
    """Which rows of a batch belong together."""

    samples: int
    forwards: tuple[int, ...]  # rows of a sample in each forward
    marks: Sequence[Hashable] = ()  # for each row what tells its sample, where anything does


def rows_together(batches: Sequence[RecordedBatch], kind: str) -> list[Together] | None:
    """Return which rows of each batch belong together (pairs, by `kind`); None where none do."""
    found = [_together(batch, kind == "pair") for batch in batches]
    known = [each for each in found if each is not None]
    # A sampler that draws again may put samples twice into some batches: not into all.
    forwards = {each.forwards for each in known}
    is_told = len(known) == len(found) and len(forwards) == 1 and forwards != {(1,)}
    return known if is_told else None


def _together(batch: RecordedBatch, is_pair: bool) -> Together | None:
    """Return which rows of a batch belong together; None where that is not known."""
    sizes = [part.rows for part in batch.parts]
    # Sample numbers, or digests: a list for each forward.
    lists = batch.numbers or batch.digests
    is_same = bool(lists) and all(each == lists[0] for each in lists)
    if any(len(row) != 1 for part in batch.parts for row in part.real or ()):
        return None  # packed, or empty
    if not (len(sizes) == 1 or is_same or is_pair or batch.is_of_one):
        return None  # two batches of a loader, whose losses are added up
    marks = lists[0] if is_same and (batch.numbers or not is_pair) else ()
    samples = len(set(marks)) or min(sizes) // (2 if is_pair and len(sizes) == 1 else 1)
    is_even = len(set(Counter(marks).values())) <= 1  # each as often as the others
    if not (samples and is_even) or any(size % samples for size in sizes):
        return None
    return Together(samples, tuple(size // samples for size in sizes), marks)


def with_rows_by_size(
    collated: CollatedBatches, batch_size: object, kind: str = ""
) -> CollatedBatches:
    """Return the batches of a loader that draws `batch_size` samples for each, with the rows that a
    batch has for each sample as one; as they are where none has several.
    """
    sizes = np.diff(collated.batches.batch_offsets)
    size = batch_size if isinstance(batch_size, int) and batch_size > 0 else int(sizes[0])
    k = int(sizes[0]) // size
    # All batches but the last are full.
    if k < 2 or collated.batches.packs_rows or (sizes % k).any() or (sizes[:-1] != k * size).any():
        return collated
    is_pair = any(way.startswith("chosen") for way in collated.facts.by)  # chosen_attention_mask
    together = [Together(rows // k, (k,)) for rows in sizes.tolist()]
    return with_rows_joined(collated, together, "pair" if is_pair else kind)


def with_rows_joined(
    collated: CollatedBatches, together: Sequence[Together], kind: str
) -> CollatedBatches:
    """Return batches of rows with those that belong together, in sequence, as one sample."""
    lengths, forwards = collated.samples.lengths, together[0].forwards
    # All first rows before all second ones, or side by side: by where a sample has equal rows.
    rows, beside = _places(together, "F"), _places(together, "C")
    if np.ptp(lengths[rows], axis=1).any() and not np.ptp(lengths[beside], axis=1).any():
        rows = beside
    assert collated.batches.widths is not None, "batches that were read have widths"
    widths = collated.batches.widths.reshape(-1, len(forwards))
    places, of_samples = np.arange(len(rows)), SampleRows(lengths[rows], forwards, kind or "view")
    batches = replace(
        collated.batches,
        places=places,
        row_offsets=np.arange(len(rows) + 1),
        batch_offsets=offsets_from_sizes(np.array([each.samples for each in together])),
        widths=widths.max(axis=1),
        forward_widths=widths if len(forwards) > 1 else None,
        forwards=forwards,
        keeps_batches=of_samples.kind == "view",
    )
    longest = of_samples.lengths.max(axis=1)
    samples = Samples(longest, places, rows=of_samples)
    return replace(collated, samples=samples, batches=batches)


def _places(together: Sequence[Together], order: Literal["F", "C"]) -> Ints:
    """Return (n_samples, k) the places of the rows of each sample."""
    first, of_batches = 0, []
    for batch in together:
        columns, of_mark = [], {mark: i for i, mark in enumerate(dict.fromkeys(batch.marks))}
        for rows in batch.forwards:
            places = np.arange(first, first + batch.samples * rows)
            first += len(places)
            if len(batch.marks) == len(places):
                by_sample = np.argsort([of_mark[mark] for mark in batch.marks], kind="stable")
                columns.append(places[by_sample].reshape(-1, rows))
            else:
                columns.append(places.reshape((batch.samples, rows), order=order))
        of_batches.append(np.hstack(columns))
    return np.concatenate(of_batches)
