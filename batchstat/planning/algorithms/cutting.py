"""Building blocks of strategies: sort a window, cut it into batches, shuffle them."""

import numpy as np

from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.planning.plan import BatchPlan

_AT_ONCE = 2**18
"""Samples whose arrays stay in the processor's cache."""


def narrowed(lengths: Ints) -> Ints:
    """Return the lengths in 16 bits if they fit: NumPy sorts these by radix, several times faster,
    and they take a quarter of the processor's cache.
    """
    return lengths.astype(np.uint16) if lengths.max(initial=0) < 2**16 else lengths


def longest_first(lengths: Ints, window: int | None = None) -> Ints:
    """Return positions of `lengths` (n,), longest first; equal lengths keep their order.

    With `window`, every `window` consecutive lengths are sorted by themselves.
    """
    n = len(lengths)
    shortness = _shortness(lengths)
    if window is None or n <= window:
        return np.argsort(shortness, kind="stable")
    whole = n - n % window
    order = np.argsort(shortness[:whole].reshape(-1, window), axis=1, kind="stable")
    order += np.arange(0, whole, window)[:, None]
    if whole == n:
        return order.reshape(-1)
    rest = np.argsort(shortness[whole:], kind="stable")
    rest += whole
    return np.concatenate([order.reshape(-1), rest])


def falling_lengths(lengths: Ints, window: int) -> Ints:
    """Return every `window` consecutive lengths sorted, longest first: those of `longest_first`."""
    shortness, whole = _shortness(lengths), len(lengths) - len(lengths) % window
    shortness[:whole].reshape(-1, window).sort(axis=1, kind="stable")
    shortness[whole:].sort(kind="stable")
    falling: Ints = lengths.max(initial=0) - shortness
    return falling


def _shortness(lengths: Ints) -> Ints:
    """Return longest − length of each, in 16 bits if they fit."""
    longest = lengths.max(initial=0)
    fits = lengths.dtype == np.uint16 or longest - lengths.min(initial=longest) < 2**16
    kind = np.uint16 if fits else np.int64
    shortness: Ints = np.subtract(longest, lengths, dtype=kind, casting="unsafe")
    return shortness


def cut_every(n: int, size: int, window: int | None = None, *, keep_short: bool = True) -> Ints:
    """Return offsets of consecutive groups of `size`; a short last group is kept or dropped.

    With `window`, every `window` consecutive positions are cut by themselves, and only the last
    group of all may be dropped.
    """
    if window is None or n <= window:
        offsets = np.arange(0, n + 1, size)
        return np.append(offsets, n) if keep_short and n % size else offsets
    begins = np.arange(0, n, window)[:, None] + np.arange(0, window, size)
    offsets = np.append(begins[begins < n], n)
    return offsets if keep_short or offsets[-1] - offsets[-2] == size else offsets[:-1]


def whole_batches(size: int) -> int:
    """Return how many samples to plan at once in whole batches of `size`; at least one batch."""
    return size * max(1, _AT_ONCE // size)


def cut_by_budget(
    lengths: Ints,
    budget: int,
    max_samples: int | None,
    window: int | None = None,
    *,
    keep_short: bool = True,
) -> Ints:
    """Return offsets of batches of descending `lengths` (n,), each with size × longest within the
    budget.

    A sample above the budget is alone in its batch. The longest comes first, so a batch's size is
    one division (infinibatch's BucketedReadaheadBatchIterator with a callable size). With `window`,
    every `window` consecutive lengths descend and are cut by themselves; without `keep_short`, the
    last batch of all is dropped if it could hold more.
    """
    n, end, length = len(lengths), 0, lengths.data
    most = max_samples or max(budget, 1)
    offsets = [0]
    for first in range(0, n, window or max(n, 1)):
        stop, end = min(first + (window or n), n), first
        while end < stop:
            # An empty sample counts as one token.
            size = budget // (length[end] or 1) or 1
            end += size if size < most else most
            offsets.append(end)
        offsets[-1] = stop
    return np.array(offsets if keep_short or end == n else offsets[:-1])


def holds_more(lengths: Ints, offsets: Ints, budget: int, max_samples: int | None) -> bool:
    """Return whether the last batch that `cut_by_budget` cut of `lengths` (n,) could hold more."""
    if len(offsets) < 2:
        return False
    size = budget // (int(lengths[offsets[-2]]) or 1) or 1
    held = int(offsets[-1] - offsets[-2])
    return held < (size if max_samples is None else min(size, max_samples))


def one_left_out(sequence: Ints, rng: np.random.Generator, first: int = 0) -> Ints:
    """Return a sequence of batches without one of those from `first` on, each as likely.

    Sorted longest first, the last batch always has the shortest samples: without it, no epoch would
    train these. Each sample is in one batch, so that each is as likely to be left out.
    """
    return np.delete(sequence, rng.integers(first, len(sequence)))


def one_sample_a_row(
    lengths: Ints,
    order: Ints,
    batch_offsets: Ints,
    widths: Ints | None,
    sequence: Ints | None = None,
) -> BatchPlan:
    """Return the plan whose rows are samples of `lengths` (n,).

    Args:
        lengths: the lengths of the samples.
        order: (n,) their sequence; those after the last offset are dropped.
        batch_offsets: (n_batches + 1,) samples of each batch.
        widths: (n_batches,) width of each batch; None for the longest of it.
        sequence: the sequence in which the batches come, those left out not among them; None as
            they are.
    """
    if sequence is None:
        rows = np.arange(int(batch_offsets[-1]) + 1)
        order = order[: rows[-1]]
    else:
        first = batch_offsets[sequence]
        sizes = batch_offsets[sequence + 1] - first
        batch_offsets = offsets_from_sizes(sizes)
        rows = np.arange(int(batch_offsets[-1]) + 1)
        places = np.repeat(first - batch_offsets[:-1], sizes)
        places += rows[:-1]
        order = order.take(places)
        widths = None if widths is None else widths[sequence]
    held = lengths.take(order).astype(np.int64, copy=False)
    return BatchPlan(
        samples=order,
        lengths=held,
        row_offsets=rows,
        batch_offsets=batch_offsets,
        unit_offsets=np.arange(len(batch_offsets)),
        widths=longest_of_each(held, batch_offsets) if widths is None else widths,
    )


def longest_of_each(lengths: Ints, batch_offsets: Ints) -> Ints:
    """Return (n_batches,) the longest length of each batch."""
    if len(batch_offsets) == 1:
        return lengths[:0]
    longest: Ints = np.maximum.reduceat(lengths[: batch_offsets[-1]], batch_offsets[:-1])
    return longest
