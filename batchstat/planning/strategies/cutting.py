"""Building blocks of strategies: sort a window, cut it into batches, shuffle them."""

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.planning.plan import BatchPlan

_AT_ONCE = 2**18
"""Samples whose arrays stay in the processor's cache."""


def longest_first(lengths: Ints, window: int | None = None) -> Ints:
    """Return positions of `lengths` (n,), longest first; equal lengths keep their order.

    With `window`, every `window` consecutive lengths are sorted by themselves.
    """
    n = len(lengths)
    if window is None or n <= window:
        return np.argsort(_shortness(lengths), kind="stable")
    shortness, whole = _shortness(lengths), n - n % window
    order = np.empty(n, dtype=np.int64)
    within = np.argsort(shortness[:whole].reshape(-1, window), axis=1, kind="stable")
    np.add(within, np.arange(0, whole, window)[:, None], out=order[:whole].reshape(-1, window))
    order[whole:] = whole + np.argsort(shortness[whole:], kind="stable")
    return order


def falling_lengths(lengths: Ints, window: int) -> Ints:
    """Return every `window` consecutive lengths sorted, longest first: those of `longest_first`."""
    shortness, whole = _shortness(lengths), len(lengths) - len(lengths) % window
    shortness[:whole].reshape(-1, window).sort(axis=1, kind="stable")
    shortness[whole:].sort(kind="stable")
    falling: Ints = lengths.max(initial=0) - shortness
    return falling


def _shortness(lengths: Ints) -> Ints:
    """Return longest − length of each, in 16 bits if they fit: NumPy sorts these by radix, several
    times faster.
    """
    longest = lengths.max(initial=0)
    fits = longest - lengths.min(initial=longest) < 2**16
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
    n, end, item = len(lengths), 0, lengths.item
    most = max_samples or max(budget, 1)
    offsets = [0]
    for first in range(0, n, window or max(n, 1)):
        stop, end = min(first + (window or n), n), first
        while end < stop:
            size = budget // (item(end) or 1) or 1
            end += size if size < most else most
            offsets.append(end)
        offsets[-1] = stop
    return np.array(offsets if keep_short or end == n else offsets[:-1])


def one_sample_a_row(
    order: Ints,
    lengths: Ints,
    batch_offsets: Ints,
    widths: Ints,
    sequence: Ints | None = None,
) -> BatchPlan:
    """Return the plan whose rows are the samples of `order`; samples after the last offset are
    dropped.

    With `sequence`, its batches come in that sequence.
    """
    n = int(batch_offsets[-1])
    if sequence is None:
        order, lengths = order[:n], lengths[:n]
    else:
        batch_offsets, taken = gather_groups(batch_offsets, sequence)
        order, lengths, widths = order.take(taken), lengths.take(taken), widths[sequence]
    return BatchPlan(
        samples=order,
        lengths=lengths,
        row_offsets=np.arange(n + 1),
        batch_offsets=batch_offsets,
        step_offsets=np.arange(len(batch_offsets)),
        widths=widths,
    )


def longest_of_each(lengths: Ints, batch_offsets: Ints) -> Ints:
    """Return (n_batches,) the longest length of each batch."""
    if len(batch_offsets) == 1:
        return lengths[:0]
    longest: Ints = np.maximum.reduceat(lengths[: batch_offsets[-1]], batch_offsets[:-1])
    return longest
