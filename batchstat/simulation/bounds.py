"""What padding and numbers of batches are compared to."""

from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.lengths.exact import wide
from batchstat.lengths.stats import LengthStats


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Lower bounds for the lengths of one epoch, and what sorting all of it gives.

    Sorting is no lower bound: batches cut in other places can pad a little less.

    Attributes:
        batches: real tokens / `tokens_per_batch`, rounded up.
        packed_rows: no packing into rows of `max_length` has fewer.
        sorted_strategy: the whole epoch sorted and cut as the best row is: by its own batch size
            or budget.
        sorted_batches: of that strategy.
        sorted_padding_tokens: its padding.
        sorted_total_tokens: its total tokens.
    """

    batches: int
    packed_rows: int
    sorted_strategy: str
    sorted_batches: int
    sorted_padding_tokens: int
    sorted_total_tokens: int

    @property
    def sorted_padding_ratio(self) -> float:
        """Padding tokens / total tokens of the epoch sorted."""
        return self.sorted_padding_tokens / self.sorted_total_tokens


def least_rows(stats: LengthStats, capacity: int) -> int:
    """How many rows of `capacity` tokens these lengths need at least; none of them is longer.

    For each k up to half the capacity: lengths above capacity − k have a row alone, the other ones
    above half have a row each, and those from k up to half go into the room that these leave, or
    need more rows. Source: Martello and Toth's bound L2 for bin packing (1990).
    """
    values, counts = stats.values, wide(stats.counts, stats.count * capacity)
    samples = offsets_from_sizes(counts)
    tokens = offsets_from_sizes(values * counts)
    half = np.searchsorted(values, capacity // 2, side="right")
    k = np.append(values[:half], 0)
    small = np.searchsorted(values, k)
    alone = np.maximum(np.searchsorted(values, capacity - k, side="right"), half)
    rows = samples[-1] - samples[half]
    room = (samples[alone] - samples[half]) * capacity - (tokens[alone] - tokens[half])
    beyond = np.maximum(tokens[half] - tokens[small] - room, 0)
    return max(1, int((rows - (-beyond // capacity)).max()))
