"""The workflows of this repository do what they say, as far as a shell can show it.

That GitHub starts them when they say, and what its API answers, only GitHub shows.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import ROOT, environment

FOLDER = ROOT / ".github/workflows"
GATE = (ROOT / ".ci/run").read_text(encoding="utf-8")

FAKE_TRANSFORMERS = {
    "transformers/__init__.py": "from dataclasses import make_dataclass\n"
    "TrainingArguments = make_dataclass('TrainingArguments', {keys!r})\n",
    "transformers-99.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: transformers\n"
    "Version: 99.0\n",
}
"""The newest transformers: one key came, and one went."""
FAKE_GH = """#!/usr/bin/env python3
import json, os, sys
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1:3] == ["issue", "list"]:
    print(os.environ["OPEN_ISSUE"])
"""
"""GitHub's command line, which says which issue is open, and writes down what it is told."""


def workflow(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def test_pull_requests_run_all_parts_of_the_gate_on_every_python():
    jobs = workflow("tests.yml")["jobs"]
    matrix = jobs["gate"]["strategy"]["matrix"]
    [parts] = re.findall(r"^all_parts=\((.*)\)$", GATE, re.MULTILINE)
    assert matrix["part"] == parts.split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={matrix['python'][0]}"
    assert jobs["tests"]["strategy"]["matrix"]["python"] == matrix["python"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_may_only_what_it_needs(path):
    loaded = workflow(path.name)
    assert loaded["permissions"]["contents"] == "read"
    for job in loaded["jobs"].values():
        for step in job["steps"]:
            # What a pull request may name is passed by the environment, never as code.
            assert "${{ github." not in step.get("run", "")
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/checkout@v5"))


def test_an_unknown_part_of_the_gate_is_refused():
    result = subprocess.run(
        ["bash", ROOT / ".ci/run", "lint", "nonsense"], capture_output=True, encoding="utf-8"
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert "has no part nonsense: its parts are lint main tests" in result.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the weekly workflow works with."""
    for name in ("batchstat", "tests/trainers", "tests/helpers"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name, ignore=ignored)
    (tmp_path / "bin").mkdir()
    gh = tmp_path / "bin/gh"
    gh.write_text(FAKE_GH)
    gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
    return tmp_path / "checkout"


@pytest.fixture
def newest(checkout: Path) -> None:
    """The newest transformers as if it were installed."""
    known = checkout / "batchstat/trainers/transformers/keys.json"
    keys = [*json.loads(known.read_text(encoding="utf-8"))["keys"][1:], "a_key_that_came"]
    for name, text in FAKE_TRANSFORMERS.items():
        file = checkout.parent / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(keys=keys) if "{keys" in text else text)


def steps_of(name: str, checkout: Path, **extra: str) -> dict[str, Path]:
    """Run the steps of a job that have a name, except the one that installs; return what they write
    for GitHub.
    """
    folder = checkout.parent
    files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "CALLS")}
    for file in files.values():
        file.write_text("")
    path = os.pathsep.join(
        [str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    given = environment(
        PATH=path,
        PYTHONPATH=os.pathsep.join([str(checkout), str(folder / "site")]),
        **{name: str(file) for name, file in files.items()},
        **extra,
    )
    [job] = workflow(name)["jobs"].values()
    for step in job["steps"]:
        if step.get("name") in (None, "Install"):
            continue
        if "if" in step:
            assert step["if"] == "steps.record.outputs.differ == 'true'"
            if "differ=true" not in files["GITHUB_OUTPUT"].read_text():
                continue
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", step["run"]], cwd=checkout, env=given, check=True
        )
    return files


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")
@pytest.mark.usefixtures("newest")
@pytest.mark.parametrize("open_issue", ["", "7"])
def test_what_the_newest_trainer_does_otherwise_becomes_an_issue(checkout, open_issue):
    files = steps_of("trainers.yml", checkout, TRAINERS="transformers", OPEN_ISSUE=open_issue)
    differences = (checkout / "differences.md").read_text(encoding="utf-8")
    newest = "- transformers: transformers 99.0"
    assert f"{newest} has: `a_key_that_came`\n" in differences
    assert re.search(rf"^{newest} no longer has: `\w+`$", differences, re.MULTILINE)
    assert files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8") == differences
    asked, told = map(json.loads, files["CALLS"].read_text().splitlines())
    title = "Newest trainers differ from what batchstat knows: transformers"
    assert asked[:2] == ["issue", "list"]
    assert f'"{title}" in:title' in asked
    body = ["--body-file", "differences.md"]
    assert told == (
        ["issue", "edit", "7", *body]
        if open_issue
        else ["issue", "create", "--title", title, *body]
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")
def test_where_nothing_differs_there_is_no_issue(checkout):
    """Of the transformers that are installed, whose keys are in keys.json as they are now."""
    record = [
        sys.executable,
        "tests/trainers/record_keys.py",
        "batchstat/trainers/transformers/keys.json",
    ]
    subprocess.run(record, cwd=checkout, env=environment(PYTHONPATH=str(checkout)), check=True)
    files = steps_of("trainers.yml", checkout, TRAINERS="transformers", OPEN_ISSUE="")
    assert files["GITHUB_OUTPUT"].read_text() == "differ=false\n"
    assert files["CALLS"].read_text() == ""
