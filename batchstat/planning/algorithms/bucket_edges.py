"""Upper edges of buckets that minimise padding, or any cost that grows with the edge."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import Floats, Ints, offsets_from_sizes, round_up
from batchstat.parameters import MAX_INT, described, one_of, whole_number
from batchstat.words import counted

Cost = Callable[[int], float]


def above_last_edge(strategy: str, edges: Sequence[int], longest: int) -> InputError:
    """Return the error for a sample longer than the last bucket edge; it suggests edges to set."""
    written = ",".join(map(str, [*edges, longest]))
    return InputError(
        f"{strategy}: a sample of {longest:,} tokens is above the last edge {edges[-1]:,}",
        f"add a bucket for longer samples, as in boundaries={written}, or truncate samples with "
        f"--max-length {edges[-1]}",
    )


def each_optimal_edges(
    values: Ints, counts: Ints, buckets: int, *, cost: Cost = int, least: int = 1
) -> Iterator[tuple[int, ...]]:
    """Yield the best bucket edges for at most 1, 2, … `buckets` buckets: ascending, inclusive upper
    edges, the last at or above the longest length. One sample each of 3, 4 and 9 tokens gives (9,),
    then (4, 9), then (3, 4, 9). `values` (n_distinct,) ascend, `counts` (n_distinct,) are the
    samples of each, and a bucket has at least `least`. The best edges minimise the sum over samples
    of the `cost` of the edge above each, which rises with it; where the edge itself is the cost,
    the padding to the edges. The result is exact: dynamic programming over the distinct lengths,
    with the best last cut found on the lower hull of lines (slope: samples so far; Monge costs), in
    time proportional to buckets × distinct lengths. Raises InputError: fewer than `least`.
    """
    check_least(least, int(counts.sum()))
    lengths = values.tolist()
    samples_before = [0, *np.cumsum(counts).tolist()]
    costs = [cost(length) for length in lengths]
    # Element j: the least cost of the first j distinct lengths: without a bucket, only of none.
    least_costs: list[float] = [0, *([np.inf] * len(lengths))]
    # For each number of buckets and j: the length that begins the last bucket of the first j.
    last_begins: list[list[int]] = []
    for _ in range(min(buckets, len(lengths))):
        least_costs, begins = _add_bucket(least_costs, samples_before, costs, least)
        last_begins.append(begins)
        falling_edges, end = [], len(lengths)
        for begins in reversed(last_begins):
            if end == 0:  # all lengths are in fewer buckets
                break
            falling_edges.append(lengths[end - 1])
            end = begins[end]
        yield tuple(reversed(falling_edges))


def check_least(least: int, samples: int) -> None:
    """Raise InputError if there are fewer `samples` than the `least` of one bucket."""
    if least > samples:
        raise InputError(
            f"min_bucket_samples={least:,}: there are only {samples:,} samples", "lower it"
        )


def _add_bucket(
    best: Sequence[float], samples_before: Sequence[int], costs: Sequence[float], least: int
) -> tuple[list[float], list[int]]:
    """Return, for j = 0 … n_distinct, the least cost of the first j distinct lengths with one more
    bucket than `best` has, and the length index at which that last bucket begins.
    """
    # A last bucket of lengths i to j − 1 costs `best[i] + x × (samples_before[j] −
    # samples_before[i])`, where x is the cost of its edge. For each i that is a line in x, which
    # falls faster the higher i is; the best i has the lowest line at x. Since x rises with j, a
    # line that a later one has undercut is never the lowest again.
    least_costs: list[float] = [0, *([np.inf] * len(costs))]
    begins = [0] * (len(costs) + 1)
    # The i of the lines that are the lowest somewhere from the current x on, in that sequence.
    hull: deque[int] = deque()
    i = 0
    for j in range(1, len(costs) + 1):
        # Add the lines of all i from which a bucket up to j has enough samples.
        while i < j and samples_before[j] - samples_before[i] >= least:
            if best[i] < np.inf:  # else too few samples for the buckets before
                while len(hull) > 1 and _never_lowest(best, samples_before, hull[-2], hull[-1], i):
                    hull.pop()
                hull.append(i)
            i += 1
        x = costs[j - 1]
        height = _height(best, samples_before, hull[0], x) if hull else np.inf
        while len(hull) > 1 and (second := _height(best, samples_before, hull[1], x)) <= height:
            hull.popleft()
            height = second
        # Without a line, the lengths up to j have too few samples: no bucket can end here.
        if hull:
            begins[j] = hull[0]
            least_costs[j] = height + x * samples_before[j]
    return least_costs, begins


def _height(best: Sequence[float], samples_before: Sequence[int], i: int, x: float) -> float:
    return best[i] - x * samples_before[i]


def _never_lowest(
    best: Sequence[float], samples_before: Sequence[int], h: int, i: int, k: int
) -> bool:
    # Lines cross at (difference of `best`) / (difference of `samples_before`). Two such fractions
    # are compared without dividing: a / b >= c / d where a × d >= c × b.
    return (best[i] - best[h]) * (samples_before[k] - samples_before[i]) >= (best[k] - best[i]) * (
        samples_before[i] - samples_before[h]
    )


Rule = Callable[[Ints, Ints, int, Cost], Ints]
"""Takes (n_distinct,) distinct lengths, ascending, each at least 1; (n_distinct,) the number of
samples of each; the number of buckets; the cost of a row as wide as an edge. Returns ascending
edges, the last at or above the longest length. A rule may find fewer than were requested.
"""

_TRIALS, _STEPS_A_LENGTH = 100, 2  # climbs of `equal-cost`; moves in each per distinct length
_MOST_CANDIDATES = 1_000  # distinct lengths that `equal-cost` tries as edges


def find_edges(
    rule: str, lengths: Ints, buckets_set: tuple[str, int | None], usual: int, multiple: int = 1
) -> tuple[int, ...]:
    """Return the edges that one of `RULES` finds for (n,) lengths, at least one, rounded up to a
    multiple. `buckets_set` has the name of a parameter for the number of buckets and its value, or
    None for the `usual` number, at most one per distinct width. Raises InputError for more.
    """
    rounded = round_up(np.maximum(lengths, 1), multiple)
    values, counts = np.unique(rounded, return_counts=True)
    name, buckets = buckets_set
    check_buckets(name, buckets, len(values))
    # `int` as the cost: a sample costs as many tokens as its edge.
    upper_edges = RULES[rule](values, counts, buckets or min(usual, len(values)), int)
    return tuple(np.unique(round_up(upper_edges, multiple)).tolist())


def check_edges(
    rule: str, edges_set: tuple[str, tuple[int, ...]], buckets_set: tuple[str, int | None]
) -> None:
    """Raise OptionError if bucket edges, their rule or their number are wrong, or both are set."""
    one_of("rule", rule, RULES)
    (edges_name, edges), (buckets_name, buckets) = edges_set, buckets_set
    if edges:
        # The last edge must not be too large; the check below is for edges that are too small.
        whole_number(edges_name, edges[-1], min_value=-MAX_INT)
    if any(low >= high for low, high in pairwise((0, *edges))):
        written = ",".join(map(str, edges))
        raise OptionError(f"{edges_name}={written}", "must be above 0 and strictly rising")
    if edges and buckets is not None:
        raise OptionError(f"{edges_name} and {buckets_name} are mutually exclusive", "give one")


def check_buckets(name: str, buckets: int | None, distinct_widths: int) -> None:
    """Raise InputError if the parameter `name` asks for more `buckets` than distinct widths."""
    if buckets is not None and buckets > distinct_widths:
        raise InputError(
            f"{name}={buckets}: the lengths have only {counted(distinct_widths, 'distinct width')}",
            f"set at most {distinct_widths:,}",
        )


@described("Minimise the padding to the edges, or another cost of them.")
def _optimal(values: Ints, counts: Ints, buckets: int, cost: Cost) -> Ints:
    return np.array(list(each_optimal_edges(values, counts, buckets, cost=cost))[-1])


@described("Put the same number of samples in each bucket.")
def _quantile(values: Ints, counts: Ints, buckets: int, _: Cost) -> Ints:
    samples_upto = np.cumsum(counts)
    n = int(samples_upto[-1])
    # The last sample of each bucket, from 1, rounded up: 10 in 4 buckets give 3, 5, 8, 10.
    last_samples = -(-n * np.arange(1, buckets + 1) // buckets)
    # The edge is the length of that sample; the same length for two buckets leaves one edge.
    return np.unique(values[np.searchsorted(samples_upto, last_samples)])


@described("Space edges evenly from 0 to the longest length.")
def _uniform(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    longest = int(values[-1])
    # Divide, rounded up: a longest length of 10 in 4 buckets gives 3, 5, 8, 10.
    return np.unique(-(-longest * np.arange(1, buckets + 1) // buckets))


@described("Make each edge the same multiple of the one before, from shortest to longest length.")
def _geometric(values: Ints, _counts: Ints, buckets: int, _: Cost) -> Ints:
    shortest, longest = int(values[0]), int(values[-1])
    # From 10 to 1,000 in 2 buckets: 100; the longest length is added as the last edge.
    growing = shortest * (longest / shortest) ** (np.arange(1, buckets) / buckets)
    edges: Ints = np.unique(np.append(np.ceil(growing).astype(np.int64), longest))
    # Rounding errors can lift an edge above the longest length.
    return edges[edges <= longest]


@described(
    """Put about the same number of tokens in each bucket: walk up the lengths, and cut where a
    bucket exceeds its share.

    Source: lhotse's estimate_duration_buckets, which can return an edge several times: here, there
    are then fewer buckets.
    """
)
def _equal_tokens(values: Ints, counts: Ints, buckets: int, _cost: Cost) -> Ints:
    # Nine samples of 2 and four of 3 tokens in 2 buckets: a share is 15. The walk over the samples,
    # shortest first, has 2, 4, …, 14, 16 tokens behind it. The eighth sample exceeds the share and
    # ends the first bucket. The ninth has 2 tokens, which is the edge: the result is [2, 3]. A
    # length that is an edge belongs to the bucket below it, which so gets all nine.
    # (n_distinct + 1,) tokens behind the walk where each length begins, and at its end: 0, 18, 30.
    length_begins = np.concatenate([[0], np.cumsum(values.astype(np.int64) * counts)])
    end = length_begins[-1]
    share = end / buckets
    edges, tokens_behind = [], 0
    while tokens_behind + share < end:
        # The sample that exceeds the share is the n-th of length values[i]; the walk goes on there.
        i = int(np.searchsorted(length_begins, tokens_behind + share, side="right")) - 1
        n = int((tokens_behind + share - length_begins[i]) // values[i]) + 1
        tokens_behind = int(length_begins[i]) + n * int(values[i])
        # As lhotse does, take the length of the next sample as the edge, not that of this one. If
        # this one is the last of its length, the next sample has the next length.
        if n == counts[i]:
            i = min(i + 1, len(values) - 1)
        edges.append(int(values[i]))
    # The walk may end two buckets at samples of the same length: one edge for both.
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
    if buckets == 1:  # it ends at the longest length
        return values[-1:]
    samples_before = offsets_from_sizes(counts)
    if len(values) > _MOST_CANDIDATES:
        # Try evenly spaced lengths; samples between two of them count with the one above.
        tried = np.linspace(0, len(values) - 1, max(_MOST_CANDIDATES, buckets + 1)).astype(np.int64)
        values, samples_before = values[tried], np.append(0, samples_before[tried + 1])
    costs = np.array([cost(int(value)) for value in values], dtype=np.float64)
    last = len(values) - 1
    # Where each climb begins, without replacement: the positions of each row's smallest numbers.
    random_numbers = np.random.default_rng(0).random((_TRIALS, last))
    thresholds = np.sort(np.argsort(random_numbers, axis=1)[:, : buckets - 1], axis=1)
    column = np.ones((_TRIALS, 1), dtype=np.int64)
    ends = np.hstack([-column, thresholds, last * column])
    return values[_climb(ends, samples_before, costs)[1:]]


def _climb(ends: Ints, samples_before: Ints, costs: Floats) -> Ints:
    """Climb side by side; return (buckets + 1,) the row of `ends` whose buckets differed least."""
    climbs = np.arange(len(ends))
    best: Ints = ends[0].copy()
    best_gap = np.inf
    pair_before, move_before = np.zeros_like(climbs), np.zeros_like(climbs)
    for _ in range(_STEPS_A_LENGTH * len(costs)):
        # (climbs, buckets) samples × cost of the edge, and (climbs, buckets − 1) their differences.
        behind = samples_before[ends + 1]
        bucket_costs = costs[ends[:, 1:]] * (behind[:, 1:] - behind[:, :-1])
        gaps = bucket_costs[:, 1:] - bucket_costs[:, :-1]
        # Of each climb, the pair of neighbours that differs most; `ends[pair + 1]` is between them.
        pair = np.abs(gaps).argmax(axis=1)
        gap = gaps[climbs, pair]
        best_climb = np.abs(gap).argmin()
        if abs(gap[best_climb]) < best_gap:
            best_gap, best = abs(gap[best_climb]), ends[best_climb].copy()
        # +1 gives the lower bucket a length more where the upper one costs more, −1 one less.
        move = np.sign(gap).astype(np.int64)
        moved = ends[climbs, pair + 1] + move
        empties_no_bucket = (ends[climbs, pair] < moved) & (moved < ends[climbs, pair + 2])
        # The same threshold just came from there: it would loop.
        goes_back = (pair == pair_before) & (move == -move_before)
        goes_on = (move != 0) & empties_no_bucket & ~goes_back
        if not goes_on.all():
            if not goes_on.any():
                break
            ends, pair, move, moved = ends[goes_on], pair[goes_on], move[goes_on], moved[goes_on]
            climbs = climbs[: len(ends)]
        ends[climbs, pair + 1] = moved
        pair_before, move_before = pair, move
    return best


RULES: Mapping[str, Rule] = {
    "optimal": _optimal,
    "quantile": _quantile,
    "uniform": _uniform,
    "geometric": _geometric,
    "equal-tokens": _equal_tokens,
    "equal-cost": _equal_cost,
}
