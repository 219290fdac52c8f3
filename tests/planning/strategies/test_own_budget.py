"""A strategy that caps something else than tokens states its own budget, and can be recommended."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat.lengths.arrays import Ints, round_up
from batchstat.parameters import described, parameter
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.strategies.spec import StrategySpec


@described("Batches of similar lengths whose rows times width squared is at most `squares`.")
@dataclass(frozen=True, kw_only=True)
class Squared(Strategy):
    squares: int = parameter("Rows times width squared of a batch.", 2**36, most=2**62)

    def plan(self, window: Window) -> BatchPlan:
        """Cut the samples, longest first, where one more would be too much."""
        order = np.argsort(-window.lengths, kind="stable")
        padded = round_up(window.lengths[order], self.pad_to_multiple_of).tolist()
        offsets = [0]
        for place, _ in enumerate(padded):
            rows, width = place - offsets[-1], padded[offsets[-1]]
            if rows and (rows + 1) * width**2 > self.squares:
                offsets.append(place)
        return self.batch_rows(window, order, np.array([*offsets, len(order)]))

    def exceeds_own_budget(self, rows: Ints, widths: Ints) -> Any:
        """Whether it is more than `squares`, as a single sample may be."""
        return rows * widths**2 > self.squares


LENGTHS = np.random.default_rng(1).lognormal(4, 1, 2000).astype(int).clip(1, 512)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "squared", Squared)


def test_its_parameter_may_be_larger_than_any_number_of_tokens():
    most = 8 * 131_072**2
    made = StrategySpec.parse(f"squared:squares={most}").strategy({})
    assert made.parameters["squares"] == most > 2**31
    with pytest.raises(batchstat.OptionError, match="squares=.*: must be between 1 and"):
        StrategySpec.parse(f"squared:squares={2**62 + 1}").strategy({})


def test_only_what_it_caps_is_over_budget():
    squares = 8 * 256**2
    made = batchstat.compare(
        LENGTHS,
        strategies=[f"squared:squares={squares}"],
        current="static",
        tokens_per_batch=4096,
    )
    row = next(each for each in made.strategies if each.name == "squared")
    counts = row.counts
    # Batches of short samples have more tokens than the budget of the others, which is said.
    assert counts.max_batch_tokens > 4096
    assert counts.over_budget_batches == counts.reducible_peak == 0
    assert made.changes.star is not None
    assert made.changes.star.row is row
    assert any(each.id == "padding/unequal-peak" for each in made.warnings)


def test_a_sample_above_its_budget_is_counted():
    spec = "squared:squares=100000"
    made = batchstat.compare(LENGTHS, strategies=[spec], tokens_per_batch=4096)
    counts = made.strategies[0].counts
    above = int((math.isqrt(100_000) < LENGTHS).sum())
    assert counts.over_budget_batches == above > 0
    assert counts.reducible_peak == 0
