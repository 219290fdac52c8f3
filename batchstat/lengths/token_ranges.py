"""`TokenRanges`: which tokens of samples are of a kind, such as those that carry loss."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes

KINDS = ("trained",)
"""Kinds of tokens that a profile may know beside all tokens: a column each."""


@dataclass(frozen=True, eq=False)
class TokenRanges:
    """Those tokens of n samples that are of one kind, as ranges of positions.

    Ranges, not numbers, so that what is left of a sample after `max_length`, or of one of its
    parts, has an exact number of its own.

    Attributes:
        edges: (m,) in each sample, where ranges begin and end, in turn and ascending.
        offsets: (n + 1,) sample i has edges[offsets[i] : offsets[i + 1]].
    """

    edges: Ints
    offsets: Ints

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.offsets) - 1

    @classmethod
    def of_mask(cls, mask: npt.NDArray[np.bool_], offsets: Ints) -> "TokenRanges":
        """Build from a mask of all tokens, whose samples are laid end to end.

        Args:
            mask: (n_tokens,) whether each carries loss.
            offsets: (n + 1,) sample i has mask[offsets[i] : offsets[i + 1]].
        """
        begins, ends = mask.copy(), mask.copy()
        begins[1:] &= ~mask[:-1]
        ends[:-1] &= ~mask[1:]
        # A range ends with its sample.
        inner = offsets[(offsets > 0) & (offsets < len(mask))]
        begins[inner] |= mask[inner]
        ends[inner - 1] |= mask[inner - 1]
        first, last = np.flatnonzero(begins), np.flatnonzero(ends)
        ranges = np.searchsorted(first, offsets)
        start = np.repeat(offsets[:-1], np.diff(ranges))
        edges = np.stack([first - start, last + 1 - start], axis=1).reshape(-1)
        return cls(edges, 2 * ranges)

    @classmethod
    def of_last(cls, lengths: Ints, counts: Ints) -> "TokenRanges":
        """Build ranges in which the last n tokens of each sample carry loss.

        Args:
            lengths: (n,) tokens of each sample.
            counts: (n,) trained tokens of each, at most its length.
        """
        has_range = counts > 0
        ends = lengths[has_range]
        edges = np.stack([ends - counts[has_range], ends], axis=1).reshape(-1)
        return cls(edges, offsets_from_sizes(2 * has_range))

    @classmethod
    def of_counts(cls, counts: Ints) -> "TokenRanges":
        """Return as many tokens of each sample, from its second one on: the first never counts, and
        labels that stand where they are predicted may have one for every token.

        Args:
            counts: (n,) tokens of each.
        """
        edges = np.stack([np.ones_like(counts), counts + 1], axis=1).reshape(-1)
        return cls(edges, np.arange(len(counts) + 1) * 2)

    @classmethod
    def concatenate(cls, parts: Sequence["TokenRanges"]) -> "TokenRanges":
        """Concatenate samples."""
        none = np.zeros(0, dtype=np.int64)
        return cls(
            np.concatenate([none, *(part.edges for part in parts)]),
            offsets_from_sizes(np.concatenate([none, *(np.diff(part.offsets) for part in parts)])),
        )

    def take(self, samples: Ints) -> "TokenRanges":
        """Return those of these samples, in this order."""
        offsets, edges = gather_groups(self.offsets, samples)
        return TokenRanges(self.edges[edges], offsets)

    def since(self, starts: Ints) -> "TokenRanges":
        """Return those of the tokens from `starts` (n,) on, whose positions count from there."""
        moved = np.maximum(self.edges - np.repeat(starts, np.diff(self.offsets)), 0)
        held = np.repeat(moved[1::2] > moved[::2], 2)
        return TokenRanges(moved[held], offsets_from_sizes(held.astype(np.int64))[self.offsets])

    def fits(self, lengths: Ints) -> bool:
        """Return whether the ranges ascend, and lie in samples of these lengths (n,)."""
        sizes = np.diff(self.offsets)
        if len(sizes) != len(lengths) or (sizes % 2).any():
            return False
        sample = np.repeat(np.arange(len(lengths)), sizes)
        ascends = (np.diff(self.edges) > 0) | (np.diff(sample) > 0)
        inside = (self.edges >= 0) & (self.edges <= np.repeat(lengths, sizes))
        return bool(ascends.all() and inside.all())

    def ranges(self) -> Iterator[list[tuple[int, int]]]:
        """Yield the ranges of each sample: the first token of each, and the one after its last."""
        pairs = list(zip(self.edges[::2].tolist(), self.edges[1::2].tolist(), strict=True))
        for first, end in pairwise((self.offsets // 2).tolist()):
            yield pairs[first:end]

    def counts(self, starts: Ints | int = 0, stops: Ints | int | None = None) -> Ints:
        """Return (n,) trained tokens of each sample, or of a part of it.

        Args:
            starts: (n,) first token of each part, or one number for all.
            stops: (n,) one past its last token; None for the end.
        """
        ranges = self.offsets // 2
        sizes = np.diff(ranges)
        first, last = self.edges[::2], self.edges[1::2]
        if stops is not None:
            last = np.minimum(last, np.repeat(stops, sizes) if np.ndim(stops) else stops)
        first = np.maximum(first, np.repeat(starts, sizes) if np.ndim(starts) else starts)
        ends = offsets_from_sizes(np.maximum(last - first, 0))
        trained: Ints = ends[ranges[1:]] - ends[ranges[:-1]]
        return trained
