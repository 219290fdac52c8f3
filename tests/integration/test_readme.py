"""What the README shows is what happens."""

import os
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import refresh

from batchstat.planning.samplers import SAMPLERS
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.simulation.compare.candidates import DEFAULT_STRATEGIES
from conftest import ROOT, SAMPLE_DATA, Run
from examples import in_process, python_in_process

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_two_commands_install_and_run(tmp_path: Path, run: Run):
    main, tests = re.findall(r"^    (python -m pip install .*)$", README, flags=re.MULTILINE)
    install, *job = main.split(" && ")
    assert install == "python -m pip install ."
    assert tests == 'python -m pip install -e ".[test]" && python -m pytest'
    shutil.copytree(SAMPLE_DATA, tmp_path / "sample_data")
    for command in job:
        program, *arguments = shlex.split(command)
        assert program == "batchstat"
        # Their plots are those of tests/cli/test_commands.py.
        assert run(*arguments, "--no-plots", cwd=tmp_path).returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")
def test_the_examples_run(tmp_path: Path, run: Run):
    here = {"run_command": in_process(run), "run_python": python_in_process}
    made = refresh.refreshed(README, tmp_path, torch=False, **here)
    assert made == README


def test_it_is_short():
    assert len(README.splitlines()) <= 110
    assert len(README.split()) <= 700


def test_every_strategy_and_sampler_is_explained(run: Run):
    shown = run("compare", "--help", COLUMNS="200").stdout
    for name in DEFAULT_STRATEGIES:
        assert name in shown, name
    listed = run("explain", "strategy", "sampler").stdout
    for name in (*STRATEGIES, *SAMPLERS):
        assert name in listed, name


def test_sample_data_is_made_by_its_script(tmp_path: Path):
    shutil.copy(SAMPLE_DATA / "make.py", tmp_path)
    runpy.run_path(str(tmp_path / "make.py"), run_name="__main__")
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == [
        "chat.jsonl",
        "conversations.jsonl",
        "corpus.txt",
        "make.py",
        "pretokenized.parquet",
        "reviews.csv",
        "sft.yaml",
    ]
    for name in made:
        if name.endswith(".parquet"):  # whose bytes also name the version of pyarrow
            assert pq.read_table(tmp_path / name) == pq.read_table(SAMPLE_DATA / name)
        else:
            assert (tmp_path / name).read_bytes() == (SAMPLE_DATA / name).read_bytes()
    assert sum(path.stat().st_size for path in SAMPLE_DATA.iterdir()) < 1_000_000
