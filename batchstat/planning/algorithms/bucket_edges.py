"""Upper edges of buckets that minimise padding, or any cost that grows with the edge."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.parameters import MAX_INT, described, one_of, whole_number

Cost = Callable[[int], float]


def above_last_edge(strategy: str, edges: Sequence[int], longest: int) -> InputError:
    """Return the error for a sample longer than the last bucket edge; it suggests edges to set."""
    written = ",".join(map(str, [*edges, longest]))
    return InputError(
        f"{strategy}: a sample of {longest:,} tokens is above the last edge {edges[-1]:,}: add a "
        f"bucket for longer samples, as in boundaries={written}, or truncate samples with "
        f"--max-length {edges[-1]}"
    )


def each_optimal_edges(
    values: Ints, counts: Ints, buckets: int, *, cost: Cost = int, least: int = 1
) -> Iterator[tuple[int, ...]]:
    """Yield the best bucket edges for at most 1, 2, … `buckets` buckets: ascending, inclusive upper
    edges, the last at or above the longest length. One sample each of 3, 4 and 9 tokens gives (9,),
    then (4, 9), then (3, 4, 9).

    The best edges minimise the sum over samples of the `cost` of the edge above each; where the
    edge itself is the cost, the padding to the edges. The result is exact: dynamic programming over
    the distinct lengths, with the best last cut found on the lower hull of lines (slope: samples so
    far; Monge costs), in time proportional to buckets × distinct lengths.

    Args:
        values: (n_distinct,) the distinct lengths, ascending.
        counts: (n_distinct,) number of samples of each.
        buckets: the most buckets.
        cost: cost of a sample padded to an edge; it rises with the edge.
        least: fewest samples per bucket.

    Raises:
        InputError: fewer than `least` samples in all.
    """
    check_least(least, int(counts.sum()))
    edges = values.tolist()
    samples_before = [0, *np.cumsum(counts).tolist()]
    costs = [cost(edge) for edge in edges]
    # Element j: the least cost of the first j distinct lengths. Without a bucket, only j = 0 has
    # one.
    least_costs: list[float] = [0, *([np.inf] * len(edges))]
    cuts_by_bucket: list[list[int]] = []
    for _ in range(min(buckets, len(edges))):
        least_costs, cuts = _one_more(least_costs, samples_before, costs, least)
        cuts_by_bucket.append(cuts)
        # Back from the end: the last bucket begins at its cut, where the bucket before it ends.
        upper_edges, end = [], len(edges)
        for cuts in reversed(cuts_by_bucket):
            if end == 0:  # all lengths are in fewer buckets
                break
            upper_edges.append(edges[end - 1])
            end = cuts[end]
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
    """Return, for j = 0 … n_distinct, the least cost of the first j distinct lengths with one more
    bucket than `best` has, and the length index at which that last bucket begins.

    A last bucket of lengths i to j − 1 costs `best[i] + x × (before[j] − before[i])`, where x is
    the cost of its edge. For each i that is a line in x with the slope −before[i], which falls as i
    rises; the best i is the lowest line at x. Since x rises with j, lines that have been passed
    never return.

    Args:
        best: (n_distinct + 1,) the least cost of the first i lengths so far.
        before: (n_distinct + 1,) samples of the first i lengths.
        costs: (n_distinct,) cost of each length as an edge.
        least: fewest samples per bucket.
    """
    least_costs: list[float] = [0, *([np.inf] * len(costs))]
    cuts = [0] * (len(costs) + 1)
    # Lines that are the lowest somewhere, by their i; those before `first` have been passed.
    hull: list[int] = []
    first = added = 0
    for j in range(1, len(costs) + 1):
        # Add the lines of all i from which a bucket up to j has enough samples.
        while added < j and before[j] - before[added] >= least:
            if best[added] < np.inf:  # else too few samples for the buckets before
                while len(hull) - first > 1 and _never_lowest(
                    best, before, hull[-2], hull[-1], added
                ):
                    hull.pop()
                hull.append(added)
            added += 1
        x = costs[j - 1]
        # Pass lines while the next one is as low at x.
        while len(hull) - first > 1 and _at(best, before, hull[first + 1], x) <= _at(
            best, before, hull[first], x
        ):
            first += 1
        # Else the lengths up to j have too few samples: no bucket can end here.
        if len(hull) > first:
            cuts[j] = hull[first]
            least_costs[j] = _at(best, before, hull[first], x) + x * before[j]
    return least_costs, cuts


def _at(best: Sequence[float], before: Sequence[int], i: int, x: float) -> float:
    """Return the height of line i at x, without what all lines share (x × before[j])."""
    return best[i] - x * before[i]


def _never_lowest(
    best: Sequence[float], before: Sequence[int], one: int, two: int, three: int
) -> bool:
    """Return whether line `two` can be removed. Of three lines of falling slope, it is the lowest
    from where it crosses `one` to where `three` crosses it; that range is empty if the second
    crossing comes first (compared by products, without dividing).
    """
    return (best[two] - best[one]) * (before[three] - before[two]) >= (best[three] - best[two]) * (
        before[two] - before[one]
    )


Rule = Callable[[Ints, Ints, int, Cost], Ints]
"""Takes (n_distinct,) distinct lengths, ascending, each at least 1; (n_distinct,) the number of
samples of each; the number of buckets; the cost of a row as wide as an edge. Returns ascending
edges, the last at or above the longest length. A rule may find fewer than were requested.
"""

_TRIALS, _STEPS_A_LENGTH = 100, 2
"""Climbs of `equal-cost`, and the most moves in each per distinct length."""

_MOST_CANDIDATES = 1_000
"""Distinct lengths that `equal-cost` tries as edges."""


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
    # `int` as the cost: a sample costs as many tokens as its edge.
    upper_edges = RULES[rule](values, counts, buckets or min(usual, len(values)), int)
    return tuple(np.unique(round_up(upper_edges, multiple)).tolist())


def check_choice(
    rule: str, given_edges: tuple[str, tuple[int, ...]], wanted: tuple[str, int | None]
) -> None:
    """Raise OptionError for an unknown rule, edges that are not above 0, do not rise or are too
    large, or edges given with their number. `given_edges` and `wanted`, the number of buckets, are
    each the name of a parameter and its value.
    """
    one_of("rule", rule, RULES)
    name, edges = given_edges
    if edges:
        # The last edge must not be too large; the check below is for edges that are too small.
        whole_number(name, edges[-1], min_value=-MAX_INT)
    if any(low >= high for low, high in pairwise((0, *edges))):
        written = ",".join(map(str, edges))
        raise OptionError(f"{name}={written}: must be above 0 and strictly rising")
    if edges and wanted[1] is not None:
        raise OptionError(f"{name} and {wanted[0]} are mutually exclusive; give one")


def check_buckets(name: str, buckets: int | None, distinct_widths: int) -> None:
    """Raise InputError if the parameter `name` asks for more `buckets` than distinct widths."""
    if buckets is not None and buckets > distinct_widths:
        raise InputError(
            f"{name}={buckets}: the lengths have only {distinct_widths:,} distinct "
            f"{'width' if distinct_widths == 1 else 'widths'}: set at most {distinct_widths:,}"
        )


@described("Minimise the padding to the edges, or another cost of them.")
def _optimal(values: Ints, counts: Ints, buckets: int, cost: Cost) -> Ints:
    return np.array(list(each_optimal_edges(values, counts, buckets, cost=cost))[-1])


@described("Put the same number of samples in each bucket.")
def _quantile(values: Ints, counts: Ints, buckets: int, _: Cost) -> Ints:
    samples_upto = np.cumsum(counts)
    # The last sample of each bucket, counted from 1 in rising order: 10 samples and 4 buckets give
    # 3, 5, 8, 10. The minus signs round up.
    ranks = -(-int(samples_upto[-1]) * np.arange(1, buckets + 1) // buckets)
    # The edge is the length of that sample; the same length for two buckets leaves one edge.
    edges: Ints = np.unique(values[np.searchsorted(samples_upto, ranks)])
    return edges


@described("Space edges evenly from 0 to the longest length.")
def _uniform(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    longest = int(values[-1])
    # Divide, rounded up: a longest length of 10 in 4 buckets gives 3, 5, 8, 10.
    return np.unique(-(-longest * np.arange(1, buckets + 1) // buckets))


@described(
    """Make each edge the same multiple of the one before, from shortest to longest length."""
)
def _geometric(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    shortest, longest = int(values[0]), int(values[-1])
    # From 10 to 1,000 in 2 buckets: 100; the longest length is added as the last edge.
    growing = shortest * (longest / shortest) ** (np.arange(1, buckets) / buckets)
    edges: Ints = np.unique(np.append(np.ceil(growing).astype(np.int64), longest))
    # Rounding errors can lift an edge above the longest length.
    return edges[edges <= longest]


@described(
    """Put the same number of tokens in each bucket: walk up the lengths, and cut where a bucket
    exceeds its share.

    Source: lhotse's estimate_duration_buckets, which can return the same edge twice, or fewer.
    """
)
def _equal_tokens(values: Ints, counts: Ints, buckets: int, _: Cost) -> Ints:
    # Lengths, samples of each and buckets as in `Rule`; tokens_before[i] are those of shorter
    # lengths.
    tokens_before = np.concatenate([[0], np.cumsum(values.astype(np.int64) * counts)])
    # Four samples of 3, three of 4 and one of 9 tokens in 3 buckets: a share is 11, the edges 4, 9.
    share = tokens_before[-1] / buckets
    edges, taken = [], 0
    # `taken` tokens are in the buckets so far. The next bucket ends with the sample that exceeds
    # its share: the `n_samples`-th of those with `length`. As in lhotse, its edge is the length of
    # the sample after that, with which another bucket begins.
    while taken + share < tokens_before[-1]:
        i = int(np.searchsorted(tokens_before, taken + share, side="right")) - 1
        length = int(values[i])
        n_samples = int((taken + share - int(tokens_before[i])) // length) + 1
        taken = int(tokens_before[i]) + n_samples * length
        if n_samples == counts[i]:  # the sample after that has the next length
            i += 1
        if i == len(values):  # there is none: this bucket is the last
            break
        edges.append(int(values[i]))
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
    # Lengths, samples of each and buckets as in `Rule`. Each length is an edge if there are enough
    # buckets.
    if len(values) <= buckets:
        return values
    if buckets == 1:  # it ends at the longest length
        return values[-1:]
    before = offsets_from_sizes(counts)
    if len(values) > _MOST_CANDIDATES:
        # Try evenly spaced ones; samples of the lengths between count with the next one above.
        tried = np.linspace(0, len(values) - 1, max(_MOST_CANDIDATES, buckets + 1)).astype(np.int64)
        values, before = values[tried], np.concatenate([[0], before[tried + 1]])
    costs = np.array([cost(int(value)) for value in values], dtype=np.float64)
    last = len(values) - 1
    rng = np.random.default_rng(0)
    # The thresholds at which each climb begins, drawn without replacement: of each row of random
    # numbers, the positions of the smallest.
    drawn = np.argsort(rng.random((_TRIALS, last)), axis=1)[:, : buckets - 1]
    # (climbs, buckets + 1) index of the length that ends each bucket; −1 and the last never move.
    # All climbs side by side, a row of arrays each; every step moves one threshold of each climb.
    ends = np.hstack(
        [np.full((_TRIALS, 1), -1), np.sort(drawn, axis=1), np.full((_TRIALS, 1), last)]
    )
    climbs = np.arange(_TRIALS)
    best, best_gap = ends[0].copy(), np.inf
    pair_before, move_before = np.zeros_like(climbs), np.zeros_like(climbs)
    for _ in range(_STEPS_A_LENGTH * len(values)):
        # The cost of each bucket: samples × cost of its edge; the gap is upper − lower neighbour.
        samples_upto = before[ends + 1]
        bucket_costs = costs[ends[:, 1:]] * (samples_upto[:, 1:] - samples_upto[:, :-1])
        gaps = bucket_costs[:, 1:] - bucket_costs[:, :-1]
        # Of each climb, the two neighbours that differ most; `ends[pair + 1]` is between them.
        pair = np.abs(gaps).argmax(axis=1)
        gap = gaps[climbs, pair]
        best_climb = np.abs(gap).argmin()
        if abs(gap[best_climb]) < best_gap:
            best_gap, best = abs(gap[best_climb]), ends[best_climb].copy()
        # +1 gives the lower bucket a length more where the upper one costs more, −1 one less.
        move = np.sign(gap).astype(np.int64)
        moved = ends[climbs, pair + 1] + move
        is_between = (ends[climbs, pair] < moved) & (moved < ends[climbs, pair + 2])
        # The same threshold just came from there: it would loop.
        goes_back = (pair == pair_before) & (move == -move_before)
        going = (move != 0) & is_between & ~goes_back
        # Climbs that have ended are no longer followed.
        if not going.all():
            if not going.any():
                break
            ends, pair, move, moved = ends[going], pair[going], move[going], moved[going]
            climbs = climbs[: len(ends)]
        ends[climbs, pair + 1] = moved
        pair_before, move_before = pair, move
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
