"""One step regrouped, as a running training asks for it, against the plan of an epoch."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from batchstat.planning.algorithms import step_batches
from batchstat.planning.algorithms.cutting import plan_single_samples
from batchstat.planning.algorithms.step_batches import StepRules, regrouped_step
from batchstat.planning.regrouping import regroup
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec

Sizes = list[list[int]]
"""Samples of the batch of each rank, turn by turn."""


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[int], Sizes]:
    """Lengths and sizes of a step: of equal batches, of any, or of ranks that lack some."""
    n_turns, world_size = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    equal = st.just(draw(st.integers(1, 6)))
    size = draw(st.sampled_from([equal, st.integers(1, 6), st.integers(0, 4)]))
    turn = st.lists(size, min_size=world_size, max_size=world_size)
    sizes = draw(st.lists(turn, min_size=n_turns, max_size=n_turns))
    n = sum(map(sum, sizes))
    return draw(st.lists(st.integers(1, 200), min_size=n, max_size=n)), sizes


RULES = {
    "tokens_per_batch": st.integers(1, 1500),
    "pad_to_multiple_of": st.sampled_from([1, 8, 64]),
    "in_turns": st.booleans(),
    "equal_sizes": st.booleans(),
}


def in_batches(positions: list[int], sizes: np.ndarray) -> list[list[list[int]]]:
    """The positions of each batch, turn by turn and rank by rank."""
    edges = np.cumsum([0, *sizes.ravel()]).tolist()
    batches = [positions[a:b] for a, b in pairwise(edges)]
    return [
        batches[first : first + sizes.shape[1]] for first in range(0, sizes.size, sizes.shape[1])
    ]


def slowest(batches: list[list[list[int]]], lengths: list[int], rules: StepRules) -> int:
    def width(batch: list[int]) -> int:
        longest = max((lengths[position] for position in batch), default=0)
        return -(-longest // rules.pad_to_multiple_of) * rules.pad_to_multiple_of

    tokens = [[len(batch) * width(batch) for batch in turn] for turn in batches]
    return sum(map(max, tokens)) if rules.in_turns else max(map(sum, zip(*tokens, strict=True)))


@given(step=steps(), drawn=st.fixed_dictionaries(RULES))
def test_a_step_has_the_batches_of_an_epoch_of_it(step, drawn):
    lengths, sizes = step
    rules = StepRules(world_size=len(sizes[0]), **drawn)
    if not lengths:
        assert regrouped_step(lengths, sizes, rules) is None
        return
    assert_same_batches(lengths, np.array(sizes), rules, regrouped_step(lengths, sizes, rules))


def assert_same_batches(
    lengths: list[int], sizes: np.ndarray, rules: StepRules, found: Any
) -> None:
    spec = StrategySpec.of(
        "regrouped",
        tokens_per_batch=rules.tokens_per_batch,
        equal_sizes=rules.equal_sizes,
        of=f"static:batch_size=1,pad_to_multiple_of={rules.pad_to_multiple_of}",
    )
    settings = Settings(
        world_size=rules.world_size,
        gradient_accumulation_steps=len(sizes),
        wait="micro-batch" if rules.in_turns else "step",
    ).resolve(max(lengths), None)
    strategy = spec.strategy(vars(settings))
    offsets = np.cumsum([0, *sizes[sizes > 0]])
    plan = plan_single_samples(np.array(lengths), np.arange(len(lengths)), offsets, None)
    plan = replace(plan, widths=rules.widths(plan.widths))
    turns = np.where(sizes > 0, np.cumsum(sizes > 0).reshape(sizes.shape) - 1, -1)
    new, new_turns = regroup(plan, turns, strategy, settings)
    edges, samples = new.batch_offsets.tolist(), new.samples.tolist()
    expected = [
        [samples[edges[unit] : edges[unit + 1]] if unit >= 0 else [] for unit in turn]
        for turn in new_turns.tolist()
    ]
    expected += [[[]] * rules.world_size] * (len(sizes) - len(expected))
    order, new_sizes = (np.arange(len(lengths)), sizes) if found is None else map(np.array, found)
    assert in_batches(order.tolist(), new_sizes) == expected
    if found is not None:
        # As many batches for each rank, and no more than today.
        assert {*np.count_nonzero(new_sizes, axis=0)} <= {*range((sizes > 0).sum(axis=0).max() + 1)}
        assert len({*np.count_nonzero(new_sizes, axis=0)}) == 1


@given(step=steps(), drawn=st.fixed_dictionaries(RULES))
def test_equal_sizes_are_those_of_a_plain_loop(step, drawn):
    lengths, (sizes, world_size) = step[0], (np.array(step[1]), len(step[1][0]))
    rules = StepRules(world_size, **{**drawn, "equal_sizes": True})
    found = regrouped_step(lengths, sizes, rules)
    today = in_batches(list(range(len(lengths))), sizes)
    if len({*sizes.ravel().tolist()}) > 1 and sizes.all():
        assert found is None
    if sizes.min() < sizes.max() or not lengths:
        return
    size = int(sizes[0, 0])
    falling = sorted(lengths, reverse=True)
    cut = [falling[first : first + size] for first in range(0, len(falling), size)]
    batches = today if found is None else in_batches(found[0].tolist(), found[1])
    made = [[lengths[position] for position in batch] for turn in batches for batch in turn]
    if found is not None:
        assert found[1].tolist() == sizes.tolist()
        assert sorted(found[0].tolist()) == [*range(len(lengths))]
        assert sorted(made, reverse=True) == sorted(cut, reverse=True)
        assert slowest(batches, lengths, rules) < slowest(today, lengths, rules)
    elif rules.in_turns or world_size == 1:
        # Batches of similar cost meet, and with these it is known what ranks compute.
        in_cut = [*range(len(falling))]
        assert slowest(in_batches(in_cut, sizes), falling, rules) >= slowest(today, lengths, rules)


PYTHONS = [sys.executable, *filter(None, [os.environ.get("BATCHSTAT_TEST_PYTHON")])]
"""BATCHSTAT_TEST_PYTHON is one with NumPy, of 3.8 or later."""

BY_PLACE = """
import importlib, importlib.util, json, os, sys
sys.modules["batchstat"] = None  # whatever is installed, its import fails
folder, given = sys.argv[1], json.loads(sys.argv[2])
spec = importlib.util.spec_from_file_location(
    "planned", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
)
sys.modules["planned"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
step_batches = importlib.import_module("planned.step_batches")
import numpy as np
rules = step_batches.StepRules(**given["rules"])
order, sizes = step_batches.regrouped_step(
    np.array(given["lengths"]), np.array(given["sizes"]), rules
)
print(json.dumps([order.tolist(), sizes.tolist()]))
assert not [name for name in sys.modules if name.startswith("batchstat.")]
"""


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("rules", [{}, {"in_turns": True}, {"equal_sizes": True}, {"pairs": 9}])
def test_a_step_is_planned_where_batchstat_is_not_installed(python, rules):
    lengths = np.random.default_rng(1).integers(1, 200, 4 * 2 * 8).tolist()
    sizes, kept = [[8, 8]] * 4, StepRules(world_size=2, tokens_per_batch=1600, **rules)
    folder = str(Path(step_batches.__file__).parent)
    given = {"lengths": lengths, "sizes": sizes, "rules": asdict(kept)}
    run = subprocess.run(
        [python, "-I", "-c", BY_PLACE, folder, json.dumps(given)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    found = regrouped_step(lengths, sizes, kept)
    assert json.loads(run.stdout) == [each.tolist() for each in found]
    if kept.pairs is None:
        assert_same_batches(lengths, np.array(sizes), kept, found)
