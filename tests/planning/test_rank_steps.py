"""verl and slime: the originals' very batches, a plain loop, and what each keeps of its budget."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
import oracle
from batchstat import InputError, OptionError
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.strategies.spec import parse_strategy
from conftest import plan_epoch

MIXED = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10, 11, 12, 15, 14, 13, 16, 2, 2, 2, 3]


def units(spec: str, lengths: list[int], **settings: int) -> list[list[list[int]]]:
    """The batches of each rank, of one step after another."""
    strategy = parse_strategy(spec, settings)
    made = plan_epoch(
        strategy, InMemoryEpoch(np.arange(len(lengths)), np.array(lengths)), seed=0, epoch=0
    )
    rows = [made.samples[first:last].tolist() for first, last in pairwise(made.row_offsets)]
    assert made.widths.tolist() == [sum(lengths[i] for i in row) for row in rows]
    return [rows[first:last] for first, last in pairwise(made.step_offsets)]


@pytest.mark.parametrize(
    ("changed", "budget", "expected"),
    [
        (
            "samples_per_step=20",
            30,
            [
                [[13, 4, 19], [5, 9, 10, 16], [1, 8, 12]],
                [[0, 15, 17], [2, 11, 7], [3, 18, 14, 6]],
            ],
        ),
        (
            "samples_per_step=20,assign=turns",
            30,
            [
                [[0, 4, 14], [6, 8, 10, 16], [2, 12, 18]],
                [[9, 11], [1, 5, 7, 13], [3, 15, 17, 19]],
            ],
        ),
        (
            "samples_per_step=20,assign=chunks",
            30,
            [
                [[1, 2, 8], [0, 5, 6, 7], [3, 4, 9]],
                [[10, 12, 17, 18], [11, 15, 16], [13, 14, 19]],
            ],
        ),
        (  # of 20 samples, 16 are two rollouts
            "samples_per_step=4,samples_per_rollout=8",
            20,
            [
                *([[5, 0]], [[3, 4]], [[2, 7]], [[6, 1]]),
                *([[14], [9]], [[13], [8]], [[12], [10]], [[15], [11]]),
            ],
        ),
    ],
)
def test_golden_vectors_of_verl(changed, budget, expected):
    """Made by running volcengine/verl at b178a3cd: `_balance_batch` of
    verl/trainer/ppo/ray_trainer.py (torch's DistributedSampler for turns), then
    `rearrange_micro_batches` of verl/utils/seqlen_balancing.py on each rank, with the most batches
    of any rank as `min_num_micro_batch`, which is what its all_reduce finds.
    """
    assert units(f"verl:{changed}", MIXED, tokens_per_batch=budget, world_size=2) == expected


@pytest.mark.parametrize(
    ("ranks", "size", "budget", "expected"),
    [
        (
            *(2, 20, 30),
            [
                [[0, 1, 2, 3, 4, 5, 16], [10, 11, 18, 19], [14, 15]],
                [[9, 7, 17], [12, 13], [6, 8]],
            ],
        ),
        (
            *(4, 8, 30),
            [
                *([[2]], [[6, 7]], [[4, 0, 3]], [[1, 5]]),
                *([[8, 9, 10]], [[11, 12]], [[13, 14]], [[15]]),
            ],
        ),
        (
            *(2, 8, 7),
            [
                *([[0, 3], [2], [6]], [[1, 5], [4], [7]]),
                *([[8], [10], [12], [14]], [[9], [11], [13], [15]]),
            ],
        ),
    ],
)
def test_golden_vectors_of_slime(ranks, size, budget, expected):
    """Made by running `build_dp_schedule` of slime/utils/dp_schedule.py in THUDM/slime at 624b824a,
    with use_dynamic_batch_size and one sample per rollout.
    """
    spec = f"slime:samples_per_step={size}"
    assert units(spec, MIXED, tokens_per_batch=budget, world_size=ranks) == expected


SIZES = {
    "ranks": st.integers(1, 4),
    "of_rank": st.integers(1, 7),
    "budget": st.integers(40, 120),
    "lengths": st.lists(st.integers(1, 40), min_size=1, max_size=90),
}


@given(
    **SIZES,
    assign=st.sampled_from(["balanced", "ordered", "turns", "chunks"]),
    steps=st.integers(1, 3),
    keeps=st.booleans(),
)
def test_verl_is_the_plain_loop(ranks, of_rank, budget, lengths, assign, steps, keeps):
    size = ranks * of_rank
    spec = f"verl:samples_per_step={size},samples_per_rollout={size * steps},assign={assign}"
    spec += ",keeps_budget=true" if keeps else ""
    expected = []
    for first in range(0, len(lengths) - size * steps + 1, size * steps):
        rollout = lengths[first : first + size * steps]
        found = oracle.verl(
            rollout,
            tokens_per_batch=budget,
            ranks=ranks,
            assign=assign,
            steps=steps,
            keeps_budget=keeps,
        )
        assert not keeps or all(
            sum(rollout[i] for i in batch) <= budget for rank in found for batch in rank
        )
        expected += [[[first + i for i in batch] for batch in rank] for rank in found]
    assert units(spec, lengths, tokens_per_batch=budget, world_size=ranks) == expected


@given(**SIZES, work=st.none() | st.tuples(st.integers(1, 900), st.integers(1, 9)))
def test_slime_is_the_plain_loop(ranks, of_rank, budget, lengths, work):
    size = ranks * of_rank
    expected = []
    for first in range(0, len(lengths) - size + 1, size):
        step = lengths[first : first + size]
        found = oracle.slime(step, tokens_per_batch=budget - 30, ranks=ranks, work=work)
        expected += [[[first + i for i in batch] for batch in rank] for rank in found]
    spec = f"slime:samples_per_step={size}"
    spec += f",token_work={work[0]},pair_work={work[1]}" if work else ""
    assert units(spec, lengths, tokens_per_batch=budget - 30, world_size=ranks) == expected


@pytest.mark.parametrize("name", ["verl", "slime"])
@given(**SIZES)
def test_every_rank_has_as_many_batches_and_every_step_its_samples(
    name, ranks, of_rank, budget, lengths
):
    size = ranks * of_rank
    spec = f"{name}:samples_per_step={size}"
    made = units(spec, lengths, tokens_per_batch=budget, world_size=ranks)
    assert len(made) == len(lengths) // size * ranks
    for step, first in enumerate(range(0, len(made), ranks)):
        of_step = made[first : first + ranks]
        assert len({len(unit) for unit in of_step}) == 1
        held = sorted(i for unit in of_step for batch in unit for i in batch)
        assert held == list(range(step * size, (step + 1) * size))
        if name == "slime":
            assert all(
                sum(lengths[i] for i in batch) <= budget for unit in of_step for batch in unit
            )
        else:
            assert {sum(map(len, unit)) for unit in of_step} == {of_rank}


def test_verl_may_exceed_its_budget_and_slime_does_so_by_a_sample_alone():
    """The batches of verl are the original's, at the same commit."""
    lengths, spec = [4, 9, 6, 4], "verl:samples_per_step=4"
    assert units(spec, lengths, tokens_per_batch=12) == [[[0, 1], [2, 3]]]
    [row] = batchstat.compare(
        lengths, strategies=spec, tokens_per_batch=12, order="file"
    ).strategies
    assert (row.counts.max_batch_tokens, row.counts.over_budget_batches) == (13, 1)
    made = units("slime:samples_per_step=4", [3, 50, 2, 3], tokens_per_batch=8)
    assert made == [[[0, 2, 3], [1]]]


@pytest.mark.parametrize("name", ["verl", "slime"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_rank_trains_on_its_own_batches_of_every_step(name, ranks):
    lengths = np.random.default_rng(3).lognormal(3, 1, 203).astype(int).clip(1, 200)
    spec, settings = f"{name}:samples_per_step=20", {"tokens_per_batch": 300, "order": "file"}
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


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("slime:samples_per_step=5", OptionError, "samples_per_step=5 is not a multiple of world"),
        ("verl:samples_per_step=5", OptionError, "samples_per_step=5 is not a multiple of world"),
        (
            "verl:samples_per_step=4,samples_per_rollout=6",
            OptionError,
            "samples_per_rollout=6 is not a multiple of samples_per_step=4",
        ),
        ("verl:assign=x", OptionError, "unknown assign 'x'"),
        ("verl", InputError, "no batches left.*samples_per_step"),
        ("verl:samples_per_step=4,tokens_per_batch=15", InputError, "a sample of 16 tokens"),
    ],
)
def test_what_makes_no_steps_is_an_error(spec, error, message):
    with pytest.raises(error, match=message):
        batchstat.compare(MIXED, strategies=spec, world_size=2)


def test_slime_needs_the_work_of_tokens_and_of_pairs():
    with pytest.raises(OptionError, match="token_work=3 with pair_work=None: give both, or none"):
        parse_strategy("slime:samples_per_step=4,token_work=3", {"tokens_per_batch": 9})


@pytest.mark.parametrize("name", ["verl", "slime"])
def test_samples_are_padded_after_they_are_batched(name):
    lengths = [5, 3, 9, 1, 7, 2, 8, 4]
    spec, settings = f"{name}:samples_per_step=4", {"tokens_per_batch": 12, "order": "file"}
    [plain] = batchstat.compare(lengths, strategies=spec, **settings).strategies
    [row] = batchstat.compare(
        lengths, strategies=f"{spec},document_multiple=4", pad_to_multiple_of=4, **settings
    ).strategies
    assert row.counts.batches == plain.counts.batches
    assert row.counts.total_tokens == sum(-(-length // 4) * 4 for length in lengths)
