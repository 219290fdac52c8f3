"""What the README shows is what happens."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from batchstat.planning.samplers import SAMPLERS
from batchstat.planning.strategies import STRATEGIES
from batchstat.planning.strategies.bucket_edges import RULES
from batchstat.simulation.compare import DEFAULT_STRATEGIES
from conftest import ROOT, SAMPLE_DATA, Run, environment

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """An empty folder with the sample data, as a user has it after cloning."""
    shutil.copytree(SAMPLE_DATA, tmp_path / "sample_data")
    return tmp_path


def test_the_first_two_commands_install_and_run(checkout: Path, run: Run):
    main, tests = re.findall(r"^    (python -m pip install .*)$", README, flags=re.MULTILINE)
    install, *job = main.split(" && ")
    assert install == "python -m pip install ."
    assert tests == 'python -m pip install -e ".[test]" && python -m pytest'
    for command in job:
        program, *arguments = shlex.split(command)
        assert program == "batchstat"
        assert run(*arguments, cwd=checkout).returncode == 0


def in_shell(command: str, folder: Path) -> str:
    """What a command of the README prints, typed as it stands there."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(  # noqa: S602
        command,
        shell=True,
        cwd=folder,
        env=environment(PATH=path),
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")
def test_what_the_console_shows(checkout: Path):
    assert CONSOLE
    for block in CONSOLE:
        command, *expected = block.splitlines()
        shown = in_shell(command.removeprefix("$ "), checkout).splitlines()
        if expected[-1] == "…":
            expected.pop()
            shown = shown[: len(expected)]
        assert shown == expected


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")
def test_the_other_commands_run(checkout: Path):
    assert SHELL
    for block in SHELL:
        for command in block.splitlines():
            in_shell(command, checkout)


@pytest.mark.slow
def test_the_python_examples_run(checkout: Path):
    assert PYTHON
    for code in PYTHON:
        found = environment(PYTHONPATH=str(ROOT))
        subprocess.run([sys.executable, "-c", code], cwd=checkout, env=found, check=True)


def test_the_json_example_names_real_keys(checkout: Path, run: Run):
    record = json.loads(run("compare", "sample_data/corpus.txt", "--json", cwd=checkout).stdout)
    table = README.split("<!-- columns -->")[1]
    for key in re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE):
        assert key in record["strategies"][0] or key in record["strategies"][0]["params"], key


def test_every_strategy_and_rule_is_named(run: Run):
    for name in (*STRATEGIES, *RULES):
        assert f"`{name}`" in README, name
    shown = run("compare", "--help", COLUMNS="200").stdout
    for name in DEFAULT_STRATEGIES:
        assert name in shown, name
    listed = run("explain", "strategy", "sampler").stdout
    for name in (*STRATEGIES, *SAMPLERS):
        assert name in listed, name


def test_sample_data_is_made_by_its_script(tmp_path: Path):
    shutil.copy(SAMPLE_DATA / "make.py", tmp_path)
    subprocess.run([sys.executable, tmp_path / "make.py"], check=True)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["chat.jsonl", "corpus.txt", "make.py", "pretokenized.parquet", "reviews.csv"]
    for name in made:
        if name.endswith(".parquet"):  # whose bytes also name the version of pyarrow
            assert pq.read_table(tmp_path / name) == pq.read_table(SAMPLE_DATA / name)
        else:
            assert (tmp_path / name).read_bytes() == (SAMPLE_DATA / name).read_bytes()
    assert sum(path.stat().st_size for path in SAMPLE_DATA.iterdir()) < 1_000_000
