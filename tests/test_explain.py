"""Every name that batchstat shows has a definition."""

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest

import batchstat
from batchstat.batching import STRATEGIES
from batchstat.batching.edge_rules import RULES
from batchstat.batching.presets import PRESETS
from batchstat.glossary import entries, explain
from batchstat.render.balance import balance_screen
from batchstat.render.comparison import comparison_screen
from batchstat.render.layout import Rows
from batchstat.render.schemas import schema
from batchstat.sampling.balancing import SAMPLERS
from batchstat.settings import Settings


def keys(part: dict) -> Iterator[str]:
    for name, below in part.get("properties", {}).items():
        yield name
        yield from keys(below)
    for other in (*part.get("anyOf", ()), *([part["items"]] if "items" in part else [])):
        yield from keys(other)


def test_every_key_of_a_comparison_is_explained():
    described = schema("compare")["properties"]
    # What stands in every statistic, and what is explained where it comes from.
    plain = {"min", "max", "mean", "std", "edges", "counts", "basis", "points"}
    for part in ("strategies", "bounds", "sweep"):
        for key in {*keys(described[part])} - plain - {"read_ahead"}:
            assert explain(key), key
    for key in described["basis"]["properties"]:
        assert key == "world_size" or explain(key)


def test_every_column_of_a_comparison_is_explained():
    lengths = np.random.default_rng(0).integers(1, 300, 500)
    model = batchstat.CostModel(hidden=8, layers=1)
    made = batchstat.compare(lengths, model=model, seeds=2, presets=["trl"])
    tables = [part for part in comparison_screen(made).renderables if isinstance(part, Rows)]
    headings = {heading for table in tables for heading in table.columns}
    assert len(headings) > 12
    for heading in headings:
        assert explain(heading), heading


def test_every_column_of_ranks_and_samplers_is_explained():
    lengths = np.random.default_rng(0).integers(1, 300, 500)
    labels = ["spam", "ham"] * 250
    made = batchstat.compare(lengths, labels=labels, world_size=2)
    report = batchstat.balance(lengths, labels=labels, world_size=2)
    screens = (comparison_screen(made), balance_screen(report))
    tables = [part for screen in screens for part in screen.renderables if isinstance(part, Rows)]
    headings = {heading for table in tables for heading in table.columns} - {"spam", "ham"}
    assert len(headings) > 30
    for heading in headings:
        assert explain(heading), heading


def test_every_key_of_a_balance_report_is_explained():
    plain = {"p50", "p90", "mean", "max", "label", "unique_samples"}
    for key in {*keys(schema("balance")["properties"]["samplers"])} - plain:
        assert key in {*keys(schema("compare"))} or explain(key), key


@pytest.mark.parametrize("name", [*STRATEGIES, *PRESETS, *RULES, *SAMPLERS])
def test_strategies_presets_and_rules_are_explained(name):
    entry = explain(name)[0]
    assert entry.name == name
    assert len(entry.text) > 20
    assert "`" not in entry.text
    if name in STRATEGIES:
        assert {key for key, _ in entry.facts} == {f.name for f in fields(STRATEGIES[name])}
    if name in PRESETS:
        assert {key for key, _ in entry.facts} == {"strategy", "ranks", "tail", "long", "budget"}


def test_every_setting_is_explained():
    for field in fields(Settings):
        assert any(entry.kind == "setting" for entry in explain(field.name)), field.name
        assert explain(field.name.replace("_", "-")) == explain(field.name)


def test_nothing_is_explained_by_nothing():
    assert all(entry.text.strip() for entry in entries())


def test_the_command(run):
    shown = run("explain", "separation")
    assert shown.returncode == 0
    assert shown.stdout.startswith("length_separation  compare.json strategies[].grouping")
    assert run("explain", "row", "use").stdout.startswith("packing_efficiency")
    assert "required_batch_size_multiple=8" in run("explain", "fairseq").stdout
    listed = run("explain").stdout
    for name in ("token-budget", "lhotse", "equal-cost", "read_ahead", "fill", "separation"):
        assert name in listed
    unknown = run("explain", "paddin")
    assert unknown.returncode == 2
    assert unknown.stderr == "error: nothing is called 'paddin': did you mean 'padding'?\n"
    assert "run batchstat explain" in run("explain", "zzz").stderr
