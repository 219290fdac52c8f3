"""Distribution across ranks: batches or samples in turn, consecutive chunks, or similar costs."""

import numpy as np

from batchstat.lengths.arrays import Ints

REPEATING = ("repeat", "fill")  # remainders that repeat what came first
BALANCED_TURNS = 64  # turns sorted together by cost; not all, so that their order is random


def round_robin(n: int, world_size: int, remainder: str) -> Ints:
    """Distribute 0 … n − 1 over the ranks in turn. Returns (n_turns, world_size), −1 where a rank
    has none. 5 items and 2 ranks give [[0, 1], [2, 3], [4, 0]] with `repeat`, [[0, 1], [2, 3]] with
    `drop`, and [[0, 1], [2, 3], [4, −1]] with `uneven`. An incomplete last turn is filled from the
    start again, repeatedly if n is below `world_size` (`repeat`, as in torch's DistributedSampler;
    `fill`), dropped (`drop`), or left as it is (`uneven`, `dummy`; also `spread`).
    """
    remaining = n % world_size
    if remaining == 0 or remainder == "drop":
        return np.arange(n - remaining).reshape(-1, world_size)
    missing = world_size - remaining
    filling = np.arange(missing) % n if remainder in REPEATING else np.full(missing, -1)
    return np.concatenate([np.arange(n), filling]).reshape(-1, world_size)


def contiguous(n: int, world_size: int, remainder: str) -> list[Ints]:
    """Split 0 … n − 1 into consecutive parts, one per rank, whose sizes differ by at most 1: 5 on 2
    ranks are [0, 1, 2] and [3, 4], with `repeat` [3, 4, 3], with `drop` [0, 1] and [3, 4]. The
    first parts are the larger ones, as in infinibatch's ChunkedSourceIterator. A smaller part is
    filled from its own start (`repeat`), or the larger ones are shortened (`drop`).
    """
    parts: list[Ints] = np.array_split(np.arange(n), world_size)
    if remainder == "drop":
        return [part[: n // world_size] for part in parts]
    if remainder not in REPEATING or n % world_size == 0:
        return parts
    # With fewer items than ranks, the last parts are empty, and are filled from the first item.
    size = len(parts[0])
    return [np.resize(part, size) if len(part) else np.arange(size) % n for part in parts]


def balance_turns(turns: Ints, costs: Ints, rng: np.random.Generator) -> Ints:
    """Move items between `turns` (n_turns, world_size), overwritten and returned, so that the ranks
    of a turn have about the same cost, of (n,) `costs`. Every 64 turns, items are sorted by cost
    and distributed in that order; then the turns are shuffled. An incomplete turn stays the last.
    """
    for first in range(0, len(turns), BALANCED_TURNS):
        window = turns[first : first + BALANCED_TURNS]
        items = window.ravel()
        # A rank without an item costs less than any, so that an incomplete turn comes last.
        costs_of_items = np.where(items < 0, -1, costs[items])
        ordered = items[np.argsort(-costs_of_items, kind="stable")].reshape(window.shape)
        n_full = len(window) - int((window < 0).any())
        ordered[:n_full] = ordered[rng.permutation(n_full)]
        turns[first : first + BALANCED_TURNS] = ordered
    return turns
