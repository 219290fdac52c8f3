"""`find_buckets` with a calibration: the number of buckets with the least time."""

import json
from dataclasses import replace
from functools import cache
from itertools import combinations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import batchstat
from batchstat import InputError, OptionError
from batchstat.calibration.calibration import Calibration, save_calibration
from batchstat.calibration.measured import Hardware, Point, TimeFit
from batchstat.calibration.memory_estimate import estimate_memory
from batchstat.calibration.setup import Setup
from batchstat.documents.base import to_text
from batchstat.documents.buckets import buckets_document
from batchstat.simulation.buckets import costs as bucket_costs
from batchstat.trainers.buckets import find_buckets
from conftest import SAMPLE_DATA, check_schema
from tables import in_turn

DEVICE = SAMPLE_DATA.parent / "docs/device.json"
# Few distinct lengths, each of which the search for `equal-cost` tries, and of one bucket only full
# batches of 1,024 tokens.
SKEWED = np.random.default_rng(0).lognormal(3, 1, 480).astype(int).clip(1, 80)


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
    """Seconds of training, batch by batch: full batches of each bucket, then the rest."""
    held = dict.fromkeys(edges, 0)
    for length in lengths:
        held[min(edge for edge in edges if edge >= length)] += 1
    batches = []
    for edge, left in held.items():
        while left:
            batches.append((min(left, max(1, budget // edge)), edge))
            left -= batches[-1][0]
    of_batches = sum(
        fit.per_batch + fit.per_step + fit.per_token * rows * edge + fit.per_pair * rows * edge**2
        for rows, edge in batches
    )
    return epochs * of_batches + fit.per_shape * len(set(batches))


UNITS = st.integers(0, 1000)


@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    budget=st.integers(40, 200),
    epochs=st.integers(1, 3),
    least=st.integers(1, 4),
    per_step=UNITS,
    per_batch=UNITS,
    per_token=st.integers(1, 100),
    per_pair=st.integers(0, 10),
    per_shape=st.integers(0, 100_000),
)
def test_no_set_of_edges_takes_less_time(lengths, budget, epochs, least, **units):
    """All sets of edges of at most seven distinct lengths."""
    distinct = sorted(set(lengths))[:7]
    kept = [length for length in lengths if length <= distinct[-1]]
    least = min(least, len(kept))
    device = calibrated(**{name: unit / 1000 for name, unit in units.items()})
    found = find_buckets(
        kept,
        calibration=device,
        epochs=epochs,
        tokens_per_batch=budget,
        min_bucket_samples=least,
    )
    every = {n: [] for n in range(1, len(distinct) + 1)}
    for n in every:
        for low in combinations(distinct[:-1], n - 1):
            edges = (*low, distinct[-1])
            if min(np.histogram(kept, (0, *(edge + 0.5 for edge in edges)))[0]) >= least:
                every[n].append(time_of(edges, kept, budget, epochs, device.time))
    assert found.chosen.edges == min(found.times, key=lambda each: each.seconds).edges
    assert found.wanted == found.recommended
    for each in found.times:
        seconds = time_of(each.edges, kept, budget, epochs, device.time)
        assert each.seconds == pytest.approx(seconds, rel=1e-9)
        assert each.seconds == pytest.approx(min(every[len(each.edges)]), rel=1e-9)
        assert len(each.edges) == each.wanted or not every[each.wanted]
    for rule in found.found.values():
        assert all(each.cost >= 1 for each in rule)
    check_schema(json.loads(to_text(buckets_document(found))), "buckets")


def by_compare(edges, lengths, **options):
    """Seconds of the first epoch with each of these sets of edges."""
    specs = [f"boundaries:boundaries={','.join(map(str, each))},pad=edge" for each in edges]
    rows = batchstat.compare(lengths, strategies=list(dict.fromkeys(specs)), **options).strategies
    seconds = {row.label: row.on_device.seconds for row in rows}
    return [seconds[spec] for spec in specs]


@settings(max_examples=5)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=60),
    options=st.fixed_dictionaries(
        {
            "tokens_per_batch": st.integers(60, 400),
            "world_size": st.integers(1, 3),
            "gradient_accumulation_steps": st.integers(1, 3),
            "distribute": st.sampled_from(["batches", "samples"]),
            "pad_to_multiple_of": st.sampled_from([1, 8]),
            "seed": st.integers(0, 3),
        }
    ),
    per_shape=st.integers(0, 1000),
)
def test_times_are_those_of_compare(lengths, options, per_shape):
    device = calibrated(
        per_step=3e-3, per_batch=5e-3, per_token=1e-5, per_pair=1e-7, per_shape=per_shape / 1e4
    )
    found = find_buckets(lengths, calibration=device, **options)
    edges = [each.edges for each in found.times]
    seconds = by_compare(edges, lengths, calibration=device, **options)
    assert [each.seconds for each in found.times] == pytest.approx(seconds, rel=1e-12)
    best = next(each for each in found.times if each.wanted == found.recommended)
    assert best.seconds == min(each.seconds for each in found.times)
    assert best.edges == found.chosen.edges
    [use] = [row for row in found.uses if row.counts.dropped_samples == 0][:1]
    assert use is found.uses[0]
    assert use.on_device.seconds == pytest.approx(best.seconds, rel=1e-12)


@cache
def corpus_lengths():
    return batchstat.profile(SAMPLE_DATA / "corpus.txt").lengths


@pytest.mark.parametrize(
    ("samples", "per_shape", "budget"),
    [(900, 0.0, 4096), (200, 0.0, 16_384), (900, 0.05, 16_384), (900, 1, 4096)],
)
def test_short_batches_and_their_shapes_take_time(samples, per_shape, budget):
    """On a corpus of few batches per bucket, where these decide."""
    lengths = corpus_lengths()[:samples]
    known = batchstat.load_calibration(DEVICE)
    device = replace(known, time=replace(known.time, per_shape=per_shape))
    found = find_buckets(lengths, calibration=device, tokens_per_batch=budget)
    edges = [found.chosen.edges]
    for rule in ("optimal", "quantile", "equal-cost"):
        edges += [each.edges for each in found.found[rule]]
    chosen, *others = by_compare(edges, lengths, calibration=device, tokens_per_batch=budget)
    assert found.times[found.recommended - 1].seconds == pytest.approx(chosen)
    assert min(others) >= chosen * (1 - 1e-12)


def test_of_many_distinct_lengths_some_are_tried_as_edges(monkeypatch):
    device = calibrated(per_token=1e-6, per_batch=1e-3, per_shape=0.1)
    lengths = np.arange(1, 201).repeat(3)
    every, some = [], []
    for times, most in ((every, 4096), (some, 40)):
        monkeypatch.setattr(bucket_costs, "_MOST_CANDIDATES", most)
        found = find_buckets(lengths, calibration=device, tokens_per_batch=819)
        times += [each.seconds for each in found.times]
        assert {each.edges[-1] for each in found.times} == {200}
    assert some[0] == every[0]
    for one, other in zip(every, some, strict=True):
        assert one <= other * (1 + 1e-12)
        assert other <= one * 1.05


def recommended(epochs=1, **units):
    device = calibrated(**{"per_token": 1e-6, **units})
    return find_buckets(
        SKEWED, cost="time", calibration=device, epochs=epochs, tokens_per_batch=1024
    ).recommended


def test_dear_shapes_make_few_buckets_and_many_epochs_make_more():
    assert recommended(per_shape=1e6) == 1
    assert recommended() == 16
    few, more = recommended(per_shape=1e-3), recommended(50, per_shape=1e-3)
    assert 1 < few < more
    assert recommended(50, per_shape=50 * 1e-3) == few


def test_ranks_share_batches_and_each_meets_all_shapes():
    device = calibrated(per_token=1e-6, per_shape=1.0)
    alone, shared = (
        find_buckets(SKEWED, calibration=device, buckets=4, world_size=n, tokens_per_batch=512)
        for n in (1, 4)
    )
    for one, four in zip(alone.times, shared.times, strict=True):
        for each in (one, four):
            assert each.shape_seconds == each.shapes >= len(each.edges)
        assert one.batch_seconds / 4 <= four.batch_seconds <= one.batch_seconds / 2


def test_a_file_is_read_and_named(tmp_path):
    device = calibrated(per_token=1e-6, per_shape=2e-3)
    file = tmp_path / "device.json"
    file.write_text(save_calibration(device))
    known = find_buckets(SKEWED, calibration=device, cost="time")
    for path in (file, str(file)):
        found = find_buckets(SKEWED, calibration=path)
        assert (found.cost, found.times) == ("time", known.times)
        assert found.device.file == file.as_posix()
        assert buckets_document(found)["calibration"]["file"] == file.as_posix()
    assert find_buckets(SKEWED).device is None


def test_a_number_that_is_set_is_used_and_the_best_shown_beside_it():
    device = calibrated(per_token=1e-6, per_shape=1e6)
    found = find_buckets(SKEWED, cost="time", calibration=device, buckets=20, tokens_per_batch=1024)
    assert (found.wanted, found.recommended) == (20, 1)
    assert [each.wanted for each in found.times] == [*range(1, 17), 20]


@in_turn(
    ("options", "error", "message"),
    [
        ({"cost": "time"}, OptionError, "cost=time needs a calibration: name one with calib"),
        (
            {"cost": "linear", "calibration": calibrated(per_token=1.0)},
            OptionError,
            "cost=linear uses no calibration: remove cost or calibration",
        ),
        (
            {"calibration": calibrated(per_token=1.0), "model": "gpt2"},
            OptionError,
            "^model and calibration are mutually exclusive: give one$",
        ),
        ({"calibration": 5}, OptionError, "calibration=5: must be a Calibration, or the file"),
        ({"calibration": "none.json"}, InputError, "no such file: none.json"),
        (
            {"cost": "time", "calibration": calibrated(per_shape=1.0)},
            InputError,
            "bert-base has no time per batch, token or pair",
        ),
        (
            {"cost": "time", "calibration": estimate_memory("gpt2")},
            InputError,
            "gpt2 only estimates memory: measure its time",
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
