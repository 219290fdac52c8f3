"""Lower bounds and the sorted epoch, to compare padding and numbers of batches with."""

from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.lengths.exact import wide
from batchstat.lengths.stats import LengthStats


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Lower bounds for the lengths of one epoch, and the result of sorting all of it.

    Sorting is not a lower bound: batches cut elsewhere can pad a little less.

    Attributes:
        batches: real tokens / `tokens_per_batch`, rounded up.
        packed_rows: lower bound on the rows of `max_length` that any packing needs.
        sorted_strategy: the strategy that sorts the whole epoch and cuts it as the best row does,
            by its own batch size or budget.
        sorted_batches: batches of that strategy.
        sorted_padding_tokens: its padding tokens.
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
        """Padding tokens / total tokens of the sorted epoch."""
        return self.sorted_padding_tokens / self.sorted_total_tokens


def min_packed_rows(stats: LengthStats, capacity: int) -> int:
    """Return a lower bound on the rows of `capacity` tokens for these lengths, none of them longer.

    For each k up to half the capacity: lengths above capacity − k have a row alone, the others
    above half have a row each, and those from k up to half go into the room these leave, or need
    more rows. Source: Martello and Toth's bound L2 for bin packing (1990).
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
