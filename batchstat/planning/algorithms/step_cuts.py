"""Optimizer steps cut into batches of similar lengths, many steps at once.

A step's samples are sorted, longest first, and a batch is consecutive ones: two batches whose
lengths overlap can swap samples until they do not, and no row of either gets wider.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, sqrt

import numpy as np

from batchstat.lengths.arrays import Floats, Ints

SHAPES = (0.0, 0.5, 1.0)
"""Exponents of a row's cost in the target of its batch: 0 for batches of equal cost, 1 for batches
of equally many samples. Which suits the ranks best differs from step to step: of batches of unlike
cost, small ones go beside the largest.
"""
_SLACK = (1.0, 1.15)
"""Targets tried, as multiples of the least with which the batches suffice. With a larger one the
last batches are single short samples: what goes beside a very long sample.
"""
_NEAR = 1 / 64
"""How near to the least target is near enough where others are tried, too."""
_EXACT = 1024
"""Sums per sample up to which the cheapest cut is searched for among all; a microsecond or two for
each sample. Above it, batches begin only at every second, third, … sample.
"""


@dataclass(frozen=True, eq=False)
class SortedSteps:
    """Steps side by side, the samples of each sorted longest first.

    Attributes:
        costs: (n_steps, n) cost of a row that is as wide as each sample, above 0 and falling along
            a step; whatever follows a step's own samples counts for nothing.
        most_rows: (n_steps, n) rows that a batch may have whose longest sample it is, at least 1;
            rising along a step.
        sizes: (n_steps,) samples of each step.
    """

    costs: Floats
    most_rows: Ints
    sizes: Ints

    @cached_property
    def firsts(self) -> Ints:
        """(n_steps,) where each step begins in the flat arrays."""
        firsts: Ints = np.arange(len(self.sizes)) * self.costs.shape[1]
        return firsts

    def take(self, steps: Ints) -> "SortedSteps":
        """Return some of the steps."""
        return SortedSteps(self.costs[steps], self.most_rows[steps], self.sizes[steps])

    def batch_costs(self, offsets: Ints) -> Floats:
        """Return (n_steps, n_batches) rows × cost of the longest, of batches at these offsets
        (n_steps, n_batches + 1).
        """
        costs: Floats = np.take_along_axis(self.costs, offsets[:, :-1], axis=1)
        costs *= np.diff(offsets, axis=1)
        return costs


def cuts_by_targets(steps: SortedSteps, n_batches: int) -> Iterator[Ints]:
    """Yield cuts of each step into exactly `n_batches`, to choose from: (n_steps, n_batches + 1)
    offsets of each. Every step has at least as many samples as batches, and fits into them.
    """
    for shape in SHAPES:
        least = least_targets(steps, n_batches, shape, near=_NEAR)
        for slack in _SLACK:
            yield cut_by_target(steps, n_batches, least * slack, shape)


def cut_by_target(steps: SortedSteps, n_batches: int, targets: Floats, shape: float = 0.0) -> Ints:
    """Cut each step from its longest sample on. A batch takes rows while their cost is within its
    target, but leaves a sample for each batch that follows.

    Args:
        steps: the steps.
        n_batches: how many batches each gets.
        targets: (n_steps,) the most that a batch costs which begins with the longest sample.
        shape: the target of a batch whose first row costs a share s of the longest is s^shape of
            that.

    Returns:
        (n_steps, n_batches + 1) offsets. They end before the last sample where the batches do not
        suffice.
    """
    costs, most_rows = steps.costs.ravel(), steps.most_rows.ravel()
    scale = None if shape == 0.0 else _power(steps.costs / steps.costs[:, :1], shape).ravel()
    last = steps.firsts + steps.sizes - 1
    end = steps.firsts + steps.sizes
    begin = steps.firsts
    edges = [begin]
    for n_after in range(n_batches - 1, -1, -1):
        # A step whose samples are all taken points at its last one, and takes no more.
        at = np.minimum(begin, last)
        scaled = targets if scale is None else targets * scale.take(at)
        rows = np.minimum(scaled // costs.take(at), most_rows.take(at)).astype(np.int64)
        begin = np.minimum(begin + np.maximum(rows, 1), end - n_after)
        edges.append(begin)
    return np.stack(edges, axis=1) - steps.firsts[:, None]


def _power(shares: Floats, exponent: float) -> Floats:
    """Return numbers to a power of 1/2 or 1. Square roots, unlike other powers, have the same last
    bit on every machine; a cut may depend on it.
    """
    return np.sqrt(shares) if exponent < 1 else shares


def least_targets(
    steps: SortedSteps, n_batches: int, shape: float = 0.0, near: float = 0.0
) -> Floats:
    """Return (n_steps,) the least target with which `n_batches` suffice, by bisection, or one that
    is at most a share `near` above it. With `shape` 0 it makes the largest batch as small as it can
    be: a batch costs more only where it is a single sample.
    """
    low = np.zeros(len(steps.sizes))
    # With this target, batches hold equally many samples or more, unless that is more than they may
    # have; with the other, all that they may have.
    equal = steps.costs[:, 0] * -(-steps.sizes // n_batches)
    suffices = cut_by_target(steps, n_batches, equal, shape)[:, -1] == steps.sizes
    high = np.where(suffices, equal, steps.costs[:, 0] * steps.sizes)
    while True:
        middle = np.floor((low + high) / 2)
        # Of numbers above 2^53, neighbours are more than 1 apart.
        is_open = (low < middle) & (middle < high) & (high - low > near * high)
        if not is_open.any():
            return high
        suffices = cut_by_target(steps, n_batches, middle, shape)[:, -1] == steps.sizes
        low, high = np.where(suffices, low, middle), np.where(suffices, middle, high)


def fitting(steps: SortedSteps, n_batches: int, widths: Floats) -> SortedSteps:
    """Return the steps with more rows per batch where `n_batches` do not hold a step: as many as in
    the cut whose largest batch has the fewest tokens. `widths` are (n_steps, n) tokens of rows.
    """
    # With these targets, a batch has as many rows as it may have.
    whole = steps.costs[:, 0] * steps.sizes
    lacking = np.flatnonzero(cut_by_target(steps, n_batches, whole)[:, -1] < steps.sizes)
    if len(lacking) == 0:
        return steps
    widths, most_rows = widths[lacking], steps.most_rows.copy()
    n = widths.shape[1]
    of_tokens = SortedSteps(widths, np.full(widths.shape, n), steps.sizes[lacking])
    largest = least_targets(of_tokens, n_batches)
    most_rows[lacking] = np.maximum(most_rows[lacking], largest[:, None] // widths)
    return replace(steps, most_rows=most_rows)


def cheapest_cuts(steps: SortedSteps, n_batches: int) -> Ints | None:
    """Return (n_steps, n_batches + 1) offsets of the cuts of the least total cost, by dynamic
    programming; None where a step has too many batches for that.
    """
    n = steps.costs.shape[1]
    # n_batches × (n / stride)² / 2 sums for the n samples of a step.
    stride = max(1, ceil(sqrt(n_batches * n / (2 * _EXACT))))
    if steps.sizes.min() < n_batches * stride:
        return None
    at_once = max(1, _ENTRIES // (n // stride + 2) ** 2)
    parts = np.split(np.arange(len(steps.sizes)), range(at_once, len(steps.sizes), at_once))
    return np.concatenate([_cheapest(steps.take(part), n_batches, stride) for part in parts])


_WHOLE_IN_32_BITS = 2**24
_ENTRIES = 1 << 18
"""Numbers in the tables of `_cheapest`, which stay in the processor's cache."""


def _cheapest(steps: SortedSteps, n_batches: int, stride: int) -> Ints:
    """Return the cheapest cut of each step whose batches begin at every `stride`-th sample."""
    n_steps, n = steps.costs.shape
    each = np.arange(n_steps)
    # Whole numbers that 24 bits hold stay exact in 32, which take half the time of 64.
    is_small = steps.costs.max() * n < _WHOLE_IN_32_BITS
    kind = np.float32 if is_small else np.float64
    n_places = -(-n // stride) + 1
    # (n_steps, n_places) the sample at each place; the last place of a step is its end.
    begins = np.minimum(np.arange(n_places) * stride, steps.sizes[:, None])
    at_begin = np.minimum(begins, n - 1)
    # (n_steps, to, from) the cost of a batch between two places; endless where it may not be.
    rows = (begins[:, :, None] - begins[:, None, :]).astype(kind)
    costs = rows * np.take_along_axis(steps.costs, at_begin, axis=1).astype(kind)[:, None, :]
    most_rows = np.take_along_axis(steps.most_rows, at_begin, axis=1)[:, None, :]
    costs[(rows <= 0) | (rows > most_rows)] = np.inf
    # Element k: (n_steps, n_places) the least cost of k batches up to each place.
    least = [np.full((n_steps, n_places), np.inf, dtype=kind) for _ in range(n_batches + 1)]
    least[0][:, 0] = 0.0
    for k in range(1, n_batches + 1):
        # Each batch takes a place at least: before the k-th lie k − 1, after it as many as follow.
        last = n_places - (n_batches - k)
        sums = costs[:, k:last, k - 1 : last - 1] + least[k - 1][:, None, k - 1 : last - 1]
        sums.min(axis=2, out=least[k][:, k:last])
    offsets = np.zeros((n_steps, n_batches + 1), dtype=np.int64)
    place = -(-steps.sizes // stride)
    for k in range(n_batches, 0, -1):
        offsets[:, k] = begins[each, place]
        place = (costs[each, place] + least[k - 1]).argmin(axis=1)
    return offsets
