"""Steps cut into batches for ranks, against every way of doing so, and against a lower bound."""

import gzip
from collections.abc import Iterator
from functools import cache
from itertools import chain, islice, pairwise, product
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat.planning.algorithms.step_batches import SharedBatches, best_batches
from batchstat.planning.algorithms.step_cuts import SortedSteps, cheapest_cuts, fitting, strides

Groups = list[list[int]]


def sorted_steps(steps: list[list[int]], most_tokens: int) -> SortedSteps:
    """Steps of samples of these lengths, whose cost is their width."""
    width = max(map(len, steps))
    rows = [sorted(step, reverse=True) for step in steps]
    lengths = np.array([row + row[-1:] * (width - len(row)) for row in rows])
    return SortedSteps(
        lengths.astype(float), np.maximum(most_tokens // lengths, 1), np.array(list(map(len, rows)))
    )


def found_batches(
    steps: SortedSteps, per_rank: int, world_size: int, *, in_turns: bool
) -> SharedBatches:
    [stride] = set(strides(steps.sizes, np.array(per_rank * world_size)).tolist())
    return best_batches(steps, per_rank, world_size, stride, in_turns=in_turns)


def batches_of(lengths: list[int], found: SharedBatches, step: int) -> list[tuple[int, Groups]]:
    """Place and lengths of each batch of a step."""
    falling = sorted(lengths, reverse=True)
    edges = found.offsets[step].tolist()
    groups = [falling[a:b] for a, b in pairwise(edges)]
    return list(zip(found.places[step].tolist(), groups, strict=True))


def cost(group: list[int]) -> int:
    return len(group) * max(group)


def every_way(lengths: list[int], n_groups: int) -> Iterator[Groups]:
    """Every way of putting samples into so many groups, none of which is empty."""
    for of_sample in product(range(n_groups), repeat=len(lengths)):
        groups: Groups = [[] for _ in range(n_groups)]
        for length, group in zip(lengths, of_sample, strict=True):
            groups[group].append(length)
        if all(groups):
            yield groups


def slowest(groups: Groups, world_size: int, *, in_turns: bool) -> int:
    """Of batches in the sequence turn × world_size + rank, what the slowest rank computes."""
    turns = [
        [cost(group) for group in groups[first : first + world_size]]
        for first in range(0, len(groups), world_size)
    ]
    return sum(map(max, turns)) if in_turns else max(map(sum, zip(*turns, strict=True)))


def least(lengths: list[int], world_size: int, per_rank: int, most: int, *, in_turns: bool) -> int:
    """What the slowest rank computes at least, with no batch above `most` tokens."""
    ways = every_way(lengths, world_size * per_rank)
    fitting_ways = (groups for groups in ways if max(map(cost, groups)) <= most)
    return min(slowest(groups, world_size, in_turns=in_turns) for groups in fitting_ways)


LENGTHS = st.lists(st.integers(1, 30), min_size=4, max_size=6)


@pytest.mark.parametrize(("world_size", "per_rank"), [(2, 1), (3, 1), (1, 2), (1, 3), (4, 1)])
@given(lengths=LENGTHS, most=st.integers(30, 90), in_turns=st.booleans())
def test_one_batch_per_rank_and_one_rank_are_the_best_of_all(
    world_size, per_rank, lengths, most, in_turns
):
    n = world_size * per_rank
    ways = [max(map(cost, groups)) for groups in every_way(lengths, n)]
    steps = fitting(sorted_steps([lengths], most), n, np.array([sorted(lengths, reverse=True)]))
    found = found_batches(steps, per_rank, world_size, in_turns=in_turns)
    # Where none fits, the largest batch is as small as it can be.
    most = max(most, min(ways))
    assert found.costs[0] == least(lengths, world_size, per_rank, most, in_turns=in_turns)
    assert max(cost(group) for _, group in batches_of(lengths, found, 0)) <= most


@pytest.mark.parametrize("in_turns", [False, True])
@given(steps=st.lists(st.lists(st.integers(1, 40), min_size=6, max_size=30), min_size=1))
def test_what_is_found_is_what_it_costs(in_turns, steps):
    found = found_batches(sorted_steps(steps, 10**6), 3, 2, in_turns=in_turns)
    for number, lengths in enumerate(steps):
        placed = sorted(batches_of(lengths, found, number))
        assert [place for place, _ in placed] == list(range(6))
        groups = [group for _, group in placed]
        assert sorted(chain.from_iterable(groups)) == sorted(lengths)
        assert found.costs[number] == slowest(groups, 2, in_turns=in_turns)
        # A step is cut as it would be alone.
        alone = found_batches(sorted_steps([lengths], 10**6), 3, 2, in_turns=in_turns)
        assert alone.costs[0] == found.costs[number]


def test_several_batches_on_several_ranks_are_near_the_best_of_all():
    """On average over small steps, which have fewer ways to even out ranks than large ones."""
    rng = np.random.default_rng(0)
    steps = [np.clip(rng.lognormal(3, 0.8, 7), 1, 90).astype(int).tolist() for _ in range(40)]
    for in_turns in (False, True):
        found = found_batches(sorted_steps(steps, 10**6), 2, 2, in_turns=in_turns).costs.sum()
        best = sum(least(step, 2, 2, 10**6, in_turns=in_turns) for step in steps)
        assert best <= found <= 1.05 * best


@given(
    steps=st.lists(st.lists(st.integers(1, 40), min_size=5, max_size=40), min_size=1),
    n_batches=st.integers(1, 5),
    most=st.integers(40, 200),
)
def test_the_cheapest_cut_is_that_of_a_plain_loop(steps, n_batches, most):
    made = sorted_steps(steps, most)
    widths = made.costs.astype(int)
    made = fitting(made, n_batches, widths)
    offsets = cheapest_cuts(made, n_batches, 1)
    for number, lengths in enumerate(steps):
        falling = sorted(lengths, reverse=True)
        rows = made.most_rows[number].tolist()
        # costs[k][j]: the least cost of k batches of the first j samples.
        costs = [[0] + [10**9] * len(falling)]
        for _ in range(n_batches):
            before = costs[-1]
            costs.append(
                [
                    min(
                        (before[i] + (j - i) * falling[i] for i in range(j) if j - i <= rows[i]),
                        default=10**9,
                    )
                    for j in range(len(falling) + 1)
                ]
            )
        assert made.batch_costs(offsets)[number].sum() == costs[-1][-1]


@pytest.mark.parametrize(
    ("corpus", "world_size", "per_rank", "batch_size", "most"),
    [
        ("gsm8k", 1, 8, 8, 1.0),
        ("gsm8k", 8, 4, 8, 1.03),
        ("gsm8k", 2, 4, 8, 1.03),
        ("gsm8k", 64, 4, 2, 1.06),
        ("wikipedia", 8, 4, 8, 1.03),
        ("wikipedia", 64, 4, 2, 1.06),
    ],
)
def test_real_steps_are_near_a_lower_bound(
    real_data, corpus, world_size, per_rank, batch_size, most
):
    """The cheapest cut over the ranks, or the longest sample beside the shortest: both together can
    seldom be had.
    """
    lengths = np.minimum(real_lengths(real_data, corpus), 512)
    size = world_size * per_rank * batch_size
    order = np.random.default_rng(0).permutation(len(lengths))[: 8 * size].reshape(-1, size)
    steps = lengths[order].tolist()
    found = found_batches(
        sorted_steps(steps, batch_size * max(map(max, steps))), per_rank, world_size, in_turns=False
    )
    bounds = []
    for step in steps:
        falling = np.sort(step)[::-1]
        beside = falling[len(falling) - per_rank + 1 :].sum() if world_size > 1 else 0
        cheapest = cheapest_total(falling, world_size * per_rank)
        bounds.append(max(cheapest / world_size, falling[0] + beside))
    assert sum(bounds) <= found.costs.sum() <= most * sum(bounds)


def cheapest_total(falling: np.ndarray, n_batches: int) -> float:
    """The least total cost of a step in so many batches of any size: a row of sums at a time."""
    n = len(falling)
    rows = np.arange(n + 1)[None, :] - np.arange(n)[:, None]
    costs = np.where(rows > 0, rows * falling[:, None], np.inf)
    least = np.full(n + 1, np.inf)
    least[0] = 0
    for _ in range(n_batches):
        least = (least[:-1, None] + costs).min(axis=0)
    return float(least[n])


@cache
def real_lengths(real_data: Path, corpus: str) -> np.ndarray:
    if corpus == "gsm8k":
        columns = {"prompt_column": "question", "completion_column": "answer"}
        tokenizer = real_data / "tokenizers" / "qwen2"
        return batchstat.profile(real_data / "gsm8k.jsonl", tokenizer=tokenizer, **columns).lengths
    source, name = real_data / "wikipedia-en.txt.gz", "bert-base-cased"
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        texts = [line for line in islice(lines, 20_000) if line.strip()]
    return batchstat.token_lengths(texts, real_data / "tokenizers" / name)
