"""Rows near those of a comparison are those that `compare` makes with the same settings."""

from dataclasses import replace

import numpy as np
import pytest

import batchstat
from batchstat.simulation.compare import nearby as module
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.nearby import Nearby, NearbyRow, nearby
from conftest import SPECS
from small_tokenizers import half_slow

LENGTHS = np.clip(np.random.default_rng(5).lognormal(3, 1, 200), 1, 120).astype(int)
SETTINGS = {"max_length": 100, "tokens_per_batch": 400}


def again(near: NearbyRow, current: str, lengths: np.ndarray, **settings: object) -> Comparison:
    """The comparison of one row with the current setup."""
    given = {**settings, "world_size": near.world_size}
    return batchstat.compare(lengths, strategies=near.result.label, current=current, **given)


def check_row(near: NearbyRow, found: Nearby, comparison: Comparison) -> None:
    row = comparison[near.result.label]
    assert near.result.counts == row.counts
    assert found.speed_up(near.result) == comparison.speed_up(row)


@pytest.mark.parametrize("spec", half_slow(SPECS))
def test_a_row_is_that_of_a_comparison(spec):
    settings = {**SETTINGS, "world_size": 2}
    comparison = batchstat.compare(
        LENGTHS, strategies=[spec], current="static:batch_size=8", **settings
    )
    found = nearby(comparison)
    own = [near for near in found.rows if near.of is comparison[spec]]
    sizes = {near.size for near in own}
    assert {near.world_size for near in own} == {1, 2, 4}
    assert len(sizes) == (1 if comparison[spec].size[1] is None else 5)
    for near in own[::7]:
        check_row(near, found, again(near, "static:batch_size=8", LENGTHS, **settings))


@pytest.mark.parametrize(
    "extra",
    [
        {"distribute": "samples", "order": "file"},
        {"distribute": "balanced", "remainder": "uneven", "gradient_accumulation_steps": 2},
        {"overflow": "split", "max_length": 40, "drop_last": True},
        {"sampler": "downsampling", "order": "blocks", "seed": 3},
        {"model": "hidden=64,layers=2,vocabulary=100"},
    ],
    ids=["samples", "balanced", "split", "sampler", "model"],
)
def test_a_row_has_the_settings_of_the_comparison(extra):
    labels = ["a", "b", "b", "c"] * 50
    settings = {**SETTINGS, "world_size": 3, "labels": labels, **extra}
    strategies = ["token-budget", "packed"]
    comparison = batchstat.compare(LENGTHS, strategies=strategies, current="hf-trainer", **settings)
    found = nearby(comparison)
    assert {near.world_size for near in found.rows} == {1, 3, 6}
    for near in found.rows[::7]:
        check_row(near, found, again(near, "hf-trainer", LENGTHS, **settings))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (16, {4, 8, 16, 32, 64}),
        (3, {1, 3, 6, 12, 24}),
        (1, {1, 2, 4, 8, 16}),
        (2, {1, 2, 4, 8, 16}),
        (2**31 - 1, {2**29 - 1, 2**30 - 1, 2**31 - 1}),
    ],
)
def test_sizes_are_around_the_row_s_own(own, expected):
    spec = f"static:batch_size={own}"
    found = nearby(batchstat.compare(LENGTHS, strategies=[spec], order="file"))
    assert {near.size for near in found.rows} == expected


def test_ranks_on_which_nothing_is_left_have_no_row():
    found = nearby(
        batchstat.compare(
            [9] * 10, strategies=["static:batch_size=8"], drop_last=True, remainder="drop"
        )
    )
    assert {(near.size, near.world_size) for near in found.rows} == {(2, 1), (4, 1), (8, 1)}
    assert (found.without_batch, found.too_slow) == (7, 0)


def test_where_there_is_little_time_the_nearest_rows_are_there(monkeypatch):
    comparison = batchstat.compare(LENGTHS, current="hf-trainer", world_size=4, **SETTINGS)
    every = nearby(comparison)
    monkeypatch.setattr(module, "_SECONDS", 0.03)
    few = nearby(comparison)
    assert few.share is None
    assert len(comparison) < len(few.rows) < len(every.rows) == len(few.rows) + few.too_slow
    assert every.too_slow == every.without_batch == 0
    for row in comparison:
        sizes = {near.size for near in few.rows if near.of is row and near.world_size == 4}
        own = row.size[1]
        assert {own // 2, own, own * 2} <= sizes
    known = {(near.result.label, near.world_size): near.result.counts for near in every.rows}
    for near in few.rows:
        assert near.result.counts == known[near.result.label, near.world_size]


def test_where_there_is_no_time_the_rows_are_of_a_part_that_can_be_drawn_again(monkeypatch):
    lengths = np.resize(LENGTHS, 60_000)
    comparison = batchstat.compare(lengths, current="hf-trainer", **SETTINGS)
    assert nearby(comparison).share is None
    monkeypatch.setattr(module, "_SECONDS", 0.15)
    found = nearby(comparison)
    assert found.share == 0.5
    assert 29_000 < found.samples < 31_000
    for near in found.rows[::9]:
        shared = {**SETTINGS, "subsample": found.share}
        check_row(near, found, again(near, "hf-trainer", lengths, **shared))


@pytest.mark.parametrize("order", ["shuffled", "blocks"])
def test_the_part_of_a_subsample_is_drawn_again(order):
    lengths = np.resize(LENGTHS, 90_500)
    settings = {**SETTINGS, "order": order, "seed": 2}
    strategies = ["static", "token-budget"]
    comparison = batchstat.compare(lengths, strategies=strategies, subsample=0.3, **settings)
    found = nearby(comparison)
    assert found.samples == comparison.subsample.samples
    assert found.too_slow == found.without_batch == 0
    for near in found.rows[::11]:
        shared = {**settings, "subsample": found.share}
        check_row(near, found, again(near, "static", lengths, **shared))


def test_of_a_subsample_in_file_order_there_are_none():
    """Its blocks depend on all strategies that are compared."""
    lengths = np.resize(LENGTHS, 300_000)
    comparison = batchstat.compare(
        lengths, strategies=["static", "bucketed"], subsample=0.8, order="file", **SETTINGS
    )
    assert nearby(comparison) == Nearby()


def test_very_many_strategies_have_no_more_rows_than_a_page_holds():
    specs = [f"static:batch_size={i}" for i in range(1, 61)]
    found = nearby(batchstat.compare(LENGTHS, strategies=specs, **SETTINGS))
    assert (len(found.rows), found.too_slow) == (200, 400)
    assert {near.of.label for near in found.rows} == set(specs)


def test_the_same_comparison_has_the_same_rows():
    comparison = batchstat.compare(LENGTHS, current="hf-trainer", **SETTINGS)
    other = replace(comparison, created="2000-01-01T00:00:00+00:00")
    shown = [
        [(near.result.label, near.world_size, near.result.counts) for near in nearby(each).rows]
        for each in (comparison, other)
    ]
    assert shown[0] == shown[1]
