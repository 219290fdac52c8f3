"""Steps that a strategy divides over the ranks itself, and groups of similar sums."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
import oracle
from batchstat import InputError, OptionError
from batchstat.planning.algorithms.balanced_groups import balanced_groups
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.strategies.rank_steps import RankBatch, RankSteps
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.strategies.spec import StrategySpec
from conftest import plan_epoch

NAME = "balanced-steps"


@dataclass(frozen=True, kw_only=True)
class BalancedSteps(RankSteps):
    """Ranks with as many samples and similar tokens, and as many batches as the budget needs."""

    def units(self, lengths: Sequence[int]) -> Iterator[list[RankBatch]]:
        ranks = balanced_groups(lengths, self.world_size, equal_size=True)
        most = max(sum(lengths[i] for i in rank) for rank in ranks)
        count = min(len(ranks[0]), max(1, -(-most // self.tokens_per_batch)))
        for rank in ranks:
            groups = balanced_groups([lengths[i] for i in rank], count, equal_size=False)
            yield [[rank[i] for i in group] for group in groups]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, NAME, BalancedSteps)


def units(spec: str, lengths: list[int], **settings: int) -> list[list[list[int]]]:
    """The batches of each rank, of one step after another."""
    strategy = StrategySpec.parse(spec).strategy(settings)
    made = plan_epoch(
        strategy, InMemoryEpoch(np.arange(len(lengths)), np.array(lengths)), seed=0, epoch=0
    )
    rows = [made.samples[first:last].tolist() for first, last in pairwise(made.row_offsets)]
    assert made.widths.tolist() == [sum(lengths[i] for i in row) for row in rows]
    return [rows[first:last] for first, last in pairwise(made.unit_offsets)]


# Groups

MIXED = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10, 11, 12, 15, 14, 13, 16, 2, 2, 2, 3]


def work(samples: Sequence[int]) -> list[int]:
    """What verl takes for the work of samples of a model of 7B."""
    return [MIXED[i] * (24_576 + MIXED[i]) for i in samples]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (
            range(20),
            [[1, 4, 5, 8, 9, 10, 12, 13, 16, 19], [0, 2, 3, 6, 7, 11, 14, 15, 17, 18]],
        ),
        (range(8), [[0, 2, 5, 7], [1, 3, 4, 6]]),
        (range(8, 16), [[9, 10, 12, 14], [8, 11, 13, 15]]),
    ],
)
def test_groups_of_equal_size_are_those_of_the_original(samples, expected):
    """Made by running volcengine/verl at b178a3cd: `_balance_batch` of
    verl/trainer/ppo/ray_trainer.py.
    """
    found = balanced_groups(work(samples), 2, equal_size=True)
    assert sorted([samples[i] for i in group] for group in found) == sorted(expected)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (range(0, 20, 2), [[0, 4, 14], [6, 8, 10, 16], [2, 12, 18]]),
        (range(1, 20, 2), [[9, 11], [1, 5, 7, 13], [3, 15, 17, 19]]),
        (range(10), [[1, 2, 8], [0, 5, 6, 7], [3, 4, 9]]),
        (range(10, 20), [[10, 12, 17, 18], [11, 15, 16], [13, 14, 19]]),
    ],
)
def test_groups_of_any_size_are_those_of_the_original(samples, expected):
    """Made by running volcengine/verl at b178a3cd: `rearrange_micro_batches` of
    verl/utils/seqlen_balancing.py.
    """
    found = balanced_groups(work(samples), len(expected), equal_size=False)
    assert sorted([samples[i] for i in group] for group in found) == sorted(expected)


@given(
    numbers=st.lists(st.integers(0, 40), min_size=1, max_size=40),
    count=st.integers(1, 8),
    equal_size=st.booleans(),
)
def test_groups_are_those_of_the_plain_loop(numbers, count, equal_size):
    numbers = numbers * count if equal_size else [*numbers, *[1] * count]
    found = balanced_groups(numbers, count, equal_size=equal_size)
    assert found == oracle.equal_parts(numbers, count, equal_size=equal_size)
    assert sorted(i for group in found for i in group) == list(range(len(numbers)))
    assert all(found)
    assert not equal_size or len({len(group) for group in found}) == 1


# Steps

SIZES = {
    "ranks": st.integers(1, 4),
    "of_rank": st.integers(1, 7),
    "budget": st.integers(40, 120),
    "lengths": st.lists(st.integers(1, 40), min_size=1, max_size=90),
}


@given(**SIZES)
def test_every_rank_has_as_many_batches_and_every_step_its_samples(ranks, of_rank, budget, lengths):
    size = ranks * of_rank
    spec = f"{NAME}:samples_per_step={size}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STRATEGIES, NAME, BalancedSteps)
        made = units(spec, lengths, tokens_per_batch=budget, world_size=ranks)
    assert len(made) == len(lengths) // size * ranks
    for step, first in enumerate(range(0, len(made), ranks)):
        of_step = made[first : first + ranks]
        assert len({len(unit) for unit in of_step}) == 1
        held = sorted(i for unit in of_step for batch in unit for i in batch)
        assert held == list(range(step * size, (step + 1) * size))
        assert {sum(map(len, unit)) for unit in of_step} == {of_rank}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_rank_trains_on_its_own_batches_of_every_step(ranks):
    lengths = np.random.default_rng(3).lognormal(3, 1, 203).astype(int).clip(1, 200)
    spec, settings = f"{NAME}:samples_per_step=20", {"tokens_per_batch": 300, "order": "file"}
    expected = units(spec, lengths.tolist(), tokens_per_batch=300, world_size=ranks)
    for rank in range(ranks):
        sampler = batchstat.BatchSampler(lengths, spec, rank=rank, world_size=ranks, **settings)
        own = list(sampler.batches())
        found = [[b.records for b in own if b.step == step] for step in range(own[-1].step + 1)]
        assert found == expected[rank::ranks]
    [row] = batchstat.compare(lengths, strategies=spec, world_size=ranks, **settings).strategies
    assert row.counts.steps == 10
    assert row.counts.dropped_samples == 3
    assert row.counts.batches == sum(map(len, expected))


def test_a_batch_may_exceed_the_budget_that_says_how_many_there_are():
    lengths, spec = [4, 9, 6, 4], f"{NAME}:samples_per_step=4"
    assert units(spec, lengths, tokens_per_batch=12) == [[[0, 1], [2, 3]]]
    [row] = batchstat.compare(
        lengths, strategies=spec, tokens_per_batch=12, order="file"
    ).strategies
    assert (row.counts.max_batch_tokens, row.counts.over_budget_batches) == (13, 1)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (f"{NAME}:samples_per_step=5", OptionError, "samples_per_step=5 is not a mult"),
        (NAME, InputError, "no batches left.*samples_per_step"),
    ],
)
def test_what_makes_no_steps_is_an_error(spec, error, message):
    with pytest.raises(error, match=message):
        batchstat.compare(MIXED, strategies=spec, world_size=2)


def test_samples_are_padded_after_they_are_batched():
    lengths = [5, 3, 9, 1, 7, 2, 8, 4]
    spec, settings = f"{NAME}:samples_per_step=4", {"tokens_per_batch": 12, "order": "file"}
    [plain] = batchstat.compare(lengths, strategies=spec, **settings).strategies
    [row] = batchstat.compare(
        lengths, strategies=f"{spec},document_multiple=4", pad_to_multiple_of=4, **settings
    ).strategies
    assert row.counts.batches == plain.counts.batches
    assert row.counts.total_tokens == sum(-(-length // 4) * 4 for length in lengths)
