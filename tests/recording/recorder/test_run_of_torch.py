"""`batchstat run` of loops of torch, in real processes: how they end, and what is left of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from batchstat.recording.recording import read_recording
from conftest import environment, needs

needs("torch")

pytestmark = pytest.mark.torch

LOOP = """
import os, sys, torch
net = torch.nn.Sequential(torch.nn.Embedding(50, 4, padding_idx=0), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
rows = [torch.randint(1, 50, (1 + place * 7 % 13,)) for place in range(60)]
def collate(found):
    return torch.nn.utils.rnn.pad_sequence(found, batch_first=True)
for place, ids in enumerate(torch.utils.data.DataLoader(rows, 3, collate_fn=collate)):
    {body}
print("DONE")
"""
TRAIN = "net(ids).sum().backward(); optimizer.step(); optimizer.zero_grad()"


def run(folder: Path, text: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "train.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "batchstat", "run", "-o", "run", *options, "train.py"],
        cwd=folder,
        env=environment(COLUMNS="200"),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def steps_in(folder: Path) -> int:
    [rank] = read_recording(folder / "run").ranks
    return len({batch.step for batch in rank.batches})


@pytest.mark.parametrize(
    ("end", "code", "steps"),
    [
        ("sys.exit(3)", 3, 10),
        ("1 / 0", 1, 10),
        ("os.kill(os.getpid(), 9)", -9, 10),
        ("os._exit(7)", 7, 10),
    ],
)
def test_what_was_trained_before_the_end_is_reported(tmp_path, end, code, steps):
    ended = run(tmp_path, LOOP.format(body=f"{TRAIN}\n    if place == 9: {end}"))
    assert (ended.returncode, ended.stdout) == (code, "")
    assert f"{steps} steps recorded" in ended.stderr
    assert steps_in(tmp_path) == steps


def test_a_command_is_ended_after_steps(tmp_path):
    ended = run(tmp_path, LOOP.format(body=TRAIN), "--steps", "4")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "4 steps recorded" in ended.stderr
    assert steps_in(tmp_path) == 4


def test_the_rest_of_an_epoch_is_read_in_a_dry_run(tmp_path):
    ended = run(tmp_path, LOOP.format(body=TRAIN), "--dry-run")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "20 steps recorded · dry run: 3 computed" in ended.stderr
    [dry] = read_recording(tmp_path / "run").ranks
    (tmp_path / "full").mkdir()
    full = run(tmp_path / "full", LOOP.format(body=TRAIN), "--json")
    [real] = read_recording(tmp_path / "full/run").ranks
    for one, other in zip(real.batches, dry.batches, strict=True):
        assert [vars(part) for part in one.parts] == [vars(part) for part in other.parts]
        assert one.numbers == other.numbers
    own, _, document = full.stdout.partition("\n")
    assert own == "DONE"
    facts = json.loads(document)["run"]
    assert (facts["command"], facts["steps"], facts["dry_run"]) == ("train.py", 20, False)
    assert facts["python"] == sys.executable


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("net(ids)", "no gradient came back to any of 20 forwards with token ids"),
        ("with torch.no_grad(): net(ids)", "no gradient came back to any of 20 forwards"),
        ("net[1](torch.ones(3, 4)).sum().backward(); optimizer.step()", "no model was called with"),
        ("pass", "no model was called with token ids: whole numbers in rows of equal length"),
    ],
)
def test_why_nothing_was_recorded(tmp_path, body, why):
    ended = run(tmp_path, LOOP.format(body=body))
    assert (ended.returncode, ended.stdout) == (0, "DONE\n")
    assert f"run: nothing was recorded: {why}" in ended.stderr
    assert "%" not in ended.stderr


def test_a_compiled_model_has_the_same_graphs(tmp_path):
    text = """
import torch, torch._dynamo as dynamo
net = torch.nn.Sequential(torch.nn.Embedding(50, 4), torch.nn.Linear(4, 1))
compiled = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for place in range(5):
    compiled(torch.randint(1, 50, (3, 7))).sum().backward(); optimizer.step()
found = dynamo.utils.counters
print(dict(found["stats"]), dict(found["graph_break"]), dict(found["frames"]))
"""
    ended = run(tmp_path, text)
    plain = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert ended.stdout == plain.stdout
    assert "unique_graphs" in plain.stdout
    assert steps_in(tmp_path) == 5
