"""Lower bounds held against what is possible."""

from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat.lengths.stats import LengthStats
from batchstat.planning.algorithms.packing import best_fit
from batchstat.simulation.compare.compare import min_packed_rows


def fewest_rows(lengths: list[int], capacity: int) -> int:
    """By trying: each row takes a subset that fits."""
    full = (1 << len(lengths)) - 1
    fitting = [
        chosen
        for chosen in range(1, full + 1)
        if sum(n for i, n in enumerate(lengths) if chosen >> i & 1) <= capacity
    ]

    @cache
    def fewest(left: int) -> int:
        if not left:
            return 0
        first = left & -left
        return 1 + min(fewest(left & ~row) for row in fitting if row & first and row & left == row)

    return fewest(full)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(12, 20))
def test_no_packing_has_fewer_rows(lengths, capacity):
    least = min_packed_rows(LengthStats.of(np.array(lengths)), capacity)
    assert -(-sum(lengths) // capacity) <= least <= fewest_rows(lengths, capacity)


@pytest.mark.parametrize(
    ("lengths", "capacity", "rows"),
    [([300] * 7, 512, 7), ([6, 6, 6, 5, 5, 5], 10, 5), ([4, 4, 4, 6, 6, 6], 10, 3), ([0], 10, 1)],
)
def test_the_bound_knows_what_cannot_share_a_row(lengths, capacity, rows):
    assert min_packed_rows(LengthStats.of(np.array(lengths)), capacity) == rows


@given(st.lists(st.integers(0, 64), min_size=1, max_size=300), st.integers(64, 100))
def test_best_fit_is_near_the_bound(lengths, capacity):
    falling = np.sort(np.maximum(lengths, 1))[::-1]
    rows = best_fit(falling, capacity, 1000).n_rows
    least = min_packed_rows(LengthStats.of(falling), capacity)
    assert least <= rows <= 11 / 9 * least + 1


def test_the_bounds_of_a_comparison():
    lengths = np.random.default_rng(0).lognormal(4, 1, 5000).astype(int).clip(1, 512)
    made = batchstat.compare(
        lengths, strategies=["token-budget:read_ahead=5000", "packed", "fairseq"]
    )
    whole, packed, _ = (row.counts for row in made.strategies)
    assert made.bounds.sorted.padding_tokens == whole.padding_tokens
    assert made.bounds.sorted.batches == whole.batches
    assert made.bounds.batches == -(-int(lengths.sum()) // 16_384)
    assert made.bounds.packed_rows <= packed.rows
    assert all(row.counts.batches >= made.bounds.batches for row in made.strategies)


def test_the_bounds_are_of_the_samples_that_the_best_row_has():
    """grain keeps a remainder that the settings drop, here the only sample."""
    settings = {"world_size": 2, "distribute": "samples", "remainder": "drop", "batch_size": 1}
    for n in (1, 3, 5):
        made = batchstat.compare(
            [7] * n, strategies=["grain"], current="grain", max_length=7, **settings
        )
        assert made.bounds.sorted.batches == made["grain"].counts.batches == n
