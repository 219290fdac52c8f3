"""What is weighed: a corpus with a parameter per token, the gradients that batchstat expects, and
the processes in which a framework computes them.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import batchstat
from batchstat import BatchSampler, Settings
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.simulation.meters.token_weights import token_weights

HERE = Path(__file__).parent
ENVIRONMENT = {
    "PYTHONPATH": str(HERE.parents[2]),
    "BATCHSTAT_CACHE_DIR": os.devnull,
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
RNG = np.random.default_rng(5)
SIZES = RNG.integers(1, 40, 90)
MASKS = [RNG.random(size) < (0.4 if size < 30 else 0) for size in SIZES]
"""Which tokens of each sample are trained: none of the longest, which sorted batches bring together
in batches and steps without a trained token.
"""

FIRST = np.cumsum([0, *map(len, MASKS)])
"""(n_samples + 1,) the first parameter of each sample's tokens; the last is their number."""

LOOPS = {
    "mean-per-batch": "mean-per-batch",
    "sequence-mean": "sequence-mean",
    "token-sum": "token-sum",
    "token-weight": "token-sum",
    "num-items-in-batch": "num-items-in-batch",
    "num-items-per-rank": "num-items-per-rank",
    "takes-no-number": "axolotl",
    "with-batches": "token-sum",
    "axolotl": "axolotl",
    "trl": "trl",
}
"""The loss of settings under which batchstat expects each loop's gradients."""

FRAMEWORKS = {
    "torch": ("mean-per-batch", "sequence-mean", "token-sum", "token-weight"),
    "accelerate": ("mean-per-batch", "sequence-mean", "token-weight"),
    "lightning": ("mean-per-batch", "sequence-mean", "token-weight"),
    "transformers": (
        *("num-items-in-batch", "num-items-per-rank", "takes-no-number", "with-batches", "axolotl"),
    ),
    "trl": ("trl",),
}
WHOLE = (
    *("static", "bucketed", "token-budget", "packed", "padding-free", "regrouped:of=hf-trainer"),
)
STRATEGIES = {
    "torch": (*WHOLE, "packed:method=wrapped", "asym"),
    "accelerate": (*WHOLE, "packed:method=wrapped"),
    # Loaders that index a dataset cannot have parts of samples.
    "lightning": WHOLE,
    "transformers": WHOLE,
    "trl": WHOLE,
}


@dataclass(frozen=True)
class Case:
    """One epoch under one framework; `loop` says how the losses of tokens become that of a step."""

    framework: str
    loop: str
    strategy: str
    accumulation: int
    ranks: int

    @property
    def settings(self) -> dict:
        return {
            "tokens_per_batch": 100,
            "max_length": 30,
            "read_ahead": 40,
            "seed": 1,
            "world_size": self.ranks,
            "gradient_accumulation_steps": self.accumulation,
        }

    def sampler(self, rank: int) -> BatchSampler:
        return BatchSampler(profile(), self.strategy, rank=rank, **self.settings)


@dataclass(frozen=True)
class Found:
    """How far a case's gradients are from those expected.

    Attributes:
        case: the case.
        steps: optimizer steps that the framework took.
        tokens: trained tokens in them, repeats counted.
        untrained_batches: batches without a trained token.
        untrained_steps: steps without one.
        ends_early: whether the last step has fewer batches than the others.
        error: largest error of a token's weight, relative to the weight.
    """

    case: Case
    steps: int
    tokens: int
    untrained_batches: int
    untrained_steps: int
    ends_early: bool
    error: float


def cases_of(framework: str, ranks: int, accumulations: tuple[int, ...]) -> list[Case]:
    """Every combination of a framework's loops and strategies."""
    every = product(FRAMEWORKS[framework], STRATEGIES[framework], accumulations)
    return [Case(framework, loop, strategy, n, ranks) for loop, strategy, n in every]


@cache
def profile() -> batchstat.Profile:
    rows = {"ids": [[1] * len(mask) for mask in MASKS], "mask": [mask.tolist() for mask in MASKS]}
    return batchstat.profile(pd.DataFrame(rows), tokens_column="ids", trained_column="mask")


def compared(case: Case, gradients: list[np.ndarray]) -> Found:
    """Hold the gradients of an epoch's steps against batchstat's weights."""
    settings = Settings(**case.settings, loss=LOOPS[case.loop])
    inputs = resolve_inputs(profile(), None, False)
    request = StrategySpec.parse(case.strategy).request(inputs.resolve(settings))
    planned = plan_ranks(make_shares(inputs.samples, request.settings), request)
    weights, group = token_weights(planned, request)
    expected = np.zeros((len(planned.step_totals.tokens), FIRST[-1]))
    entries = np.diff(planned.entry_offsets)
    starts = np.zeros_like(planned.lengths) if planned.starts is None else planned.starts
    tokens, untrained = 0, np.ones(len(entries), dtype=bool)
    for i, batch in enumerate(np.repeat(np.arange(len(entries)), entries)):
        record, start, step = planned.records[i], starts[i], planned.steps[batch]
        at = np.arange(start + 1, start + planned.lengths[i])
        places = FIRST[record] + at[MASKS[record][at]]
        expected[step, places] += weights[group[i]] / max(planned.step_totals.tokens[step], 1)
        tokens += len(places)
        untrained[batch] &= len(places) == 0
    assert len(gradients) == len(expected), f"{len(gradients)} steps, not {len(expected)}: {case}"
    error = np.abs(np.array(gradients) - expected) / np.where(expected > 0, expected, 1)
    return Found(
        case,
        steps=len(expected),
        tokens=tokens,
        untrained_batches=int(untrained.sum()),
        untrained_steps=int((planned.step_totals.tokens == 0).sum()),
        ends_early=bool(planned.step_totals.batches[-1, 0] < planned.step_totals.batches[0, 0]),
        error=float(error.max()),
    )


Launch = Callable[..., object]
"""Runs a script with its arguments on a number of `ranks` in a folder, and fails where it does."""


def by_torchrun(script: Path, *arguments: object, ranks: int, folder: Path, timeout: int) -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [sys.executable, *launch, script, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | ENVIRONMENT,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr


def run(cases: list[Case], timeout: int, launch: Launch = by_torchrun) -> list[Found]:
    """Compute the gradients of cases that have the same number of ranks, in a process per rank."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (asked := folder / "cases.json").write_text(json.dumps([asdict(c) for c in cases]))
        placed = {"ranks": cases[0].ranks, "folder": folder}
        launch(HERE / "weight_loops.py", asked, **placed, timeout=timeout)
        found = [Found(**each) for each in json.loads((folder / "found.json").read_text())]
    return [replace(each, case=case) for each, case in zip(found, cases, strict=True)]
