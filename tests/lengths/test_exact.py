"""Sums and products beyond 64 bits, held against Python's integers."""

from dataclasses import asdict
from itertools import accumulate, pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import batchstat
from batchstat.lengths import arrays as lengths_arrays
from batchstat.lengths import exact
from batchstat.lengths.stats import LengthStats
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.planning.shares import EpochShares, StreamedEpoch
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.planning.windows import plan_windows
from batchstat.simulation.compare.compare import min_packed_rows
from batchstat.simulation.meters.measure import measure

MAX_INT = 2**31 - 1
LARGE = st.one_of(
    st.integers(0, 5),
    st.integers(2**31 - 3, 2**32 + 3),
    st.integers(2**62 - 3, 2**63 - 1),
)
EXTREME = st.lists(
    st.one_of(st.integers(0, 9), st.integers(10**9 - 2, 10**9), st.integers(MAX_INT - 2, MAX_INT)),
    min_size=1,
    max_size=40,
).filter(any)


@given(st.lists(LARGE, min_size=1, max_size=30), st.data())
def test_sums_and_products(numbers, data):
    array = np.array(numbers, dtype=np.int64)
    others = data.draw(st.lists(LARGE, min_size=len(numbers), max_size=len(numbers)))
    other = np.array(others, dtype=np.int64)
    assert exact.total(array) == sum(numbers)
    assert exact.total(array[:0]) == 0
    products = [a * b for a, b in zip(numbers, others, strict=True)]
    assert exact.product(array, other).tolist() == products
    assert exact.total(exact.product(array, other)) == sum(products)
    assert exact.dot(array, other) == sum(products)
    inner = data.draw(st.sets(st.integers(1, len(numbers))))
    offsets = sorted({0, len(numbers)} | inner)
    groups = [sum(numbers[first:end]) for first, end in pairwise(offsets)]
    assert exact.sums(array, np.array(offsets)).tolist() == groups
    places = data.draw(st.lists(st.integers(0, 4), min_size=len(numbers), max_size=len(numbers)))
    expected = [0] * 5
    for place, number in zip(places, numbers, strict=True):
        expected[place] += number
    assert exact.sums_at(np.array(places), array, 5).tolist() == expected


SPECS = [
    *("static", "fixed", "bucketed", "token-budget", "packed", "packed:within_samples=false"),
    *("packed:method=wrapped", "packed:method=wrapped,within_samples=false"),
    *("padding-free", "asym", "hf-group-by-length"),
    "fairseq:required_batch_size_multiple=1",
    *("boundaries", "lhotse"),
]


@settings(max_examples=3)
@pytest.mark.parametrize("spec", SPECS)
@given(
    lengths=EXTREME,
    order=st.sampled_from(["file", "shuffled", "blocks"]),
    multiple=st.sampled_from([1, 8, 2**30 + 1, MAX_INT]),
    world_size=st.sampled_from([1, 3]),
    gradient_accumulation_steps=st.sampled_from([1, 2, MAX_INT]),
)
def test_counts_of_extreme_lengths(
    spec, lengths, order, multiple, world_size, gradient_accumulation_steps
):
    """Whole, streamed and by the histogram: what a loop over the sampler's batches adds up to."""
    given_ = {
        "order": order,
        "pad_to_multiple_of": multiple,
        "world_size": world_size,
        "gradient_accumulation_steps": gradient_accumulation_steps,
        "read_ahead": MAX_INT,
        "batch_size": 16,
        "tokens_per_batch": MAX_INT,
    }
    lengths = [length for length in lengths if length]
    counts = batchstat.compare(lengths, strategies=[spec], **given_).strategies[0].counts
    total = padded = real = squares = slowest = slowest_padded = 0
    steps: dict[int, dict[int, list[int]]] = {}
    for rank in range(world_size):
        given_["rank"] = rank
        for batch in batchstat.BatchSampler(lengths, spec, **given_).batches():
            rows, width = len(batch.rows), batch.width
            parts = [b - a for a, b in zip(batch.starts, batch.stops, strict=True)]
            total += rows * width
            real += sum(parts)
            squares += sum(part * part for part in parts)
            padded += rows * width * width
            held = steps.setdefault(batch.step, {}).setdefault(rank, [0, 0])
            held[0] += rows * width
            held[1] += rows * width * width
    for held in steps.values():
        slowest += max(tokens for tokens, _ in held.values())
        slowest_padded += max(costs for _, costs in held.values())
    assert (counts.total_tokens, counts.real_tokens) == (total, real)
    assert counts.real_squared_tokens == squares
    assert (counts.ranks.tokens, counts.ranks.slowest_tokens) == (total, slowest)
    if "within_samples=false" in spec or not spec.startswith("pa"):
        assert counts.squared_tokens == counts.ranks.squares == padded
        assert counts.ranks.slowest_squares == slowest_padded
    else:  # attention stays within samples
        assert counts.squared_tokens == squares
    assert counts.relative_cost(0, 1) >= 1


@given(EXTREME, st.integers(1, 50), st.sampled_from(["bucketed", "token-budget", "packed"]))
def test_batches_of_extreme_lengths_by_the_histogram(lengths, size, name):
    given_ = Settings(batch_size=size, read_ahead=1000, tokens_per_batch=MAX_INT)
    strategy = StrategySpec.parse(name).strategy(asdict(given_.resolve(max(lengths), None)))
    visits = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
    planned = BatchTable.of(plan_windows(strategy, visits, seed=0, epoch=0))
    summary = strategy.summary(visits.stats, np.random.default_rng((0, 0, 0)))
    assert summary is not None
    for column in ("rows", "widths", "entries", "tokens", "squares"):
        assert getattr(summary, column).tolist() == getattr(planned, column).tolist(), column


@pytest.mark.parametrize("name", ["bucketed", "token-budget", "packed:within_samples=false"])
@pytest.mark.parametrize("length", [10**9, MAX_INT])
def test_a_thousand_million_samples(name, length):
    """Of one length, which no memory holds: every number is a product."""
    n = 10**9
    samples = Samples(
        np.broadcast_to(np.int64(length), n),
        np.broadcast_to(np.int64(n - 1), n),
        known=LengthStats(np.array([length]), np.array([n])),
    )
    given_ = {
        "batch_size": 10**6,
        "tokens_per_batch": MAX_INT,
        "read_ahead": MAX_INT,
        "order": "file",
    }
    basis = Settings(**given_, pad_to_multiple_of=2**30 + 1).resolve(length, None)
    if name != "bucketed":  # which make a batch of every sample or two
        n = 10**5
        samples = Samples(samples.lengths[:n], np.arange(n))
    visits = StreamedEpoch(samples, basis)
    strategy = StrategySpec.parse(name).strategy(asdict(basis))
    shares = EpochShares(samples, visits, (visits,))
    counts = measure(RowRequest(StrategySpec.parse(name), strategy, basis), shares).counts
    width = -(-length // (2**30 + 1)) * (2**30 + 1)
    assert counts.real_tokens == n * length
    assert counts.total_tokens == n * width
    assert counts.real_squared_tokens == n * length**2
    assert counts.squared_tokens == counts.ranks.squares == n * width**2
    assert counts.relative_cost(0, 1) == width**2 / length**2
    assert counts.coverage == 1


def test_statistics_of_more_than_a_word_of_tokens():
    stats = LengthStats(np.array([7, MAX_INT]), np.array([3, 10**11]))
    assert stats.sum == 21 + MAX_INT * 10**11
    assert stats.above(6) == (10**11 + 3, 3 + (MAX_INT - 6) * 10**11)
    assert stats.cut(1000, "split").sum == stats.sum
    assert min_packed_rows(stats, MAX_INT) == 10**11 + 1


def test_the_cost_of_attention_is_above_1():
    made = batchstat.compare([10**9] * 10, read_ahead=100, order="file")
    for row in made.strategies:
        assert row.counts.relative_cost(0, 1) >= 1
        assert row.counts.real_squared_tokens == 10**19


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    at_once=st.integers(1, 20),
    data=st.data(),
)
def test_moments_of_groups_taken_some_at_a_time(sizes, at_once, data):
    """Whatever the groups, and also where one of them is larger than what is taken at a time."""
    numbers = data.draw(arrays(np.int64, sum(sizes), elements=st.integers(0, 99)))
    offsets = np.append(0, np.cumsum(sizes))
    groups = [numbers[a:b].tolist() for a, b in pairwise(offsets.tolist())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "IN_CACHE", at_once)
        found, squares = exact.moments(numbers, offsets)
    assert found.tolist() == list(map(sum, groups))
    assert squares.tolist() == [sum(number**2 for number in group) for group in groups]


@given(
    ranges=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=20),
    at_once=st.integers(1, 20),
)
def test_ranges_laid_end_to_end(ranges, at_once):
    first, sizes = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lengths_arrays, "IN_CACHE", at_once)
        offsets, numbers = lengths_arrays.expand_ranges(first, sizes)
    assert numbers.tolist() == [each for a, size in ranges for each in range(a, a + size)]
    assert offsets.tolist() == [0, *accumulate(size for _, size in ranges)]
