"""Batchstat's own rows take batches of similar cost in each step where that saves enough."""

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler, OptionError
from batchstat.cli.streams import console, render
from batchstat.planning.strategies.registry import OWN_STRATEGIES
from batchstat.render.screens.comparison import comparison_screen

LENGTHS = np.random.default_rng(2).lognormal(4, 0.8, 900).astype(int).clip(3, 512)


def test_sorted_batches_of_unlike_cost_are_balanced():
    made = batchstat.compare(LENGTHS, current="hf-trainer", world_size=8)
    told = batchstat.compare(
        LENGTHS,
        current="hf-trainer",
        strategies=["bucketed", "bucketed:distribute=balanced", "token-budget"],
        world_size=8,
    )
    # Whoever names a row says how its batches reach the ranks.
    assert [row.distribute for row in told] == ["batches", "batches", "balanced", "batches"]
    plain, balanced = told["bucketed"], told["bucketed:distribute=balanced"]
    assert balanced.counts.compute < 0.95 * plain.counts.compute
    row = made["bucketed"]
    assert row.label == "bucketed:distribute=balanced"
    assert row.counts.compute == balanced.counts.compute
    # Neither the current setup, nor the steps of it, nor a trainer's own argument.
    for name in ("hf-trainer", "regrouped", "hf-group-by-length"):
        assert made[name].distribute == made.basis.distribute == "batches"
    shown = render(comparison_screen(made, lambda change: change.row.label), console(plain=True))
    assert "bucketed° " in shown
    assert "° distribute=balanced" in shown
    if made.changes.fastest is not None:
        assert "steps hold samples of similar length" in " ".join(shown.split())


def test_where_it_saves_little_batches_come_in_turn():
    made = batchstat.compare([9] * 500, batch_size=8, world_size=4)
    assert {row.distribute for row in made} == {"batches"}
    alone = batchstat.compare(LENGTHS, batch_size=8)
    assert {row.distribute for row in alone} == {"batches"}
    samples = batchstat.compare(LENGTHS, batch_size=8, world_size=4, distribute="samples")
    assert {row.distribute for row in samples if row.name in OWN_STRATEGIES} == {"samples"}


def test_the_label_is_the_strategy_to_train_with():
    made = batchstat.compare(LENGTHS, batch_size=8, world_size=4)
    row = made["bucketed"]
    settings = {"world_size": 4, "batch_size": 8, "tokens_per_batch": row.counts.tokens_per_batch}
    ranks = [list(BatchSampler(LENGTHS, row.label, rank=r, **settings).batches()) for r in range(4)]
    slowest = sum(max(len(b.rows) * b.width for b in step) for step in zip(*ranks, strict=True))
    assert slowest == row.counts.compute


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bucketed:distribute=fair", "unknown distribute 'fair'"),
        ("hf-trainer:distribute=balanced", "distribute"),
        ("bucketed:distribute=samples,distribute=balanced", "given twice"),
    ],
)
def test_distributions_that_cannot_be_meant(spec, message):
    with pytest.raises(OptionError, match=message):
        batchstat.compare(LENGTHS, strategies=[spec], world_size=2)


def test_a_setup_keeps_its_distribution_when_it_is_regrouped():
    settings = {"batch_size": 8, "world_size": 4, "gradient_accumulation_steps": 2}
    setup = "bucketed:distribute=balanced"
    made = batchstat.compare(LENGTHS, strategies=[setup, f"regrouped:of={setup}"], **settings)
    assert [row.distribute for row in made] == ["balanced", "balanced"]

    def steps(spec: str) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for rank in range(4):
            for batch in BatchSampler(LENGTHS, spec, rank=rank, **settings).batches():
                found.setdefault(batch.step, []).extend(batch.records)
        return [sorted(found[step]) for step in sorted(found)]

    assert steps(setup) == steps(f"regrouped:of={setup}")
