"""A training without `--apply` and with it, and what is the same in both."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from warm_loops import WarmLoops

from batchstat.planning.algorithms.step_batches import StepRules, regrouped_step
from conftest import ROOT, Run, environment

GIVEN = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
N_AS_THEY_CAME = 5  # steps at the beginning
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


@dataclass(frozen=True)
class Trainings:
    """Trains a script's loops in forks of one Python."""

    script: Path
    folder: Path
    run: Run
    warm: WarmLoops
    capfd: Any
    given: dict[str, str]  # of the environment
    words: list[str] = field(default_factory=list)  # behind the name of the loop

    def command(self, name: str, loop: str, options: dict[str, Any]) -> list[str]:
        """The command that trains a loop and leaves it in a folder of this name."""
        (self.folder / name).mkdir()
        texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in options.items()}
        words = [*self.words, *(f"{n}={text}" for n, text in texts.items())]
        return self.warm.command(self.script, self.folder / name, loop, *words)

    def plain(self, loop: str, ranks: int, options: dict[str, Any]) -> Trained:
        own = environment(**self.given, N_RANKS=str(ranks))
        words = self.command("plain", loop, options)
        subprocess.run(words, env=own, check=True, stdin=subprocess.DEVNULL)
        return trained(self.folder / "plain")

    def __call__(self, loop: str, *, ranks: int = 1, again: bool = False, **given: Any) -> Both:
        """Train as it is and with `--apply`; with `again`, as it is with the samples in the
        sequence in which the other one drew them.
        """
        plain = None if again else self.plain(loop, ranks, given)
        words = ["run", "--apply", "-o", self.folder / "run", *self.command("applied", loop, given)]
        ended = self.run(*words, **self.given, N_RANKS=str(ranks))
        printed = self.capfd.readouterr().err + ended.stderr
        assert ended.returncode == 0, printed
        applied = trained(self.folder / "applied")
        if plain is None:
            order = self.folder / "drawn.json"
            order.write_text(json.dumps(applied.ranks[0]["drawn"]))
            plain = self.plain(loop, ranks, {**given, "order": str(order)})
        facts = json.loads((self.folder / "run" / "preflight.json").read_text())["run"]["applied"]
        verdict = json.loads((self.folder / "run" / "dry-run" / "verdict.json").read_text())
        return Both(plain, applied, facts, verdict, printed)
