"""Counts held against arrays that are really padded."""

from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from batchstat import InputError
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.epoch import make_epoch
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.planning.windows import plan_windows
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.epoch_meter import EpochMeter
from conftest import SPECS, plan_epoch

PAD = -1
SETTINGS: dict[str, Any] = {"tokens_per_batch": 64, "batch_size": 4, "read_ahead": 10}


def measured(plans, visits, spec: str = "static", **settings: Any) -> PlanCounts:
    """On one rank."""
    basis = Settings(tokens_per_batch=64, **settings).resolve(90, None)
    batches = BatchTable.of(plans)
    turns = np.arange(batches.n_units)[:, None]
    meter = EpochMeter(StrategySpec.parse(spec).request(basis))
    meter.add(batches, turns)
    return meter.measurement(visits).counts


def padded_arrays(plan):
    """Every batch as the matrix that a collator would hand to a model."""
    for first, last, width in zip(
        plan.batch_offsets[:-1], plan.batch_offsets[1:], plan.widths, strict=True
    ):
        matrix = np.full((last - first, width), PAD)
        for row in range(first, last):
            entries = slice(plan.row_offsets[row], plan.row_offsets[row + 1])
            tokens = np.concatenate([np.arange(n) for n in plan.lengths[entries]])
            matrix[row - first, : len(tokens)] = tokens
        yield matrix


def steps_of(plans, arrays):
    """The batches of each step."""
    left = iter(arrays)
    for plan in plans:
        for size in np.diff(plan.unit_offsets):
            yield [next(left) for _ in range(size)]


def chunks(steps, size: int):
    """Every so many steps made one."""
    for first in range(0, len(steps), size):
        yield [batch for step in steps[first : first + size] for batch in step]


@pytest.mark.parametrize("name", SPECS)
@given(
    lengths=st.lists(st.integers(0, 80), min_size=8, max_size=120),
    max_length=st.integers(1, 90),
    overflow=st.sampled_from(["truncate", "drop", "split"]),
    drop_last=st.booleans(),
    multiple=st.sampled_from([1, 8]),
)
def test_counts_are_those_of_padded_arrays(
    name, lengths, max_length, overflow, drop_last, multiple
):
    visits = make_epoch(np.arange(len(lengths)), np.array(lengths), max_length, overflow)
    settings = SETTINGS | {
        "max_length": max_length,
        "drop_last": drop_last,
        "pad_to_multiple_of": multiple,
    }
    strategy = StrategySpec.parse(name).strategy(settings)
    plans = list(plan_windows(strategy, visits, seed=1, epoch=2))
    arrays = [matrix for plan in plans for matrix in padded_arrays(plan)]
    if not any((matrix != PAD).any() for matrix in arrays):
        with pytest.raises(InputError, match="no batches left" if not arrays else "no token"):
            measured(plans, visits)
        return
    counts = measured(plans, visits, max_length=max_length, gradient_accumulation_steps=3)

    assert counts.squared_tokens == sum(len(matrix) * matrix.shape[1] ** 2 for matrix in arrays)
    parts = [int(length) for plan in plans for length in plan.lengths]
    assert counts.real_squared_tokens == sum(length**2 for length in parts)
    assert counts.row_tokens == counts.rows * max_length
    assert counts.packing_efficiency == pytest.approx(sum(parts) / counts.row_tokens)
    within = measured(plans, visits, "padding-free")
    assert within.squared_tokens == counts.real_squared_tokens
    assert within.packing_efficiency is None
    steps = [
        sum((matrix != PAD).sum() for matrix in step)
        for step in chunks(list(steps_of(plans, arrays)), 3)
    ]
    spread = counts.grouping.tokens_per_step_cv
    assert spread == pytest.approx(np.std(steps) / np.mean(steps))
    assert counts.total_tokens == sum(matrix.size for matrix in arrays)
    assert counts.padding_tokens == sum((matrix == PAD).sum() for matrix in arrays)
    assert counts.batches == len(arrays)
    assert counts.steps == -(-sum(len(plan.unit_offsets) - 1 for plan in plans) // 3)
    assert counts.rows == sum(len(matrix) for matrix in arrays)
    assert counts.max_batch_tokens == max(matrix.size for matrix in arrays)
    assert counts.over_budget_batches == sum(matrix.size > 64 for matrix in arrays)
    assert counts.distinct_shapes == len({matrix.shape for matrix in arrays})
    assert counts.fill == pytest.approx(counts.total_tokens / (64 * len(arrays)))
    sizes = [
        sum(plan.row_offsets[row + 1] - plan.row_offsets[row] for row in range(first, last))
        for plan in plans
        for first, last in pairwise(plan.batch_offsets.tolist())
    ]
    assert (counts.min_samples_per_batch, counts.max_samples_per_batch) == (min(sizes), max(sizes))
    assert counts.mean_samples_per_batch == pytest.approx(np.mean(sizes))

    assert counts.real_tokens + counts.lost_tokens == sum(lengths) == counts.visited_tokens
    assert counts.samples + counts.dropped_samples == len(lengths)
    assert 0 <= counts.padding_ratio < 1


def test_measuring_window_by_window_is_measuring_the_whole():
    lengths = np.random.default_rng(0).integers(1, 60, 500)
    visits = make_epoch(np.arange(500), lengths, 60, "truncate")
    strategy = StrategySpec.parse("token-budget").strategy(SETTINGS)
    whole = plan_epoch(strategy, visits, seed=0, epoch=0)
    by_window = plan_windows(strategy, visits, seed=0, epoch=0)
    assert measured([whole], visits) == measured(by_window, visits)
