"""Buckets by length: the originals' golden vectors, plain loops, edges that no others beat."""

import math
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracle
from batchstat import InputError, OptionError
from batchstat.batching import BatchPlan
from batchstat.batching.edges import optimal_edges
from batchstat.batching.planning import plan_epoch
from batchstat.batching.spec import parse_strategy
from batchstat.sampling import Epoch

SETTINGS = {"tokens_per_batch": 64, "batch_size": 2, "max_length": 40, "read_ahead": 4}
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=120)
FEW = st.lists(st.integers(1, 60), min_size=1, max_size=9)


def plan(spec: str, lengths: list[int], **settings: object) -> BatchPlan:
    made = parse_strategy(spec, SETTINGS | settings)
    return plan_epoch(made, Epoch(np.arange(len(lengths)), np.array(lengths)), seed=0, epoch=0)


def batches(made: BatchPlan) -> list[list[int]]:
    edges = made.row_offsets[made.batch_offsets]
    return [made.samples[first:last].tolist() for first, last in pairwise(edges)]


def test_golden_vector_of_transformers():
    lengths = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10, 11, 12, 15, 14, 13, 16]
    made = plan("length-grouped", lengths)
    order = [15, 0, 1, 3, 6, 4, 7, 5, 11, 10, 9, 8, 2, 12, 13, 14]
    assert made.samples.tolist() == order
    assert (np.diff(made.batch_offsets) == 2).all()


@given(LENGTHS, st.integers(1, 9), st.none() | st.integers(1, 5))
def test_length_grouped_is_the_plain_loop(lengths, size, group):
    spec = "length-grouped" + (f":group={group}" if group else "")
    made = plan(spec, lengths, batch_size=size)
    assert batches(made) == oracle.length_grouped(lengths, batch_size=size, group=group)
    assert made.widths.tolist() == [max(lengths[i] for i in batch) for batch in batches(made)]


@given(
    LENGTHS,
    st.sets(st.integers(1, 60), max_size=5),
    st.integers(1, 200),
    st.sampled_from(["keep", "merge", "drop"]),
    st.sampled_from(["longest", "edge"]),
    st.sampled_from([1, 8]),
)
def test_boundaries_are_the_plain_loop(lengths, inner, budget, leftovers, pad, multiple):
    edges = sorted(inner | {max(60, *inner) if inner else 60})
    written = ",".join(map(str, edges))
    made = plan(
        f"boundaries:boundaries={written},leftovers={leftovers},pad={pad},shuffle_batches=false",
        lengths,
        tokens_per_batch=budget,
        pad_to_multiple_of=multiple,
    )
    expected = oracle.boundaries(
        lengths, edges=edges, tokens_per_batch=budget, leftovers=leftovers, multiple=multiple
    )
    assert batches(made) == expected
    widths = [max(lengths[i] for i in batch) for batch in expected]
    if pad == "edge":
        widths = [min(edge for edge in edges if edge >= width) for width in widths]
    assert made.widths.tolist() == [oracle.round_up(width, multiple) for width in widths]
    rows = np.diff(made.batch_offsets)
    assert ((rows * made.widths <= budget) | (rows == 1)).all()


@given(FEW, st.integers(1, 6), st.sampled_from([1, 8]), st.integers(1, 3))
@pytest.mark.parametrize(
    "cost", [float, lambda x: float(x * x), lambda x: x + x * x / 64], ids=["x", "x2", "mix"]
)
def test_no_other_edges_cost_less(cost, lengths, buckets, multiple, least):
    if least > len(lengths):
        with pytest.raises(OptionError, match="samples a bucket"):
            optimal_edges(np.array(lengths), buckets, cost=cost, multiple=multiple, least=least)
        return
    found = optimal_edges(np.array(lengths), buckets, cost=cost, multiple=multiple, least=least)
    assert 1 <= len(found) <= buckets
    assert list(found) == sorted(set(found))
    assert all(edge % multiple == 0 for edge in found)
    above = [min(edge for edge in found if edge >= length) for length in lengths]
    assert all(above.count(edge) >= least for edge in found)
    best = oracle.edges(lengths, buckets, cost, multiple, least)
    assert math.isclose(sum(map(cost, above)), best)


def test_as_many_edges_as_lengths_pad_nothing():
    lengths = np.random.default_rng(0).integers(1, 500, 3000)
    assert optimal_edges(lengths, 1000) == tuple(np.unique(lengths).tolist())
    assert optimal_edges(lengths, 1) == (499,)


@given(LENGTHS, st.integers(1, 10))
def test_automatic_edges_pad_no_more_than_quantiles(lengths, buckets):
    def padding(edges) -> int:
        above = np.asarray(edges)[np.searchsorted(edges, lengths)]
        return int((above - lengths).sum())

    even = np.quantile(lengths, np.arange(1, buckets + 1) / buckets, method="higher")
    assert padding(optimal_edges(np.array(lengths), buckets)) <= padding(np.unique(even))


def test_boundaries_are_found_where_none_are_given():
    lengths = [3, 3, 9, 9, 9, 30]
    auto = plan("boundaries:boundaries=auto,buckets=3,pad=edge,shuffle_batches=false", lengths)
    assert (
        auto.widths.tolist()
        == plan(
            "boundaries:boundaries=3,9,30,pad=edge,shuffle_batches=false", lengths
        ).widths.tolist()
    )
    assert parse_strategy("boundaries", SETTINGS).buckets == 8


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("boundaries:boundaries=", "boundaries='': must be a whole number"),
        ("boundaries:boundaries=9,3", "boundaries=9,3: must be above 0 and rise"),
        ("boundaries:boundaries=3,3", "must be above 0 and rise, each once"),
        ("boundaries:boundaries=0,3", "must be above 0"),
        ("boundaries:boundaries=-1", "must be above 0"),
        ("boundaries:boundaries=a", "boundaries='a': must be a whole number"),
        ("boundaries:buckets=0", "buckets=0"),
        ("boundaries:pad=edges", "did you mean 'edge'"),
        ("boundaries:leftovers=kept", "did you mean 'keep'"),
        ("length-grouped:group=0", "group=0"),
        ("length-grouped:boundaries=3", "unknown parameter of length-grouped"),
    ],
)
def test_parameters_that_cannot_be_meant(spec, message):
    with pytest.raises(OptionError, match=message):
        parse_strategy(spec, SETTINGS)


def test_a_sample_above_the_last_edge():
    with pytest.raises(InputError, match="a sample of 41 tokens is above the last edge 40"):
        plan("boundaries:boundaries=10,40", [5, 41])
