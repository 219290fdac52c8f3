"""What is kept of a plan to be drawn is its beginning."""

import numpy as np
import pytest

import batchstat
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.plan import BatchPlan
from batchstat.planning.shares import make_shares
from batchstat.planning.windows import plan_windows
from batchstat.simulation.compare.candidates import MOST_BATCHES, first_batches
from conftest import SPECS
from tables import in_turn


def batches_of(plan: BatchPlan) -> list[list[list[int]]]:
    """The records in each row of each batch."""
    found = []
    for first, last in zip(plan.batch_offsets[:-1], plan.batch_offsets[1:], strict=True):
        rows = range(first, last)
        found.append(
            [plan.samples[plan.row_offsets[i] : plan.row_offsets[i + 1]].tolist() for i in rows]
        )
    return found


@pytest.mark.parametrize("spec", SPECS)
@in_turn("n", [1, 40, 1_000])
def test_they_are_the_first_of_the_whole_plan(spec, n):
    lengths = np.random.default_rng(n).integers(1, 60, n)
    made = batchstat.compare(lengths, strategies=[spec], tokens_per_batch=128, max_length=64)
    [row] = made.strategies
    shares = make_shares(resolve_inputs(lengths).samples, row.request.settings)
    windows = plan_windows(row.request.strategy, shares.shares[0], seed=0, epoch=0)
    whole, kept = batches_of(next(windows)), row.first_batches
    shown = batches_of(kept)
    assert shown == whole[: len(shown)]
    assert len(shown) == len(kept) == kept.unit_offsets[-1]
    assert len(shown) == len(whole) or MOST_BATCHES // 2 < len(shown) <= MOST_BATCHES
    assert kept.samples.base is None


def test_a_step_is_kept_whole():
    lengths = np.random.default_rng(0).integers(1, 60, 3_000)
    [row] = batchstat.compare(lengths, strategies=["asym"], tokens_per_batch=64).strategies
    kept = first_batches(
        row.request, make_shares(resolve_inputs(lengths).samples, row.request.settings)
    )
    assert kept.unit_offsets[-1] == len(kept) > 0
