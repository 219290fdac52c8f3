"""Regrouped steps as a row of a comparison, and among what would help."""

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler, OptionError
from batchstat.calibration.cost_model import CostModel
from batchstat.cli.streams import console, render
from batchstat.render.screens.comparison import comparison_screen
from batchstat.render.text import percent
from batchstat.simulation.compare.changes import Keeps

LENGTHS = np.random.default_rng(2).lognormal(4, 0.8, 700).astype(int).clip(3, 512)
SEVERAL = {"world_size": 4, "gradient_accumulation_steps": 4}


def screen(made: batchstat.Comparison) -> str:
    shown = render(comparison_screen(made, lambda change: change.row.label), console(plain=True))
    return " ".join(shown.split())


def test_what_keeps_every_step_is_recommended_first():
    made = batchstat.compare(LENGTHS, current="hf-trainer", **SEVERAL)
    star = made.changes.star
    assert star.row is made["regrouped"] is made["regrouped:of=hf-trainer"]
    assert star.keeps is Keeps.EVERY_STEP
    assert (star.row.counts.steps, star.row.shuffling) == (made.current.counts.steps, "full")
    assert star.learning_rate.batch_ratio == 1
    # Its batches hold similar lengths, and its steps are as random as today's.
    assert star.row.counts.grouping.length_homogeneity > 0.9
    assert star.row.sortedness == 0
    sorted_steps = batchstat.compare(LENGTHS, current="hf-group-by-length", **SEVERAL)["regrouped"]
    assert (sorted_steps.shuffling, sorted_steps.sortedness > 0.9) == ("sorted", True)
    assert "the same learning rate, the same gradient (up to dropout)" in screen(made)
    # The largest batch of all rows is that of today.
    largest = star.row.counts.max_batch_tokens
    assert largest <= made.basis.tokens_per_batch == 8 * LENGTHS.max()


def test_the_speed_up_is_that_of_exported_batches():
    made = batchstat.compare(LENGTHS, current="hf-trainer", **SEVERAL)

    def slowest(spec: str) -> int:
        settings = SEVERAL | {"tokens_per_batch": made.basis.tokens_per_batch}
        ranks = [list(BatchSampler(LENGTHS, spec, rank=r, **settings).batches()) for r in range(4)]
        total = 0
        for step in range(ranks[0][-1].step + 1):
            of_step = ([b for b in rank if b.step == step] for rank in ranks)
            total += max(sum(len(b.rows) * b.width for b in batches) for batches in of_step)
        return total

    star = made.changes.star
    assert star.speed_up == slowest("hf-trainer") / slowest(star.row.label)


def test_a_mean_of_each_batch_is_another_gradient():
    made = batchstat.compare(LENGTHS, batch_size=8, **SEVERAL)
    row = made["regrouped"]
    change = next(each for each in made.changes.ranked if each.row is row)
    assert (change.keeps, change.is_regrouped, change.keeps_gradient) == (Keeps.SIZE, True, False)
    made = batchstat.compare(LENGTHS, batch_size=8, loss="token-sum", **SEVERAL)
    assert made.changes.star.row is made["regrouped"]
    assert made.changes.star.keeps is Keeps.EVERY_STEP


@pytest.mark.parametrize(
    ("current", "settings"), [("hf-trainer", {}), ("trl:packing=bfd", SEVERAL)]
)
def test_where_there_is_nothing_to_regroup_there_is_no_row(current, settings):
    made = batchstat.compare(LENGTHS, current=current, max_length=512, **settings)
    assert "regrouped" not in {row.name for row in made.strategies}
    assert "regrouped" not in made.not_shown


def test_a_trainer_without_a_place_for_a_sampler_is_not_told_to_use_one():
    made = batchstat.compare(LENGTHS, current="llama-factory", **SEVERAL)
    row = made["regrouped"]
    assert all(change.row is not row for change in made.changes.ranked)
    only = batchstat.compare(LENGTHS, current="llama-factory", strategies=["regrouped"], **SEVERAL)
    assert only.changes.star is None
    assert "would come first, but llama-factory takes no sampler" in screen(only)


def test_batches_of_one_s_own_are_regrouped():
    order = np.random.default_rng(0).permutation(len(LENGTHS))
    batches = [order[first : first + 5].tolist() for first in range(0, 700, 5)]
    made = batchstat.compare(LENGTHS, current=("mine", batches), **SEVERAL)
    row = made["regrouped"]
    assert row.label == "regrouped:of=mine"
    assert row.counts.steps == made.current.counts.steps
    assert row.counts.compute < 0.9 * made.current.counts.compute
    assert made.changes.star is None or made.changes.star.keeps is not Keeps.EVERY_STEP
    sampler = made.sampler("regrouped:of=mine", rank=1)
    assert len(sampler) == len(batches) // 4
    exact = batchstat.compare(LENGTHS, current=("mine", batches), loss="token-sum", **SEVERAL)
    assert exact.changes.star.is_regrouped
    without_lines = comparison_screen(exact, lambda _: "")
    shown = " ".join(render(without_lines, console(plain=True)).split())
    assert "compare(lengths, current=(name, batches)).sampler() does" in shown


def test_the_cost_of_attention_is_that_of_the_model():
    model = CostModel(hidden=64, layers=2)
    made = batchstat.compare(LENGTHS, current="hf-trainer", model=model, **SEVERAL)
    pairs = round(model.linear / model.quadratic)
    row = made["regrouped"]
    assert row.label == f"regrouped:pairs={pairs},of=hf-trainer"
    # In one row, tokens and pairs cost what the row says.
    by_tokens = batchstat.compare(LENGTHS, current="hf-trainer", model=model, strategies=[
        "regrouped:pairs=2000000000,of=hf-trainer"
    ], **SEVERAL)["regrouped"]  # fmt: skip
    assert row.counts.compute <= by_tokens.counts.compute


def test_batches_of_equal_sizes_are_a_row_of_their_own(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("lengths.npy", LENGTHS)
    spec = "regrouped:equal_sizes=true,of=static:batch_size=4"
    made = batchstat.compare(
        LENGTHS, current="static:batch_size=4", strategies=["regrouped", spec], **SEVERAL
    )
    row = made[spec]
    assert made["regrouped:of=static:batch_size=4"].counts.compute < row.counts.compute
    assert row.counts.compute < made.current.counts.compute
    assert row.counts.max_batch_tokens == made.current.counts.max_batch_tokens
    assert "regrouped:equal_sizes=true " in screen(made)
    assert cli("profile", "lengths.npy", "--no-plots")[0] == 0
    ranks = ("--world-size", 4, "--gradient-accumulation-steps", 4)
    code, lines, _ = cli("recipe", *ranks, "--strategy", spec)
    assert (code, f'"{spec}"' in lines) == (0, True)
    pasted = batchstat.compare(
        LENGTHS, current="static:batch_size=4", strategies=[row.label], **SEVERAL
    )
    assert pasted[spec].counts == row.counts


def test_samples_that_are_padded_before_are_not_regrouped():
    from batchstat.recording.given_batches import GivenBatches

    given = GivenBatches(
        places=np.arange(700),
        row_offsets=np.arange(701),
        batch_offsets=np.arange(0, 701, 5),
        widths=np.full(140, 1024),
        repair="pad later",
    )
    made = batchstat.compare(LENGTHS, current=("mine", given), **SEVERAL)
    assert "regrouped" not in {row.name for row in made.strategies}
    with pytest.raises(OptionError, match="mine are padded before they are batched"):
        batchstat.compare(LENGTHS, current=("mine", given), strategies=["regrouped"], **SEVERAL)


@pytest.mark.parametrize("wait", ["step", "micro-batch"])
@pytest.mark.parametrize(
    "settings", [SEVERAL, {"world_size": 3}, {"gradient_accumulation_steps": 5}]
)
def test_how_near_steps_are_to_the_least_possible(settings, wait):
    made = batchstat.compare(LENGTHS, current="hf-trainer", wait=wait, **settings)
    [(label, bound)] = made.regrouped_bounds.items()
    row = made["regrouped"]
    # There are fewer than are drawn at most: all of them.
    assert (label, bound.steps) == (row.label, row.counts.steps)
    assert bound.slowest == row.counts.compute
    assert bound.least <= bound.slowest
    if "world_size" not in settings:  # the cheapest cut is what one rank gets
        assert bound.slowest == pytest.approx(bound.least)
    shown = render(
        comparison_screen(made, lambda change: change.row.label, details=True), console(plain=True)
    )
    words = f"{label}: the slowest ranks take {percent(bound.excess)} more than a lower bound in"
    assert f"{words} {bound.steps} steps drawn at random" in " ".join(shown.split())


def test_much_smaller_batches_may_cost_more_than_their_tokens():
    lengths = [500, *[20] * 31] * 30
    made = batchstat.compare(lengths, current="hf-trainer", gradient_accumulation_steps=4)
    counts, now = made["regrouped"].counts, made.current.counts
    assert counts.mean_batch_tokens < now.mean_batch_tokens / 2
    assert "tokens on average: calibrate, for what each takes whatever it holds" in screen(made)
    similar = np.random.default_rng(0).integers(50, 150, 700)
    made = batchstat.compare(similar, current="hf-trainer", **SEVERAL)
    assert made.changes.star.row is made["regrouped"]
    assert "on average" not in screen(made)
