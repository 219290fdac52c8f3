"""The what-if panel's numbers are those of the command and of the TOML that it offers."""

import json
import random
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Run
from render.html.scripts import PLANNER, call_all

SCENARIOS = """(async (report, whatIf, every) => {
  const found = new scenarios.Scenarios(report, whatIf, await planner.load(whatIf));
  return [found.initial(), ...every].map((chosen) => ({
    ...found.plan(chosen),
    chosen,
    command: scenarios.commandOf(whatIf.command, chosen, found.current),
    toml: scenarios.tomlOf(whatIf.toml, chosen),
  }));
})"""

NAMES = {
    "paddingRatio": "padding_ratio",
    "totalTokens": "total_tokens",
    "compute": "compute",
    "steps": "steps",
    "overBudgetBatches": "over_budget_batches",
    "truncatedTokens": "truncated_tokens",
    "droppedSamples": "dropped_samples",
    "rankIdle": "rank_idle",
    "speedUp": "speed_up",
}


def report_of(run: Run, lengths: np.ndarray, folder: Path, *arguments: str) -> tuple[Any, Any]:
    """The document and the panel's data in the page of a comparison."""
    np.save(folder / "lengths.npy", lengths)
    made = run("compare", "lengths.npy", *arguments, "--html", "page.html", "-o", "results")
    assert made.returncode == 0, made.stderr
    page = (folder / "page.html").read_text(encoding="utf-8")
    data = dict(re.findall(r'<script type="application/json" id="data-(.+?)">(.*?)</script>', page))
    return json.loads(data["document"]), json.loads(data["what-if"])


def choices(n: int) -> list[dict[str, Any]]:
    """Settings of the panel."""
    rng = random.Random(5)
    return [
        {
            "strategy": ("static", "bucketed", "token-budget", "packed")[i % 4],
            "tokens_per_batch": rng.choice((700, 4_096, 16_384)),
            "batch_size": rng.choice((3, 32)),
            "max_length": rng.choice((100, 333, 512)),
            "overflow": rng.choice(("truncate", "drop", "split")),
            "read_ahead": rng.choice((60, 1_000, 10_000)),
            "world_size": rng.choice((1, 1, 4)),
        }
        for i in range(n)
    ]


def assert_same(counts: dict[str, Any], row: dict[str, Any]) -> None:
    """The panel's numbers are those of a row."""
    for mine, name in NAMES.items():
        if row[name] is not None:
            assert counts[mine] == pytest.approx(row[name], rel=1e-12), name


ARGUMENTS = [
    ("--order", "file", "--current", "static:batch_size=8"),
    ("--current", "token-budget", "--model", "hidden=64,layers=2", "--drop-last"),
    ("--order", "blocks", "--world-size", "2", "--distribute", "balanced", "--remainder", "drop"),
    ("--strategy", "bucketed:batch_size=5", "--pad-to-multiple-of", "8", "--seed", "3"),
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_the_copied_command_gives_the_panels_numbers(run, tmp_path, arguments):
    lengths = np.random.default_rng(0).integers(1, 700, 3_000)
    report, panel = report_of(run, lengths, tmp_path, *arguments)
    call = [SCENARIOS, report, panel, choices(4)]
    first, *others = call_all([*PLANNER, "scenarios.js"], [call])[0]
    assert first["source"] == "report"
    for found in others:
        assert found["source"] == "exact"
        made = run(*shlex.split(found["command"])[1:], "--json")
        assert made.returncode == 0, made.stderr
        rows = json.loads(made.stdout)["strategies"]
        label = found["chosen"]["strategy"]
        assert_same(found["counts"], next(row for row in rows if row["label"] == label))


def test_the_copied_toml_gives_them_too(run, tmp_path):
    report, panel = report_of(run, np.arange(1, 900), tmp_path, "--order", "file", "--epoch", "2")
    call = [SCENARIOS, report, panel, choices(4)]
    for found in call_all([*PLANNER, "scenarios.js"], [call])[0]:
        written = f'corpus = "lengths.npy"\n{found["toml"]}[limits]\nmax-padding = "100%"\n'
        (tmp_path / "batchstat.toml").write_text(written)
        made = run("check", "--format", "json")
        assert made.returncode == 0, made.stderr
        assert_same(found["counts"], json.loads(made.stdout)["checks"][0]["report"]["strategy"])


@pytest.mark.parametrize("name", ["static", "bucketed", "token-budget", "packed"])
def test_on_the_settings_of_a_row_the_report_has_the_last_word(run, tmp_path, name):
    report, panel = report_of(run, np.arange(1, 900), tmp_path, "--order", "file")
    row = next(row for row in report["strategies"] if row["name"] == name)
    row["padding_ratio"] = 0.125
    chosen = {key: report["basis"][key] for key in choices(1)[0] if key != "strategy"}
    call = [SCENARIOS, report, panel, [chosen | {"strategy": name}]]
    found = call_all([*PLANNER, "scenarios.js"], [call])[0][1]
    assert found["source"] == "report"
    assert found["counts"]["paddingRatio"] == 0.125


@pytest.mark.parametrize(("current", "is_planned"), [("", True), (":document_multiple=4", False)])
def test_a_current_setup_that_the_page_cannot_plan_has_no_speed_up(
    run, tmp_path, current, is_planned
):
    arguments = ("--current", f"packed{current}", "--max-length", "700")
    report, panel = report_of(run, np.arange(1, 700), tmp_path, *arguments)
    call = [SCENARIOS, report, panel, choices(1)]  # with another max_length
    found = call_all([*PLANNER, "scenarios.js"], [call])[0][1]
    assert (found["counts"]["speedUp"] is not None) == is_planned
