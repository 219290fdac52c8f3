"""`batchstat buckets`: what it finds, prints and writes."""

import json
import shlex

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import InputError, OptionError
from batchstat.calibration.cost_model import CostModel
from batchstat.documents.base import to_text
from batchstat.documents.buckets import buckets_document
from batchstat.documents.schema import schema
from batchstat.planning.algorithms.bucket_edges import RULES
from batchstat.trainers.buckets import find_buckets
from conftest import SAMPLE_DATA, check_schema
from tables import in_turn

# Few distinct lengths: the search for `equal-cost` tries each.
SKEWED = np.random.default_rng(0).lognormal(3, 1, 900).astype(int).clip(1, 100)


@pytest.mark.slow
@given(
    lengths=st.lists(st.integers(0, 600), min_size=1, max_size=80),
    wanted=st.integers(1, 9),
    multiple=st.sampled_from([1, 8]),
)
def test_buckets_are_the_plain_loop(lengths, wanted, multiple):
    padded = [-(-max(length, 1) // multiple) * multiple for length in lengths]
    if wanted > len(set(padded)):
        with pytest.raises(
            InputError, match=f"buckets={wanted}: the lengths have only {len(set(padded))} dist"
        ):
            find_buckets(lengths, buckets=wanted, pad_to_multiple_of=multiple)
        return
    if not any(lengths):
        with pytest.raises(InputError, match="no tokens in"):
            find_buckets(lengths, buckets=wanted, pad_to_multiple_of=multiple)
        return
    made = find_buckets(lengths, buckets=wanted, pad_to_multiple_of=multiple, tokens_per_batch=1000)
    check_schema(json.loads(to_text(buckets_document(made))), "buckets")
    low = -1
    for bucket in made.buckets:
        inside = [max(length, 1) for length in lengths if low < max(length, 1) <= bucket.edge]
        assert (bucket.samples, bucket.real_tokens) == (len(inside), sum(inside))
        assert bucket.padding_tokens == sum(bucket.edge - length for length in inside)
        assert bucket.batch_size == max(1, 1000 // bucket.edge)
        assert bucket.edge % multiple == 0
        low = bucket.edge
    assert sum(bucket.samples for bucket in made.buckets) == len(lengths)
    assert made.chosen.total_tokens == sum(bucket.total_tokens for bucket in made.buckets)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pad_to_multiple_of": 4},
        {"pad_to_multiple_of": 14, "min_bucket_samples": 30},
        {"cost": "quadratic"},
        {"cost": "model", "model": CostModel(hidden=8, layers=1)},
    ],
)
def test_no_rule_costs_less_and_more_buckets_never_cost_more(settings):
    wanted = 8 if settings.get("pad_to_multiple_of") == 14 else 20
    made = find_buckets(SKEWED, buckets=wanted, **settings)
    assert list(made.found) == list(RULES)
    numbers = [each.wanted for each in made.found["optimal"]]
    assert numbers == [n for n in sorted({*range(2, 17), wanted}) if wanted > 8 or n <= 8]
    multiple = settings.get("pad_to_multiple_of", 1)
    for wanted in numbers:
        best = made.of("optimal", wanted).cost
        for rule in RULES:
            assert all(edge % multiple == 0 for edge in made.of(rule, wanted).edges)
        assert all(best <= made.of(rule, wanted).cost * (1 + 1e-12) for rule in RULES)
    costs = [each.cost for each in made.found["optimal"]]
    assert costs == sorted(costs, reverse=True)
    assert min(costs) >= 1


def test_a_model_or_a_calibration_is_what_is_minimised():
    model = CostModel(hidden=8, layers=1)
    assert find_buckets(SKEWED, model=model).cost == "model"
    assert find_buckets(SKEWED).cost == "linear"
    free, dear = (
        find_buckets(SKEWED, model=model, **cost).chosen.edges for cost in ({}, {"cost": "model"})
    )
    assert free == dear


def test_each_bucket_holds_as_many_samples_as_are_asked_for():
    made = find_buckets(SKEWED, buckets=6, min_bucket_samples=90)
    assert min(bucket.samples for bucket in made.buckets) >= 90
    free = find_buckets(SKEWED, buckets=6)
    assert made.chosen.padding_ratio >= free.chosen.padding_ratio
    for wanted in range(2, 17):
        best = made.of("optimal", wanted).cost
        for rule in RULES:
            other = made.of(rule, wanted)
            held = np.bincount(np.searchsorted(other.edges, SKEWED))
            assert held.min() >= 90
            assert best <= other.cost * (1 + 1e-12)


def test_without_a_number_there_are_as_many_buckets_as_can_be():
    assert len(find_buckets([5, 6, 6]).buckets) == 2
    assert len(find_buckets([5, 6, 300], pad_to_multiple_of=512).buckets) == 1
    assert len(find_buckets(SKEWED).buckets) == 8


def test_edges_to_paste_are_a_strategy():
    made = find_buckets(SKEWED, buckets=5)
    kept = next(row.label for row in made.uses if "leftovers" not in row.label)
    pasted = batchstat.compare(SKEWED, strategies=[kept]).strategies[0]
    auto = "boundaries:boundaries=auto,buckets=5,pad=edge"
    found = batchstat.compare(SKEWED, strategies=[auto]).strategies[0]
    assert pasted.counts.total_tokens == found.counts.total_tokens == made.chosen.total_tokens


@pytest.mark.parametrize("lengths", [[], [-1], [1.5], ["a"]])
def test_lengths_that_are_none(lengths):
    with pytest.raises(batchstat.BatchstatError, match="lengths"):
        find_buckets(lengths)


@in_turn(
    ("settings", "error", "message"),
    [
        ({"buckets": 0}, OptionError, "buckets=0"),
        ({"min_bucket_samples": 0}, OptionError, "min_bucket_samples=0"),
        (
            {"min_bucket_samples": 4000},
            InputError,
            "min_bucket_samples=4,000: there are only 900 samples",
        ),
        ({"cost": "cubic"}, OptionError, "unknown cost 'cubic'"),
        ({"cost": "model"}, OptionError, "cost=model needs a model: name one with model"),
        (
            {"cost": "linear", "model": CostModel(hidden=8, layers=1)},
            OptionError,
            "cost=linear uses no model: remove cost or model",
        ),
        ({"cost": 5}, OptionError, "cost=5: must be one of linear, quadratic, model, time"),
        ({"model": 5}, OptionError, "model=5: must be a CostModel"),
        ({"buckets": 2000}, InputError, "buckets=2000: the lengths have only"),
        ({"max_length": 0}, OptionError, "max_length=0"),
    ],
)
def test_what_cannot_be_meant(settings, error, message):
    with pytest.raises(error, match=message):
        find_buckets(SKEWED, **settings)


def test_nothing_left_is_an_error():
    with pytest.raises(InputError, match="overflow=drop leaves no sample: .*max_length=5"):
        find_buckets([9, 9], max_length=5, overflow="drop")


@pytest.mark.slow
def test_the_command_prints_edges_to_paste_and_writes_its_files(run, tmp_path):
    corpus = SAMPLE_DATA / "corpus.txt"
    result = run("buckets", corpus, "--buckets", 6, "--pad-to-multiple-of", 8)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "batchstat-results" / "buckets.json").read_text("utf-8"))
    check_schema(record, "buckets")
    assert set(record) == set(schema("buckets")["properties"])
    [use] = [line for line in result.stdout.splitlines() if line.startswith("use ")]
    program, *arguments = shlex.split(use)[1:]
    assert (program, record["strategy"] in arguments) == ("batchstat", True)
    assert len(use) > 100  # and is not folded
    assert (tmp_path / "batchstat-results" / "plots" / "buckets.png").exists()
    assert (tmp_path / "batchstat-results" / "profile.json").exists()
    pasted = run(*arguments, "--no-plots")
    assert pasted.returncode == 0, pasted.stderr
    again = run("buckets", "--json", "--no-plots", "--buckets", 6, "--pad-to-multiple-of", 8)
    assert json.loads(again.stdout)["buckets"] == record["buckets"]
    for flags in (
        ["--cost", "quadratic"],
        ["--model", "hidden=8,layers=1"],
        ["--min-bucket-samples", 40],
    ):
        other = run("buckets", "--no-plots", *flags)
        assert other.returncode == 0, other.stderr


def test_mistakes_are_named_before_any_work(run, tmp_path):
    for flags, code, message in (
        (["--buckets", 0], 2, "buckets=0"),
        (["--cost", "x"], 2, "unknown cost 'x'"),
        (["--cost", "model"], 2, "cost=model needs a model"),
        (["--model", "hidden=3"], 2, "has no layers"),
        (["--model", "nowhere"], 3, "cannot be loaded: no such file or folder"),
        (["--tokens-per-batch", 0], 2, "tokens_per_batch=0"),
    ):
        result = run("buckets", SAMPLE_DATA / "corpus.txt", *flags)
        assert result.returncode == code, result.stderr
        assert message in result.stderr
        assert result.stdout == ""
        assert not (tmp_path / "batchstat-results").exists()
