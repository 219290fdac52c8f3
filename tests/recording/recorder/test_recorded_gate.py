"""A repository whose script is recorded and checked in CI: longer data makes the check fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from conftest import environment, needs

needs("trl")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell"),
]

SCRIPT = f"""
import json, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[2] / "helpers")!r}]
from cases import OPTIONS, llama, tokenizer_of
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

rows = [json.loads(line) for line in open("train.jsonl", encoding="utf-8")]
tokenizer = tokenizer_of()
SFTTrainer(
    llama(len(tokenizer)),
    SFTConfig(**OPTIONS),
    train_dataset=Dataset.from_list(rows),
    processing_class=tokenizer,
).train()
"""


def in_shell(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment(PATH=path, CI="true"),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def commit(folder: Path, message: str) -> None:
    own = "git -c user.name=a -c user.email=a@b"
    done = in_shell(f"git init -q && git add -A && {own} commit -qm '{message}'", folder)
    assert done.returncode == 0, done.stderr


def write_data(folder: Path, long: int) -> None:
    texts = ["word " * (long if place % 4 == 0 else 20) for place in range(640)]
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")


def test_longer_data_fails_the_check_of_a_script(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / ".gitignore").write_text("batchstat-results/\nout/\n")
    write_data(tmp_path, long=24)
    recorded = in_shell("batchstat run --dry-run train.py", tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    made = in_shell("batchstat init --current batchstat-results/run", tmp_path)
    assert made.returncode == 0, made.stderr
    commit(tmp_path, "a script and its gate")
    steps = yaml.safe_load(made.stdout)["jobs"]["padding"]["steps"]
    commands = [step["run"] for step in steps if step.get("run", "").startswith("batchstat ")]
    assert len(commands) == 2

    for command in commands:  # also here, where there is a recording
        passed = in_shell(command, tmp_path)
        assert passed.returncode == 0, passed.stdout + passed.stderr
    write_data(tmp_path, long=400)
    commit(tmp_path, "longer texts")
    # The steps of the workflow that are batchstat's, in a clone, where nothing is recorded yet.
    in_shell("git clone -q . clone", tmp_path)
    failed = in_shell(" && ".join(commands), tmp_path / "clone")
    assert failed.returncode == 1, failed.stderr
    assert "::error" in failed.stdout
    assert "max-padding" in failed.stdout
    assert 'SFTConfig(train_sampling_strategy="group_by_length")' in failed.stdout
