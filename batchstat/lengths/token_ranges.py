"""`TokenRanges`: which tokens of samples are of a kind, such as those that carry loss."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes, sum_groups

KINDS = ("trained",)  # kinds of tokens that a profile may know beside all tokens: a column each


@dataclass(frozen=True, eq=False)
class TokenRanges:
    """The tokens of n samples that are of one kind, as ranges of positions in their samples: these
    still say how many are left where a sample is truncated or split later.
    """

    edges: Ints  # (m,) where ranges begin and end, in turn: [2, 5, 7, 8] are tokens 2, 3, 4, 7
    offsets: Ints  # (n + 1,) sample i has edges[offsets[i] : offsets[i + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of_mask(cls, mask: npt.NDArray[np.bool_], offsets: Ints) -> "TokenRanges":
        """Build ranges of a mask: 0 1 1 | 1 0, offsets [0, 3, 5] give edges [1, 3] and [0, 1]."""
        # (n_tokens,) whether each is the first token of a range, and whether it is the last.
        is_first, is_last = mask.copy(), mask.copy()
        is_first[1:] &= ~mask[:-1]
        is_last[:-1] &= ~mask[1:]
        # The first and the last token of a sample, too: no range goes on into another sample.
        borders = offsets[(offsets > 0) & (offsets < len(mask))]
        is_first[borders] |= mask[borders]
        is_last[borders - 1] |= mask[borders - 1]
        # (n_ranges,) the first and the last token of each range, as positions in the mask.
        first, last = np.flatnonzero(is_first), np.flatnonzero(is_last)
        # Sample i has the ranges range_offsets[i] : range_offsets[i + 1].
        range_offsets = np.searchsorted(first, offsets)
        # Positions in a sample are counted from its start; each range has two edges.
        start = np.repeat(offsets[:-1], np.diff(range_offsets))
        edges = np.stack([first - start, last + 1 - start], axis=1).reshape(-1)
        return cls(edges, 2 * range_offsets)

    @classmethod
    def of_last(cls, lengths: Ints, counts: Ints) -> "TokenRanges":
        """Build ranges of the last tokens: lengths [5, 4] and counts [2, 0] give edges [3, 5]."""
        has_range = counts > 0
        ends = lengths[has_range]
        edges = np.stack([ends - counts[has_range], ends], axis=1).reshape(-1)
        return cls(edges, offsets_from_sizes(2 * has_range))

    @classmethod
    def of_counts(cls, counts: Ints) -> "TokenRanges":
        """Build ranges of `counts[i]` tokens of each sample, where only their number is known:
        those after the first, which carries no loss; they may end one token behind the sample.
        """
        # Each sample has one range, [1, count + 1].
        edges = np.stack([np.ones_like(counts), counts + 1], axis=1).reshape(-1)
        return cls(edges, np.arange(len(counts) + 1) * 2)

    @classmethod
    def concatenate(cls, parts: Sequence["TokenRanges"]) -> "TokenRanges":
        """Return the ranges of the samples of all parts, one part after another."""
        empty = np.zeros(0, dtype=np.int64)  # np.concatenate raises without any array
        return cls(
            np.concatenate([empty, *(part.edges for part in parts)]),
            offsets_from_sizes(np.concatenate([empty, *(np.diff(part.offsets) for part in parts)])),
        )

    def take(self, samples: Ints) -> "TokenRanges":
        """Return the ranges of the samples at these positions, in this order."""
        offsets, edges = gather_groups(self.offsets, samples)
        return TokenRanges(self.edges[edges], offsets)

    def since(self, starts: Ints) -> "TokenRanges":
        """Return the ranges from token `starts[i]` on: [1, 3, 4, 6] from 2 -> [0, 1, 2, 4]."""
        moved = np.maximum(self.edges - np.repeat(starts, np.diff(self.offsets)), 0)
        # Both edges of a range that was removed completely are 0 now: drop the two.
        stays = np.repeat(moved[1::2] > moved[::2], 2)
        # n_staying[k] is how many of the first k edges stay.
        n_staying = offsets_from_sizes(stays.astype(np.int64))
        return TokenRanges(moved[stays], n_staying[self.offsets])

    def fits(self, lengths: Ints) -> bool:
        """Return whether ranges of a file ascend, and lie in samples of (n,) `lengths` tokens."""
        sizes = np.diff(self.offsets)  # edges of each sample
        # The number of samples is another one, or a range has no end.
        if len(sizes) != len(lengths) or (sizes % 2).any():
            return False
        sample = np.repeat(np.arange(len(lengths)), sizes)
        # After an edge comes a larger position, or an edge of a later sample.
        ascends = (np.diff(self.edges) > 0) | (np.diff(sample) > 0)
        inside = (self.edges >= 0) & (self.edges <= np.repeat(lengths, sizes))
        return bool(ascends.all() and inside.all())

    def ranges(self) -> Iterator[list[tuple[int, int]]]:
        """Yield the ranges of each sample, a list of (first token, one past the last token)."""
        pairs = list(zip(self.edges[::2].tolist(), self.edges[1::2].tolist(), strict=True))
        # A range has two edges, so halves of the offsets are those of ranges.
        for first, end in pairwise((self.offsets // 2).tolist()):
            yield pairs[first:end]

    def counts(self, starts: Ints | int = 0, stops: Ints | int | None = None) -> Ints:
        """Return (n,) tokens of the kind from `starts` to before `stops`, (n,) each or for all."""
        # Sample i has the ranges range_offsets[i] : range_offsets[i + 1].
        range_offsets = self.offsets // 2
        n_ranges = np.diff(range_offsets)
        first, end = self.edges[::2], self.edges[1::2]
        # Cut each range to its sample's part; one outside ends before it begins: it counts 0.
        if stops is not None:
            end = np.minimum(end, np.repeat(stops, n_ranges) if np.ndim(stops) else stops)
        first = np.maximum(first, np.repeat(starts, n_ranges) if np.ndim(starts) else starts)
        return sum_groups(np.maximum(end - first, 0), range_offsets)
