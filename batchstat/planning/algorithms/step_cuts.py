"""Optimizer steps cut into batches of similar lengths, many steps at once. A step's samples are
sorted, longest first, and a batch is consecutive ones: two batches whose lengths overlap can swap
samples until they do not, and no row of either gets wider.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from batchstat.lengths.arrays import Floats, Ints

_SLACK = (1.0, 1.15)
"""Targets tried, as multiples of the least with which the batches suffice. With a larger one the
last batches are single short samples: what goes beside a very long sample.
"""
_NEAR = 1 / 32  # how near to the least target is near enough where others are tried, too
_ENTRIES = 1 << 18  # numbers in the tables of `_cheapest`, which stay in the processor's cache
_EXACT = 512
"""Sums per sample up to which the cheapest cut is searched for among all; a microsecond or two for
each sample. Above it, batches begin only at every second, third, … sample.
"""


@dataclass(frozen=True, eq=False)
class SortedSteps:
    """Steps side by side, the samples of each sorted longest first."""

    # (n_steps, n) cost of a row that is as wide as each sample, above 0 and falling along a step;
    # whatever follows a step's own samples counts for nothing.
    costs: Floats
    # (n_steps, n) rows that a batch may have from each sample on, 1 or more; rising along a step.
    most_rows: Ints
    sizes: Ints  # (n_steps,) samples of each step

    @cached_property
    def firsts(self) -> Ints:
        """(n_steps,) where each step begins in the flat arrays."""
        firsts: Ints = np.arange(len(self.sizes)) * self.costs.shape[1]
        return firsts

    def take(self, steps: Ints) -> SortedSteps:
        """Return some of the steps."""
        return SortedSteps(self.costs[steps], self.most_rows[steps], self.sizes[steps])

    def batch_costs(self, offsets: Ints) -> Floats:
        """Return (n_steps, n_batches) rows × cost of the longest, of batches at these offsets."""
        costs: Floats = np.take_along_axis(self.costs, offsets[:, :-1], axis=1)
        costs *= np.diff(offsets, axis=1)
        return costs


def cuts_by_targets(steps: SortedSteps, n_batches: int) -> Iterator[Ints]:
    """Yield cuts of each step into exactly `n_batches`, to choose from: (n_steps, n_batches + 1)
    offsets of each. Every step has at least as many samples as batches, and fits into them.
    """
    for falling in (False, True):
        least = least_targets(steps, n_batches, falling=falling, near=_NEAR)
        for slack in _SLACK:
            yield cut_by_target(steps, n_batches, least * slack, falling=falling)


def cut_by_target(
    steps: SortedSteps, n_batches: int, targets: Floats, *, falling: bool = False
) -> Ints:
    """Cut each step from its longest sample on. A batch takes rows while their cost is within its
    target, but leaves a sample for each batch that follows. Returns (n_steps, n_batches + 1)
    offsets, which end before the last sample where the batches do not suffice. `targets` (n_steps,)
    are for a batch that begins with the longest sample. If `falling`, the target falls along a
    step, with the square root of what a row costs: small batches go beside the largest.
    """
    costs, most_rows = steps.costs.ravel(), steps.most_rows.ravel()
    # A square root, unlike other powers, has the same last bit on every machine.
    scale = np.sqrt(steps.costs / steps.costs[:, :1]).ravel() if falling else None
    last = steps.firsts + steps.sizes - 1
    end = steps.firsts + steps.sizes
    begin = steps.firsts
    edges = [begin]
    for n_after in range(n_batches - 1, -1, -1):
        # A step whose samples are all taken points at its last one, and takes no more.
        at = np.minimum(begin, last)
        scaled = targets if scale is None else targets * scale.take(at)
        # Rounded down, by a division and a cast: `//` of floats takes several times as long, and of
        # whole numbers below 2^53 no quotient rounds up to the next.
        rows = np.minimum(scaled / costs.take(at), most_rows.take(at)).astype(np.int64)
        begin = np.minimum(begin + np.maximum(rows, 1), end - n_after)
        edges.append(begin)
    return np.stack(edges, axis=1) - steps.firsts[:, None]


def least_targets(
    steps: SortedSteps, n_batches: int, *, falling: bool = False, near: float = 0.0
) -> Floats:
    """Return (n_steps,) the least target with which `n_batches` suffice, by bisection, or one that
    is at most a share `near` above it. Unless targets fall, it makes the largest batch as small as
    it can be: a batch costs more only where it is a single sample.
    """
    low = np.zeros(len(steps.sizes))
    # With this target, batches hold equally many samples or more, unless that is more than they may
    # have; with the other, all that they may have.
    equal = steps.costs[:, 0] * -(-steps.sizes // n_batches)
    suffices = cut_by_target(steps, n_batches, equal, falling=falling)[:, -1] == steps.sizes
    high = np.where(suffices, equal, steps.costs[:, 0] * steps.sizes)
    while True:
        middle = np.floor((low + high) / 2)
        # Of numbers above 2^53, neighbours are more than 1 apart.
        is_open = (low < middle) & (middle < high) & (high - low > near * high)
        if not is_open.any():
            return high
        suffices = cut_by_target(steps, n_batches, middle, falling=falling)[:, -1] == steps.sizes
        # Of steps that are still open: a step is cut alike, whichever others are beside it.
        low = np.where(is_open & ~suffices, middle, low)
        high = np.where(is_open & suffices, middle, high)


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


def strides(sizes: Ints, n_batches: Ints) -> Ints:
    """Return (n_steps,) how many samples lie between the places at which `cheapest_cuts` lets
    batches begin, for steps of these sizes; 0 where a step has too many batches for it.
    """
    # n_batches × (n / stride)² / 2 sums for the n samples of a step.
    found = np.ceil(np.sqrt(n_batches * sizes / (2 * _EXACT))).astype(np.int64)
    return np.where(sizes < n_batches * found, 0, found)


def cheapest_cuts(steps: SortedSteps, n_batches: int, stride: int) -> Ints:
    """Return the cuts of the least total cost whose batches begin near every `stride`-th sample."""
    n = steps.costs.shape[1]
    at_once = max(1, _ENTRIES // (n // stride + 2) ** 2)
    parts = np.split(np.arange(len(steps.sizes)), range(at_once, len(steps.sizes), at_once))
    return np.concatenate([_cheapest(steps.take(part), n_batches, stride) for part in parts])


def _cheapest(steps: SortedSteps, n_batches: int, stride: int) -> Ints:
    """Return the cheapest cut of each step whose batches begin at every `stride`-th sample."""
    n_steps, n = steps.costs.shape
    each = np.arange(n_steps)
    # Whole numbers that 24 bits hold stay exact in 32, which take half the time of 64.
    is_small = steps.costs.max() * n < 2**24
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
    # Edges are moved twice between the places.
    for _ in range(2 if stride > 1 else 0):
        _move_edges(steps, offsets, stride)
    return offsets


def _move_edges(steps: SortedSteps, offsets: Ints, stride: int) -> None:
    """Move `offsets`, in turn, by less than `stride` samples to where both batches cost least."""
    moves = np.arange(1 - stride, stride)
    costs, most_rows, firsts = steps.costs.ravel(), steps.most_rows.ravel(), steps.firsts
    for k in range(1, offsets.shape[1] - 1):
        begin, end = offsets[:, k - 1, None], offsets[:, k + 1, None]
        edges = np.clip(offsets[:, k, None] + moves, begin + 1, end - 1)
        at_begin, at_edge = firsts[:, None] + begin, firsts[:, None] + edges
        both = (edges - begin) * costs.take(at_begin) + (end - edges) * costs.take(at_edge)
        both[edges - begin > most_rows.take(at_begin)] = np.inf
        both[end - edges > most_rows.take(at_edge)] = np.inf
        best = both.argmin(axis=1)[:, None]
        offsets[:, k] = np.take_along_axis(edges, best, axis=1)[:, 0]
