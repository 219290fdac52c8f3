"""The price of grouping: held against NumPy and a plain analysis of variance."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat.simulation.meters.grouping import Grouping, GroupingMeter

BATCHES = st.lists(
    st.lists(st.integers(0, 90), min_size=1, max_size=6), min_size=1, max_size=30
).filter(lambda batches: any(map(any, batches)))


def tallied(*batches) -> Grouping:
    tally = GroupingMeter()
    tally.add(*batches)
    return tally.grouping


@given(BATCHES, st.integers(1, 4))
def test_grouping_is_the_plain_analysis(batches, gradient_accumulation_steps):
    steps = [
        sum(map(sum, batches[i : i + gradient_accumulation_steps]))
        for i in range(0, len(batches), gradient_accumulation_steps)
    ]
    step_means = [
        step / sum(map(len, batches[i : i + gradient_accumulation_steps]))
        for step, i in zip(steps, range(0, len(batches), gradient_accumulation_steps), strict=True)
    ]
    found = tallied(
        np.array([len(batch) for batch in batches]),
        np.array([sum(batch) for batch in batches]),
        sum(length**2 for batch in batches for length in batch),
        np.array(step_means),
        np.array(steps),
    )
    sizes = [len(batch) for batch in batches]
    assert found.samples_per_batch_cv == pytest.approx(np.std(sizes) / np.mean(sizes))
    steps = [
        sum(map(sum, batches[i : i + gradient_accumulation_steps]))
        for i in range(0, len(batches), gradient_accumulation_steps)
    ]
    assert found.tokens_per_step_cv == pytest.approx(np.std(steps) / np.mean(steps))

    means = [sum(batch) / len(batch) for batch in batches]
    one, other = step_means[:-1], step_means[1:]
    if len(step_means) > 3 and len(set(one)) > 1 and len(set(other)) > 1:
        expected = np.corrcoef(one, other)[0, 1]
        assert found.neighbour_correlation == pytest.approx(expected)
    else:
        assert found.neighbour_correlation is None

    everything = [length for batch in batches for length in batch]
    n, k = len(everything), len(batches)
    inside = sum((x - m) ** 2 for batch, m in zip(batches, means, strict=True) for x in batch)
    total = sum((x - np.mean(everything)) ** 2 for x in everything)
    if n == k or len(set(everything)) == 1:
        assert found.length_homogeneity is None
    else:
        expected = 1 - (inside / (n - k)) / (total / (n - 1))
        assert found.length_homogeneity == pytest.approx(expected, abs=1e-9)


def test_a_few_random_batches_alarm_nobody():
    for seed in range(20):
        lengths = np.random.default_rng(seed).lognormal(4, 1, 600).astype(int).clip(1, 900)
        made = batchstat.compare(lengths, tokens_per_batch=24_000, seed=seed)
        assert "order/alike-neighbours" not in {warning.id for warning in made.warnings}


def test_random_batches_are_not_separated_and_sorted_ones_are():
    lengths = np.random.default_rng(0).integers(1, 500, 20_000)
    made = batchstat.compare(
        lengths,
        strategies=[
            "static",
            "bucketed:read_ahead=20000",
            "bucketed:read_ahead=20000,shuffle_batches=false",
            "hf-group-by-length",
        ],
    )
    random, shuffled, falling, grouped = (row.counts.grouping for row in made.strategies)
    assert abs(random.length_homogeneity) < 0.02
    assert abs(random.neighbour_correlation) < 0.1
    assert shuffled.length_homogeneity > 0.99
    assert abs(shuffled.neighbour_correlation) < 0.1
    assert falling.neighbour_correlation > 0.99
    assert grouped.neighbour_correlation > 0.5
    alike = next(w.message for w in made.warnings if w.id == "order/alike-neighbours")
    assert "shuffle_batches=false" in alike
    assert "hf-group-by-length" in alike
    assert "static" not in alike
