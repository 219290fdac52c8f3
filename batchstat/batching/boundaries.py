"""`boundaries`: buckets with fixed upper edges."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from batchstat.batching.cutting import (
    cut_by_budget,
    cut_every,
    longest_of_each,
    one_sample_a_row,
    round_up,
    shuffled,
)
from batchstat.batching.edges import check_edges, optimal_edges
from batchstat.batching.plan import BatchPlan, Ints, Window
from batchstat.batching.strategy import Strategy
from batchstat.errors import InputError
from batchstat.options import one_of

PADS = ("longest", "edge")
LEFTOVERS = ("keep", "merge", "drop")


@dataclass(frozen=True, kw_only=True)
class Boundaries(Strategy):
    """Samples in buckets by length, each bucket cut into batches in the order's sequence.

    Bucket i holds lengths above edge i - 1 up to edge i. A batch takes `tokens_per_batch` // edge
    samples, at least 1, and is padded to its longest, or to the `edge`. What a bucket has left at
    the end of the window is a short batch (`keep`), is left out (`drop`), or is batched with what
    the shorter buckets have left, from the longest down, never over the budget (`merge`, as in
    fairseq2). Without `boundaries` there are `buckets` with the edges that pad least.
    """

    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)

    tokens_per_batch: int
    boundaries: tuple[int, ...] = ()
    buckets: int = 8
    pad: str = "longest"
    leftovers: str = "keep"
    read_ahead: int | None = None
    shuffle_batches: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("pad", self.pad, PADS)
        one_of("leftovers", self.leftovers, LEFTOVERS)
        check_edges("boundaries", self.boundaries)

    def plan(self, window: Window) -> BatchPlan:
        """Sorted into buckets, cut, shuffled.

        Raises:
            InputError: a sample is longer than the last edge.
        """
        edges = np.array(self._edges(window.lengths))
        longest = window.lengths.max(initial=0)
        if longest > edges[-1]:
            raise InputError(
                f"boundaries: a sample of {longest:,} tokens is above the last edge {edges[-1]:,}: "
                "add an edge, or cut samples with the --max-length of all strategies"
            )
        padded = round_up(edges, self.pad_to_multiple_of)
        bucket = np.searchsorted(edges, window.lengths)
        order = np.argsort(-bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=len(edges))[::-1])
        parts, left = [], []
        for i, (first, last) in enumerate(pairwise([0, *ends.tolist()])):
            size = max(1, self.tokens_per_batch // int(padded[-1 - i]))
            whole = first + (last - first) // size * size
            parts.append(first + cut_every(whole - first, size))
            left.append(np.arange(whole, last))
        whole = np.concatenate([np.arange(part[0], part[-1]) for part in parts])
        rest = order[np.concatenate(left)]
        sizes = [*map(np.diff, parts), self._leftovers(bucket[rest], padded, last=window.last)]
        order = np.concatenate([order[whole], rest])
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        of = padded[bucket] if self.pad == "edge" else window.lengths
        widths = round_up(longest_of_each(of[order], offsets), self.pad_to_multiple_of)
        plan = one_sample_a_row(order, window.lengths[order], offsets, widths)
        return shuffled(plan, window) if self.shuffle_batches else plan

    def _leftovers(self, buckets: Ints, padded: Ints, *, last: bool) -> Ints:
        """How many of what is left, by falling bucket, share a batch; less what is left out."""
        if self.leftovers == "drop":
            return buckets[:0]
        keep_short = not (self.drop_last and last)
        if self.leftovers == "merge":
            widths = padded[buckets]
            cut = cut_by_budget(widths, self.tokens_per_batch, None, keep_short=keep_short)
            return np.diff(cut)
        sizes: Ints = np.unique(-buckets, return_counts=True)[1]
        return sizes if keep_short else sizes[:-1]

    def _edges(self, lengths: Ints) -> tuple[int, ...]:
        if self.boundaries:
            return self.boundaries
        return optimal_edges(np.maximum(lengths, 1), self.buckets, multiple=self.pad_to_multiple_of)
