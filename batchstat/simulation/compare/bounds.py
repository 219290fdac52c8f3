"""A lower bound on packed rows."""

import numpy as np

from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.lengths.exact import wide
from batchstat.lengths.stats import LengthStats


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
