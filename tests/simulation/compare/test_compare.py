import io
import json
from dataclasses import asdict
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import batchstat
from batchstat.calibration.cost_model import CostModel
from batchstat.documents.base import to_text
from batchstat.documents.comparison import comparison_document
from batchstat.documents.schema import schema
from batchstat.errors import NoBatchError
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.registry import OWN_STRATEGIES, STRATEGIES
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.simulation.compare.candidates import DEFAULT_STRATEGIES
from batchstat.simulation.meters.measure import measure
from conftest import check_schema, plan_epoch
from tables import in_turn

SKEWED = np.random.default_rng(0).lognormal(4, 1, 3000).astype(int).clip(1, 900)


@pytest.mark.slow
@given(
    lengths=st.lists(st.integers(0, 3000), min_size=1, max_size=50).filter(any),
    budget=st.integers(1, 4000),
    overflow=st.sampled_from(["truncate", "split"]),
    order=st.sampled_from(["file", "shuffled", "blocks"]),
)
def test_every_comparison_fits_its_schema(lengths, budget, overflow, order):
    made = batchstat.compare(lengths, tokens_per_batch=budget, overflow=overflow, order=order)
    record = json.loads(to_text(comparison_document(made)))
    check_schema(record, "compare")
    described = schema("compare")["properties"]
    assert set(record) == set(described)
    assert set(record["strategies"][0]) == set(described["strategies"]["items"]["properties"])
    assert set(record["basis"]) == set(described["basis"]["properties"])


def test_defaults_give_every_strategy_the_same_peak():
    made = batchstat.compare(SKEWED, tokens_per_batch=4096)
    assert made.basis.max_length == SKEWED.max()
    assert made.basis.batch_size == 4096 // SKEWED.max()
    assert all(row.counts.max_batch_tokens <= 4096 for row in made.strategies)


def test_the_batch_size_allows_for_rounded_widths():
    made = batchstat.compare([500] * 100, tokens_per_batch=16_000, pad_to_multiple_of=512)
    assert made.basis.batch_size == 16_000 // 512
    assert all(row.counts.over_budget_batches == 0 for row in made.strategies)


def test_a_row_without_a_batch_leaves_the_table_standing():
    made = batchstat.compare([3, 4, 5], strategies=["static", "fairseq"])
    assert "fairseq" not in {row.label for row in made.strategies}
    message = next(w.message for w in made.warnings if w.id == "strategy/no-batch")
    assert message.startswith("fairseq is not shown: no batches left: ")
    assert "fairseq" not in made.not_shown
    with pytest.raises(batchstat.InputError, match="no batches left"):
        batchstat.compare([3, 4, 5], strategies=["fairseq"])


def test_samples_cut_into_parts_are_counted_by_any_part():
    lengths = [9, 25, 1, 0, 10, 10, 9, 1, 1, 1, 8, 7, 8, 2, 4, 1, 2, 1, 7, 16, 1, 1, 1, 7, 1, 20, 1]
    settings = {"tokens_per_batch": 200, "overflow": "split", "order": "blocks", "seed": 3}
    settings |= {"max_length": 7, "pad_to_multiple_of": 8, "drop_last": True}
    row = (
        batchstat.compare(
            lengths, strategies=["fairseq:required_batch_size_multiple=1"], **settings
        )
        .strategies[0]
        .counts
    )
    basis = Settings(**settings).resolve(25, None)
    visits = make_shares(Samples(np.array(lengths), np.arange(len(lengths))), basis).epoch
    strategy = StrategySpec.parse("fairseq:required_batch_size_multiple=1").strategy(asdict(basis))
    made = plan_epoch(strategy, visits, seed=3, epoch=0)
    assert row.dropped_tokens > 0
    assert row.samples == len(set(made.samples.tolist()))
    assert row.dropped_samples == len(lengths) - row.samples


def test_a_row_with_a_larger_budget_of_its_own_is_said_to_be_unequal():
    rows = ["token-budget", "token-budget:tokens_per_batch=8192"]
    made = batchstat.compare(SKEWED, strategies=rows, tokens_per_batch=4096)
    assert made.best.label == "token-budget"
    assert [warning.id for warning in made.warnings] == ["padding/unequal-peak"]
    assert "token-budget:tokens_per_batch=8192 (up to " in made.warnings[0].message
    assert made.strategies[1].counts.fill <= 1


def test_the_recommended_read_ahead_is_the_smallest_that_is_good_enough():
    sweep = batchstat.compare(SKEWED, tokens_per_batch=4096).sweep
    best = min(point.padding_ratio for point in sweep.points)
    smaller = [p for p in sweep.points if p.read_ahead < sweep.recommended.read_ahead]
    assert sweep.recommended.padding_ratio <= best + 0.005
    assert all(point.padding_ratio > best + 0.005 for point in smaller)
    assert [point.read_ahead for point in sweep.points] == [100, 200, 500, 1000, 2000, 3000]


def test_a_comparison_in_a_notebook():
    made = batchstat.compare(SKEWED, batch_size=8)
    shown = repr(made).splitlines()
    assert len(shown) == 2 + len(made.strategies)
    assert max(map(len, shown)) <= 100
    for row in made.strategies:
        assert made[row.label] is row
        assert any(line.split()[0] == row.label for line in shown[2:])
        assert f"<td>{row.label}</td>" in made._repr_html_()
    with pytest.raises(KeyError, match="'stati' is not compared: the rows are fixed, static, "):
        made["stati"]
    first = ["strategy", "padding_ratio", "speed_up", "steps", "samples_per_batch_min"]
    assert made.to_frame().columns[:5].tolist() == first


def test_names_in_a_notebook_are_shown_as_text():
    made = batchstat.compare([3, 4], current="static:batch_size=2", strategies="packed")
    assert [row.label for row in made.strategies] == ["static:batch_size=2", "packed"]
    assert "<script" not in made._repr_html_()


def test_plots_in_a_notebook():
    made = batchstat.compare(SKEWED, batch_size=8)
    picture = batchstat.plot(made, "tradeoff")
    shown = picture._repr_png_()
    assert shown == picture.encoded("png")
    assert shown.startswith(b"\x89PNG")
    with pytest.raises(batchstat.OptionError, match="did you mean 'padding'"):
        batchstat.plot(made, "paddin")
    with pytest.raises(batchstat.OptionError, match="list has no plots"):
        batchstat.plot([1, 2])


def test_short_lines_for_records():
    lengths, labels = SKEWED[:100], ["a", "b"] * 50
    for record in (
        batchstat.BatchSampler(lengths, world_size=4, rank=3),
        batchstat.find_buckets(lengths),
        batchstat.balance(lengths, labels=labels, samplers="downsampling"),
    ):
        assert len(repr(record)) < 200


def test_no_column_is_lost_on_a_narrow_screen():
    from rich.console import Console

    from batchstat.render.screens.comparison import comparison_screen

    made = batchstat.compare(
        SKEWED[:300], strategies=list(STRATEGIES), seeds=2, model=CostModel(hidden=8, layers=1)
    )
    for width in (80, 60, 120):
        on = Console(width=width, color_system=None, record=True, file=io.StringIO())
        on.print(comparison_screen(made, lambda change: change.row.label, details=True), crop=False)
        lines = on.export_text().splitlines()
        assert all(len(line) <= width for line in lines)
        for heading in ("padding", "speed-up", "shuffling", "shapes", "model", "correlation"):
            assert any(heading in line for line in lines), heading
        for row in made.strategies:
            assert any(line[2:].startswith(row.name) for line in lines)
            assert any(line.startswith(row.label) for line in lines)


def test_the_screen_fits_a_terminal():
    """80 columns and 25 lines, the line with the corpus among them."""
    from batchstat.cli.streams import console, render
    from batchstat.render.screens.comparison import comparison_screen

    for settings in ({}, {"batch_size": 8}, {"current": "hf-trainer"}, {"world_size": 4}):
        made = batchstat.compare(SKEWED, **settings)
        on = console(plain=True)
        on.width = 80
        lines = render(comparison_screen(made, lambda change: change.row.label), on).splitlines()
        assert len(lines) <= 25 - 2, (
            f"{len(lines)} lines do not fit a terminal with {settings}: shorten the heading that "
            "wraps, or show the column by --details alone"
        )
        assert max(map(len, lines)) <= 80
        for sign in ("★", "●"):
            assert sum(line.startswith(sign) for line in lines) == (2 if sign == "★" else 1)


@pytest.mark.parametrize("packed", ["packed", "packed:read_ahead=500", "padding-free"])
def test_what_is_recommended_beside_packing_does_not_pack(packed):
    made = batchstat.compare(SKEWED, strategies=[packed], tokens_per_batch=4096)
    assert made.best.label == packed
    assert made.sweep.spec == "token-budget"


def test_a_point_of_the_sweep_is_what_the_table_shows_for_it():
    made = batchstat.compare(SKEWED, tokens_per_batch=4096)
    for point in made.sweep.points:
        spec = f"{made.best.name}:read_ahead={point.read_ahead}"
        row = batchstat.compare(SKEWED, strategies=[spec], tokens_per_batch=4096).strategies[0]
        assert row.counts.padding_tokens == point.padding_tokens


def test_samples_above_the_budget_are_named_and_kept():
    made = batchstat.compare([100, 50, 30], tokens_per_batch=60, strategies=["token-budget"])
    assert made.strategies[0].counts.over_budget_batches == 1
    assert made.strategies[0].counts.samples == 3
    messages = {warning.id: warning.message for warning in made.warnings}
    assert "record 0 with 100 tokens" in messages["padding/long-samples"]


def test_a_batch_of_one_that_was_asked_for_is_not_warned_of():
    made = batchstat.compare([10] * 50, tokens_per_batch=1000, batch_size=1, strategies=["static"])
    assert "padding/batch-of-one" not in {warning.id for warning in made.warnings}


def test_a_batch_of_one_sample_is_said_and_a_max_length_named():
    lengths = [10] * 990 + [9_000] * 10
    made = batchstat.compare(lengths, tokens_per_batch=16_384)
    messages = {warning.id: warning.message for warning in made.warnings}
    words = "for two, set tokens_per_batch=18000, or max_length=8192 (1.0% of the samples are"
    assert words in messages["padding/batch-of-one"]
    for change in ({"tokens_per_batch": 18_000}, {"max_length": 8192}):
        again = batchstat.compare(lengths, **({"tokens_per_batch": 16_384} | change))
        assert again.basis.batch_size == 2
        assert "padding/batch-of-one" not in {warning.id for warning in again.warnings}


@in_turn(
    ("settings", "message"),
    [
        ({"tokens_per_batch": 0}, "tokens_per_batch=0: must be between 1 and"),
        ({"tokens_per_batch": 2.5}, "tokens_per_batch=2.5: must be a whole number"),
        ({"tokens_per_batch": True}, "must be a whole number"),
        ({"max_length": -1}, "max_length=-1: must be between 1"),
        ({"seed": -1}, "seed=-1: must be between 0"),
        ({"read_ahead": 2**31}, "read_ahead=2147483648: must be between 1 and 2,147,483,647"),
        ({"overflow": "cut"}, "unknown overflow 'cut'"),
        ({"order": "random"}, "unknown order 'random'"),
        ({"drop_last": 1}, "drop_last=1: must be true or false"),
        ({"strategies": []}, "no strategy"),
        ({"seeds": 0}, "seeds=0: must be between 1"),
        ({"seed": 2**32 - 1, "seeds": 3}, "seeds=3: the last is above"),
        ({"strategies": ["torch"]}, "unknown strategy 'torch'"),
    ],
)
def test_settings_that_are_wrong_by_themselves(settings, message):
    with pytest.raises(batchstat.OptionError) as raised:
        batchstat.compare([1, 2, 3], **settings)
    assert message in str(raised.value)


@in_turn(
    ("lengths", "kind", "message"),
    [
        ([], batchstat.InputError, "no lengths"),
        ([0, 0], batchstat.InputError, "no tokens in 2 samples"),
        ([1, -2], batchstat.OptionError, r"lengths\[1\] is -2"),
        ([1, 2**31], batchstat.OptionError, r"lengths\[1\] is 2147483648"),
        ([1.5], batchstat.OptionError, "whole numbers"),
        ([[1], [2]], batchstat.OptionError, "one dimension"),
        ([[1], [2, 3]], batchstat.OptionError, "cannot be converted to an array"),
        ([True], batchstat.OptionError, "whole numbers"),
        ("corpus.txt", batchstat.OptionError, "whole numbers"),
    ],
)
def test_lengths_that_are_none(lengths, kind, message):
    with pytest.raises(kind, match=message):
        batchstat.compare(lengths)


def test_nothing_left_is_an_error_and_not_a_good_result():
    with pytest.raises(batchstat.InputError, match="overflow=drop leaves no sample"):
        batchstat.compare([9, 9], max_length=5, overflow="drop")
    with pytest.raises(batchstat.InputError, match="no batches left: "):
        batchstat.compare([5, 6, 7], batch_size=4, drop_last=True)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, tuple])
def test_lengths_come_in_any_array(kind):
    made = batchstat.compare(kind([3, 5, 8]), tokens_per_batch=16)
    assert made.samples == 3
    frame = made.to_frame()
    assert frame["strategy"].tolist() == list(DEFAULT_STRATEGIES)
    assert (frame["real_tokens"] == 16).all()
    assert frame["padding_ratio"].between(0, 1).all()
    assert (frame["relative_cost_linear"] >= 1).all()
    assert (frame["coverage"] == 1).all()
    assert not frame.map(lambda cell: isinstance(cell, dict | list | tuple)).any(axis=None)
    rows = comparison_document(made)["strategies"]
    assert frame["ranks_worst_step"].tolist() == [row["ranks"]["worst"]["step"] for row in rows]
    scalars = {key for key, value in rows[0].items() if type(value) in (int, float)}
    assert scalars <= set(frame.columns)


def test_the_table_says_what_it_leaves_out():
    made = batchstat.compare(SKEWED)
    assert [row.name for row in made.strategies] == list(DEFAULT_STRATEGIES)
    assert set(made.not_shown) | {*DEFAULT_STRATEGIES, "regrouped"} == set(OWN_STRATEGIES)
    # Where a step has one batch, there is nothing to regroup.
    assert "regrouped" not in made.not_shown
    several = batchstat.compare(SKEWED, world_size=2)
    assert "regrouped" in [row.name for row in several.strategies]
    assert batchstat.compare(SKEWED, strategies=list(OWN_STRATEGIES)).not_shown == ()


def test_the_spread_over_seeds_is_that_of_runs_with_each():
    rows = ["static", "token-budget:read_ahead=100"]
    made = batchstat.compare(SKEWED, strategies=rows, tokens_per_batch=4096, seed=5, seeds=4)
    assert made.basis.seed == 5
    alone = [
        batchstat.compare(SKEWED, strategies=rows, tokens_per_batch=4096, seed=seed)
        for seed in range(5, 9)
    ]
    for i, row in enumerate(made.strategies):
        counts = [each.strategies[i].counts for each in alone]
        assert row.counts == counts[0]
        assert row.seeds.padding_ratio.ratios == tuple(each.padding_ratio for each in counts)
        batches = [each.batches for each in counts]
        assert (row.seeds.batches.min, row.seeds.batches.max) == (min(batches), max(batches))
        padding = row.seeds.padding_ratio
        assert padding.std == pytest.approx(np.std(padding.ratios))
        assert padding.mean == pytest.approx(np.mean(padding.ratios))
        assert padding.std > 0
    assert all(row.seeds is None for row in alone[0].strategies)


def test_the_cost_by_a_model_lies_between_those_of_its_terms():
    model = CostModel(hidden=64, layers=2)
    made = batchstat.compare(SKEWED, model=model)
    for row in made.strategies:
        costs = made.costs(row)
        low, high = sorted((costs["linear"], costs["quadratic"]))
        assert low <= costs["model"] <= high
        assert costs["linear"] == pytest.approx(1 / (1 - row.counts.padding_ratio))
    assert "model" not in batchstat.compare(SKEWED).costs(made.best)


def test_a_read_ahead_without_a_batch_leaves_the_others_standing():
    made = batchstat.compare(
        [126, 243],
        strategies=["bucketed"],
        max_length=35,
        overflow="split",
        batch_size=15,
        read_ahead=7,
        drop_last=True,
    )
    assert [point.read_ahead for point in made.sweep.points] == [7]


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=2),
    batch_size=st.integers(1, 5),
    world_size=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_a_part_computed_again_makes_up_for_no_other(lengths, batch_size, world_size, seed):
    settings = Settings(
        max_length=10,
        overflow="split",
        batch_size=batch_size,
        world_size=world_size,
        drop_last=True,
        seed=seed,
    ).resolve(longest=60, stated_max=None)
    request = StrategySpec.of("static").request(settings)
    shares = make_shares(Samples(np.array(lengths), np.arange(len(lengths))), settings)
    plan = plan_epoch(request.strategy, shares.epoch.whole, seed=seed, epoch=0)
    try:
        counts = measure(request, shares).counts
    except NoBatchError:
        assert len(plan) == 0
        return
    parts: dict[tuple[int, int], int] = {}
    for batch in range(len(plan)):
        for entry in range(plan.batch_offsets[batch], plan.batch_offsets[batch + 1]):
            key = (
                int(plan.samples[entry]),
                int(plan.starts[entry]) if plan.starts is not None else 0,
            )
            parts[key] = int(plan.lengths[entry])
    assert counts.dropped_tokens == sum(lengths) - sum(parts.values())
    assert counts.duplicated_tokens == counts.real_tokens - sum(parts.values())


def test_a_read_ahead_that_nobody_asked_for_is_left_out(cli, tmp_path, monkeypatch):
    """The budget holds all samples, and `token-budget` would drop its only batch."""
    monkeypatch.chdir(tmp_path)
    made = batchstat.compare(
        [20] * 100,
        current="static:batch_size=8",
        strategies=["static:batch_size=4"],
        drop_last=True,
        tokens_per_batch=16_384,
    )
    assert [row.counts.batches for row in made.strategies] == [12, 25]
    assert made.sweep is None
    np.save(tmp_path / "a.npy", np.full(100, 20))
    options = ("--current", "static:batch_size=8", "--strategy", "static:batch_size=4")
    more = ("--drop-last", "--tokens-per-batch", 16_384, "--html", "page.html", "--details")
    code, shown, aside = cli("compare", "a.npy", *options, *more)
    assert code == 0, aside
    assert "sorting" not in shown
    assert json.loads((tmp_path / "batchstat-results/compare.json").read_text())["sweep"] is None


@given(n=st.integers(1, 60), world_size=st.integers(2, 5))
def test_steps_of_several_batches_are_not_filled_up(n, world_size):
    """accelerate fills up batches that are steps; asym's steps have several."""
    lengths = [1 + 7 * i % 40 for i in range(n)]
    options: dict[str, Any] = {"strategies": ["asym:batch_size=4"], "world_size": world_size}
    filled, repeated = (
        batchstat.compare(lengths, **options, remainder=each) for each in ("fill", "repeat")
    )
    assert filled.strategies[0].counts == repeated.strategies[0].counts


def test_the_learning_rate_is_a_line_only_where_the_setup_changes():
    from rich.console import Console, Group

    from batchstat.render.screens.comparison_details import sorting_details

    sorting = batchstat.compare(SKEWED, batch_size=8, strategies=["static", "bucketed"])
    staying = batchstat.compare(SKEWED, batch_size=8, strategies=["static"])
    assert sorting.best is not sorting.current
    assert staying.best is staying.current
    for comparison, has_line in ((sorting, True), (staying, False)):
        with (console := Console(width=100)).capture() as captured:
            console.print(Group(*sorting_details(comparison)))
        assert ("the learning rate may scale by" in " ".join(captured.get().split())) == has_line
