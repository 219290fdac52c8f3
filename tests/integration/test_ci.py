"""What the documentation, init and the dot-files tell CI systems to do is what works there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from batchstat.render.recipes.writing import workflow as printed_workflow
from conftest import ROOT, SAMPLE_DATA, Run, environment

PAGE = (ROOT / "docs/how-to/ci.md").read_text(encoding="utf-8")
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
[CONFIGURATION] = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)

INSTALL = "python -m pip install vendor/batchstat-*.whl"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With the documented configuration and the sample data."""
    folder = tmp_path / "repository"
    folder.mkdir()
    shutil.copytree(SAMPLE_DATA, folder / "sample_data")
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    return folder


def in_shell(command: str, folder: Path, **extra: str):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment(PATH=path, **extra),
        capture_output=True,
        encoding="utf-8",
    )


def test_the_documented_configuration_holds(repository: Path, run: Run):
    result = run("check", cwd=repository)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "check    pretraining" in result.stdout
    assert "check    reviews" in result.stdout


def test_the_workflow_is_the_one_that_init_prints(repository: Path, run: Run):
    assert YAML[0] == printed_workflow()
    (repository / "pyproject.toml").unlink()
    assert run("init", "sample_data/corpus.txt", cwd=repository).stdout == printed_workflow()
    workflow = yaml.safe_load(printed_workflow())
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets" not in printed_workflow()
    assert set(workflow[True]) == {"pull_request", "push"}  # YAML reads `on` as true
    *_, install, check, upload, link = workflow["jobs"]["padding"]["steps"]
    assert install["run"] == INSTALL
    summary = repository / "summary.md"
    result = in_shell(check["run"], repository, GITHUB_STEP_SUMMARY=str(summary))
    assert result.returncode == 0, result.stderr
    assert summary.read_text(encoding="utf-8").startswith("## batchstat: PASS\n")
    page = repository / upload["with"]["path"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    address = f"${{{{ steps.{upload['id']}.outputs.artifact-url }}}}"
    in_shell(
        link["run"].replace(address, "https://reports/1"),
        repository,
        GITHUB_STEP_SUMMARY=str(summary),
    )
    last = summary.read_text(encoding="utf-8").splitlines()[-1]
    assert last == "[Report with all numbers](https://reports/1)"


@pytest.mark.slow
def test_the_action(repository: Path):
    action = yaml.safe_load((ROOT / ".github/actions/check/action.yml").read_text())
    inputs = {f"${{{{ inputs.{key} }}}}": each["default"] for key, each in action["inputs"].items()}
    *_, install, check = action["runs"]["steps"]
    prefix, path = install["run"].removesuffix('"').split(' "$GITHUB_ACTION_PATH')
    assert prefix == "python -m pip install"
    assert (ROOT / ".github/actions/check" / path.removeprefix("/")).resolve() == ROOT
    assert all(value in inputs for value in check["env"].values())
    for arguments, code in (("", 0), ("--max-padding 1% --seed 1", 1)):
        result = in_shell(check["run"], repository, ARGUMENTS=arguments)
        assert result.returncode == code, result.stderr
        assert ("\n::error title=batchstat" in result.stdout) == bool(code)


def test_the_gitlab_job(repository: Path, run: Run):
    job = yaml.safe_load(YAML[1])["padding"]
    install, check = job["script"]
    assert install == INSTALL
    cache = job["variables"]["BATCHSTAT_CACHE_DIR"].replace("$CI_PROJECT_DIR", str(repository))
    program, *arguments = shlex.split(check)  # which no shell has to interpret
    assert program == "batchstat"
    assert not set(check) & set("|&;<>$")
    result = run(*arguments, cwd=repository, BATCHSTAT_CACHE_DIR=cache)
    assert result.returncode == 0, result.stderr
    assert ET.parse(repository / job["artifacts"]["reports"]["junit"]).getroot()  # noqa: S314
    assert list((repository / job["cache"]["paths"][0]).iterdir())


@pytest.mark.slow
def test_the_hook(repository: Path):
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    [local] = yaml.safe_load(YAML[2])["repos"]
    # The one that is copied runs what is installed; the other one is for a clone as `repo`.
    of_clone = {key: value for key, value in hook.items() if key != "description"}
    assert local == {"repo": "local", "hooks": [{**of_clone, "language": "system"}]}
    for name in (
        "data/a.jsonl",
        "a.parquet",
        "b.txt.gz",
        "pyproject.toml",
        "x/batchstat.toml",
        "sft.yaml",
        "a/b.yml",
        "args.json",
    ):
        assert re.search(hook["files"], name)
    for name in ("a.py", "README.md", "a.toml"):
        assert not re.search(hook["files"], name)
    assert in_shell(hook["entry"], repository).returncode == 0
    (repository / "sample_data" / "corpus.txt").write_text("word\n" * 900 + "word " * 3000)
    assert in_shell(hook["entry"], repository).returncode == 1


def test_nothing_says_to_install_what_is_not_published():
    """Until a package index has it, it comes from a clone, and no address has an owner."""
    tracked = [ROOT / ".pre-commit-hooks.yaml", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    tracked += [*(ROOT / ".github").rglob("*.*"), *(ROOT / "batchstat").rglob("*.*")]
    assert len(tracked) > 100
    for path in tracked:
        if path.suffix in (".py", ".md", ".yaml", ".yml", ".json"):
            text = path.read_text(encoding="utf-8")
            assert "OWNER/batchstat" not in text, path
            assert not re.search(r"pip install ['\"]?batchstat", text), path


def test_the_wheel_that_workflows_install_is_the_one_that_is_made():
    [made] = re.findall(r"# Build the wheel with: python -m pip wheel (.*)$", PAGE, re.MULTILINE)
    *flags, folder, _ = made.split()
    assert flags == ["--no-deps", "--wheel-dir"]
    assert f"python -m pip install {folder}/batchstat-*.whl" == INSTALL
