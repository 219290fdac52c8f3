"""How many samples a step has, against those counted in its batches."""

import doctest

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler
from batchstat.simulation.compare import changes as learning_rate

LENGTHS = np.random.default_rng(0).integers(2, 300, 500)


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_ratio_is_that_of_mean_steps(world_size, accumulate):
    settings = {"tokens_per_batch": 2000, "world_size": world_size}
    settings["gradient_accumulation_steps"] = accumulate
    names = ["static:batch_size=4", "token-budget"]
    made = batchstat.compare(LENGTHS, strategies=names, **settings)
    assert made.best.label == "token-budget"
    means = []
    for name in names:
        samples, steps = 0, set()
        for rank in range(world_size):
            for batch in BatchSampler(LENGTHS, name, rank=rank, **settings).batches():
                samples += len(batch.records)
                steps.add(batch.step)
        means.append(samples / len(steps))
    hint = made.learning_rate
    assert hint.batch_ratio == hint.linear == pytest.approx(means[1] / means[0])
    assert hint.square_root**2 == pytest.approx(hint.linear)


def test_without_a_change_the_learning_rate_stays():
    made = batchstat.compare(LENGTHS, strategies=["token-budget"])
    assert made.learning_rate.batch_ratio == 1


def test_without_a_best_strategy_there_is_no_hint():
    made = batchstat.compare(LENGTHS, strategies=["static:batch_size=50"], tokens_per_batch=300)
    assert made.changes.best is None
    assert made.learning_rate is None


def test_the_example():
    assert doctest.testmod(learning_rate).attempted > 0
    assert doctest.testmod(learning_rate).failed == 0
