"""Building blocks of strategies: sort a window, cut it into batches, shuffle them."""

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.planning.plan import BatchPlan

_AT_ONCE = 2**18  # samples whose arrays stay in the processor's cache


def narrow(lengths: Ints) -> Ints:
    """Return the lengths in 16 bits if they fit, which NumPy sorts several times faster (radix)."""
    return lengths.astype(np.uint16) if lengths.max(initial=0) < 2**16 else lengths


def longest_first(lengths: Ints, window: int | None = None) -> Ints:
    """Return the positions that sort (n,) lengths longest first, stably: [5, 9, 5] gives [1, 0, 2].
    With `window`, every `window` consecutive lengths are sorted by themselves.
    """
    n = len(lengths)
    shortness = _shortness(lengths)
    if window is None or n <= window:
        return np.argsort(shortness, kind="stable")
    # Full windows are the rows of a matrix, sorted in one call; the short last one follows.
    n_whole = n - n % window
    order = np.argsort(shortness[:n_whole].reshape(-1, window), axis=1, kind="stable")
    order += np.arange(0, n_whole, window)[:, None]
    if n_whole == n:
        return order.reshape(-1)
    in_short_window = np.argsort(shortness[n_whole:], kind="stable")
    in_short_window += n_whole
    return np.concatenate([order.reshape(-1), in_short_window])


def falling_lengths(lengths: Ints, window: int) -> Ints:
    """Return the lengths that `longest_first` puts in order: every `window` consecutive ones
    sorted, longest first. [3, 9, 5, 7] and a window of 2 give [9, 3, 7, 5]. For tables of batches,
    which do not say which sample has which length.
    """
    shortness, n_whole = _shortness(lengths), len(lengths) - len(lengths) % window
    # Full windows are the rows of a matrix; the short last window is sorted by itself.
    shortness[:n_whole].reshape(-1, window).sort(axis=1, kind="stable")
    shortness[n_whole:].sort(kind="stable")
    falling: Ints = lengths.max(initial=0) - shortness
    return falling


def _shortness(lengths: Ints) -> Ints:
    """Return longest − length (n,), in 16 bits if they fit: sorted stably, the longest first."""
    longest = lengths.max(initial=0)
    fits = lengths.dtype == np.uint16 or longest - lengths.min(initial=longest) < 2**16
    kind = np.uint16 if fits else np.int64
    shortness: Ints = np.subtract(longest, lengths, dtype=kind, casting="unsafe")
    return shortness


def cut_every(n: int, size: int, window: int | None = None, *, keep_short: bool = True) -> Ints:
    """Return the offsets of groups of `size` consecutive positions. 10 positions in groups of 4
    give [0, 4, 8, 10], or [0, 4, 8] if a short last group is dropped. With `window`, so many
    positions are cut by themselves; only the last group may be dropped.
    """
    if window is None or n <= window:
        offsets = np.arange(0, n + 1, size)
        return np.append(offsets, n) if keep_short and n % size else offsets
    # A row per window: where its groups begin. Beginnings after the last position are left out.
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
    """Return the offsets of batches of descending `lengths` (n,), each with size × longest within
    the budget. [9, 5, 5, 4] and a budget of 15 give [0, 1, 4]: one sample, then three. A sample
    above the budget is alone in its batch. The longest comes first, so a batch's size is one
    division (infinibatch's BucketedReadaheadBatchIterator with a callable size). With `window`,
    every `window` consecutive lengths descend and are cut by themselves; without `keep_short`, the
    last batch of all is dropped if it could hold more.
    """
    n = len(lengths)
    window = window or max(n, 1)
    # A memory view, since NumPy takes much longer for single elements.
    length_at = lengths.data
    # An empty sample counts as one token, so no batch has more samples than the budget.
    most = max_samples or max(budget, 1)
    offsets, end = [0], 0
    for window_begin in range(0, n, window):
        window_end, end = min(window_begin + window, n), window_begin
        while end < window_end:
            # The batch begins at `end`, with its longest sample; an empty one counts as one token.
            size = budget // (length_at[end] or 1) or 1
            end += size if size < most else most
            offsets.append(end)
        # `end` is now where the last batch would be full, perhaps beyond the window.
        offsets[-1] = window_end
    # The last batch of all is full if `end` is not beyond the lengths.
    return np.array(offsets if keep_short or end == n else offsets[:-1])


def holds_more(lengths: Ints, offsets: Ints, budget: int, max_samples: int | None) -> bool:
    """Return whether the last batch of `cut_by_budget` could hold another sample like its first."""
    if len(offsets) < 2:  # no batch
        return False
    # As `cut_by_budget` counts: an empty sample as one token, and at least one sample.
    fitting = budget // (int(lengths[offsets[-2]]) or 1) or 1
    n_samples = int(offsets[-1] - offsets[-2])
    return n_samples < (fitting if max_samples is None else min(fitting, max_samples))


def one_left_out(sequence: Ints, rng: np.random.Generator, first: int = 0) -> Ints:
    """Draw one batch from `sequence[first:]` to leave out, each as likely, and return the others.
    Sorted longest first, the last batch always has the shortest samples: without it, no epoch would
    train these. Each sample is in one batch, so each is as likely to be left out.
    """
    return np.delete(sequence, rng.integers(first, len(sequence)))


def plan_single_samples(
    lengths: Ints,
    order: Ints,
    batch_offsets: Ints,
    widths: Ints | None,
    sequence: Ints | None = None,
) -> BatchPlan:
    """Return a plan in which each row is one sample of `lengths` (n,), in (n,) `order`, cut at
    (n_batches + 1,) `batch_offsets`, after which samples are dropped; as wide as (n_batches,)
    `widths`, or the longest sample. `sequence` (n_kept,) has the batches that remain; None for all.
    """
    if sequence is None:
        samples = order[: int(batch_offsets[-1])]
    else:
        batch_offsets, positions = gather_groups(batch_offsets, sequence)
        samples = order.take(positions)
        widths = None if widths is None else widths[sequence]
    lengths_of_rows = lengths.take(samples).astype(np.int64, copy=False)
    return BatchPlan(
        samples=samples,
        lengths=lengths_of_rows,
        row_offsets=np.arange(len(samples) + 1),
        batch_offsets=batch_offsets,
        unit_offsets=np.arange(len(batch_offsets)),
        widths=longest_of_each(lengths_of_rows, batch_offsets) if widths is None else widths,
    )


def longest_of_each(lengths: Ints, batch_offsets: Ints) -> Ints:
    """Return (n_batches,) the longest length of each batch."""
    if len(batch_offsets) == 1:  # no batch, of which reduceat would fail
        return lengths[:0]
    # The maximum from each offset to the next; lengths after the last offset are dropped.
    return np.maximum.reduceat(lengths[: batch_offsets[-1]], batch_offsets[:-1])
