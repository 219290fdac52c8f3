"""Every strategy of the registry: golden vectors, a plain loop, and properties that all share."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

import oracle
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.plan import BatchPlan
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.planning.windows import plan_windows
from conftest import packed, plan_epoch

SETTINGS: dict[str, Any] = {
    "tokens_per_batch": 64,
    "batch_size": 4,
    "max_length": 40,
    "read_ahead": 10,
    "pad_to_multiple_of": 1,
    "drop_last": False,
    "required_batch_size_multiple": 1,
}
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=200)


def epoch_of(lengths: list[int]) -> InMemoryEpoch:
    return InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))


def strategy(spec: str, **settings: object) -> Strategy:
    return StrategySpec.parse(packed(spec)).strategy(SETTINGS | settings)


def plan(spec: str, lengths: list[int], seed: int = 0, epoch: int = 0, **settings: object):
    made = strategy(spec, **settings)
    return plan_epoch(made, epoch_of(lengths), seed=seed, epoch=epoch)


def batches(made: BatchPlan) -> list[list[int]]:
    edges = made.row_offsets[made.batch_offsets]
    return [made.samples[first:last].tolist() for first, last in pairwise(edges)]


@pytest.mark.parametrize(
    ("lengths", "read_ahead", "expected"),
    [
        ([50, 30, 20, 20, 30, 20], 6, [[0], [1, 4], [2, 3, 5]]),
        ([50, 30, 20, 20, 30, 20], 3, [[0], [1, 2], [4, 3], [5]]),
        ([100, 50, 30], 3, [[0], [1], [2]]),
    ],
)
def test_golden_vectors_of_infinibatch(lengths, read_ahead, expected):
    spec = f"token-budget:tokens_per_batch=60,read_ahead={read_ahead},shuffle_batches=false"
    assert batches(plan(spec, lengths)) == expected


@pytest.mark.parametrize("name", STRATEGIES)
@given(lengths=LENGTHS, seed=st.integers(0, 3), epoch=st.integers(0, 3))
def test_every_sample_is_in_exactly_one_batch(name, lengths, seed, epoch):
    # Of a random order, axolotl leaves out what other orders have no room for.
    made = plan({"axolotl": "axolotl:curriculum=true"}.get(name, name), lengths, seed, epoch)
    assert sorted(made.samples.tolist()) == list(range(len(lengths)))
    assert made.lengths.tolist() == [lengths[i] for i in made.samples.tolist()]


@pytest.mark.parametrize("name", STRATEGIES)
@given(lengths=LENGTHS, multiple=st.integers(1, 16))
def test_plans_are_well_formed(name, lengths, multiple):
    made = plan(name, lengths, pad_to_multiple_of=multiple)
    for offsets, end in (
        (made.row_offsets, len(made.samples)),
        (made.batch_offsets, len(made.row_offsets) - 1),
        (made.unit_offsets, len(made.batch_offsets) - 1),
    ):
        assert offsets[0] == 0
        assert offsets[-1] == end
        assert (np.diff(offsets) > 0).all()
    rows = np.add.reduceat(made.lengths, made.row_offsets[:-1])
    widest = np.maximum.reduceat(rows, made.batch_offsets[:-1])
    assert (made.widths >= widest).all()
    assert (made.widths % multiple == 0).all()


@settings(max_examples=5)  # what is not the same is so for most lengths
@pytest.mark.parametrize("name", STRATEGIES)
@given(lengths=LENGTHS)
def test_the_same_arguments_give_the_same_plan(name, lengths):
    assert batches(plan(name, lengths, 1, 2)) == batches(plan(name, lengths, 1, 2))


@pytest.mark.parametrize("name", STRATEGIES)
@given(lengths=LENGTHS, seed=st.integers(0, 3))
def test_shuffling_changes_the_sequence_of_batches_and_nothing_else(name, lengths, seed):
    if not hasattr(strategy(name), "shuffle_batches"):
        return
    window = "read_ahead=1000" if hasattr(strategy(name), "read_ahead") else "drop_last=false"
    kept = batches(plan(f"{name}:shuffle_batches=false,{window}", lengths, seed))
    assert sorted(batches(plan(f"{name}:{window}", lengths, seed))) == sorted(kept)


@pytest.mark.parametrize("name", STRATEGIES)
@given(lengths=LENGTHS, size=st.integers(1, 30))
def test_windows_are_independent(name, lengths, size):
    if strategy(name).looks_ahead is None or strategy(name).window_size is None:
        return
    sized = strategy(f"{name}:read_ahead={size}")
    whole = list(plan_windows(sized, epoch_of(lengths), seed=5, epoch=7))
    assert len(whole) == -(-len(lengths) // size)
    for k, made in enumerate(whole):
        assert sorted(made.samples.tolist()) == list(
            range(k * size, min((k + 1) * size, len(lengths)))
        )
    changed = [length % 40 + 1 for length in lengths[:size]] + lengths[size:]
    other = list(plan_windows(sized, epoch_of(changed), seed=5, epoch=7))
    assert [batches(made) for made in other[1:]] == [batches(made) for made in whole[1:]]


@given(
    lengths=LENGTHS,
    budget=st.integers(1, 200),
    read_ahead=st.integers(1, 250),
    max_samples=st.none() | st.integers(1, 8),
    multiple=st.sampled_from([1, 2, 8]),
)
def test_token_budget_is_the_plain_loop_and_keeps_its_budget(
    lengths, budget, read_ahead, max_samples, multiple
):
    made = plan(
        "token-budget:shuffle_batches=false",
        lengths,
        tokens_per_batch=budget,
        read_ahead=read_ahead,
        max_samples=max_samples,
        pad_to_multiple_of=multiple,
    )
    expected = oracle.token_budget(
        lengths,
        tokens_per_batch=budget,
        read_ahead=read_ahead,
        max_samples=max_samples,
        multiple=multiple,
    )
    assert batches(made) == [batch.positions for batch in expected]
    assert made.widths.tolist() == [batch.width for batch in expected]
    rows = np.diff(made.batch_offsets)
    assert ((rows * made.widths <= budget) | (rows == 1)).all()
    assert max_samples is None or (rows <= max_samples).all()


@given(lengths=LENGTHS, size=st.integers(1, 20), read_ahead=st.integers(1, 250))
def test_the_others_are_the_plain_loops(lengths, size, read_ahead):
    for spec, expected in (
        ("fixed", oracle.fixed(lengths, batch_size=size, max_length=40, multiple=8)),
        ("static", oracle.static(lengths, batch_size=size, multiple=8)),
        (
            "bucketed:shuffle_batches=false",
            oracle.bucketed(lengths, batch_size=size, read_ahead=read_ahead, multiple=8),
        ),
    ):
        made = plan(spec, lengths, batch_size=size, read_ahead=read_ahead, pad_to_multiple_of=8)
        assert batches(made) == [batch.positions for batch in expected]
        assert made.widths.tolist() == [batch.width for batch in expected]


@pytest.mark.parametrize("name", STRATEGIES)
@example(lengths=[1, 9, 32, 32, 32])
@given(lengths=LENGTHS)
def test_drop_last_leaves_out_one_incomplete_batch_at_most(name, lengths):
    whole = batches(plan(f"{name}:pad_to_multiple_of=1", lengths, drop_last=False))
    kept = batches(plan(name, lengths, drop_last=True))
    dropped = [batch for batch in whole if batch not in kept]
    if name == "bucketed":  # which drops samples before it sorts: see test_drop_last.py
        return
    if name in ("token-budget", "infinibatch"):  # any batch is dropped if the last could hold more
        size = 10 if name == "token-budget" else 10_000
        last = sorted(lengths[(len(lengths) - 1) // size * size :], reverse=True)
        while len(last) > max(1, 64 // last[0]):
            last = last[max(1, 64 // last[0]) :]
        assert len(whole) - len(kept) == (len(last) < 64 // last[0])
        return
    if name == "asym":  # whose step of several batches is what is left out
        assert sum(map(len, dropped)) < 4
        return
    if name == "lhotse":  # which leaves out what every bucket has left, as lhotse does
        for batch in dropped:
            held = [lengths[i] for i in batch]
            assert (len(held) + 1) * max(held) <= 64
        return
    if strategy(name).drops_per and name not in ROOM:
        return
    assert len(whole) - len(kept) == len(dropped) <= 1, (
        f"drop_last of {name} leaves out more than the last batch of the epoch: say of what it "
        "leaves out the end, as drops_per of the strategy"
    )
    held = [[lengths[i] for i in batch] for batch in whole]
    could_hold_more = ROOM.get(name, has_fewer_than(strategy(name).batch_capacity))
    for batch in dropped:
        rest = [lengths[i] for i in batch]
        assert could_hold_more(rest, held), f"drop_last of {name} leaves out a batch that is full"


Held = list[int]


def has_fewer_than(capacity: int | None) -> Callable[[Held, list[Held]], bool]:
    return lambda held, _: capacity is None or len(held) < capacity


ROOM: dict[str, Callable[[Held, list[Held]], bool]] = {
    "tf-data": lambda held, _: len(held) < 64 // max(held),
    "trl": lambda held, _: sum(held) < 8 * 40,
    "llama-factory": lambda held, _: sum(held) < 8 * 40,
    "nemo": lambda held, _: not held,
    "grain": lambda held, _: sum(held) < 4 * 40,
    "axolotl": lambda held, _: sum(held) < 64,
    "fairseq": lambda held, _: len(held) < 64 // max(held),
    "boundaries": lambda held, _: len(held) < 64 // max(held),
    # Any batch is dropped if the shortest could hold more.
    "packed": lambda _, whole: any(sum(each) < 64 for each in whole),
    "padding-free": lambda held, _: sum(held) < 64,
}
"""Whether a batch could hold more, where more is known of that than a number of samples."""


@pytest.mark.parametrize("name", STRATEGIES)
def test_samples_without_tokens_are_batched_too(name):
    assert sorted(plan(name, [0, 5, 0, 0, 0, 0]).samples.tolist()) == list(range(6))


@pytest.mark.parametrize("name", ["fixed", "static"])
@given(lengths=LENGTHS, size=st.integers(1, 9), drop_last=st.booleans())
def test_how_much_is_held_at_once_changes_nothing(name, lengths, size, drop_last):
    whole = plan(name, lengths, batch_size=size, drop_last=drop_last)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("batchstat.planning.algorithms.cutting._AT_ONCE", 20)
        windows = list(
            plan_windows(
                strategy(name, batch_size=size, drop_last=drop_last),
                epoch_of(lengths),
                seed=0,
                epoch=0,
            )
        )
    assert len(windows) == -(-len(lengths) // (20 // size * size))
    assert [batch for each in windows for batch in batches(each)] == batches(whole)


def test_record_numbers_and_starts_reach_the_plan():
    visits = InMemoryEpoch(np.array([7, 7, 9]), np.array([40, 3, 40]), np.array([0, 40, 0]))
    made = plan_epoch(strategy("bucketed"), visits, seed=0, epoch=0)
    found = set(zip(made.samples.tolist(), made.starts.tolist(), strict=True))
    assert found == {(7, 0), (7, 40), (9, 0)}


def test_fixed_refuses_samples_above_its_width():
    from batchstat import InputError

    with pytest.raises(InputError, match="a sample of 5 tokens is longer than max_length=4"):
        plan("fixed:max_length=4", [3, 5])
