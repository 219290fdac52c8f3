"""Loops whose steps are regrouped train as without: the same samples in each step, the same
parameters; those whose batches have a part in the gradient are left alone.

The oracle is the training itself, with `--apply` and without. Which steps have something to gain is
asked of the planner of a step, with the samples that these had without.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops import sample
from warm_loops import WarmLoops

from batchstat.planning.algorithms.step_batches import StepRules, regrouped_step
from conftest import ROOT, Run, environment, needs

pytestmark = pytest.mark.torch

LOOPS = Path(__file__).parent / "step_loops.py"
GIVEN = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
N_AS_THEY_CAME = 5  # steps at the beginning
N_SAMPLES = 72
Batches = list[list[int]]


@dataclass(frozen=True)
class Trained:
    """What the ranks of a training left."""

    ranks: list[dict[str, Any]]

    @property
    def steps(self) -> list[list[Batches]]:
        """The batches of each step: those of each rank."""
        return [list(of_ranks) for of_ranks in zip(*(r["steps"] for r in self.ranks), strict=True)]

    @property
    def samples(self) -> list[list[int]]:
        """The samples of each step, of all ranks together, sorted."""
        return [sorted(n for rank in s for batch in rank for n in batch) for s in self.steps]

    @property
    def parameters(self) -> Any:
        return np.array([value for rank in self.ranks for value in rank["parameters"]])


def trained(folder: Path) -> Trained:
    files = sorted(folder.glob("trained.*.json"))
    return Trained([json.loads(file.read_text()) for file in files])


@dataclass(frozen=True)
class Both:
    """A training without `--apply` and with it."""

    plain: Trained
    applied: Trained
    facts: dict[str, Any]  # of the report, on what was applied
    verdict: dict[str, Any]
    printed: str

    def check_same(self) -> None:
        """The samples of each step and the parameters at the end."""
        assert self.applied.samples == self.plain.samples
        one, other = self.plain.parameters, self.applied.parameters
        assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(one)

    def check_untouched(self) -> None:
        assert self.facts["regrouped_steps"] == 0
        assert self.applied.steps == self.plain.steps
        one, other = self.plain.parameters, self.applied.parameters
        assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(one)

    def check_regrouped(self, lengths: Sequence[int], ahead: int = 0, carried: int = 0) -> None:
        """At least 95 % of the later steps that have something to gain, and a dozen in all. The
        loader draws `ahead` batches beyond that of a step; the batches of a rank in an epoch, where
        the rest of a step is `carried` into the next one.
        """
        assert self.facts["why_not_regrouped"] == ""
        way = self.verdict["regroup"]["way"]
        n_turns = way["accumulation"]
        first = N_AS_THEY_CAME + -(-ahead // n_turns)
        later = list(enumerate(zip(self.plain.steps, self.applied.steps, strict=True)))[first:]
        gains = []
        for number, (plain, applied) in later:
            crosses = (
                carried and number * n_turns // carried != ((number + 1) * n_turns - 1) // carried
            )
            if not crosses and self._gains(plain, way, lengths):
                gains.append(plain != applied)
            assert self._tokens(applied, lengths) <= self._tokens(plain, lengths)
        assert len(self.plain.steps) >= 12
        assert len(gains) >= 3
        assert np.mean(gains) >= 0.95, self.printed
        assert self.facts["regrouped_steps"] >= sum(gains) > 0

    @staticmethod
    def _gains(step: list[Batches], way: dict[str, Any], lengths: Sequence[int]) -> bool:
        together = [step] if way["over_ranks"] else [[rank] for rank in step]
        return any(_is_better(each, way, lengths) for each in together)

    @staticmethod
    def _tokens(step: list[Batches], lengths: Sequence[int]) -> int:
        """What the slowest rank computes where its batches are as wide as their longest rows."""
        return max(sum(len(b) * max(lengths[n] for n in b) for b in rank) for rank in step)


def _is_better(step: list[Batches], way: dict[str, Any], lengths: Sequence[int]) -> bool:
    turns = [batch for turn in zip(*step, strict=True) for batch in turn]
    if len(step[0]) < way["accumulation"] and not way["makes_tail"]:
        return False
    rules = StepRules(
        world_size=len(step),
        tokens_per_batch=way["tokens_per_batch"],
        pad_to_multiple_of=way["multiple"],
        in_turns=way["in_turns"],
        equal_sizes=way["equal_sizes"],
    )
    of_samples = np.array([lengths[number] for batch in turns for number in batch])
    sizes = np.array([len(batch) for batch in turns]).reshape(-1, len(step))
    return regrouped_step(of_samples, sizes, rules) is not None


LENGTHS = [len(sample(number)) for number in range(N_SAMPLES)]


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmLoops]:
    """Runs loops in forks of a Python that has imported torch."""
    needs("torch")
    folder = Path(tempfile.mkdtemp())  # a socket's path is short
    loops = WarmLoops(folder, environment(CUDA_VISIBLE_DEVICES=""))
    yield loops
    loops.end()
    shutil.rmtree(folder)


@pytest.fixture
def train(tmp_path: Path, run: Run, warm: WarmLoops, capfd: Any) -> Any:
    """Trains a loop of `Options` as it is and with `--apply`."""

    def start(
        loop: str, *, ranks: int = 1, plain: dict[str, Any] | None = None, **given: Any
    ) -> Both:
        """`plain` are other options of the training without."""

        def command(name: str, options: dict[str, Any]) -> list[str]:
            folder = tmp_path / name
            folder.mkdir()
            words = [
                f"{n}={v if isinstance(v, str) else json.dumps(v)}" for n, v in options.items()
            ]
            return warm.command(LOOPS, folder, loop, *words)

        def go_plain() -> None:
            own = environment(**GIVEN, N_RANKS=str(ranks))
            words = command("plain", {**given, **(plain or {})})
            subprocess.run(words, env=own, check=True, stdin=subprocess.DEVNULL)

        if plain is None:
            go_plain()
        applied = command("applied", given)
        ended = run("run", "--apply", "-o", tmp_path / "run", *applied, **GIVEN, N_RANKS=str(ranks))
        printed = capfd.readouterr().err + ended.stderr
        assert ended.returncode == 0, printed
        if plain is not None:
            drawn = trained(tmp_path / "applied").ranks[0]["drawn"]
            (tmp_path / "drawn.json").write_text(json.dumps(drawn))
            go_plain()
        facts = json.loads((tmp_path / "run" / "preflight.json").read_text())["run"]["applied"]
        verdict = json.loads((tmp_path / "run" / "dry-run" / "verdict.json").read_text())
        both = trained(tmp_path / "plain"), trained(tmp_path / "applied")
        return Both(*both, facts, verdict, printed)

    return start


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
    both.check_regrouped(LENGTHS, n_ahead, n_batches * is_carried)
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


def test_an_unseeded_sampler_has_its_samples_in_the_steps_that_it_drew(train, tmp_path):
    both = train("plain", seed=None, plain={"order": str(tmp_path / "drawn.json")})
    both.check_same()
    both.check_regrouped(LENGTHS)
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
    ("batch-norm", NO_PART),
    ("masking", DRAWS),
    ("drawing", ""),
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


def test_an_accumulation_that_changes_ends_it_with_the_epoch(train):
    both = train("plain", change_at=30, epochs=8)
    assert 0 < both.facts["regrouped_steps"] <= 32
    assert "its steps had 3 batches of a rank, and one had 4" in both.printed
    assert both.applied.samples[:30] == both.plain.samples[:30]
    assert both.applied.steps[-10:] == both.plain.steps[-10:]
