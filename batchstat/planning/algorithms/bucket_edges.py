"""Upper edges of buckets that minimise padding, or any cost that grows with the edge."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.parameters import MAX_INT, described, one_of, whole_number

Cost = Callable[[int], float]


def above_last_edge(strategy: str, edges: Sequence[int], longest: int) -> InputError:
    """Return the error for a sample longer than the last bucket edge, with edges that would hold
    it.
    """
    written = ",".join(map(str, [*edges, longest]))
    return InputError(
        f"{strategy}: a sample of {longest:,} tokens is above the last edge {edges[-1]:,}: add a "
        f"bucket for longer samples, as in boundaries={written}, or truncate samples with "
        f"--max-length {edges[-1]}"
    )


def each_optimal_edges(
    values: Ints, counts: Ints, buckets: int, *, cost: Cost = int, least: int = 1
) -> Iterator[tuple[int, ...]]:
    """Yield ascending inclusive upper edges of at most 1, 2, … `buckets` buckets, the last at or
    above the longest length.

    They minimise the sum over samples of the `cost` of the edge above each; with the edge itself as
    the cost, the padding to the edges. Exact: dynamic programming over the distinct lengths, with
    the best last cut found on the lower hull of lines (slope: samples so far; Monge costs), in time
    proportional to buckets × distinct lengths.

    Args:
        values: (n_distinct,) the distinct lengths, ascending.
        counts: (n_distinct,) number of samples of each.
        buckets: the most buckets.
        cost: cost of a sample padded to an edge; it rises with the edge.
        least: fewest samples per bucket.

    Raises:
        InputError: more than n samples for one bucket.
    """
    check_least(least, int(counts.sum()))
    edges = values.tolist()
    before = [0, *np.cumsum(counts).tolist()]
    costs = [cost(edge) for edge in edges]
    best: list[float] = [0, *([np.inf] * len(edges))]
    chosen: list[list[int]] = []
    for _ in range(min(buckets, len(edges))):
        best, cuts = _one_more(best, before, costs, least)
        chosen.append(cuts)
        upper_edges, at = [], len(edges)
        for cuts in reversed(chosen):
            if at == 0:
                break
            upper_edges.append(edges[at - 1])
            at = cuts[at]
        yield tuple(reversed(upper_edges))


def check_least(least: int, samples: int) -> None:
    """Raise InputError if there are fewer `samples` than the `least` of one bucket."""
    if least > samples:
        raise InputError(
            f"min_bucket_samples={least:,}: there are only {samples:,} samples; lower it"
        )


def _one_more(
    best: Sequence[float], before: Sequence[int], costs: Sequence[float], least: int
) -> tuple[list[float], list[int]]:
    """Return the least cost of the first j distinct lengths with one more bucket, and where that
    bucket begins.

    `best[i] + cost of edge j × (samples up to j - samples up to i)` is a line in the cost of the
    edge, with the slope -before[i], which falls as i rises.
    """
    least_costs: list[float] = [0, *([np.inf] * len(costs))]
    cuts = [0] * (len(costs) + 1)
    hull: list[int] = []
    first = added = 0
    for j in range(1, len(costs) + 1):
        while added < j and before[j] - before[added] >= least:
            if best[added] < np.inf:
                while len(hull) - first > 1 and _never_lowest(
                    best, before, hull[-2], hull[-1], added
                ):
                    hull.pop()
                hull.append(added)
            added += 1
        x = costs[j - 1]
        while len(hull) - first > 1 and _at(best, before, hull[first + 1], x) <= _at(
            best, before, hull[first], x
        ):
            first += 1
        if len(hull) > first:
            cuts[j] = hull[first]
            least_costs[j] = _at(best, before, hull[first], x) + x * before[j]
    return least_costs, cuts


def _at(best: Sequence[float], before: Sequence[int], i: int, x: float) -> float:
    return best[i] - x * before[i]


def _never_lowest(
    best: Sequence[float], before: Sequence[int], one: int, two: int, three: int
) -> bool:
    """Return whether the second of three lines of falling slope is nowhere the lowest."""
    return (best[two] - best[one]) * (before[three] - before[two]) >= (best[three] - best[two]) * (
        before[two] - before[one]
    )


Rule = Callable[[Ints, Ints, int, Cost], Ints]
"""Takes (n_distinct,) distinct lengths, ascending, each at least 1; (n_distinct,) the number of
samples of each; the number of buckets; the cost of a row as wide as an edge. Returns ascending
edges, the last at or above the longest length. A rule may find fewer than were requested.
"""

_TRIALS, _STEPS_A_LENGTH = 100, 2
_MOST_CANDIDATES = 1_000


def find_edges(
    rule: str, lengths: Ints, wanted: tuple[str, int | None], usual: int, multiple: int = 1
) -> tuple[int, ...]:
    """Return the edges that one of `RULES` finds for the requested number of buckets.

    Args:
        rule: name of the rule.
        lengths: (n,) tokens per sample, n at least 1.
        wanted: the parameter for the number of buckets, and its value; None for `usual`, or fewer
            if there are fewer distinct lengths.
        usual: see `wanted`.
        multiple: lengths are rounded up to a multiple of this many tokens.

    Raises:
        InputError: more buckets than distinct widths.
    """
    rounded = round_up(np.maximum(lengths, 1), multiple)
    values, counts = np.unique(rounded, return_counts=True)
    name, buckets = wanted
    check_buckets(name, buckets, len(values))
    upper_edges = RULES[rule](values, counts, buckets or min(usual, len(values)), int)
    return tuple(np.unique(round_up(upper_edges, multiple)).tolist())


def check_choice(
    rule: str, given_edges: tuple[str, tuple[int, ...]], wanted: tuple[str, int | None]
) -> None:
    """Raise OptionError for an unknown rule, edges that are not above 0, do not rise or are too
    large, or edges given with their number.

    Args:
        rule: name of the rule.
        given_edges: the parameter for edges, and its value.
        wanted: the parameter for the number of buckets, and its value.
    """
    one_of("rule", rule, RULES)
    name, edges = given_edges
    if edges:
        whole_number(name, edges[-1], min_value=-MAX_INT)
    if any(low >= high for low, high in pairwise((0, *edges))):
        written = ",".join(map(str, edges))
        raise OptionError(f"{name}={written}: must be above 0 and strictly rising")
    if edges and wanted[1] is not None:
        raise OptionError(f"{name} and {wanted[0]} are mutually exclusive; give one")


def check_buckets(name: str, buckets: int | None, different: int) -> None:
    """Raise InputError if there are more `buckets` than `different` widths."""
    if buckets is not None and buckets > different:
        raise InputError(
            f"{name}={buckets}: the lengths have only {different:,} distinct "
            f"{'width' if different == 1 else 'widths'}: set at most {different:,}"
        )


@described("Minimise the padding to the edges, or another cost of them.")
def _optimal(values: Ints, counts: Ints, buckets: int, cost: Cost) -> Ints:
    return np.array(list(each_optimal_edges(values, counts, buckets, cost=cost))[-1])


@described("Put the same number of samples in each bucket.")
def _quantile(values: Ints, counts: Ints, buckets: int, _: Cost) -> Ints:
    upto = np.cumsum(counts)
    ranks = -(-int(upto[-1]) * np.arange(1, buckets + 1) // buckets)
    edges: Ints = np.unique(values[np.searchsorted(upto, ranks)])
    return edges


@described("Space edges evenly from 0 to the longest length.")
def _uniform(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    longest = int(values[-1])
    return np.unique(-(-longest * np.arange(1, buckets + 1) // buckets))


@described(
    """Make each edge the same multiple of the one before, from shortest to longest length."""
)
def _geometric(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    shortest, longest = int(values[0]), int(values[-1])
    growing = shortest * (longest / shortest) ** (np.arange(1, buckets) / buckets)
    edges: Ints = np.unique(np.append(np.ceil(growing).astype(np.int64), longest))
    return edges[edges <= longest]


@described(
    """Put the same number of tokens in each bucket: walk up the lengths, and cut where a bucket
    exceeds its share.

    Source: lhotse's estimate_duration_buckets, which can return the same edge twice, or fewer.
    """
)
def _equal_tokens(values: Ints, counts: Ints, buckets: int, _: Cost) -> Ints:
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


@described(
    """Find thresholds between which samples cost about the same, by hill climbing from random ones.

    A sample costs as much as the upper edge of its bucket. Where the costs of two neighbouring
    buckets differ most, the threshold between them moves to the next length; a climb ends when it
    would loop indefinitely, leave the range of lengths, or empty a bucket. The best of a hundred
    climbs is used; their seed is fixed, so that equal lengths give equal edges. Of more than a
    thousand distinct lengths, a thousand are tried. Source: asym's find_thresholds, which is not
    seeded.
    """
)
def _equal_cost(values: Ints, counts: Ints, buckets: int, cost: Cost) -> Ints:
    if len(values) <= buckets:
        return values
    if buckets == 1:
        return values[-1:]
    before = offsets_from_sizes(counts)
    if len(values) > _MOST_CANDIDATES:
        tried = np.linspace(0, len(values) - 1, max(_MOST_CANDIDATES, buckets + 1)).astype(np.int64)
        values, before = values[tried], np.concatenate([[0], before[tried + 1]])
    costs = np.array([cost(int(value)) for value in values], dtype=np.float64)
    last = len(values) - 1
    rng = np.random.default_rng(0)
    places = np.argsort(rng.random((_TRIALS, last)), axis=1)[:, : buckets - 1]
    # Thresholds of each climb, between the two that never move.
    at = np.hstack(
        [np.full((_TRIALS, 1), -1), np.sort(places, axis=1), np.full((_TRIALS, 1), last)]
    )
    climbs = np.arange(_TRIALS)
    best, best_gap = at[0].copy(), np.inf
    place_before, move_before = np.zeros_like(climbs), np.zeros_like(climbs)
    for _ in range(_STEPS_A_LENGTH * len(values)):
        upto = before[at + 1]
        spent = costs[at[:, 1:]] * (upto[:, 1:] - upto[:, :-1])
        gaps = spent[:, 1:] - spent[:, :-1]
        place = np.abs(gaps).argmax(axis=1)
        gap = gaps[climbs, place]
        least = np.abs(gap).argmin()
        if abs(gap[least]) < best_gap:
            best_gap, best = abs(gap[least]), at[least].copy()
        move = np.sign(gap).astype(np.int64)
        moved = at[climbs, place + 1] + move
        is_between = (at[climbs, place] < moved) & (moved < at[climbs, place + 2])
        is_back = (place == place_before) & (move == -move_before)
        going = (move != 0) & is_between & ~is_back
        if not going.all():
            if not going.any():
                break
            at, place, move, moved = at[going], place[going], move[going], moved[going]
            climbs = climbs[: len(at)]
        at[climbs, place + 1] = moved
        place_before, move_before = place, move
    edges: Ints = values[best[1:]]
    return edges


RULES: Mapping[str, Rule] = {
    "optimal": _optimal,
    "quantile": _quantile,
    "uniform": _uniform,
    "geometric": _geometric,
    "equal-tokens": _equal_tokens,
    "equal-cost": _equal_cost,
}
