"""Loops whose padding is cut train as without; those that compute with padding are left alone.

The oracle is the training itself: its losses, samples and parameters with `--apply` and without.
`-m "torch and not slow"` runs a third of them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from warm_loops import WarmLoops, serving

from conftest import ROOT, Run, environment, needs

pytestmark = pytest.mark.torch

LOOPS = Path(__file__).parent / "loops.py"
RANKS = {"distributed", "sharded"}
BY_ITSELF = {"encodings", "left", "spawned", "tuples"} | RANKS
"""Loops that are started by a Python of their own; the others run in forks of one."""


@dataclass(frozen=True)
class Trained:
    """What each rank of a loop left."""

    ranks: list[dict[str, Any]]

    def values(self, name: str) -> Any:
        """The losses or parameters of all ranks."""
        return np.array([value for rank in self.ranks for value in rank[name]])

    @property
    def steps(self) -> list[list[list[int]]]:
        """The samples of each step of each rank."""
        return [rank["steps"] for rank in self.ranks]


def trained(folder: Path) -> Trained:
    files = sorted(folder.glob("trained.*.json"))
    return Trained([json.loads(file.read_text()) for file in files])


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmLoops]:
    """Runs loops in forks of a Python that has imported torch."""
    needs("torch")
    yield from serving({"CUDA_VISIBLE_DEVICES": ""})


@pytest.fixture
def train(tmp_path: Path, run: Run, warm: WarmLoops) -> Any:
    """Trains a loop as it is and with `--apply`: what both left, and what the report says."""

    def start(loop: str, *words: str) -> tuple[Trained, Trained, dict[str, Any]]:
        given = environment(PYTHONPATH=str(ROOT), CUDA_VISIBLE_DEVICES="")

        def command(name: str) -> list[str]:
            (tmp_path / name).mkdir()
            own = [LOOPS, tmp_path / name, loop, *words]
            if loop not in BY_ITSELF:
                return warm.command(*own)
            launcher = [sys.executable]
            if loop in RANKS:
                launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
            return [*launcher, *map(str, own)]

        subprocess.run(command("plain"), env=given, check=True, stdin=subprocess.DEVNULL)
        words_of_apply = ["run", "--apply", "-o", tmp_path / "run", *command("applied")]
        ended = run(*words_of_apply, PYTHONPATH=str(ROOT), CUDA_VISIBLE_DEVICES="")
        assert ended.returncode == 0, ended.stderr
        report = json.loads((tmp_path / "run" / "preflight.json").read_text())
        return trained(tmp_path / "plain"), trained(tmp_path / "applied"), report["run"]["applied"]

    return start


def cases(*found: tuple[str, ...], slow: bool = False) -> list[Any]:
    """Cases of a test, by their words."""
    marks = [pytest.mark.slow] if slow else []
    return [pytest.param(each, id=" ".join(each), marks=marks) for each in found]


CUT = [
    *cases(
        ("special tokens",),
        ("called apart", "dropout"),
        ("decoder masks", "dropout"),
        ("masks of three dimensions",),
        ("token weights", "bfloat16"),
        ("answers",),
        ("ids alone", "dropout"),
        ("untold",),
        ("tuples",),
        ("dataclasses", "dropout", "bfloat16"),
        ("forked",),
        ("evaluation",),
        ("max steps", "dropout", "bfloat16"),
        ("resumed", "dropout"),
        ("skipped",),
        ("autocast",),
        ("accumulated", "dropout", "bfloat16"),
        ("distributed",),
        ("sample means",),
        ("contrastive", "dropout"),
    ),
    *cases(
        ("positions", "dropout"),
        ("decoder masks",),
        ("masks of four dimensions",),
        ("masks of four dimensions", "dropout"),
        ("answers", "dropout"),
        ("ids alone",),
        ("nested",),
        ("nested", "dropout"),
        ("encodings",),
        ("own mappings", "dropout"),
        ("forked", "dropout", "bfloat16"),
        ("spawned",),
        ("persistent", "dropout"),
        ("pinned", "dropout"),
        ("streamed",),
        ("shuffled", "dropout"),
        ("shuffled by all",),
        ("early stopping",),
        ("resumed",),
        ("accelerated",),
        ("accelerated", "dropout", "bfloat16"),
        ("skipped", "dropout"),
        ("checkpointing", "dropout"),
        ("checkpointing", "bfloat16"),
        ("autocast", "dropout"),
        ("accumulated",),
        ("distributed", "dropout"),
        ("sharded",),
        ("smoothed", "bfloat16"),
        ("smoothed", "dropout"),
        ("sample means", "bfloat16"),
        ("contrastive",),
        ("routed",),
        ("routed", "dropout"),
        ("classified", "bfloat16"),
        slow=True,
    ),
]

DEPENDS, NOT_PADDING = "padding changes", "does not end in padding"
REFUSED = [
    *cases(
        ("padding with loss", DEPENDS),
        ("batch norm", DEPENDS),
        ("rotated", DEPENDS),
        ("left", "its padding is on the left"),
        ("rare classes", ""),
        ("shuffled by all dropout", "its loader and dropout share random numbers"),
        ("embedded apart dropout", "its loader and dropout share random numbers"),
    ),
    *cases(
        ("mean over all", DEPENDS),
        ("mean of all", DEPENDS),
        ("LSTM", DEPENDS),
        ("routed over all", DEPENDS),
        ("noisy", ""),
        ("multi-hot", NOT_PADDING),
        ("features", NOT_PADDING),
        ("features that end in zeros", ""),
        slow=True,
    ),
]


@pytest.mark.parametrize("words", CUT)
def test_the_training_is_the_same_where_padding_is_cut(train, words):
    plain, applied, facts = train(*words)
    assert facts["why_not"] == ""
    assert facts["cut_batches"] > 0
    assert facts["total_tokens"] < facts["tokens_before"]
    assert len(plain.steps[0]) >= 10
    assert applied.steps == plain.steps
    assert len(applied.values("losses")) == len(plain.values("losses"))
    if "dropout" in words:  # which draws other numbers for other widths
        return
    most = 0.03 if {"bfloat16", "autocast"} & set(words) else 1e-5
    for name in ("losses", "parameters"):
        one, other = plain.values(name), applied.values(name)
        assert np.linalg.norm(one - other) <= most * np.linalg.norm(one), name


@pytest.mark.parametrize("case", REFUSED)
def test_a_loop_that_computes_with_padding_is_left_alone(train, case):
    loop, why = case
    loop, *words = loop.split(" dropout") if loop.endswith(" dropout") else [loop]
    plain, applied, facts = train(loop, *["dropout" for _ in words])
    assert why in facts["why_not"]
    assert facts["cut_batches"] == 0
    assert facts["total_tokens"] == facts["tokens_before"]
    assert applied.ranks == plain.ranks
