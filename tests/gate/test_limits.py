"""Limits: how they are written, what they hold, what is shown, what would help."""

import math
import re
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given

import batchstat
from batchstat.documents.comparison import report_document
from batchstat.documents.schema import schema
from batchstat.errors import InputError, OptionError
from batchstat.gate.base import Base
from batchstat.gate.check import judge
from batchstat.gate.limits import read_limits
from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.gate.paths import kind_at, numbers, value_at
from batchstat.gate.quantities import parse_quantity, shown, shown_apart
from batchstat.planning.settings import Settings
from batchstat.render.checks import verdicts
from batchstat.simulation.compare.compare import simulate
from tables import in_turn


@in_turn(
    ("written", "value"),
    [
        ("5%", 0.05),
        ("0.05", 0.05),
        (0.05, 0.05),
        ("4.35 %", 0.0435),
        (0, 0),
        ("1.0", 1),
        ("100%", 1),
        (".5%", 0.005),
        ("5e-3", 0.005),
    ],
)
def test_ratios(written, value):
    assert parse_quantity("max-padding", written, "ratio") == value


@in_turn(
    ("written", "message"),
    [
        ("15", r"did you mean 15%\?"),
        (15, r"did you mean 15%\?"),
        ("1", r"did you mean 1%, or 1.0 for 100%\?"),
        ("1.5", r"did you mean 1.5%\?"),
        ("150%", "above 100%"),
        ("0.5pp", r"pp is for differences: did you mean 0.5%\?"),
        ("-5%", "must not be negative"),
        ("-0.1", "must not be negative"),
        (-0.1, "must not be negative"),
        ("nan", "such as 5%"),
        (math.nan, "such as 5%"),
        ("inf", "such as 5%"),
        (math.inf, "such as 5%"),
        ("1e999%", "too large for a limit"),
        ("0,5%", r"did you mean 0.5% or 05%\?"),
        ("five", "such as 5%"),
        ("", "such as 5%"),
        (True, "must be a number"),
        (None, "must be a number"),
        ([5], "must be a number"),
    ],
)
def test_ratios_that_cannot_be_meant(written, message):
    with pytest.raises(OptionError, match=f"max-padding=.*{message}"):
        parse_quantity("max-padding", written, "ratio")


@pytest.mark.parametrize(("written", "value"), [("0.5pp", 0.005), ("0.005", 0.005), (0, 0)])
def test_differences(written, value):
    assert parse_quantity("max-increase", written, "ratio", difference=True) == value


@in_turn(
    ("written", "kind", "difference", "message"),
    [
        ("5%", "ratio", True, r"did you mean 5pp\?"),
        ("5", "ratio", True, r"did you mean 5pp\?"),
        ("5%", "count", False, "not a ratio: write a number without %"),
        ("1.5", "count", False, "write a whole number"),
        (26.0, "count", False, "write a whole number"),
        ("1,000", "count", False, r"did you mean 1.000 or 1000\?"),
        ("2pp", "number", False, "not a ratio"),
    ],
)
def test_other_limits_that_cannot_be_meant(written, kind, difference, message):
    with pytest.raises(OptionError, match=message):
        parse_quantity("x", written, kind, difference=difference)


RATIOS = st.fractions(0, 1, max_denominator=10**6).map(float)


@given(RATIOS, RATIOS)
def test_numbers_that_differ_are_shown_apart(one, other):
    pair = shown_apart(one, other, "ratio")
    assert (pair[0] == pair[1]) == (one == other)


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 10_000))
def test_one_predicate_inclusive_and_exact(part, whole, hundredths):
    """The number as stored against the limit as written, in fractions."""
    assume(part <= whole)
    value, written = part / whole, f"{hundredths / 100:.2f}%"
    for name, path in (("max-padding", "padding_ratio"), ("min-fill", "fill")):
        limits = read_limits({name: written}, "here").values()
        [outcome] = judge({"strategy": {path: value}}, limits)
        limit = Fraction(repr(float(Fraction(hundredths, 10_000))))
        beyond = Fraction(repr(value)) - limit
        assert outcome.kept == (beyond <= 0 if name == "max-padding" else beyond >= 0)


def test_a_difference_of_exactly_the_limit_is_kept():
    limits = list(read_limits({"max-increase": "0.5pp"}, "here").values())
    base = Base("main", {"report": {"strategy": {"padding_ratio": 0.06}}})
    [outcome] = judge({"strategy": {"padding_ratio": 0.065}}, limits, base)
    assert 0.065 - 0.06 > 0.005  # in floating point
    assert outcome.kept
    [outcome] = judge({"strategy": {"padding_ratio": 0.0651}}, limits, base)
    assert not outcome.kept
    assert outcome.over == 0.0001


def test_limits_of_every_kind():
    limits = read_limits(
        {
            "max-padding": {"limit": "5%", "level": "warn"},
            "min-fill": "off",
            "max-batches": 10,
            "lengths.p50": {"max": 5, "min": 2},
            "lengths": {"max": {"max": 9}},
            "strategy": {"samples_per_batch": {"max": {"max": 4}, "min": {"min": 1}}},
            "classes[label=a.b].share": {"min": "1%"},
            "truncation[max_length=8].tokens": {"max": 0, "level": "warn"},
            "class_ratio": {"max-increase": 0.5, "max-decrease": 1},
            "strategy.steps": "off",
        },
        "here",
    )
    assert limits["min strategy.fill"] is None
    assert {name for name in limits if name.endswith("strategy.steps")} == {
        f"{bound} strategy.steps" for bound in ("max", "min", "max-increase", "max-decrease")
    }
    assert all(f"{each.bound} {each.path}" == key for key, each in limits.items() if each)
    kept = {each.name: each for each in limits.values() if each is not None}
    assert {name: (each.path, each.threshold, each.level) for name, each in kept.items()} == {
        "max-padding": ("strategy.padding_ratio", 0.05, "warn"),
        "max-batches": ("strategy.batches", 10, "error"),
        "max lengths.p50": ("lengths.p50", 5, "error"),
        "min lengths.p50": ("lengths.p50", 2, "error"),
        "max lengths.max": ("lengths.max", 9, "error"),
        "max strategy.samples_per_batch.max": ("strategy.samples_per_batch.max", 4, "error"),
        "min strategy.samples_per_batch.min": ("strategy.samples_per_batch.min", 1, "error"),
        "min classes[label=a.b].share": ("classes[label=a.b].share", 0.01, "error"),
        "max truncation[max_length=8].tokens": ("truncation[max_length=8].tokens", 0, "warn"),
        "max-increase class_ratio": ("class_ratio", 0.5, "error"),
        "max-decrease class_ratio": ("class_ratio", 1, "error"),
    }


@in_turn(
    ("table", "message"),
    [
        ({"max-paddin": "5%"}, "unknown limit 'max-paddin': did you mean 'max-padding'"),
        ({"max_padding": "5%"}, "did you mean 'max-padding'"),
        ({"strategy.paddingratio": {"max": "5%"}}, "did you mean 'strategy.padding_ratio'"),
        ({"strategy": {"batchs": {"max": 5}}}, "did you mean 'strategy.batches'"),
        ({"corpus.skipped.malfromed": {"max": 5}}, "did you mean 'corpus.skipped.malformed'"),
        ({"strategy": {"max": 5}}, "strategy"),
        ({"strategy.name": {"max": 5}}, "strategy.name is not a number in the report"),
        ({"strategy.batches": 5}, r"write bounds, such as \{max = 100\}"),
        ({"strategy.batches": {"maxx": 5}}, "write bounds"),
        ({"strategy.batches": {"max": 5, "levl": "warn"}}, "did you mean 'level'"),
        ({"strategy.batches": {"max": 5, "level": "wran"}}, "did you mean 'warn'"),
        ({"max-padding": {"limit": "5%", "lvl": 1}}, "write a limit, or"),
        ({"max-padding": {"level": "warn"}}, "write a limit, or"),
        ({"..": {"max": 1}}, "not a path"),
    ],
)
def test_limits_that_cannot_be_meant(table, message):
    with pytest.raises(OptionError, match=message):
        read_limits(table, "here")


def profile_of(lengths, labels=None) -> batchstat.Profile:

    frame = pd.DataFrame({"n": lengths})
    options = {"length_column": "n"}
    if labels is not None:
        frame["label"] = labels
        options["label_column"] = "label"
    return batchstat.profile(frame, **options)


SKEWED = np.random.default_rng(0).geometric(0.02, 3000)
LABELS = np.where(np.arange(3000) % 10 == 0, "rare", "common")


def report_of(profile, strategy="token-budget", settings=None):
    return report_document(profile, simulate(profile, strategy, settings or Settings()))


def test_every_number_of_a_report_can_be_limited():
    """All numbers that the document holds have a path in the schema, and the other way round."""
    rows = {"n": SKEWED, "trained": SKEWED // 2, "label": LABELS}
    columns = {"length_column": "n", "trained_column": "trained", "label_column": "label"}
    report = report_of(batchstat.profile(pd.DataFrame(rows), **columns))

    def found(part, path=""):
        if isinstance(part, dict):
            for key, value in part.items():
                yield from found(value, f"{path}.{key}" if path else key)
        elif isinstance(part, list):
            for i, value in enumerate(part):
                yield from found(value, f"{path}[{i}]")
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield path, part

    known = dict(numbers())
    for path, value in found(report):
        if path.startswith("strategy.params"):
            continue  # which are the strategy's own, whichever it is
        kind = kind_at(path)
        assert value_at(report, path) == value
        assert isinstance(value, int) or kind in ("ratio", "number")
        assert known[re.sub(r"\[\d+\]", "[]", path)] == kind
    for name, (path, *_) in NAMED_LIMITS.items():
        assert value_at(report, path) is not None, name


def test_uneven_weights_of_trained_tokens_can_be_limited(run, tmp_path):
    frame = pd.DataFrame({"n": SKEWED, "trained": SKEWED // 2})
    frame.to_parquet(tmp_path / "counted.parquet")
    read = ["counted.parquet", "--length-column", "n", "--trained-column", "trained"]
    settings = ["--current", "bucketed", "--batch-size", 8, "--world-size", 4]
    limit = ["--max-weight-spread", 1.5]
    failed = run("check", *read, *settings, *limit)
    assert failed.returncode == 1, failed.stderr
    assert run("check", *read, *settings, *limit, "--loss", "token-sum").returncode == 0
    unknown = run("check", "counted.parquet", "--length-column", "n", *settings, *limit)
    assert unknown.returncode == 3
    assert "--trained-column, or pass --loss" in unknown.stderr
    assert run("init", *read, *settings).returncode == 0
    assert "max-weight-spread = " in (tmp_path / "batchstat.toml").read_text(encoding="utf-8")
    assert run("check").returncode == 0


def kind_in(part):
    """The kind of number that a part of a JSON Schema is; None if it is none."""
    for each in (part, *part.get("anyOf", ())):
        if each.get("type") in ("integer", "number"):
            is_ratio = each.get("x-unit") == "ratio"
            return "count" if each["type"] == "integer" else "ratio" if is_ratio else "number"
    return None


def numbers_in(part, path=""):
    """The numbers that a part of a JSON Schema describes, with their paths and kinds."""
    if kind := kind_in(part):
        yield path, kind
        return
    for each in (part, *part.get("anyOf", ())):
        for key, below in each.get("properties", {}).items():
            yield from numbers_in(below, f"{path}.{key}" if path else key)
        if "items" in each:
            yield from numbers_in(each["items"], f"{path}[]")


def test_the_numbers_of_a_report_are_those_of_its_schema():
    check = schema("check")["properties"]["checks"]["items"]
    assert list(numbers()) == list(numbers_in(check["properties"]["report"]))


def test_what_a_report_does_not_have():
    report = report_of(profile_of(SKEWED))
    with pytest.raises(InputError, match="has no class_ratio: was a label column read"):
        value_at(report, "class_ratio")
    with pytest.raises(InputError, match=r"no classes\[label=x\].share"):
        value_at(report, "classes[label=x].share")
    with pytest.raises(InputError, match=r"no truncation\[99\].tokens"):
        value_at(report, "truncation[99].tokens")
    assert value_at(report, "corpus.skipped.chat") == 0


def remedy_of(table, profile, current="token-budget", **given):
    [outcome] = batchstat.check(profile, table, current=current, **given).outcomes
    assert not outcome.kept
    return outcome, outcome.remedy


@in_turn(
    ("table", "strategy", "given", "change"),
    [
        ({"max-padding": "30%"}, "static", {}, "hf-group-by-length:batch_size=20"),
        ({"min-fill": "90%"}, "static", {}, "token-budget"),
        ({"max-batches": 40}, "bucketed", {"tokens_per_batch": 4096}, "token-budget"),
        ({"max-padding": "10%"}, "static:batch_size=7", {}, "hf-group-by-length:batch_size=7"),
        ({"max-dropped": "0%"}, "static:drop_last=true,batch_size=7", {}, "bucketed:batch_size=7"),
        ({"max-over-budget": 0}, "static:batch_size=64", {}, "token-budget"),
        ({"max-rank-idle": "10%"}, "bucketed", {"world_size": 4}, "regrouped:of=bucketed"),
    ],
)
def test_remedies_do_what_they_say(table, strategy, given, change):
    """The number that a remedy names is measured again by plain settings."""
    profile = profile_of(SKEWED)
    settings = {"tokens_per_batch": 8192, **given}
    outcome, remedy = remedy_of(table, profile, strategy, **settings)
    assert remedy is not None
    assert remedy.settings == {"current": change}
    assert outcome.limit.over(remedy.value, None) <= 0 < outcome.over
    report = report_of(profile, change, Settings(**settings))
    assert value_at(report, outcome.limit.path) == remedy.value


@in_turn(
    ("table", "strategy", "given"),
    [
        ({"max-padding": "0.1%"}, "static", {}),
        ({"max-padding": "0.1%"}, "token-budget", {}),
        ({"max-truncated": "0%"}, "token-budget", {"max_length": 64}),
        ({"max-p99": 100}, "token-budget", {}),
        ({"strategy.max_batch_tokens": {"max": 4000}}, "token-budget", {}),
    ],
)
def test_what_does_not_keep_the_limit_is_no_remedy(table, strategy, given):
    """In its place stands a limit that is kept."""
    profile, settings = profile_of(SKEWED), {"tokens_per_batch": 8192, **given}
    outcome, remedy = remedy_of(table, profile, strategy, **settings)
    assert remedy is None
    before, _, written = verdicts.failure(outcome).remedy.rpartition("set the limit to ")
    assert before.endswith("was meant to change, ")
    [(name, limit)] = table.items()
    kept = {name: {"max": int(written)} if isinstance(limit, dict) else written}
    assert batchstat.check(profile, kept, current=strategy, **settings).status == "pass"


@given(RATIOS, RATIOS, st.sampled_from(["max-padding", "min-fill", "max-increase"]))
def test_the_limit_that_is_named_is_the_nearest_that_is_kept(one, other, name):
    low, high = sorted((one, other))
    value, before = (high, low) if name == "max-increase" else (one, None)
    path = "fill" if name == "min-fill" else "padding_ratio"
    base = Base("main", {"report": {"strategy": {path: low}}})

    def outcome(written):
        report, limits = {"strategy": {path: value}}, read_limits({name: written}, "here").values()
        [found] = judge(report, limits, None if before is None else base)
        return found

    exceeded = outcome("100%" if name == "min-fill" else 0)
    assume(not exceeded.kept)
    *_, written = verdicts.failure(exceeded).remedy.split()
    assert outcome(written).kept
    amount, unit = re.fullmatch(r"([\d.]+)(%|pp)", written).groups()
    nearer = Decimal(amount) + Decimal("0.01") * (1 if name == "min-fill" else -1)
    assert not outcome(f"{nearer}{unit}").kept


def test_shares_are_of_the_tokens_of_the_corpus():
    lengths = [10, 20, 30, 40]
    report = report_of(profile_of(lengths), settings=Settings(max_length=25, overflow="drop"))
    assert report["strategy"]["dropped_ratio"] == 70 / 100
    report = report_of(profile_of(lengths), settings=Settings(max_length=25))
    assert report["strategy"]["truncated_ratio"] == 20 / 100


@given(RATIOS)
def test_ratios_are_shown_as_they_are(value):
    assert float(shown(value, "ratio", digits=6).rstrip("%")) == pytest.approx(
        100 * value, abs=1e-6
    )


def test_a_check_in_one_call():
    """The library's check: limits and a remedy."""
    profile = profile_of(SKEWED)
    settings = {"tokens_per_batch": 8192}
    found = batchstat.check(profile, {"max-padding": "30%"}, current="static", **settings)
    assert found.status == "fail"
    [failure] = found.failures
    assert failure.remedy is not None
    assert 'TrainingArguments(train_sampling_strategy="group_by_' in failure.remedy.change
    assert failure.remedy.then == "check with current='hf-group-by-length:batch_size=20'"
    mended = batchstat.check(profile, {"max-padding": "30%"}, current="bucketed")
    assert mended.status == "pass"
    with pytest.raises(OptionError, match="has no limits"):
        batchstat.check(profile, {})
    with pytest.raises(OptionError, match="max-paddin"):
        batchstat.check(profile, {"max-paddin": "5%"})
    with pytest.raises(OptionError, match="did you mean 'batch_size'"):
        batchstat.check(profile, {"max-padding": "5%"}, batch_sizes=8)
