"""How work reaches the ranks: batches or samples dealt in turn, consecutive parts, like costs."""

import numpy as np

from batchstat.lengths.arrays import Ints

DEALS = ("batches", "samples", "unsynced", "chunks", "balanced")
TAILS = ("repeat", "drop", "uneven", "empty", "spread")

BALANCED_TURNS = 64
"""So many turns are looked at together for like costs."""


def deal_in_turn(n: int, world_size: int, tail: str) -> Ints:
    """(n_turns, world_size) 0 … n − 1 in turn; −1 where a rank has none.

    A last turn that is not full is filled from the start again, several times round where n is
    below `world_size` (`repeat`: torch's DistributedSampler, accelerate's even_batches), left out
    (`drop`), or stays as it is (`uneven`; `empty`; `spread`, where there is no such turn).
    """
    rest = n % world_size
    if rest == 0 or tail == "drop":
        return np.arange(n - rest).reshape(-1, world_size)
    missing = world_size - rest
    filling = np.arange(missing) % n if tail == "repeat" else np.full(missing, -1)
    return np.concatenate([np.arange(n), filling]).reshape(-1, world_size)


def deal_parts(n: int, world_size: int, tail: str) -> list[Ints]:
    """Consecutive parts of 0 … n − 1, one a rank; their sizes differ by 1 at most.

    The first parts are the larger ones, as infinibatch's ChunkedSourceIterator has it. A smaller
    part is filled from its own start (`repeat`), or the larger ones are cut (`drop`).
    """
    parts: list[Ints] = np.array_split(np.arange(n), world_size)
    if tail == "drop":
        return [part[: n // world_size] for part in parts]
    if tail != "repeat" or n % world_size == 0:
        return parts
    size = len(parts[0])
    return [np.resize(part, size) if len(part) else np.arange(size) % n for part in parts]


def deal_balanced(costs: Ints, world_size: int, tail: str, rng: np.random.Generator) -> Ints:
    """As `deal_in_turn`, but what is dealt in one turn costs about the same.

    Within every 64 turns work is sorted by its cost and dealt from there; then these turns are
    shuffled, so that their sequence stays random; one in which a rank has none stays the last.

    Args:
        costs: (n,) of each piece of work.
        world_size: how many ranks.
        tail: see `deal_in_turn`.
        rng: for the sequence of the turns.
    """
    return balance_turns(deal_in_turn(len(costs), world_size, tail), costs, rng)


def balance_turns(turns: Ints, costs: Ints, rng: np.random.Generator) -> Ints:
    """(n_turns, world_size) the same work with like costs in one turn: see `deal_balanced`."""
    for first in range(0, len(turns), BALANCED_TURNS):
        window = turns[first : first + BALANCED_TURNS]
        work = window.ravel()
        known = np.where(work < 0, -1, costs[work])
        ordered = work[np.argsort(-known, kind="stable")].reshape(window.shape)
        full = len(window) - int((window < 0).any())
        ordered[:full] = ordered[rng.permutation(full)]
        turns[first : first + BALANCED_TURNS] = ordered
    return turns
