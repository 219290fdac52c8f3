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

from conftest import ROOT, SAMPLE_DATA, Run

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
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


def test_what_the_console_shows(checkout: Path, run: Run):
    assert CONSOLE
    for block in CONSOLE:
        first, *expected = block.splitlines()
        program, *arguments = shlex.split(first.removeprefix("$ "))
        assert program == "batchstat"
        result = run(*arguments, cwd=checkout)
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines() == expected


def test_the_python_examples_run(checkout: Path):
    assert PYTHON
    for code in PYTHON:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", code], cwd=checkout, env=environment, check=True)


def test_the_json_example_names_real_keys(checkout: Path, run: Run):
    record = json.loads(run("compare", "sample_data/corpus.txt", "--json", cwd=checkout).stdout)
    table = README.split("<!-- columns -->")[1]
    for key in re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE):
        assert key in record["strategies"][0] or key in record["strategies"][0]["params"], key


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
