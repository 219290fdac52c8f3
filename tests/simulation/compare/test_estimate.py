"""Estimates by some of a corpus: as often right as they say."""

import json

import numpy as np
import pytest

import batchstat
from batchstat import InputError, OptionError
from conftest import SAMPLE_DATA, Run, check_schema

RNG = np.random.default_rng(11)


def corpus(kind: str) -> np.ndarray:
    """100,000 lengths: alike to each other at random, or to their neighbours."""
    mean = 4.5 if kind == "mixed" else np.repeat(RNG.normal(4.5, 0.5, 200), 500)
    return np.clip(RNG.lognormal(mean, 0.8, 100_000), 1, 1_000).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "order"),
    [("mixed", "shuffled"), ("mixed", "file"), ("alike", "file"), ("alike", "blocks")],
)
def test_an_interval_holds_the_truth_about_as_often_as_it_says(kind, order):
    lengths = corpus(kind)
    given = {
        "strategies": ["static", "token-budget:read_ahead=1000", "packed"],
        "tokens_per_batch": 8_192,
        "order": order,
    }
    whole = batchstat.compare(lengths, **given)
    held = []
    for seed in range(20):
        found = batchstat.compare(lengths, subsample=0.2, seed=seed, **given)
        for row, truth in zip(found.strategies, whole.strategies, strict=True):
            interval, ratio = row.interval, truth.counts.padding_ratio
            assert interval.low <= row.counts.padding_ratio <= interval.high
            assert interval.margin < 0.05
            if row.name != "packed":  # of which more samples leave less room: see below
                held.append(interval.low <= ratio <= interval.high)
            else:
                assert row.counts.padding_ratio == pytest.approx(ratio, abs=0.01)
    assert np.mean(held) > 0.85


def test_an_estimate_says_what_it_is_of(tmp_path, run: Run):
    np.save(tmp_path / "lengths.npy", corpus("mixed"))
    assert run("profile", "lengths.npy", "--no-plots").returncode == 0
    shown = run("compare", "--subsample", "20%", "--world-size", 2, "--no-plots")
    assert shown.returncode == 0, shown.stderr
    words = " ".join(shown.stdout.split())
    assert "ESTIMATE all numbers describe 20.0% of the corpus: 20,000 of 100,000 samples" in words
    assert "±" in shown.stdout
    record = json.loads((tmp_path / "batchstat-results" / "compare.json").read_text())
    assert record["subsample"]["share"] == 0.2
    assert record["subsample"]["samples"] == record["corpus"]["samples"] == 20_000
    for row in record["strategies"]:
        assert row["interval"]["low"] <= row["padding_ratio"] <= row["interval"]["high"]

    check_schema(record, "compare")
    assert run("compare", "--strategy", "static", "--no-plots", "--json").returncode == 0
    whole = json.loads((tmp_path / "batchstat-results" / "compare.json").read_text())
    assert whole["subsample"] is None
    assert {row["interval"] for row in whole["strategies"]} == {None}


def test_the_gate_takes_no_estimate(run: Run):
    corpus = SAMPLE_DATA / "corpus.txt"
    result = run("check", corpus, "--max-padding", "99%", "--subsample", "10%")
    assert result.returncode == 2
    assert "unknown option '--subsample' of batchstat check" in result.stderr


@pytest.mark.parametrize("share", ["0", "1", "100%", "-1%", "x", "5", "nan"])
def test_shares_that_cannot_be(run: Run, share):
    result = run("compare", SAMPLE_DATA / "corpus.txt", f"--subsample={share}")
    assert result.returncode == 2
    assert f"subsample={share}" in result.stderr or "subsample=" in result.stderr


def test_what_cannot_be_estimated(run: Run):
    few = run("compare", SAMPLE_DATA / "corpus.txt", "--subsample", "10%")
    assert few.returncode == 3
    assert "an estimate needs 20: remove it" in few.stderr  # as all of it is too little
    with pytest.raises(OptionError, match="cannot be combined with sampler or keep_labels"):
        batchstat.compare([1, 2], labels=["a", "b"], sampler="upsampling", subsample=0.1)
    with pytest.raises(InputError, match="blocks of 1,000"):
        batchstat.compare(np.ones(30_000, dtype=int), subsample=0.5)


def test_a_frame_has_the_interval():
    found = batchstat.compare(corpus("mixed"), subsample=0.2, strategies=["static"])
    frame = found.to_frame()
    row = found.strategies[0]
    assert frame["interval_low"][0] == row.interval.low
    assert frame["interval_high"][0] == row.interval.high
