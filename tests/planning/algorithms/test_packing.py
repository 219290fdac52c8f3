"""Packing: row for row the textbook's, and the originals' golden vectors."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracle
from batchstat import InputError, OptionError
from batchstat.planning.algorithms import packing
from batchstat.planning.epoch import InMemoryEpoch, make_epoch
from batchstat.planning.plan import BatchPlan
from batchstat.planning.strategies.spec import StrategySpec
from conftest import plan_epoch

SETTINGS = {"tokens_per_batch": 30, "max_length": 10, "read_ahead": 4, "max_samples": 2}
LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=120)
MAX_INT = st.sampled_from([1, 2, 3, 1000])


def plan(spec: str, lengths: list[int], **settings: object) -> BatchPlan:
    made = StrategySpec.parse(spec).strategy(SETTINGS | settings)
    return plan_epoch(
        made, InMemoryEpoch(np.arange(len(lengths)), np.array(lengths)), seed=0, epoch=0
    )


def rows(made: BatchPlan) -> list[list[int]]:
    return [made.samples[first:last].tolist() for first, last in pairwise(made.row_offsets)]


def lengths_of(made: BatchPlan) -> list[list[int]]:
    return [made.lengths[first:last].tolist() for first, last in pairwise(made.row_offsets)]


def row_of_each(found: packing.Packing) -> list[int]:
    """The row of each length."""
    return [
        row
        for first, rows, each in zip(found.row, found.rows, found.per_row, strict=True)
        for row in range(first, first + rows)
        for _ in range(each)
    ]


def test_golden_vectors_of_trl():
    """Best fit decreasing with capacity 10; what is empty is left out there."""
    lengths = [5, 6, 2, 7, 3, 1, 10]
    made = plan("packed:shuffle_batches=false", lengths)
    assert rows(made) == [[6], [3, 4], [1, 2, 5], [0]]
    visits = make_epoch(np.arange(7), np.array([5, 6, 2, 7, 3, 1, 12]), 10, "split")
    strategy = StrategySpec.parse("packed:shuffle_batches=false").strategy(SETTINGS)
    made = plan_epoch(strategy, visits, seed=0, epoch=0)
    assert lengths_of(made) == [[10], [7, 3], [6, 2, 2], [5, 1]]


def test_golden_vector_of_llama_factory():
    """Its knapsack takes the largest that fits; here best fit gives the same rows."""
    made = plan("packed:shuffle_batches=false", [5, 6, 2, 7, 3, 1])
    assert lengths_of(made) == [[7, 3], [6, 2, 1], [5]]


@given(LENGTHS, st.integers(30, 64), MAX_INT)
def test_best_fit_is_the_textbook(lengths, capacity, most):
    falling = sorted(lengths, reverse=True)
    found = packing.best_fit(np.array(falling), capacity, most)
    assert row_of_each(found) == oracle.best_fit(falling, capacity, most)


def test_golden_vector_of_axolotl():
    """First fit in the sampler's sequence; its sample of 20 has a row that is over the capacity."""
    made = plan("packed:method=first-fit,shuffle_batches=false", [3, 10, 4, 5, 1])
    assert rows(made) == [[1], [0, 2, 4], [3]]
    visits = make_epoch(np.arange(5), np.array([3, 20, 4, 5, 1]), 10, "truncate")
    strategy = StrategySpec.parse("packed:method=first-fit,shuffle_batches=false").strategy(
        SETTINGS
    )
    assert rows(plan_epoch(strategy, visits, seed=0, epoch=0)) == rows(made)


@given(LENGTHS, st.integers(30, 64), MAX_INT)
def test_first_fit_is_the_textbook(lengths, capacity, most):
    for sequence in (lengths, sorted(lengths, reverse=True)):
        found = packing.first_fit(np.array(sequence), capacity, most)
        assert row_of_each(found) == oracle.first_fit(sequence, capacity, most)


@given(LENGTHS, st.integers(1, 64), MAX_INT)
def test_next_fit_is_the_plain_loop(lengths, capacity, most):
    found = packing.next_fit(np.array(lengths), capacity, most)
    assert row_of_each(found) == oracle.next_fit(lengths, capacity, most)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40))
def test_samples_above_the_capacity_have_a_row_each(lengths):
    falling = np.array(sorted(lengths, reverse=True))
    for fit in (packing.best_fit, packing.first_fit):
        found = np.array(row_of_each(fit(falling, 1000, 1000)))
        long = found[falling > 1000]
        assert len(set(long.tolist())) == len(long)
        assert not set(long.tolist()) & set(found[falling <= 1000].tolist())


@given(LENGTHS, st.integers(30, 64), st.booleans())
def test_wrapped_is_the_plain_cut(lengths, capacity, chunked):
    spec = "packed:method=wrapped,shuffle_batches=false"
    made = plan(spec + (",read_ahead=7" if chunked else ""), lengths, max_length=capacity)
    windows = [lengths[i : i + 7] for i in range(0, len(lengths), 7)] if chunked else [lengths]
    expected = []
    for k, window in enumerate(windows):
        expected += [[(i + 7 * k, j) for i, j in row] for row in oracle.wrapped(window, capacity)]
    starts = np.zeros_like(made.samples) if made.starts is None else made.starts
    found = [
        [
            (int(made.samples[e]), int(starts[e]) + j)
            for e in range(first, last)
            for j in range(int(made.lengths[e]))
        ]
        for first, last in pairwise(made.row_offsets)
    ]
    # The widest rows come first.
    assert sorted(row for row in found if row) == sorted(expected)
    assert set(made.samples.tolist()) == set(range(len(lengths)))


@pytest.mark.parametrize("method", ["bfd", "ffd", "first-fit", "next-fit", "wrapped"])
@given(lengths=LENGTHS, budget=st.integers(1, 200), multiple=st.sampled_from([1, 8]))
def test_rows_hold_what_they_may_and_batches_their_budget(method, lengths, budget, multiple):
    spec = f"packed:method={method}"
    options = {"max_length": 30, "tokens_per_batch": budget, "pad_to_multiple_of": multiple}
    made = plan(spec, lengths, **options)
    held = np.add.reduceat(np.append(made.lengths, 0), made.row_offsets[:-1])
    assert (held <= 30).all()
    assert int(made.lengths.sum()) == sum(lengths)
    n_rows = np.diff(made.batch_offsets)
    assert ((n_rows * made.widths <= budget) | (n_rows == 1)).all()
    widest = np.maximum.reduceat(held, made.batch_offsets[:-1])
    assert (made.widths == -(-widest // multiple) * multiple).all()


@given(LENGTHS, st.integers(1, 5))
def test_a_row_holds_so_many_samples_at_most(lengths, most):
    made = plan(f"packed:max_samples_per_row={most}", lengths, max_length=30)
    assert np.diff(made.row_offsets).max() <= most


@given(LENGTHS, st.integers(1, 80), st.none() | st.integers(1, 5), st.sampled_from([1, 8]))
def test_padding_free_is_the_plain_loop(lengths, budget, most, multiple):
    settings = {"tokens_per_batch": budget, "pad_to_multiple_of": multiple, "max_samples": most}
    made = plan("padding-free", lengths, **settings)
    capacity = budget // multiple * multiple
    row = oracle.next_fit(lengths, capacity, most or 10**9)
    assert rows(made) == [[i for i in range(len(row)) if row[i] == r] for r in range(row[-1] + 1)]
    assert (np.diff(made.batch_offsets) == 1).all()
    total = int((made.widths * np.diff(made.batch_offsets)).sum())
    assert total - sum(lengths) <= (multiple - 1) * len(made)


def test_parameters_of_their_own_are_not_the_shared_settings():
    assert StrategySpec.parse("packed").strategy(SETTINGS).read_ahead is None
    assert StrategySpec.parse("packed:read_ahead=7").strategy(SETTINGS).read_ahead == 7
    assert StrategySpec.parse("padding-free").strategy(SETTINGS).max_samples == 2


def test_parameters_that_cannot_be_meant():
    with pytest.raises(OptionError, match="unknown method 'bdf': did you mean 'bfd'"):
        StrategySpec.parse("packed:method=bdf").strategy(SETTINGS)
    with pytest.raises(OptionError, match="max_samples_per_row=0"):
        StrategySpec.parse("packed:max_samples_per_row=0").strategy(SETTINGS)
    with pytest.raises(
        InputError, match="packed: a sample of 11 tokens is longer than max_length=10"
    ):
        plan("packed", [11])
