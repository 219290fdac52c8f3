"""A new trainer is its folder, here made_up, and a line of the registry: all else follows."""

import json

import pytest
from made_up.config import MADE_UP

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.registry import CONFIGURATIONS
from conftest import Run, write_jsonl

YAML = "data: t.jsonl\nrows: 4\ntokens: 12\nepochs: 2\nnotes: of no use\n"


@pytest.fixture(autouse=True)
def registered(tmp_path, monkeypatch):
    monkeypatch.setitem(CONFIGURATIONS, "made-up", MADE_UP)
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "t.jsonl", [{"text": " word" * (n % 17 + 1)} for n in range(60)])
    (tmp_path / "made.yaml").write_text(YAML)


def test_its_file_is_recognised_and_reported():
    report = batchstat.preflight("made.yaml")
    assert report.setup.framework == "made-up"
    assert (report.setup.version, report.setup.unused) == ("0.1", ("notes",))
    assert report.total_steps == 30
    counts = report.simulation.row.counts
    assert counts.batches == 15
    assert counts.real_tokens == sum(min(n % 17 + 1, 12) for n in range(60))
    [change] = [each for each in report.changes.ranked if each.keys]
    assert change.line == "rows: 1 in made.yaml"


def test_the_commands_take_it(run: Run):
    done = run("preflight", "made.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["config"]["framework"] == "made-up"
    for words in (("compare", "--no-plots"), ("check", "--max-padding", "99%")):
        done = run(*words, "--current", "made.yaml", "--framework", "made-up")
        assert done.returncode == 0, done.stderr
    shown = run("preflight", "made.yaml", "--framework", "x").stderr
    assert "(known: made-up, transformers, trl)" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row: 3", "unknown key 'row': did you mean 'rows'?"),
        ("rows: 0", "rows=0: must be between 1 and "),
        ("rows: none", "rows='none': must be a number"),
        ("pack: true", "pack=True is not modelled: remove it"),
        ("tokens: null", "tokens is null: remove the key, or give it a value"),
    ],
)
def test_its_keys_are_checked_as_they_are_declared(tmp_path, text, message):
    (tmp_path / "made.yaml").write_text(f"data: t.jsonl\n{text}\n")
    with pytest.raises(batchstat.OptionError) as caught:
        batchstat.preflight("made.yaml", framework="made-up")
    assert message in str(caught.value)


def test_a_key_that_nobody_knows_is_what_the_report_rests_on(tmp_path):
    (tmp_path / "made.yaml").write_text(YAML + "experiment: 3\n")
    assert read_setup("made.yaml").assumed == ("experiment",)
