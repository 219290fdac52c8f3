"""Every name that batchstat shows has a definition."""

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest

import batchstat
from batchstat.calibration.cost_model import CostModel
from batchstat.corpus.options import CorpusOptions
from batchstat.documents.schema import schema
from batchstat.errors import OptionError
from batchstat.planning.algorithms.bucket_edges import RULES
from batchstat.planning.samplers import SAMPLERS
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.render.glossary import COLUMNS, Entry, entries, explain, explain_all, parameters
from batchstat.render.screens.balance import balance_screen
from batchstat.render.screens.comparison import comparison_screen
from batchstat.render.screens.layout import Fitting, Rows
from conftest import ROOT, SAMPLE_DATA, environment
from tables import in_turn


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
    for part in ("strategies", "choice", "bounds", "sweep"):
        for key in {*keys(described[part])} - plain - {"read_ahead"}:
            assert explain(key), key
    for key in described["basis"]["properties"]:
        assert key == "world_size" or explain(key)


def test_every_column_of_a_comparison_is_explained():
    lengths = np.random.default_rng(0).integers(1, 300, 500)
    model = batchstat.CostModel(hidden=8, layers=1)
    made = batchstat.compare(
        lengths,
        labels=lengths % 2,
        model=model,
        seeds=2,
        strategies=["static", "trl"],
        world_size=2,
        loss="mean-per-batch",
    )
    tables = [
        part
        for part in comparison_screen(
            made, lambda change: change.row.label, details=True
        ).renderables
        if isinstance(part, Rows | Fitting)
    ]
    headings = {heading for table in tables for heading in table.columns}
    assert len(headings) > 12
    for heading in headings:
        assert explain(heading), heading


@pytest.mark.parametrize("command", ["profile", "compare --each"])
def test_every_column_of_other_tables_is_explained(command, run):
    corpus = (SAMPLE_DATA / "corpus.txt", SAMPLE_DATA / "corpus.txt")
    shown = run(*command.split(), *corpus, "--no-plots", COLUMNS="200").stdout
    columns = {
        "profile": ("truncated samples", "lost tokens", "compute"),
        "compare --each": ("current padding", "best", "best padding", "speed-up", "mean length"),
    }
    for heading in columns[command]:
        assert heading.split()[-1] in shown
        assert explain(heading), heading


def test_every_column_of_ranks_and_samplers_is_explained():
    lengths = np.random.default_rng(0).integers(1, 300, 500)
    labels = ["spam", "ham"] * 250
    made = batchstat.compare(lengths, labels=labels, world_size=2)
    report = batchstat.balance(lengths, labels=labels, world_size=2)
    screens = (
        comparison_screen(made, lambda change: change.row.label, details=True),
        balance_screen(report, str, details=True),
    )
    tables = [
        part
        for screen in screens
        for part in screen.renderables
        if isinstance(part, Rows | Fitting)
    ]
    headings = {heading for table in tables for heading in table.columns}
    headings -= {"spam", "ham", "each spam", "each ham"}
    assert len(headings) > 30
    for heading in headings:
        assert explain(heading), heading


def test_every_key_of_a_balance_report_is_explained():
    plain = {"p50", "p90", "mean", "max", "label", "unique_samples"}
    for key in {*keys(schema("balance")["properties"]["samplers"])} - plain:
        assert key in {*keys(schema("compare"))} or explain(key), key


@in_turn("name", [*STRATEGIES, *RULES, *SAMPLERS])
def test_strategies_rules_and_samplers_are_explained(name):
    entry = explain(name)[0]
    assert entry.name == name
    assert len(entry.text) > 20
    assert "`" not in entry.text
    if name in STRATEGIES:
        own = {"order", "distribute", "remainder"}
        known = set(STRATEGIES[name].settable())
        assert known <= {key for key, _ in entry.facts} <= known | own


def test_every_setting_is_explained():
    for field in fields(Settings):
        assert any(entry.kind == "setting" for entry in explain(field.name)), field.name
        assert explain(field.name.replace("_", "-")) == explain(field.name)


def test_nothing_is_explained_by_nothing():
    assert all(entry.text.strip() for entry in entries())


def test_the_command(run):
    shown = run("explain", "correlation")
    assert shown.returncode == 0
    assert shown.stdout.startswith("neighbour_correlation  compare.json strategies[].grouping")
    assert run("explain", "packing", "efficiency").stdout.startswith("packing_efficiency")
    assert "--required-batch-size-multiple" in run("explain", "fairseq").stdout
    listed = run("explain").stdout
    for name in ("token-budget", "lhotse", "equal-cost", "read_ahead", "fill", "correlation"):
        assert name in listed
    unknown = run("explain", "paddin")
    assert unknown.returncode == 2
    assert unknown.stderr == "error: nothing is called 'paddin': did you mean 'padding'?\n"
    assert "run batchstat explain" in run("explain", "zzz").stderr


def names_on(entry: Entry) -> Iterator[str]:
    """The names that a page shows: its own, keys of its path, parameters, and values that are
    names.
    """
    yield entry.name
    file, dot, path = entry.kind.partition(".json ")
    if dot:
        yield f"{file}.json"
        yield from (key for key in re.split(r"[.\[\]]+", path) if key)
    if entry.kind.startswith("parameter of "):
        yield from entry.kind.removeprefix("parameter of ").split(", ")
    # What follows a finding are sentences under headings.
    for key, value in entry.facts if entry.kind != "finding" else ():
        yield key
        for word in re.findall(r"[a-z][\w-]*", value) if " " not in value else ():
            if word not in ("true", "false", "unset"):
                yield word


def test_every_name_on_every_page_is_explained():
    pages = list(entries())
    shown = {name: page for page in pages for name in names_on(page)}
    assert len(shown) > 250
    known = {normal(page.name) for page in pages} | {normal(name) for name in COLUMNS}
    assert {name for name in shown if normal(name) not in known} == set()
    for name in ("leftovers", "keep", "bfd", "buffer_size", "compare.json", "p99_9", "decay"):
        assert name in shown
        assert explain(name)


def normal(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.lower())


@in_turn(
    "documented",
    [*STRATEGIES.values(), *RULES.values(), *SAMPLERS.values(), Settings, CostModel, CorpusOptions],
)
def test_every_name_in_its_text_is_explained(documented):
    for name in re.findall(r"`([\w-]+)[`=]", inspect.getdoc(documented)):
        assert explain(name), name


def test_every_parameter_and_value_is_named():
    own = {field.name for kind in SAMPLERS.values() for field in fields(kind)}
    own |= {name for kind in STRATEGIES.values() for name in kind.settable()}
    settings = {field.name for field in fields(Settings)}
    assert own - settings <= set(parameters()) <= own


def test_several_names():
    both = explain_all(["leftovers", "packing", "efficiency", "bfd"])
    assert both == explain("leftovers") + explain("packing efficiency") + explain("bfd")
    assert explain_all(["row"]) == explain("row")
    for words, missing in ((["fill", "zzz"], "zzz"), (["row", "usee"], "usee"), (["a", "b"], "a")):
        with pytest.raises(OptionError, match=f"nothing is called '{missing}'"):
            explain_all(words)


@pytest.mark.slow
def test_what_names_mean_is_there_without_docstrings(capsys):
    """Under python -OO, which drops them: what explain, help and schemas show is data. It does all
    that -O does, too.
    """
    program = """
import json, sys
from batchstat.cli.main import app
from batchstat.documents.schema import FILES, schema
from batchstat.render.glossary import entries
from typer.main import get_command
from reference_commands import named
shown = [[entry.name, entry.kind, entry.text, entry.facts] for entry in entries()]
helps = [[name, command.help] for name, command in named(get_command(app))]
print(json.dumps([shown, helps, [schema(name) for name in FILES]]))
"""
    found = subprocess.run(
        [sys.executable, "-OO", "-c", program],
        capture_output=True,
        encoding="utf-8",
        env=environment(PYTHONPATH=os.pathsep.join(map(str, (ROOT, ROOT / "docs")))),
    )
    assert found.returncode == 0, found.stderr
    exec(program, {})  # noqa: S102 (here, docstrings are there)
    assert found.stdout == capsys.readouterr().out
    assert all(text for _, text in json.loads(found.stdout)[1])


def test_definitions_as_json(run):
    """For programs: what is shown of names, and without names all that has one."""
    every = json.loads(run("explain", "--json").stdout)
    assert [each["name"] for each in every] == [entry.name for entry in entries()]
    assert set(every[0]) == {"name", "kind", "text", "facts"}
    found = json.loads(run("explain", "--json", "padding/over-budget", "packed").stdout)
    expected = explain_all(["padding/over-budget", "packed"])
    assert [(each["name"], each["text"], each["facts"]) for each in found] == [
        (entry.name, entry.text, dict(entry.facts)) for entry in expected
    ]
