"""Trainers whose steps are regrouped train as without, as loops do in `test_regrouped_steps.py`."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from both_trainings import Trainings
from warm_loops import WarmLoops, serving

from conftest import ROOT, Run, environment, needs

pytestmark = pytest.mark.torch

TRAINERS = Path(__file__).parent / "applied_trainers.py"
GIVEN = {
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "helpers", TRAINERS.parent))),
    "CUDA_VISIBLE_DEVICES": "",
}
LIBRARIES = {"sft": "trl", "lightning": "lightning"}


def lengths() -> list[int]:
    """Those of the samples."""
    from applied_trainers import N_SAMPLES, ids_of  # with torch

    return [len(ids_of(number)) for number in range(N_SAMPLES)]


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmLoops]:
    """Runs trainers in forks of a Python that has imported transformers."""
    needs("torch")
    needs("transformers")
    imported = "transformers.trainer", "transformers.models.llama.modeling_llama", "datasets"
    yield from serving(GIVEN, *imported)


@pytest.fixture
def train(tmp_path: Path, run: Run, warm: WarmLoops, capfd: Any) -> Any:
    """Trains with such arguments, as it is and with `--apply`."""
    return Trainings(TRAINERS, tmp_path, run, warm, capfd, GIVEN)


def arguments(rows: int, accumulation: int, **more: Any) -> dict[str, Any]:
    """Those of a Trainer."""
    own = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulation}
    return {**own, **more}


LOADED = {"dataloader_num_workers": 2, "dataloader_persistent_workers": True}
SUMMED = {"rows": 2, "accumulate_grad_batches": 3, "summed": True}
CASES = [
    ("trainer", arguments(2, 3, num_train_epochs=2)),
    ("trainer", {"ranks": 2, **arguments(2, 3, num_train_epochs=4)}),
    ("lightning", {"ranks": 2, **SUMMED, "max_epochs": 3}),
    ("sft", arguments(2, 4, num_train_epochs=3, dynamic=True)),
]
SLOW = [
    ("trainer", arguments(2, 4, max_steps=20)),
    ("trainer", arguments(2, 5, num_train_epochs=4)),
    ("trainer", arguments(2, 3, num_train_epochs=3, **LOADED)),
    ("trainer", arguments(5, 2, num_train_epochs=4, dataloader_drop_last=True)),
    ("trainer", {"ranks": 2, **arguments(4, 1, num_train_epochs=4)}),
    ("trainer", {"ranks": 2, **arguments(2, 5, num_train_epochs=6, **LOADED)}),
    ("sft", {"ranks": 2, **arguments(2, 3, num_train_epochs=4)}),
    ("lightning", {**SUMMED, "max_epochs": 1}),
]


@pytest.mark.parametrize(
    ("kind", "given"), [*CASES, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)]
)
def test_the_training_is_the_same_where_steps_are_regrouped(train, kind, given):
    if kind in LIBRARIES:
        needs(LIBRARIES[kind])
    both = train(kind, **given)
    both.check_same()
    n_turns = both.verdict["regroup"]["way"]["accumulation"]
    both.check_regrouped(lengths(), 2 * given.get("dataloader_num_workers", 0) + n_turns)
    assert both.verdict["regroup"]["way"]["over_ranks"] == (given.get("ranks", 1) > 1)


@pytest.mark.slow
def test_a_trainer_that_counts_the_tokens_of_a_rank_is_regrouped_within_each(train):
    given = arguments(2, 3, num_train_epochs=4, average_tokens_across_devices=False)
    both = train("trainer", ranks=2, **given)
    both.check_same()
    both.check_regrouped(lengths(), 3)
    assert not both.verdict["regroup"]["way"]["over_ranks"]
    for plain, applied in zip(both.plain.steps, both.applied.steps, strict=True):
        for one, other in zip(plain, applied, strict=True):
            numbers = [sorted(n for batch in rank for n in batch) for rank in (one, other)]
            assert numbers[0] == numbers[1]


@pytest.mark.slow
def test_a_trainer_that_resumes_in_the_middle_of_an_epoch(tmp_path, train, warm):
    given = arguments(2, 3, num_train_epochs=4, save_strategy="steps", save_steps=2)
    (tmp_path / "before").mkdir()
    words = [f"{name}={value}" for name, value in given.items()]
    first = warm.command(TRAINERS, tmp_path / "before", "trainer", *words)
    subprocess.run(first, env=environment(**GIVEN), check=True, stdin=subprocess.DEVNULL)
    train.words.append(str(tmp_path / "before" / "out" / "checkpoint-2"))
    both = train("trainer", **given)
    both.check_same()
    assert len(both.plain.steps) == 30
    both.check_regrouped(lengths(), 3)


@pytest.mark.parametrize("bf16", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_loss_of_a_router_is_not_regrouped(train, bf16):
    both = train("mixtral", **arguments(2, 3, bf16=bf16))
    assert "router" in both.facts["why_not_regrouped"]
    assert both.facts["regrouped_steps"] == 0
    assert both.applied.steps == both.plain.steps


@pytest.mark.slow
def test_a_mean_over_the_tokens_of_each_batch_is_not_regrouped(train):
    needs("lightning")
    both = train("lightning", rows=2, accumulate_grad_batches=3)
    assert "its batches have a part in its gradient" in both.facts["why_not_regrouped"]
    both.check_untouched()
