"""Building blocks of strategies: sort a window, cut it into batches, shuffle them."""

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.planning.plan import BatchPlan

_AT_ONCE = 2**18
"""Samples whose arrays stay in the processor's cache."""


def longest_first(lengths: Ints) -> Ints:
    """Return positions of `lengths` (n,), longest first; equal lengths keep their order."""
    if len(lengths) == 0:
        return np.arange(0)
    shortness = lengths.max() - lengths
    if shortness.max() < 2**16:  # NumPy sorts 16-bit keys by radix, several times faster
        shortness = shortness.astype(np.uint16)
    return np.argsort(shortness, kind="stable")


def cut_every(n: int, size: int, *, keep_short: bool = True) -> Ints:
    """Return offsets of consecutive groups of `size`; a short last group is kept or dropped."""
    offsets = np.arange(0, n + 1, size)
    return np.append(offsets, n) if keep_short and n % size else offsets


def whole_batches(size: int) -> int:
    """Return how many samples to plan at once in whole batches of `size`; at least one batch."""
    return size * max(1, _AT_ONCE // size)


def cut_by_budget(
    lengths: Ints, budget: int, max_samples: int | None, *, keep_short: bool = True
) -> Ints:
    """Return offsets of batches of descending `lengths` (n,), each with size × longest within the
    budget.

    A sample above the budget is alone in its batch. The longest comes first, so a batch's size is
    one division (infinibatch's BucketedReadaheadBatchIterator with a callable size).
    """
    n = len(lengths)
    offsets = [0]
    while (first := offsets[-1]) < n:
        size = max(1, budget // max(1, lengths.item(first)))
        end = first + (size if max_samples is None else min(size, max_samples))
        if end > n and not keep_short:
            break
        offsets.append(min(end, n))
    return np.array(offsets)


def one_sample_a_row(
    order: Ints,
    lengths: Ints,
    batch_offsets: Ints,
    widths: Ints,
    shuffle: np.random.Generator | None = None,
) -> BatchPlan:
    """Return the plan whose rows are the samples of `order`; samples after the last offset are
    dropped.

    With `shuffle`, its batches come in random order.
    """
    n = int(batch_offsets[-1])
    if shuffle is None:
        order, lengths = order[:n], lengths[:n]
    else:
        sequence = shuffle.permutation(len(widths))
        batch_offsets, taken = gather_groups(batch_offsets, sequence)
        order, lengths, widths = order[taken], lengths[taken], widths[sequence]
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
