"""Upper edges of buckets that minimise padding, or any cost that grows with the edge."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from batchstat.batching.plan import Ints
from batchstat.errors import InputError, OptionError
from batchstat.options import MOST, whole_number

Cost = Callable[[int], float]


def check_edges(name: str, edges: Sequence[int]) -> None:
    """Raises OptionError: edges that a user gave are not above 0, do not rise, or are too large."""
    for edge in edges[-1:]:
        whole_number(name, edge, least=-MOST)
    if any(low >= high for low, high in pairwise((0, *edges))):
        written = ",".join(map(str, edges))
        raise OptionError(f"{name}={written}: must be above 0 and rise, each once")


def above_last_edge(strategy: str, edges: Sequence[int], longest: int) -> InputError:
    """The error for a sample that no bucket holds; it names the bucket that would."""
    written = ",".join(map(str, [*edges, longest]))
    return InputError(
        f"{strategy}: a sample of {longest:,} tokens is above the last edge {edges[-1]:,}: add a "
        f"bucket for what overflows, as in boundaries={written}, or cut samples with "
        f"--max-length {edges[-1]}"
    )


def optimal_edges(
    lengths: Ints,
    buckets: int,
    *,
    cost: Cost = int,
    multiple: int = 1,
    least: int = 1,
) -> tuple[int, ...]:
    """Rising inclusive upper edges of at most `buckets` buckets, the last at or above the longest.

    They minimise the sum over samples of `cost` of the edge above each: with the edge itself as the
    cost, the padding to the edges. Exact: dynamic programming over the distinct lengths, in which
    the best last cut is found on the lower hull of lines (slope: samples so far; Monge costs), so
    that it takes time in proportion to buckets × distinct lengths.

    Args:
        lengths: (n,) tokens a sample, n at least 1.
        buckets: how many.
        cost: of a sample padded to an edge; it rises with the edge.
        multiple: edges are multiples of this many tokens.
        least: samples in each bucket, at least.

    Raises:
        InputError: more than n samples for one bucket.
    """
    rounded = -(-np.asarray(lengths) // multiple) * multiple
    values, counts = np.unique(rounded, return_counts=True)
    return list(each_optimal_edges(values, counts, buckets, cost=cost, least=least))[-1]


def each_optimal_edges(
    values: Ints, counts: Ints, buckets: int, *, cost: Cost = int, least: int = 1
) -> Iterator[tuple[int, ...]]:
    """The `optimal_edges` of at most 1, 2, … `buckets` buckets, found in one go.

    Args:
        values: (n_distinct,) the lengths that occur, rising.
        counts: (n_distinct,) how often each does.
        buckets: how many at most.
        cost: see `optimal_edges`.
        least: see `optimal_edges`.

    Raises:
        InputError: more than n samples for one bucket.
    """
    total = int(counts.sum())
    if least > total:
        raise InputError(f"least={least:,} samples a bucket, and there are {total:,} in all")
    edges = values.tolist()
    before = [0, *np.cumsum(counts).tolist()]
    costs = [cost(edge) for edge in edges]
    best: list[float] = [0, *([np.inf] * len(edges))]
    chosen: list[list[int]] = []
    for _ in range(min(buckets, len(edges))):
        best, cuts = _one_more(best, before, costs, least)
        chosen.append(cuts)
        found, at = [], len(edges)
        for cuts in reversed(chosen):
            if at == 0:
                break
            found.append(edges[at - 1])
            at = cuts[at]
        yield tuple(reversed(found))


def _one_more(
    best: Sequence[float], before: Sequence[int], costs: Sequence[float], least: int
) -> tuple[list[float], list[int]]:
    """The least cost of the first j distinct lengths with one bucket more, and where it begins.

    `best[i] + cost of edge j × (samples up to j - samples up to i)` is a line in the cost of the
    edge, with the slope -before[i], which falls with i.
    """
    found: list[float] = [0, *([np.inf] * len(costs))]
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
            found[j] = _at(best, before, hull[first], x) + x * before[j]
    return found, cuts


def _at(best: Sequence[float], before: Sequence[int], i: int, x: float) -> float:
    return best[i] - x * before[i]


def _never_lowest(
    best: Sequence[float], before: Sequence[int], one: int, two: int, three: int
) -> bool:
    """Whether the second of three lines of falling slope is nowhere the lowest."""
    return (best[two] - best[one]) * (before[three] - before[two]) >= (best[three] - best[two]) * (
        before[two] - before[one]
    )
