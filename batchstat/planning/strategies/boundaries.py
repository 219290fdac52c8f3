"""`boundaries`: buckets with fixed upper edges."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from batchstat.lengths.arrays import Ints, expand_ranges, offsets_from_sizes, round_up
from batchstat.parameters import described, parameter
from batchstat.planning.algorithms.bucket_edges import above_last_edge, check_edges, find_edges
from batchstat.planning.algorithms.cutting import cut_by_budget, longest_of_each
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy

PADS: Mapping[str, str] = {
    "longest": "To its longest sample.",
    "edge": "To the edge of the bucket.",
}
LEFTOVERS: Mapping[str, str] = {
    "keep": "It becomes a short batch.",
    "merge": "It is batched with what the shorter buckets have left.",
    "drop": "It is dropped.",
}

_USUAL_BUCKETS = 8  # buckets for which a rule finds edges where nobody says how many


@described(
    """Samples are put into buckets by length; each bucket is cut into batches in order.

    Bucket i holds lengths above edge i - 1 up to edge i; with `exclusive`, as in tf.data, those
    from edge i - 1 to below edge i, except the last bucket, which includes its edge. A batch takes
    `tokens_per_batch` // edge samples, at least 1, and is padded to its longest, or to the `edge`.
    The samples left in a bucket at the end of the window become a short batch (`keep`), are dropped
    (`drop`), or are batched with those left in shorter buckets, from the longest down, never over
    the budget (`merge`, as in fairseq2). Without `boundaries`, a `rule` finds the edges of
    `buckets` buckets (8 unless set, or as many as there are distinct lengths): `optimal`, with the
    least padding, `quantile`, `uniform`, `geometric`, `equal-tokens` (lhotse) or `equal-cost`
    (asym). Unshuffled batches come in the order in which they fill, followed by the leftovers, as
    from tf.data's bucket_by_sequence_length.
    """
)
@dataclass(frozen=True, kw_only=True)
class Boundaries(Strategy):
    in_short: ClassVar[str] = "fixed edges"
    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)
    drops_per: ClassVar[str] = "bucket"

    tokens_per_batch: int
    boundaries: tuple[int, ...] = parameter(
        "Upper edges of the buckets, rising; a rule finds them where none are given.", ()
    )
    buckets: int | None = parameter("How many buckets a rule finds edges for.", None)
    rule: str = parameter(
        "How edges are found where none are given: one of the rules for bucket edges.", "optimal"
    )
    exclusive: bool = parameter(
        "Whether a bucket ends below its edge, as in tf.data, or at it.", False
    )
    pad: str = parameter("To which width a batch of a bucket is padded.", "longest", values=PADS)
    leftovers: str = parameter(
        "What happens to the samples that a bucket has left at the end of a window.",
        "keep",
        values=LEFTOVERS,
    )
    read_ahead: int | None = None
    shuffle_batches: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_edges(self.rule, ("boundaries", self.boundaries), ("buckets", self.buckets))

    @property
    def pads_to_edges(self) -> bool:
        """Whether `pad` is `edge`."""
        return self.pad == "edge"

    def plan(self, window: Window) -> BatchPlan:
        """Sort samples into buckets, cut each bucket into batches, and shuffle these. Raises
        InputError: a sample is longer than the last edge.
        """
        found = self.boundaries
        if not found:
            # `find_edges` raises an error if the lengths have fewer distinct widths than the
            # buckets that are set, but not for the usual number. A window of `read_ahead` samples
            # may have so few: there, `buckets` is passed as the usual number.
            buckets_set = self.buckets if self.read_ahead is None else None
            usual, multiple = self.buckets or _USUAL_BUCKETS, self.pad_to_multiple_of
            found = find_edges(self.rule, window.lengths, ("buckets", buckets_set), usual, multiple)
        edges = np.array(found)
        longest = window.lengths.max(initial=0)
        if longest > edges[-1]:
            raise above_last_edge("boundaries", edges.tolist(), int(longest))
        padded = round_up(edges, self.pad_to_multiple_of)
        # A length that equals an edge belongs to the bucket below it; with `exclusive`, above it.
        side: Literal["left", "right"] = "right" if self.exclusive else "left"
        # With `exclusive`, the last bucket still includes its edge.
        bucket = np.minimum(np.searchsorted(edges, window.lengths, side), len(edges) - 1)
        in_full_batches, full_sizes, left_over = self._cut_full_batches(bucket, padded)
        keep = self.keeps_short(window)
        in_short_batches, short_sizes = self._batch_leftovers(left_over, bucket, padded, keep)
        order = np.concatenate([in_full_batches, in_short_batches])
        offsets = offsets_from_sizes(np.concatenate([full_sizes, short_sizes]))
        if self.pad == "longest":
            return self.batch_rows(window, order, offsets)
        # Padded to what the bucket may hold: its edge, or one below an exclusive edge.
        longest_in_bucket = np.append(edges[:-1] - 1, edges[-1]) if self.exclusive else edges
        # Merged batches have samples of several buckets: the highest edge counts.
        widths = longest_of_each(longest_in_bucket[bucket[order]], offsets)
        return self.batch_rows(window, order, offsets, widths)

    def _cut_full_batches(self, bucket: Ints, padded: Ints) -> tuple[Ints, Ints, Ints]:
        """Cut the full batches of each bucket."""
        # Samples bucket by bucket, each bucket in order: bucket b ends at ends[b].
        by_bucket = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=len(padded)))
        begins_by_bucket, sizes_by_bucket, remaining = [], [], []
        for width, (begin, end) in zip(padded, pairwise([0, *ends.tolist()]), strict=True):
            size = max(1, self.tokens_per_batch // int(width))
            end_of_full = begin + (end - begin) // size * size
            begins_by_bucket.append(np.arange(begin, end_of_full, size))
            sizes_by_bucket.append(np.full(len(begins_by_bucket[-1]), size))
            remaining.append(by_bucket[end_of_full:end])
        # (n_batches,) where each batch begins in `by_bucket`, and its size.
        begins, sizes = np.concatenate(begins_by_bucket), np.concatenate(sizes_by_bucket)
        # A batch is full when its last sample comes, as tf.data emits it: sort by that sample.
        as_filled = np.argsort(by_bucket[begins + sizes - 1])
        _, positions = expand_ranges(begins[as_filled], sizes[as_filled])
        return by_bucket[positions], sizes[as_filled], np.concatenate(remaining)

    def _batch_leftovers(
        self, samples: Ints, bucket: Ints, padded: Ints, keep_short: bool
    ) -> tuple[Ints, Ints]:
        """Return what buckets have left, in order, and sizes of batches: the rest is dropped."""
        if self.leftovers == "drop":
            return samples, np.zeros(0, dtype=np.int64)
        # Longest bucket first: the first sample of a batch says how many the budget holds.
        if self.leftovers == "merge":
            samples = samples[np.argsort(-bucket[samples], kind="stable")]
            widths = padded[bucket[samples]]
            offsets = cut_by_budget(widths, self.tokens_per_batch, None, keep_short=keep_short)
            return samples, np.diff(offsets)
        # One short batch for each bucket that has samples left; `drop_last` drops the last of them.
        sizes: Ints = np.unique(bucket[samples], return_counts=True)[1]
        return samples, sizes if keep_short else sizes[:-1]
