"""`find_buckets` with a calibration: the number of buckets with the least time."""

import json
from dataclasses import replace
from itertools import combinations

import hypothesis.strategies as st
import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings

from batchstat import InputError, OptionError
from batchstat.calibration.calibration import (
    Calibration,
    Hardware,
    Point,
    TimeFit,
    save_calibration,
)
from batchstat.calibration.memory_estimate import estimate_memory
from batchstat.calibration.setup import Setup
from batchstat.documents.base import to_text
from batchstat.documents.buckets import buckets_document
from batchstat.documents.schema import schema
from batchstat.simulation.bucket_search import find_buckets

SKEWED = np.random.default_rng(0).lognormal(4, 1, 3000).astype(int).clip(1, 512)


def calibrated(**seconds):
    """A device of known constants."""
    names = ("per_step", "per_batch", "per_token", "per_pair", "per_shape", "residual", "worst")
    return Calibration(
        created="2026-01-01T00:00:00+00:00",
        setup=Setup(model="bert-base", shape=None, compile="per_shape" in seconds),
        hardware=Hardware(device="cpu", name="cpu", memory=None, versions={}),
        points=(
            Point(
                rows=1,
                width=8,
                seconds=1,
                update_seconds=0,
                first_seconds=1,
                peak=None,
                update_peak=None,
            ),
        ),
        time=TimeFit(**dict.fromkeys(names, 0.0) | seconds),
        memory=None,
        fits=None,
    )


def time_of(edges, lengths, budget, epochs, fit):
    """Seconds of training, sample by sample, with batches as full as the budget allows."""
    total = fit.per_shape * len(edges)
    for length in lengths:
        edge = min(edge for edge in edges if edge >= length)
        sample = fit.per_token * edge + fit.per_pair * edge**2
        total += epochs * (sample + (fit.per_batch + fit.per_step) / max(1, budget // edge))
    return total


UNITS = st.integers(0, 1000)


@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    budget=st.integers(40, 200),
    epochs=st.integers(1, 3),
    per_step=UNITS,
    per_batch=UNITS,
    per_token=st.integers(1, 100),
    per_pair=st.integers(0, 10),
    per_shape=st.integers(0, 100_000),
)
def test_no_set_of_edges_takes_less_time(lengths, budget, epochs, **units):
    """All sets of edges of at most seven distinct lengths."""
    distinct = sorted(set(lengths))[:7]
    kept = [length for length in lengths if length <= distinct[-1]]
    device = calibrated(**{name: unit / 1000 for name, unit in units.items()})
    found = find_buckets(
        kept, cost="time", calibration=device, epochs=epochs, tokens_per_batch=budget
    )
    every = [
        (*edges, distinct[-1])
        for n in range(len(distinct))
        for edges in combinations(distinct[:-1], n)
    ]
    least = min(time_of(edges, kept, budget, epochs, device.time) for edges in every)
    best = min(found.times, key=lambda each: each.seconds)
    assert best.seconds == pytest.approx(least)
    assert found.wanted == found.recommended
    assert found.chosen.edges == best.edges
    for each in found.times:
        assert each.seconds == pytest.approx(time_of(each.edges, kept, budget, epochs, device.time))
    jsonschema.validate(json.loads(to_text(buckets_document(found))), schema("buckets"))


def recommended(epochs=1, **units):
    device = calibrated(**{"per_token": 1e-6, **units})
    return find_buckets(
        SKEWED, cost="time", calibration=device, epochs=epochs, tokens_per_batch=4096
    ).recommended


def test_dear_shapes_make_few_buckets_and_many_epochs_make_more():
    assert recommended(per_shape=1e6) == 1
    assert recommended() == 16
    few, more = recommended(per_shape=2e-3), recommended(50, per_shape=2e-3)
    assert 1 < few < more
    assert recommended(50, per_shape=50 * 2e-3) == few


def test_ranks_share_batches_and_each_compiles_all_shapes():
    device = calibrated(per_token=1e-6, per_shape=1.0)
    alone, shared = (
        find_buckets(
            SKEWED, cost="time", calibration=device, buckets=4, world_size=n, tokens_per_batch=4096
        )
        for n in (1, 4)
    )
    for one, four in zip(alone.times, shared.times, strict=True):
        assert four.batch_seconds == pytest.approx(one.batch_seconds / 4)
        assert four.compile_seconds == one.compile_seconds == len(one.edges)


def test_a_number_that_is_set_is_used_and_the_best_shown_beside_it():
    device = calibrated(per_token=1e-6, per_shape=1e6)
    found = find_buckets(SKEWED, cost="time", calibration=device, buckets=20)
    assert (found.wanted, found.recommended) == (20, 1)
    assert [each.wanted for each in found.times] == [*range(1, 17), 20]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cost": "time"}, OptionError, "cost=time and a calibration belong together"),
        ({"calibration": calibrated(per_token=1.0)}, OptionError, "a calibration belong together"),
        (
            {"cost": "time", "calibration": calibrated(per_shape=1.0)},
            InputError,
            "bert-base has no time per batch, token or pair",
        ),
        (
            {"cost": "time", "calibration": estimate_memory("gpt2")},
            InputError,
            "gpt2 is an estimate of memory and has no time: measure it",
        ),
        (
            {"cost": "time", "calibration": calibrated(per_token=1.0), "epochs": 0},
            OptionError,
            "epochs=0",
        ),
    ],
)
def test_what_cannot_be_meant(options, error, message):
    with pytest.raises(error, match=message):
        find_buckets(SKEWED, **options)


def test_the_command_shows_times_and_the_number_to_use(cli, tmp_path):
    np.save(tmp_path / "lengths.npy", SKEWED)
    device = calibrated(per_token=1e-6, per_shape=2e-3)
    without = replace(device, time=replace(device.time, per_shape=0.0))
    for name, each in (("device", device), ("eager", without)):
        (tmp_path / f"{name}.json").write_text(save_calibration(each))
    common = ("buckets", tmp_path / "lengths.npy", "--tokens-per-batch", 4096, "--no-plots")
    best = find_buckets(SKEWED, cost="time", calibration=device, tokens_per_batch=4096)
    code, shown, _ = cli(*common, "--calibration", tmp_path / "device.json")
    assert code == 0
    assert f"{best.recommended} buckets with the least time" in shown
    assert "more buckets never take longer" not in shown
    code, shown, _ = cli(*common, "--calibration", tmp_path / "eager.json")
    assert "more buckets never take longer" in shown
    code, _, error = cli(*common, "--calibration", tmp_path / "none.json")
    assert (code, "no such file" in error) == (3, True)
