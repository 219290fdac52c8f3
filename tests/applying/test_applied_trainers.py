"""Trainers of transformers, TRL and Lightning train as without `--apply`, on narrower batches.

The oracle is the training itself: its losses and parameters with `--apply` and without.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from warm_loops import WarmLoops, serving

from conftest import ROOT, Run, environment, needs

pytestmark = pytest.mark.torch

TRAINERS = Path(__file__).parent / "applied_trainers.py"
GIVEN = {
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "helpers", TRAINERS.parent))),
    "CUDA_VISIBLE_DEVICES": "",
}
LIBRARIES = {"sft": "trl", "lightning": "lightning"}


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmLoops]:
    """Runs trainers in forks of a Python that has imported transformers."""
    needs("torch")
    needs("transformers")
    imported = "transformers.trainer", "transformers.models.llama.modeling_llama", "datasets"
    yield from serving(GIVEN, *imported)


def left_in(folder: Path) -> list[dict[str, Any]]:
    """What each rank left."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("trained.*.json"))]


def check_equal(plain: list[dict[str, Any]], applied: list[dict[str, Any]]) -> None:
    """The losses are printed with few digits, and the parameters with all."""
    assert len(plain) == len(applied) > 0
    for one, other in zip(plain, applied, strict=True):
        assert len(one["losses"]) >= 6
        for name in ("losses", "parameters"):
            np.testing.assert_allclose(other[name], one[name], rtol=2e-4, atol=1e-5, err_msg=name)


@pytest.fixture
def train(tmp_path: Path, run: Run, warm: WarmLoops) -> Any:
    """Trains as it is and with `--apply`: what both left, and what the report says."""

    def start(kind: str, *words: str, ranks: int = 1) -> tuple[Any, Any, dict[str, Any]]:
        def command(name: str) -> list[str]:
            (tmp_path / name).mkdir()
            own = warm.command(TRAINERS, tmp_path / name, kind, *words)
            if ranks == 1:
                return own
            launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            return [*launcher, "--nproc-per-node", str(ranks), *own[1:]]

        given = environment(**GIVEN)
        subprocess.run(command("plain"), env=given, check=True, stdin=subprocess.DEVNULL)
        ended = run("run", "--apply", "-o", tmp_path / "run", *command("applied"), **GIVEN)
        assert ended.returncode == 0, ended.stderr
        facts = json.loads((tmp_path / "run" / "preflight.json").read_text())["run"]["applied"]
        return left_in(tmp_path / "plain"), left_in(tmp_path / "applied"), facts

    return start


@pytest.mark.parametrize(
    "kind",
    [
        "trainer",
        pytest.param("subclass", marks=pytest.mark.slow),
        pytest.param("sft", marks=pytest.mark.slow),
        "encoder-decoder",
        "lightning",
        pytest.param("max-steps", marks=pytest.mark.slow),
        pytest.param("evaluated", marks=pytest.mark.slow),
    ],
)
def test_a_trainer_trains_as_without(train, kind):
    if kind in LIBRARIES:
        needs(LIBRARIES[kind])
    plain, applied, facts = train(kind)
    assert facts["why_not"] == ""
    assert 0 < facts["cut_batches"] < facts["batches"]  # the first ones are never cut
    assert facts["real_tokens"] < facts["total_tokens"] < facts["tokens_before"]
    check_equal(plain, applied)


@pytest.mark.slow
def test_a_trainer_of_an_old_version_is_left_alone(train):
    plain, applied, facts = train("old")
    assert facts["why_not"] == "transformers 4.39.3 is older than 4.40"
    assert facts["cut_batches"] == 0
    check_equal(plain, applied)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["three-epochs", "lightning"])
def test_a_trainer_of_two_ranks(train, kind):
    if kind in LIBRARIES:
        needs(LIBRARIES[kind])
    plain, applied, facts = train(kind, ranks=2)
    assert facts["why_not"] == ""
    assert facts["cut_batches"] > 0
    assert len(applied) == 2
    check_equal(plain, applied)


@pytest.mark.slow
def test_a_trainer_that_resumes_in_the_middle_of_an_epoch(tmp_path, warm, train):
    (tmp_path / "before").mkdir()
    first = warm.command(TRAINERS, tmp_path / "before", "saved")
    subprocess.run(first, env=environment(**GIVEN), check=True, stdin=subprocess.DEVNULL)
    plain, applied, facts = train("saved", str(tmp_path / "before" / "out" / "checkpoint-4"))
    assert facts["why_not"] == ""
    assert facts["cut_batches"] > 0
    assert facts["batches"] == 16  # of those that are left, two to a step
    check_equal(plain, applied)
