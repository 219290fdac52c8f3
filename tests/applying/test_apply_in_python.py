"""`batchstat.apply` cuts the padding of a training whose first steps show that it stays the same.

The oracle is the training without it.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import batchstat
from conftest import ROOT, environment, needs

pytestmark = pytest.mark.torch

SCRIPT, WIDTH = Path(__file__).parent / "watched_loop.py", 64
slow = pytest.mark.slow


@pytest.fixture
def train(tmp_path):
    """Trains without and with it: what both left, and what the second printed."""

    def both(kind):
        needs("torch")
        left, said = [], ""
        for applies in ("0", "1"):
            file = tmp_path / f"{applies}.json"
            ended = subprocess.run(
                [sys.executable, SCRIPT, file, kind, applies],
                env=environment(PYTHONPATH=str(ROOT), CUDA_VISIBLE_DEVICES=""),
                capture_output=True,
                text=True,
                check=False,
            )
            assert ended.returncode == 0, ended.stderr
            left.append(json.loads(file.read_text()))
            said = ended.stderr
        return *left, said

    return both


@pytest.mark.parametrize(
    "kind",
    [
        "a loop",
        "of rows",
        pytest.param("dropout", marks=slow),
        pytest.param("forked", marks=slow),
        pytest.param("spawned", marks=slow),
        pytest.param("accelerated", marks=slow),
        "Trainer",
    ],
)
def test_padding_is_cut_after_the_first_steps(train, kind):
    plain, applied, said = train(kind)
    assert "padding is cut from now on" in said
    per_step = 2 if kind == "Trainer" else 1
    is_regrouped = "steps are regrouped from now on: gradients of one are equal" in said
    assert is_regrouped == (kind == "Trainer")
    assert applied["widths"][: 5 * per_step] == [WIDTH] * 5 * per_step
    assert max(applied["widths"][-5:]) < WIDTH
    assert set(plain["widths"]) == {WIDTH}
    if kind != "dropout":  # which draws other numbers for other widths
        for name in ("losses", "parameters"):
            np.testing.assert_allclose(applied[name], plain[name], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("padding with loss", "padding, or tokens of one row differently, have a part in its loss"),
        ("mean of all", "batchstat run --apply checks that"),
        # As they come, a sum over tokens and a mean over rows of one width are the same.
        pytest.param("a sum", "batchstat run --apply checks that", marks=slow),
        pytest.param("convolved", "padding changes its outputs", marks=slow),
        ("shuffled", "its loader and dropout share random numbers"),
    ],
)
def test_a_loop_that_may_compute_with_padding_is_left_alone(train, kind, why):
    plain, applied, said = train(kind)
    assert why in said
    assert applied == plain


def test_steps_are_regrouped_where_their_tokens_weigh_the_same(train):
    plain, applied, said = train("summed over steps")
    assert "steps are regrouped from now on: weights of its tokens are equal" in said
    assert applied["steps"] == plain["steps"]
    assert applied["widths"] != plain["widths"]
    assert sum(applied["widths"]) < 0.85 * sum(plain["widths"])
    for name in ("losses", "parameters"):
        np.testing.assert_allclose(applied[name], plain[name], rtol=2e-5, atol=1e-5)


def test_steps_of_means_of_batches_stay_as_they_are(train):
    plain, applied, said = train("means of batches")
    assert "steps are not regrouped: that its loss is a sum over the step was not seen" in said
    assert applied == plain


def test_what_cannot_be_applied_to_is_refused():
    needs("torch")
    import torch

    loader, model = torch.utils.data.DataLoader([1, 2]), torch.nn.Linear(1, 1)
    with pytest.raises(batchstat.OptionError, match="neither a Trainer nor a DataLoader"):
        batchstat.apply([1], model)
    with pytest.raises(batchstat.OptionError, match="a loader without its model"):
        batchstat.apply(loader)
    with pytest.raises(batchstat.OptionError, match="pad_to_multiple_of"):
        batchstat.apply(loader, model, pad_to_multiple_of=0)
