"""Loops whose steps are regrouped train as without: the same samples in each step, the same
parameters; those whose batches have a part in the gradient are left alone.

The oracle is the training itself, with `--apply` and without. Which steps have something to gain is
asked of the planner of a step, with the samples that these had without.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from both_trainings import GIVEN, Trainings, trained
from warm_loops import WarmLoops, serving

from conftest import Run, environment, needs

pytestmark = pytest.mark.torch

LOOPS = Path(__file__).parent / "step_loops.py"
N_SAMPLES = 72


def lengths() -> list[int]:
    """Those of the samples."""
    from loops import sample  # with torch

    return [len(sample(number)) for number in range(N_SAMPLES)]


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmLoops]:
    """Runs loops in forks of a Python that has imported torch."""
    needs("torch")
    yield from serving({"CUDA_VISIBLE_DEVICES": ""})


@pytest.fixture
def train(tmp_path: Path, run: Run, warm: WarmLoops, capfd: Any) -> Any:
    """Trains a loop of `Options` as it is and with `--apply`."""

    return Trainings(LOOPS, tmp_path, run, warm, capfd, GIVEN)


def cases(*found: dict[str, Any], slow: bool = False) -> list[Any]:
    """Cases of a test, by their words."""
    marks = [pytest.mark.slow] if slow else []
    ids = [" ".join(f"{name}={value}" for name, value in each.items()) for each in found]
    return [pytest.param(each, id=own, marks=marks) for each, own in zip(found, ids, strict=True)]


FOUR = {"rows": 3, "accumulation": 4, "epochs": 3}
ONE = {"ranks": 2, "rows": 4, "accumulation": 1, "epochs": 3}
TWO = {"ranks": 2, "rows": 2}
REGROUPED = [
    *cases(
        {"loop": "plain", "workers": 2, "persistent": True},
        {"loop": "plain", "dynamic": True, **FOUR, "most_steps": 15},
        {"loop": "plain", "n_samples": 71, "drop_last": True, "tail": "dropped", "epochs": 3},
        {"loop": "classified", "accumulation": 4, "epochs": 3},
        {"loop": "ranks", **ONE},
        {"loop": "ranks", **TWO, "accumulation": 3, "epochs": 3, "workers": 2, "dynamic": True},
        {"loop": "accelerated", "skipped": 4, "accumulation": 4, "epochs": 3},
        {"loop": "accelerated", **TWO, "accumulation": 4, "epochs": 5, "n_samples": 70},
    ),
    *cases(
        {"loop": "plain"},
        {"loop": "plain", **FOUR, "workers": 2, "epochs": 5},
        {"loop": "plain", "skipped": 4, "tail": "dropped", "epochs": 3},
        {"loop": "plain", "n_samples": 71, "rows": 4, "epochs": 4},
        {"loop": "plain", "n_samples": 70, "rows": 2, "tail": "stepped"},
        {"loop": "plain", "n_samples": 32, "rows": 2, "tail": "stepped", "epochs": 4},
        {"loop": "classified", "n_samples": 71, "tail": "dropped", "epochs": 3},
        {"loop": "ranks", **ONE, "workers": 2, "persistent": True, "epochs": 4},
        {"loop": "ranks", **TWO, "accumulation": 4, "epochs": 7, "most_steps": 24},
        {"loop": "ranks", **TWO, "accumulation": 3, "epochs": 3, "n_samples": 71},
        {
            "loop": "ranks",
            **TWO,
            "accumulation": 3,
            "epochs": 4,
            "n_samples": 71,
            "drop_last": True,
            "tail": "dropped",
        },
        {"loop": "ranks-classified", **TWO, "accumulation": 3, "epochs": 3},
        {"loop": "accelerated", "accumulation": 3, "workers": 2, "dynamic": True},
        {"loop": "accelerated", **ONE, "drop_last": True, "n_samples": 71},
        {"loop": "accelerated", **TWO, "accumulation": 3, "epochs": 4, "skipped": 3},
        slow=True,
    ),
]


@pytest.mark.parametrize("case", REGROUPED)
def test_the_training_is_the_same_where_steps_are_regrouped(train, case):
    both = train(**case)
    both.check_same()
    given = {"rows": 3, "accumulation": 3, "workers": 0, "n_samples": N_SAMPLES, "ranks": 1, **case}
    is_accelerated = given["loop"] == "accelerated"
    n_ahead = 2 * given["workers"] + is_accelerated * given["accumulation"]
    n_batches = -(-given["n_samples"] // given["rows"] // given["ranks"])
    is_carried = not is_accelerated and "tail" not in case
    both.check_regrouped(lengths(), n_ahead, n_batches * is_carried)
    assert (both.facts["why_not"] == "") == (not case.get("dynamic"))
    assert both.verdict["regroup"]["way"]["over_ranks"] == (case.get("ranks", 1) > 1)


@pytest.mark.parametrize("tail", ["carried", pytest.param("kept", marks=pytest.mark.slow)])
def test_steps_that_go_over_the_end_of_an_epoch_keep_their_samples(train, tail):
    """How the next epoch goes on is learnt from it; then its whole steps are regrouped, too."""
    both = train("plain", tail=tail, n_samples=64, rows=4, epochs=7)
    both.check_same()
    changed = [
        one != other for one, other in zip(both.plain.steps, both.applied.steps, strict=True)
    ]
    assert not any(changed[:10])
    assert sum(changed[10:]) >= 0.7 * len(changed[10:])


def test_an_unseeded_sampler_has_its_samples_in_the_steps_that_it_drew(train):
    both = train("plain", seed=None, again=True)
    both.check_same()
    both.check_regrouped(lengths())
    n = 9
    numbers = both.applied.ranks[0]["drawn"]
    expected = [sorted(numbers[first : first + n]) for first in range(0, len(numbers), n)]
    assert both.applied.samples == expected


NO_PART = "its batches have a part in its gradient"
DRAWS = "its collator or data set draws random numbers"
SEVERAL = "one sample came with several lengths"
UNTOUCHED = [
    ("token-means", NO_PART),
    ("contrastive", NO_PART),
    pytest.param("batch-norm", NO_PART, marks=pytest.mark.slow),
    ("masking", DRAWS),
    pytest.param("drawing", "", marks=pytest.mark.slow),
    ("stream", "a stream has no sample numbers"),
    ("drawn-in-epoch", "its sampler draws random numbers within an epoch"),
]


@pytest.mark.parametrize(("loop", "why"), UNTOUCHED)
def test_a_loop_whose_batches_have_a_part_in_its_steps_is_not_regrouped(train, loop, why):
    both = train(loop)
    assert why in both.facts["why_not_regrouped"]
    assert both.facts["why_not_regrouped"]
    if loop == "masking" or loop == "drawing":
        assert both.facts["regrouped_steps"] == 0
        assert both.applied.samples == both.plain.samples
    else:
        both.check_untouched()


def test_samples_with_other_numbers_than_in_the_dry_run_are_not_regrouped(train):
    both = train("unseeded-split")
    assert both.facts["regrouped_steps"] == 0
    assert "batchstat: steps are not regrouped: sample " in both.printed
    assert " tokens, and had " in both.printed


def test_a_loader_that_one_rank_reads_alone_is_not_regrouped(train):
    """Ranks agree where one begins an epoch of it: that rank would wait for the others."""
    both = train("ranks", ranks=2, rows=2, accumulation=3, epochs=3, looks=True)
    why = "its ranks do not have the same loader equally often"
    assert both.facts["why_not_regrouped"] == why
    assert both.facts["regrouped_steps"] == 0


def test_an_accumulation_that_changes_ends_it_with_the_epoch(train):
    both = train("plain", change_at=30, epochs=8)
    assert 0 < both.facts["regrouped_steps"] <= 32
    assert "its steps had 3 batches of a rank, and one had 4" in both.printed
    assert both.applied.samples[:30] == both.plain.samples[:30]
    assert both.applied.steps[-10:] == both.plain.steps[-10:]


def test_a_verdict_of_another_number_of_ranks_is_not_used(tmp_path, run, warm, capfd):
    command = ["run", "--apply", "-o", tmp_path / "run"]
    own = Trainings(LOOPS, tmp_path, run, warm, capfd, GIVEN)
    words = own.command("applied", "ranks", {"rows": 2, "epochs": 3})
    assert run(*command, *words, **GIVEN, N_RANKS="2").returncode == 0
    capfd.readouterr()
    ended = run(*command, *words, **GIVEN, N_RANKS="1", **ONE_RANK)
    printed = capfd.readouterr().err + ended.stderr
    assert ended.returncode == 0, printed
    assert "the dry run had another number of ranks, 2: the next run checks it again" in printed
    facts = json.loads((tmp_path / "run" / "preflight.json").read_text())["run"]["applied"]
    assert facts["regrouped_steps"] == facts["cut_batches"] == 0


@pytest.mark.slow
def test_a_recorder_that_fails_on_one_rank_leaves_steps_as_they_came(tmp_path, run, warm, capfd):
    """Before the step after which ranks agree, for which the others wait."""
    own = Trainings(LOOPS, tmp_path, run, warm, capfd, GIVEN)
    given = {"rows": 2, "epochs": 3}
    plain = own.plain("ranks", 2, given)
    words = own.command("applied", "ranks", given)
    command = ["run", "--apply", "-o", tmp_path / "run", *words]
    assert run(*command, **GIVEN, N_RANKS="2").returncode == 0
    # By the verdict of that one.
    faulty = {**GIVEN, "FAULT": "recorder", "FAULT_AT": "8"}
    ended = run(*command, **faulty, N_RANKS="2")
    assert ended.returncode == 0
    applied = trained(tmp_path / "applied")
    assert applied.steps == plain.steps
    assert "the recorder has failed" in capfd.readouterr().err


ONE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["raises", "killed"])
def test_a_rank_that_fails_ends_the_others_as_without(tmp_path, run, warm, capfd, fault):
    """In the third epoch, when steps are regrouped."""
    own = Trainings(LOOPS, tmp_path, run, warm, capfd, GIVEN)
    given = {"rows": 2, "epochs": 9, "fault": fault, "fault_at": 60}
    began = time.monotonic()
    words = own.command("plain", "ranks", given)
    given_to_it = environment(**GIVEN, N_RANKS="2")
    code = subprocess.run(words, env=given_to_it, stdin=subprocess.DEVNULL, check=False).returncode
    seconds = time.monotonic() - began
    words = own.command("applied", "ranks", given)
    dry = run("run", "--dry-run", "--apply", "-o", tmp_path / "run", *words, **GIVEN, N_RANKS="2")
    assert dry.returncode == 0
    began = time.monotonic()
    ended = run("run", "--apply", "-o", tmp_path / "run", *words, **GIVEN, N_RANKS="2")
    assert time.monotonic() - began < 2 * seconds + 10
    codes = [json.loads((tmp_path / n / "codes.json").read_text()) for n in ("plain", "applied")]
    assert codes[0] == codes[1]
    assert all(codes[0])
    assert ended.returncode == code
    facts = json.loads((tmp_path / "run" / "preflight.json").read_text())["run"]["applied"]
    assert facts["regrouped_steps"] > 10
