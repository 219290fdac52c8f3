"""Rules by which people choose the upper edges of buckets, beside the edges that pad least."""

from collections.abc import Callable, Mapping

import numpy as np

from batchstat.batching.edges import Cost, check_edges, each_optimal_edges
from batchstat.batching.plan import Ints
from batchstat.errors import InputError, OptionError
from batchstat.options import one_of

Rule = Callable[[Ints, Ints, int, Cost], Ints]
"""(n_distinct,) lengths that occur, rising, each at least 1; (n_distinct,) how often each does; how
many buckets; the cost of a row as wide as an edge. Returns edges that rise, the last at or above
the longest. A rule may find fewer than were asked for.
"""

_TRIALS, _STEPS_A_LENGTH = 100, 2
_MOST_CANDIDATES = 1_000


def find_edges(
    rule: str, lengths: Ints, wanted: tuple[str, int | None], usual: int, multiple: int = 1
) -> tuple[int, ...]:
    """Edges by one of `RULES`, for as many buckets as are wanted.

    Args:
        rule: its name.
        lengths: (n,) tokens a sample, n at least 1.
        wanted: the parameter that says how many, and its value; None for `usual`, or fewer where
            the lengths differ less.
        usual: see `wanted`.
        multiple: lengths are rounded up to a multiple of this many tokens.

    Raises:
        InputError: more buckets than there are different widths.
    """
    rounded = -(-np.maximum(lengths, 1) // multiple) * multiple
    values, counts = np.unique(rounded, return_counts=True)
    name, buckets = wanted
    check_buckets(name, buckets, len(values))
    found = RULES[rule](values, counts, buckets or min(usual, len(values)), int)
    return tuple(np.unique(-(-found // multiple) * multiple).tolist())


def check_choice(
    rule: str, edges: tuple[str, tuple[int, ...]], number: tuple[str, int | None]
) -> None:
    """Raises OptionError: an unknown rule, edges that do not rise, or these and their number."""
    one_of("rule", rule, RULES)
    check_edges(*edges)
    if edges[1] and number[1] is not None:
        raise OptionError(f"{edges[0]} and {number[0]} exclude each other: give one")


def check_buckets(name: str, buckets: int | None, different: int) -> None:
    """Raises InputError: more `buckets` than there are `different` widths."""
    if buckets is not None and buckets > different:
        raise InputError(
            f"{name}={buckets}: the lengths make {different:,} different "
            f"{'width' if different == 1 else 'widths'}: ask for {different:,} at most"
        )


def _optimal(values: Ints, counts: Ints, buckets: int, cost: Cost) -> Ints:
    """The edges that pad least, or cost least."""
    return np.array(list(each_optimal_edges(values, counts, buckets, cost=cost))[-1])


def _quantile(values: Ints, counts: Ints, buckets: int, _: Cost) -> Ints:
    """As many samples in each bucket."""
    upto = np.cumsum(counts)
    ranks = -(-int(upto[-1]) * np.arange(1, buckets + 1) // buckets)
    edges: Ints = np.unique(values[np.searchsorted(upto, ranks)])
    return edges


def _uniform(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    """Edges at equal distances from 0 to the longest."""
    longest = int(values[-1])
    return np.unique(-(-longest * np.arange(1, buckets + 1) // buckets))


def _geometric(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    """Each edge is as many times the one before it, from the shortest to the longest."""
    shortest, longest = int(values[0]), int(values[-1])
    growing = shortest * (longest / shortest) ** (np.arange(1, buckets) / buckets)
    edges: Ints = np.unique(np.append(np.ceil(growing).astype(np.int64), longest))
    return edges[edges <= longest]


def _equal_tokens(values: Ints, counts: Ints, buckets: int, _: Cost) -> Ints:
    """Walks the lengths upwards and cuts where a bucket has more than its share of all tokens.

    Source: lhotse's estimate_duration_buckets, which can return the same edge twice, or fewer.
    """
    upto = np.concatenate([[0], np.cumsum(values.astype(np.int64) * counts)])
    share = upto[-1] / buckets
    edges, taken = [], 0
    while taken + share < upto[-1]:
        group = int(np.searchsorted(upto, taken + share, side="right")) - 1
        value = int(values[group])
        needed = int((taken + share - int(upto[group])) // value) + 1
        taken = int(upto[group]) + needed * value
        if needed == counts[group]:  # all of this length: the next one begins a bucket
            group += 1
        if group == len(values):
            break
        edges.append(int(values[group]))
    return np.unique([*edges, int(values[-1])])


def _equal_cost(values: Ints, counts: Ints, buckets: int, cost: Cost) -> Ints:
    """Thresholds between which samples cost about the same: a hill climb from random ones.

    Samples cost what the upper edge of their bucket does. Where the costs of two neighbours differ
    most, the threshold between them moves to the next length; a climb ends where it would go on
    for ever, leave the lengths, or close a bucket. The best of a hundred climbs counts; their
    randomness is fixed, so that equal lengths have equal edges. Of more than a thousand different
    lengths a thousand are tried. Source: asym's find_thresholds, which is not seeded.
    """
    if len(values) <= buckets:
        return values
    if buckets == 1:
        return values[-1:]
    before = np.concatenate([[0], np.cumsum(counts)])
    if len(values) > _MOST_CANDIDATES:
        tried = np.linspace(0, len(values) - 1, max(_MOST_CANDIDATES, buckets + 1)).astype(np.int64)
        values, before = values[tried], np.concatenate([[0], before[tried + 1]])
    costs = np.array([cost(int(value)) for value in values], dtype=np.float64)
    rng = np.random.default_rng(0)
    places = np.argsort(rng.random((_TRIALS, len(values) - 1)), axis=1)[:, : buckets - 1]
    at = np.sort(places, axis=1)
    best, best_gap = at[0].copy(), np.inf
    earlier = np.full_like(at, -1)
    for _ in range(_STEPS_A_LENGTH * len(values)):
        ends = np.hstack([at, np.full((len(at), 1), len(values) - 1)])
        held = np.diff(before[ends + 1], axis=1, prepend=0)
        gaps = np.diff(costs[ends] * held, axis=1)
        widest = np.abs(gaps).argmax(axis=1)
        gap = gaps[np.arange(len(at)), widest]
        if np.abs(gap).min() < best_gap:
            best_gap = np.abs(gap).min()
            best = at[np.abs(gap).argmin()].copy()
        moved = at.copy()
        moved[np.arange(len(at)), widest] += np.sign(gap).astype(np.int64)
        rising = (np.diff(moved, axis=1, prepend=-1, append=len(values) - 1) > 0).all(axis=1)
        going = (gap != 0) & rising & (moved != earlier).any(axis=1)
        if not going.any():
            break
        earlier, at = at[going], moved[going]
    edges: Ints = values[np.append(best, len(values) - 1)]
    return edges


RULES: Mapping[str, Rule] = {
    "optimal": _optimal,
    "quantile": _quantile,
    "uniform": _uniform,
    "geometric": _geometric,
    "equal-tokens": _equal_tokens,
    "equal-cost": _equal_cost,
}
