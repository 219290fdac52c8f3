"""Buckets by length: the originals' golden vectors, plain loops, edges that no others beat."""

import math
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracle
from batchstat import InputError, OptionError
from batchstat.planning.algorithms.bucket_edges import RULES, each_optimal_edges
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.plan import BatchPlan
from batchstat.planning.strategies.spec import StrategySpec
from conftest import plan_epoch
from tables import in_turn

SETTINGS = {"tokens_per_batch": 64, "batch_size": 2, "max_length": 40, "read_ahead": 4}
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=120)
FEW = st.lists(st.integers(1, 60), min_size=1, max_size=9)


def edges_by(rule: str, lengths, buckets: int) -> np.ndarray:
    """The edges of a rule, for lengths."""
    values, counts = np.unique(lengths, return_counts=True)
    return RULES[rule](values, counts, buckets, float)


def optimal_edges(lengths, buckets: int, *, multiple: int = 1, **options: Any) -> tuple[int, ...]:
    """The edges of that many buckets with the least cost."""
    rounded = -(-np.asarray(lengths) // multiple) * multiple
    values, counts = np.unique(rounded, return_counts=True)
    return list(each_optimal_edges(values, counts, buckets, **options))[-1]


def plan(spec: str, lengths: list[int], **settings: object) -> BatchPlan:
    made = StrategySpec.parse(spec).strategy(SETTINGS | settings)
    return plan_epoch(
        made, InMemoryEpoch(np.arange(len(lengths)), np.array(lengths)), seed=0, epoch=0
    )


def batches(made: BatchPlan) -> list[list[int]]:
    edges = made.row_offsets[made.batch_offsets]
    return [made.samples[first:last].tolist() for first, last in pairwise(edges)]


def test_golden_vector_of_transformers():
    lengths = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10, 11, 12, 15, 14, 13, 16]
    made = plan("hf-group-by-length:batch_size=2", lengths)
    order = [15, 0, 1, 3, 6, 4, 7, 5, 11, 10, 9, 8, 2, 12, 13, 14]
    assert made.samples.tolist() == order
    assert (np.diff(made.batch_offsets) == 2).all()


@given(LENGTHS, st.integers(1, 9), st.none() | st.integers(1, 5))
def test_length_grouped_is_the_plain_loop(lengths, size, group):
    spec = f"hf-group-by-length:batch_size={size}" + (f",group={group}" if group else "")
    made = plan(spec, lengths)
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
        with pytest.raises(InputError, match="there are only .* samples"):
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


def test_golden_vectors_of_fairseq():
    lengths = [1, 1, 2, 3, 3, 4, 5, 5, 6, 8]
    expected = [[0, 1, 2, 3], [4, 5], [6, 7], [8], [9]]
    spec = "fairseq:tokens_per_batch=12,shuffle_batches=false,required_batch_size_multiple"
    assert batches(plan(f"{spec}=1", lengths)) == expected
    # With a multiple of two the batches are the same, and the wrapper then drops the odd last one.
    assert batches(plan(f"{spec}=2", lengths)) == expected[:-1]
    assert batches(plan(f"{spec}=8", [1] * 11)) == [list(range(8))]
    assert batches(plan(f"{spec}=8", [1] * 5)) == []


@given(
    LENGTHS,
    st.integers(40, 200),
    st.sampled_from([1, 2, 8]),
    st.none() | st.integers(1, 12),
)
def test_max_tokens_is_the_plain_loop(lengths, budget, multiple, most):
    spec = f"fairseq:shuffle_batches=false,required_batch_size_multiple={multiple}"
    spec += f",max_samples={most}" if most else ""
    made = plan(spec, lengths, tokens_per_batch=budget)
    expected = oracle.max_tokens(
        lengths, tokens_per_batch=budget, multiple=multiple, max_samples=most
    )
    assert batches(made) == expected
    rows = np.diff(made.batch_offsets)
    assert (rows * made.widths <= budget).all()
    assert most is None or (rows <= most).all()


def test_samples_above_the_budget_of_max_tokens_are_alone():
    spec = "fairseq:shuffle_batches=false,required_batch_size_multiple=1"
    assert batches(plan(spec, [5, 65, 70, 6])) == [[0, 3], [1], [2]]


@given(LENGTHS, st.integers(1, 30), st.sets(st.integers(1, 45), min_size=1, max_size=4))
def test_grouped_is_the_plain_loop(lengths, size, thresholds):
    rising = sorted(thresholds)
    written = ",".join(map(str, rising))
    made = plan(f"asym:thresholds={written}", lengths, batch_size=size)
    expected = oracle.grouped(lengths, batch_size=size, thresholds=rising)
    assert batches(made) == [batch for step in expected for batch in step]
    assert np.diff(made.unit_offsets).tolist() == [len(step) for step in expected]
    assert made.widths.tolist() == [max(lengths[i] for i in batch) for batch in batches(made)]


def test_the_published_demonstration_of_asym():
    """Lengths 1, 4, 16, 64 in inverse proportion: without groups a batch is 64 wide."""
    lengths = np.repeat([1, 4, 16, 64], np.array([64, 16, 4, 1]) * 1024 // 85 + 1)[:1024]
    lengths = np.random.default_rng(0).permutation(lengths).tolist()
    alone = plan("static", lengths, batch_size=256)
    made = plan("asym:thresholds=1,4,16", lengths, batch_size=256)
    assert len(made.unit_offsets) - 1 == len(alone) == 4
    assert sorted(set(made.widths.tolist())) == [1, 4, 16, 64]
    total = int((np.diff(made.batch_offsets) * made.widths).sum())
    assert total == sum(lengths)
    assert int((np.diff(alone.batch_offsets) * alone.widths).sum()) == 64 * 1024
    assert batches(plan("asym:rule=optimal", lengths, batch_size=256)) == batches(made)


MIXED = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10, 11, 12, 15, 14, 13, 16, 2, 2, 2, 3]


def test_golden_vectors_of_tf_data():
    """Run with TensorFlow 2.21: boundaries 4, 8, 12 (exclusive), sizes 24 // (boundary - 1)."""
    spec = "boundaries:boundaries=3,7,11,16,tokens_per_batch=24,shuffle_batches=false"
    full = [[2, 6], [0, 4, 7], [9, 10], [11], [12], [13], [14], [15]]
    left = [[1, 3, 5, 16, 17, 18, 19], [8]]
    assert batches(plan(spec, MIXED)) == full + left
    assert batches(plan(f"{spec},leftovers=drop", MIXED)) == full


@pytest.mark.parametrize(
    ("buckets", "edges"),
    [(2, [12]), (3, [10, 15]), (4, [8, 12, 15]), (8, [5, 9, 11, 13, 15])],
)
def test_golden_edges_of_lhotse(buckets, edges):
    """Run with lhotse 1.33; its last bucket has no edge, ours that of the longest sample."""
    assert edges_by("equal-tokens", MIXED, buckets).tolist() == [*edges, 16]
    assert edges_by("equal-tokens", np.ones(10, int), 5).tolist() == [1]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            "",
            [[0, 1, 3, 4], [5, 6, 7], [8, 16, 17, 18, 19], [2, 9, 10], [11], [12, 13], [14], [15]],
        ),
        (
            ",max_samples=3",
            [
                [0, 1, 3],
                [4, 5, 6],
                [7, 8, 16],
                [17, 18, 19],
                [2, 9, 10],
                [11],
                [12, 13],
                [14],
                [15],
            ],
        ),
        (
            ",drop_last=true",
            [[0, 1, 3, 4], [5, 6, 7], [8, 16, 17, 18, 19], [2, 9, 10], [12, 13], [15]],
        ),
    ],
)
def test_golden_vectors_of_lhotse(spec, expected):
    """Run with lhotse 1.33 and shuffle=False, but for the sequence, which its random bucket makes.

    The batch of samples 2, 9 and 10 has 3 x 11 tokens, which is above the budget of 30.
    """
    made = plan(f"lhotse:buckets=4,tokens_per_batch=30,shuffle=false{spec}", MIXED)
    assert sorted(batches(made)) == sorted(expected)
    assert (np.diff(made.batch_offsets) * made.widths).max() == 33


@given(LENGTHS, st.integers(1, 200), st.none() | st.integers(1, 6), st.sampled_from([1, 8]))
def test_dynamic_buckets_that_hold_all_are_the_plain_loop(lengths, budget, most, multiple):
    made = plan(
        "lhotse:boundaries=10,20,60,shuffle=false",
        lengths,
        tokens_per_batch=budget,
        max_samples=most,
        pad_to_multiple_of=multiple,
    )
    padded = [oracle.round_up(length, multiple) for length in lengths]
    expected = oracle.dynamic_buckets(
        padded,
        edges=[oracle.round_up(edge, multiple) for edge in (10, 20, 60)],
        tokens_per_batch=budget,
        max_samples=most,
    )
    if multiple == 1:
        assert sorted(batches(made)) == sorted(expected)
    assert sorted(made.samples.tolist()) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 200), st.integers(1, 80), st.booleans())
def test_a_batch_of_dynamic_buckets_is_over_its_budget_by_its_last_sample_only(
    lengths, budget, buffer, shuffle
):
    spec = f"lhotse:boundaries=10,20,60,buffer_size={buffer},shuffle={str(shuffle).lower()}"
    made = plan(spec, lengths, tokens_per_batch=budget)
    assert sorted(made.samples.tolist()) == list(range(len(lengths)))
    for batch in batches(made):
        held = [lengths[i] for i in batch]
        assert len({np.searchsorted([10, 20, 60], length) for length in held}) == 1
        assert len(held) == 1 or len(held) * max(held[:-1]) <= budget
        if not shuffle:
            assert batch == sorted(batch)


def test_dynamic_buckets_draw_from_their_buffer_alone():
    """A sample cannot come before those that left no room for it in the buffer."""
    lengths = np.random.default_rng(0).integers(1, 60, 3000).tolist()
    made = plan("lhotse:buffer_size=100", lengths, tokens_per_batch=600)
    place = np.empty(3000, dtype=int)
    place[made.samples] = np.arange(3000)
    ends = made.row_offsets[made.batch_offsets]
    begin = ends[np.searchsorted(ends, place, side="right") - 1]
    assert (np.arange(3000) < begin + 100).all()


@pytest.mark.parametrize("rule", RULES)
@given(lengths=LENGTHS, buckets=st.integers(1, 8))
def test_every_rule_rises_to_the_longest(rule, lengths, buckets):
    found = edges_by(rule, lengths, buckets)
    assert 1 <= len(found) <= buckets or rule == "equal-tokens"
    assert (np.diff(found) > 0).all()
    assert found[0] >= 1
    assert found[-1] == max(lengths)


@in_turn("rule", RULES)
def test_no_rule_beats_the_optimal_edges(rule):
    lengths = np.random.default_rng(0).lognormal(4, 1, 5000).clip(1, 512).astype(int)

    def padded(name: str) -> int:
        edges = edges_by(name, lengths, 8)
        return int(edges[np.searchsorted(edges, lengths)].sum())

    assert padded("optimal") <= padded(rule)


@given(LENGTHS, st.integers(2, 12))
def test_equal_tokens_is_lhotses_walk(lengths, buckets):
    share, total, edges = sum(lengths) / buckets, 0.0, []
    for length in sorted(lengths):
        if total > share:
            edges.append(length)
            total = 0.0
        total += length
    expected = sorted({*edges, max(lengths)})
    assert edges_by("equal-tokens", lengths, buckets).tolist() == expected


@given(LENGTHS, st.integers(1, 12))
def test_quantiles_are_numpys(lengths, buckets):
    places = np.arange(1, buckets + 1) / buckets
    found = edges_by("quantile", lengths, buckets)
    ranks = [-(-len(lengths) * i // buckets) for i in range(1, buckets + 1)]
    assert found.tolist() == sorted({sorted(lengths)[rank - 1] for rank in ranks})
    assert len(places) == buckets


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=80),
    st.sets(st.integers(1, 39), max_size=4),
    st.integers(1, 200),
)
def test_exclusive_edges_hold_what_is_below_them(lengths, inner, budget):
    edges = [*sorted(inner), 40]
    spec = f"boundaries:boundaries={','.join(map(str, edges))},exclusive=true,shuffle_batches=false"
    made = plan(spec, lengths, tokens_per_batch=budget)
    for batch in batches(made):
        held = {sum(lengths[i] >= edge for edge in edges[:-1]) for i in batch}
        assert len(held) == 1
        assert len(batch) <= max(1, budget // edges[held.pop()])
    assert sorted(made.samples.tolist()) == list(range(len(lengths)))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=120), st.integers(2, 6))
def test_equal_cost_is_more_even_than_chance(lengths, groups):
    values, counts = np.unique(lengths, return_counts=True)
    if len(values) <= groups:
        return

    def gap(edges) -> float:
        held = np.bincount(np.searchsorted(edges, values), weights=counts, minlength=len(edges))
        return np.abs(np.diff(held * edges)).max()

    found = edges_by("equal-cost", lengths, groups)
    assert len(found) == groups
    rng = np.random.default_rng(1)
    chance = [
        gap(np.append(np.sort(rng.choice(values[:-1], groups - 1, replace=False)), values[-1]))
        for _ in range(20)
    ]
    assert gap(found) <= np.median(chance)


def test_equal_cost_finds_the_most_even_thresholds_where_these_can_be_tried():
    lengths = np.random.default_rng(0).lognormal(3, 1, 4000).clip(1, 60).astype(int)
    values, counts = np.unique(lengths, return_counts=True)

    def gap(threshold: int) -> float:
        low = counts[values <= threshold].sum()
        return abs(threshold * low - values[-1] * (len(lengths) - low))

    found = edges_by("equal-cost", lengths, 2)
    assert gap(found[0]) == min(gap(int(value)) for value in values[:-1])


@pytest.mark.parametrize("spec", ["boundaries:buckets=4", "lhotse:buckets=4", "asym:groups=4"])
def test_more_buckets_than_different_lengths(spec):
    message = "=4: the lengths have only 3 distinct widths: set at most 3"
    with pytest.raises(InputError, match=spec.partition(":")[2].removesuffix("=4") + message):
        plan(spec, [3, 3, 9, 9, 9, 30])
    assert len(plan(spec.partition(":")[0], [3, 3, 9, 9, 9, 30]).samples) == 6


def test_a_short_last_window_has_as_many_buckets_as_it_can():
    made = plan("boundaries:buckets=3,read_ahead=4", [3, 9, 30, 30, 5])
    assert sorted(made.samples.tolist()) == list(range(5))


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


@in_turn(
    ("spec", "message"),
    [
        ("boundaries:boundaries=", "boundaries='': must be a whole number"),
        ("boundaries:boundaries=9,3", "boundaries=9,3: must be above 0 and strictly rising"),
        ("boundaries:boundaries=3,3", "must be above 0 and strictly rising"),
        ("boundaries:boundaries=0,3", "must be above 0"),
        ("boundaries:boundaries=-1", "must be above 0"),
        ("boundaries:boundaries=a", "boundaries='a': must be a whole number"),
        ("boundaries:buckets=0", "buckets=0"),
        ("boundaries:boundaries=3,99999999999999999999", "must be between"),
        ("boundaries:boundaries=3,buckets=2", "are mutually exclusive"),
        ("asym:thresholds=3,groups=2", "are mutually exclusive"),
        ("lhotse:boundaries=3,buckets=2", "are mutually exclusive"),
        ("boundaries:pad=edges", "did you mean 'edge'"),
        ("boundaries:rule=quantiles", "did you mean 'quantile'"),
        ("asym:rule=cost", "unknown rule 'cost'"),
        ("lhotse:rule=x", "unknown rule 'x'"),
        ("lhotse:boundaries=3,1", "must be above 0 and strictly rising"),
        ("boundaries:leftovers=kept", "did you mean 'keep'"),
        ("hf-group-by-length:group=0", "group=0"),
        ("hf-group-by-length:boundaries=3", "unknown parameter of hf-group-by-length"),
    ],
)
def test_parameters_that_cannot_be_meant(spec, message):
    with pytest.raises(OptionError, match=message):
        StrategySpec.parse(spec).strategy(SETTINGS)


@pytest.mark.parametrize("name", ["boundaries", "lhotse"])
def test_a_sample_above_the_last_edge(name):
    with pytest.raises(InputError) as raised:
        plan(f"{name}:boundaries=10,40", [5, 41])
    assert str(raised.value) == (
        f"{name}: a sample of 41 tokens is above the last edge 40: add a bucket for "
        "longer samples, as in boundaries=10,40,41, or truncate samples with --max-length 40"
    )
