"""`batchstat run` of loops of torch, in real processes: how they end, and what is left of them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import batchstat
from batchstat.recording.recording import read_recording
from conftest import Run, needs

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


class Ended(NamedTuple):
    """A command that ended: its exit code, what it printed itself, and what batchstat printed."""

    returncode: int
    stdout: str
    document: str
    stderr: str


Recorded = Callable[..., Ended]


@pytest.fixture
def recorded(run: Run, capfd: pytest.CaptureFixture[str]) -> Recorded:
    """Runs a script of its own process by the command, which is in this one."""

    def start(folder: Path, text: str, *options: str) -> Ended:
        (folder / "train.py").write_text(text)
        capfd.readouterr()
        ended = run("run", "-o", "run", *options, "train.py", cwd=folder, COLUMNS="200")
        return Ended(ended.returncode, capfd.readouterr().out, ended.stdout, ended.stderr)

    return start


def steps_in(folder: Path) -> int:
    [rank] = read_recording(folder / "run").ranks
    return len({batch.step for batch in rank.batches})


ENDS = "{train}\n    if place == 9: {end}"


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("1 / 0", 1), ("os._exit(7)", 7)])
def test_what_was_trained_before_the_end_is_reported(tmp_path, recorded, end, code):
    ended = recorded(tmp_path, LOOP.format(body=ENDS.format(train=TRAIN, end=end)))
    assert (ended.returncode, ended.stdout) == (code, "")
    assert "10 steps recorded" in ended.stderr
    assert steps_in(tmp_path) == 10


def test_what_was_trained_before_a_signal_is_reported(tmp_path, monkeypatch):
    """By the function: the command would end itself by the same signal, and this process."""
    monkeypatch.chdir(tmp_path)
    end = ENDS.format(train=TRAIN, end="os.kill(os.getpid(), 9)")
    Path("train.py").write_text(LOOP.format(body=end))
    ended = batchstat.run(["train.py"], output="run")
    assert ended.code == -9
    assert ended.report.simulation.row.counts.steps == steps_in(tmp_path) == 10


def test_a_command_is_ended_after_steps(tmp_path, recorded):
    ended = recorded(tmp_path, LOOP.format(body=TRAIN), "--steps", "4")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "4 steps recorded" in ended.stderr
    assert steps_in(tmp_path) == 4


def test_the_rest_of_an_epoch_is_read_in_a_dry_run(tmp_path, recorded):
    ended = recorded(tmp_path, LOOP.format(body=TRAIN), "--dry-run")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "20 steps recorded · dry run: 3 computed" in ended.stderr
    [dry] = read_recording(tmp_path / "run").ranks
    (tmp_path / "full").mkdir()
    full = recorded(tmp_path / "full", LOOP.format(body=TRAIN), "--json")
    [real] = read_recording(tmp_path / "full/run").ranks
    for one, other in zip(real.batches, dry.batches, strict=True):
        assert [vars(part) for part in one.parts] == [vars(part) for part in other.parts]
        assert one.numbers == other.numbers
    assert full.stdout == "DONE\n"
    facts = json.loads(full.document)["run"]
    assert (facts["command"], facts["steps"], facts["dry_run"]) == ("train.py", 20, False)
    assert facts["python"] == sys.executable


SWALLOWED = """
import torch
net = torch.nn.Sequential(torch.nn.Embedding(50, 4, padding_idx=0), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
batches = torch.utils.data.DataLoader(torch.ones(60, 5, dtype=torch.long), 3)
while True:
    try:
        for ids in batches:
            net(ids).sum().backward(); optimizer.step(); optimizer.zero_grad()
            print("TRAINED", flush=True)
    except BaseException:
        print("CAUGHT")
"""


@pytest.mark.parametrize(("options", "steps"), [(("--dry-run",), 20), (("--steps", "2"), 2)])
def test_a_planned_end_cannot_be_caught(tmp_path, recorded, options, steps):
    ended = recorded(tmp_path, SWALLOWED, *options)
    assert ended.returncode == 0
    assert ended.stdout.count("TRAINED") < 3
    assert "CAUGHT" in ended.stdout
    assert steps_in(tmp_path) == steps


def test_a_program_that_replaces_itself_has_a_recording_of_its_own(tmp_path, recorded):
    again = "{train}\n    if place == 3 and not sys.argv[1:]: "
    again += "os.execv(sys.executable, [sys.executable, 'train.py', 'again'])"
    ended = recorded(tmp_path, LOOP.format(body=again.format(train=TRAIN)))
    assert (ended.returncode, ended.stdout) == (0, "DONE\n")
    assert steps_in(tmp_path) == 20
    assert "2 trainings recorded: this is the one with the most batches" in ended.stderr


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
    loop = compile(LOOP.format(body=body), "train.py", "exec")
    with pytest.warns(UserWarning, match="nothing was recorded") as warned:  # noqa: SIM117
        with batchstat.record(tmp_path / "run"):
            exec(loop, {})  # noqa: S102
    [message] = [str(each.message) for each in warned if each.category is UserWarning]
    assert f"run: nothing was recorded: {why}" in message
    assert "%" not in message


def test_why_nothing_was_recorded_of_a_command(tmp_path, recorded):
    ended = recorded(tmp_path, LOOP.format(body="net(ids)"))
    assert (ended.returncode, ended.stdout) == (0, "DONE\n")
    assert "run: nothing was recorded: no gradient came back to any of 20 forwards" in ended.stderr


def test_a_compiled_model_has_the_same_graphs(tmp_path):
    loop = """
import torch, torch._dynamo as dynamo
net = torch.nn.Sequential(torch.nn.Embedding(50, 4), torch.nn.Linear(4, 1))
compiled = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for place in range(5):
    compiled(torch.randint(1, 50, (3, 7))).sum().backward(); optimizer.step()
"""
    dynamo = needs("torch._dynamo")

    def counted() -> dict[str, dict[str, int]]:
        dynamo.reset()
        dynamo.utils.counters.clear()
        exec(loop, {})  # noqa: S102
        names = ("stats", "graph_break", "frames")
        return {name: dict(dynamo.utils.counters[name]) for name in names}

    plain = counted()
    with batchstat.record(tmp_path / "run"):
        found = counted()
    assert found == plain
    assert "unique_graphs" in plain["stats"]
    assert steps_in(tmp_path) == 5
