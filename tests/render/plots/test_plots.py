"""Plots are drawn for whatever a user has, and have the numbers of the records."""

import math
import re
import struct
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.text import Text

import batchstat
from batchstat.documents.balance import balance_document
from batchstat.documents.buckets import buckets_document
from batchstat.documents.comparison import comparison_document
from batchstat.documents.profile import profile_document
from batchstat.render.plots import style
from batchstat.render.plots.balance import balance_plots
from batchstat.render.plots.buckets import bucket_plots
from batchstat.render.plots.comparison import comparison_plots
from batchstat.render.plots.profile import profile_plots
from batchstat.render.plots.ranks import rank_plots
from batchstat.storage.result_files import PLOT_FORMATS
from batchstat.trainers.buckets import find_buckets
from calibrated import Constants, calibration
from tables import in_turn

MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(MAGIC["png"])
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def texts(figure) -> list[str]:
    return [each.get_text() for each in figure.findobj(Text) if each.get_text()]


def line_of(axes, label: str):
    [line] = [each for each in axes.lines if each.get_label() == label]
    return line


def profile(tmp_path, rows: list[tuple[str, str]]):
    import csv

    path = tmp_path / "a $x$ [b].csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return batchstat.profile(path, label_column="label")


def labelled(tmp_path, lengths, classes: int):
    rows = [f'{{"n": {n}, "y": "class {i % classes}"}}\n' for i, n in enumerate(lengths)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    return batchstat.profile(tmp_path / "a.jsonl", length_column="n", label_column="y")


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        [("one", "a")],
        [("one two", "a"), ("one two", "a")],
        [("word " * n, f"class {n % 30}") for n in range(1, 100)],
        [("some words", "$broken{math"), ("more", "世界"), ("x", "<b>\n\x1b[31m"), ("y", "")],
        [("short", "a"), ("word " * 200_000, "b")],
    ],
)
def test_any_corpus_can_be_drawn(tmp_path, rows):
    made = profile(tmp_path, rows)
    plots = profile_plots(made)
    assert set(plots) == {"lengths", "lengths_by_class"}
    plots |= comparison_plots(batchstat.compare(made, tokens_per_batch=64))
    plots |= bucket_plots(find_buckets(made, buckets=1))
    plots |= balance_plots(batchstat.balance(made))
    for picture in plots.values():
        width, height = size(picture.encoded("png"))
        assert width == 1350
        assert 250 < height < 1500


def test_lengths_alone_can_be_drawn():
    lengths = np.random.default_rng(0).integers(0, 9, 500)
    specs = ["static", "token-budget:read_ahead=50,shuffle_batches=false", "static:batch_size=3"]
    for overflow in ("truncate", "drop"):
        made = batchstat.compare(lengths, strategies=specs, max_length=5, overflow=overflow)
        for picture in comparison_plots(made).values():
            picture.figure()


@in_turn(
    ("name", "plot_format"),
    [("batches", "png"), ("tradeoff", "svg"), ("padding", "pdf"), ("read_ahead", "svg")],
)
def test_equal_records_are_equal_files(name, plot_format):
    """Each plot and each format once: what makes files unequal is of one or of the other."""
    lengths = np.random.default_rng(0).integers(1, 90, 60)
    pictures = comparison_plots(batchstat.compare(lengths, tokens_per_batch=256))
    assert (len(pictures), {*MAGIC}) == (4, {*PLOT_FORMATS})
    file = pictures[name].encoded(plot_format)
    assert file.startswith(MAGIC[plot_format])
    assert file == pictures[name].encoded(plot_format)
    assert b"Date" not in file


def drawn_text(svg: str) -> str:
    """Matplotlib draws text as shapes and repeats it in comments."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", svg))


def test_names_are_not_parsed_as_formulas(tmp_path):
    made = profile(tmp_path, [("some words", "$broken{math"), ("more", "b")])
    svg = profile_plots(made)["lengths_by_class"].encoded("svg").decode()
    assert "$broken{math" in drawn_text(svg)
    assert "a $x$ [b].csv" in drawn_text(svg)


def test_the_two_charts_of_ranks_have_titles_side_by_side():
    current = "hf-trainer:batch_size=8,pad_to_multiple_of=64,drop_last=true"
    lengths = [*range(1, 99), *range(400, 420)] * 40
    made = batchstat.compare(lengths, current=current, world_size=4)
    figure = rank_plots(made)["ranks"].figure()
    figure.draw_without_rendering()
    first, second = (axes._left_title.get_window_extent() for axes in figure.axes)
    assert first.width > 0
    assert first.x1 <= second.x0
    assert second.x1 <= figure.bbox.x1


@pytest.mark.parametrize(("n", "world_size"), [(9, 2), (2_000, 3), (30_000, 4), (900, 300)])
def test_the_plot_of_ranks_has_the_true_maxima(n, world_size):
    lengths = np.random.default_rng(n).integers(1, 65, n)
    made = batchstat.compare(
        lengths,
        strategies=["static:batch_size=2", "token-budget:tokens_per_batch=128"],
        tokens_per_batch=128,
        world_size=world_size,
    )
    rows = list(dict.fromkeys([made.current.label, made.best.label]))
    every = rank_plots(made)["ranks"].figure().axes
    assert len(every) == len(rows)
    for axes, label in zip(every, rows, strict=True):
        [row] = [each for each in made.strategies if each.label == label]
        steps, worst = row.meetings, row.counts.ranks.worst
        assert steps.shape == (row.counts.steps, world_size)
        *_, mean, slowest = axes.patches
        assert (mean.get_label(), slowest.get_label()) == ("mean rank", "slowest rank")
        size = -(-len(steps) // 160)
        parts = [steps[i : i + size] for i in range(0, len(steps), size)]
        assert slowest.get_data().values.tolist() == [part.max() for part in parts]
        assert slowest.get_data().values.max() == row.counts.max_batch_tokens
        assert mean.get_data().values == pytest.approx([part.mean() for part in parts])
        ends = [i - 0.5 for i in (*range(0, len(steps), size), len(steps))]
        assert slowest.get_data().edges.tolist() == ends
        marked = line_of(axes, "worst")
        assert marked.get_xydata().tolist() == [[worst.step, parts[worst.step // size].max()]]
        assert (f"each point: {size} steps" in axes.get_xlabel()) == (size > 1)
    assert rank_plots(batchstat.compare(lengths)) == {}


LENGTHS = {
    "one": [7],
    "equal": [4] * 50,
    "with zeros": [0, 0, 0, 1, 2, 40, 41],
    "zeros": [0, 0],
    "narrow": np.random.default_rng(3).integers(100, 900, 999).tolist(),
    "many": np.random.default_rng(3).integers(0, 3_000, 999).tolist(),
    "long tail": (2 ** np.random.default_rng(3).uniform(4, 16, 999)).astype(int).tolist(),
}


@in_turn("name", LENGTHS)
def test_the_plot_of_lengths_has_all_samples(tmp_path, name):
    lengths = np.array(LENGTHS[name])
    made = labelled(tmp_path, lengths.tolist(), 3)
    figure = profile_plots(made)["lengths"].figure()
    [axes] = figure.axes
    is_linear = axes.get_xscale() == "linear"
    assert is_linear == (lengths.max() < 16 * max(lengths.min(), 1))
    drawn = lengths if is_linear else np.maximum(lengths, 0.5)
    for bar in axes.patches:
        low, high = bar.get_x(), bar.get_x() + bar.get_width()
        assert bar.get_height() == np.sum((drawn >= low - 1e-9) & (drawn < high - 1e-9))
    assert sum(bar.get_height() for bar in axes.patches) == len(lengths)
    low, high = axes.get_xlim()
    assert drawn.min() >= low
    assert drawn.max() <= high
    record = profile_document(made)["lengths"]
    percentiles = [line.get_xdata()[0] for line in axes.lines if "percentile" in line.get_label()]
    expected = {max(record[key], 0 if is_linear else 0.5) for key in ("p50", "p90", "p99")}
    assert set(percentiles) == expected
    suggested = line_of(axes, "suggested max_length")
    assert suggested.get_xdata()[0] == made.suggested_max_length
    assert low <= made.suggested_max_length <= high
    ticks = axes.yaxis.get_major_locator().tick_values(*axes.get_ylim())
    assert all(tick == round(tick) for tick in ticks)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101])
def test_boxes_are_at_observed_lengths(tmp_path, n):
    lengths = sorted(np.random.default_rng(n).integers(1, 500, n).tolist())
    made = labelled(tmp_path, lengths, 1)
    boxes, counts = profile_plots(made)["lengths_by_class"].figure().axes

    def observed(share: float) -> int:
        return lengths[max(math.ceil(share * n) - 1, 0)]

    expected = {observed(share) for share in (0.01, 0.25, 0.5, 0.75, 0.99)}
    box = {float(x) for patch in boxes.patches for x in patch.get_path().vertices[:, 0]}
    at = {float(x) for line in boxes.lines for x in line.get_xdata()} | box
    assert at - {0.0} == expected | {made.classes[0].mean_length}
    assert [bar.get_width() for bar in counts.patches] == [n]


@pytest.mark.parametrize("classes", [1, 24, 25, 60])
def test_many_classes_are_the_largest_and_the_smallest(tmp_path, classes):
    rows = [f'{{"n": 5, "y": "c{k}"}}\n' for k in range(classes) for _ in range(classes - k)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    made = batchstat.profile(tmp_path / "a.jsonl", length_column="n", label_column="y")
    figure = profile_plots(made)["lengths_by_class"].figure()
    lengths, counts = figure.axes
    shown = list(range(classes)) if classes <= 24 else [*range(15), *range(classes - 5, classes)]
    assert [bar.get_width() for bar in counts.patches] == [classes - k for k in shown]
    assert [tick.get_text() for tick in lengths.get_yticklabels()] == [f"c{k}" for k in shown]
    hidden = [text for text in texts(figure) if "more classes" in text]
    samples = sum(classes - k for k in range(classes) if k not in shown)
    assert hidden == ([f" {classes - 20} more classes: {samples:,} samples"] if samples else [])
    heights = {line.get_ydata()[0] for line in counts.lines}
    assert 15 not in heights


def bars_of(axes) -> dict[int, list[float]]:
    """The widths of the segments of each row."""
    found: dict[int, list[float]] = {}
    for bar in axes.patches:
        if hasattr(bar, "get_y") and bar.get_width() > 0 and bar.get_height() < 0.6:
            found.setdefault(round(bar.get_y() + bar.get_height() / 2), []).append(bar.get_width())
    return found


@pytest.mark.parametrize("max_length", [40, 200, 300])
def test_the_plot_of_padding_has_the_numbers_of_the_json(max_length):
    lengths = np.random.default_rng(0).integers(0, 300, 800)
    specs = ["static", "token-budget", "packed", "bucketed:batch_size=3"]
    made = batchstat.compare(lengths, strategies=specs, tokens_per_batch=900, max_length=max_length)
    record, figure = comparison_document(made), comparison_plots(made)["padding"].figure()
    [axes] = figure.axes
    rows = sorted(record["strategies"], key=lambda row: -row["compute"])
    for place, row in enumerate(rows):
        lost = row["truncated_tokens"] + row["dropped_tokens"]
        parts = [row["real_tokens"], row["padding_tokens"], lost]
        assert bars_of(axes)[place] == [part for part in parts if part]
        assert sum(parts) <= axes.get_xlim()[1]
    written = "\n".join(texts(figure))
    assert ("lost" in written) == (made.current.counts.lost_tokens > 0)
    for row in made.strategies:
        assert f"{100 * row.counts.padding_ratio:.1f}% padding" in written or row.packs_rows
        times = made.speed_up(row)
        assert row is made.current or f"{max(times, 1 / times):.2f}x" in written


def test_a_far_longer_bar_is_cut_and_named():
    lengths = np.r_[np.full(2_000, 10), 5_000]
    made = batchstat.compare(lengths, strategies=["fixed", "static:batch_size=4", "token-budget"])
    figure = comparison_plots(made)["padding"].figure()
    [axes] = figure.axes
    fixed, current = (made.strategies[i].counts.total_tokens for i in (0, 1))
    assert fixed > 10 * axes.get_xlim()[1]
    assert current <= axes.get_xlim()[1]
    assert f"{style.short(fixed)} tokens " in texts(figure)


def test_no_row_is_marked_best_where_none_fits_the_budget():
    lengths = np.random.default_rng(0).integers(1, 300, 800)
    specs = ["static:batch_size=64", "token-budget:tokens_per_batch=9000"]
    made = batchstat.compare(lengths, strategies=specs, tokens_per_batch=600)
    assert made.changes.best is None
    for name in ("padding", "batches", "tradeoff"):
        assert not any("best" in text for text in texts(comparison_plots(made)[name].figure()))
    written = texts(comparison_plots(made)["padding"].figure())
    assert "current, over budget" in written
    assert "over budget" in written


def test_batches_are_drawn_to_scale():
    lengths = np.random.default_rng(0).integers(1, 300, 800)
    specs = ["static:batch_size=4", "token-budget", "packed"]
    made = batchstat.compare(lengths, strategies=specs, tokens_per_batch=1_200)
    every = comparison_plots(made)["batches"].figure().axes
    assert [axes.get_title(loc="left").split(":")[0] for axes in every] == [
        "static",
        "token-budget (best)",
        "packed",
    ]
    for axes, row in zip(every, made.strategies, strict=True):
        plan = row.first_batches
        padded, real = (patch.get_data() for patch in axes.patches)
        assert padded.edges.tolist() == real.edges.tolist()
        widths = np.repeat(plan.widths, np.diff(plan.batch_offsets))
        tokens = [plan.lengths[a:b].sum() for a, b in pairwise(plan.row_offsets)]
        # Columns of the height 0 are the space between batches.
        columns = padded.values > 0
        shown = columns.sum()
        assert shown >= 100
        assert padded.values[columns].tolist() == widths[:shown].tolist()
        assert real.values[columns].tolist() == tokens[:shown]
        assert np.diff(padded.edges)[columns] == pytest.approx(1)
        assert axes.get_xlim() == every[0].get_xlim()
        assert axes.get_ylim() == every[0].get_ylim()
        assert max(widths[:shown]) <= axes.get_ylim()[1]


def test_a_strategy_whose_rows_are_batches_is_not_drawn_with_the_others():
    lengths = np.random.default_rng(0).integers(1, 300, 800)
    specs = ["static", "token-budget", "padding-free"]
    made = batchstat.compare(lengths, strategies=specs, tokens_per_batch=4_096)
    every = comparison_plots(made)["batches"].figure().axes
    assert not any("padding-free" in axes.get_title(loc="left") for axes in every)


def test_the_tradeoff_has_a_dot_per_strategy():
    lengths = np.random.default_rng(0).integers(1, 300, 800)
    made = batchstat.compare(lengths, tokens_per_batch=2_048)
    figure = comparison_plots(made)["tradeoff"].figure()
    [axes] = figure.axes
    for row in made.strategies:
        [(x, y)] = line_of(axes, f"_{row.label}").get_xydata().tolist()
        relative = row.counts.compute / made.current.counts.compute
        assert x == pytest.approx(row.counts.grouping.length_homogeneity)
        assert y == pytest.approx(relative) or relative > y == max(
            line.get_ydata()[0] for line in axes.lines if line.get_label().startswith("_f")
        )
        assert any(row.label in text for text in texts(figure))
    assert any("static (current)" in text for text in texts(figure))


@pytest.mark.parametrize("known", [None, calibration(Constants(batch=0.05), widest=512)])
def test_plots_of_a_calibrated_device_are_of_time(known):
    lengths = np.random.default_rng(0).integers(1, 300, 800)
    made = batchstat.compare(lengths, tokens_per_batch=2_048, world_size=3, calibration=known)
    drawn = comparison_plots(made) | rank_plots(made)
    words = {name: " ".join(texts(drawn[name].figure())) for name in ("padding", "tradeoff")}
    what, other = ("time", "compute") if known else ("compute", "time")
    faster = f"{made.speed_up(made.best):.2f}x faster"
    assert f"{what}, relative to static" in words["tradeoff"]
    assert f"{other}, relative to static" not in words["tradeoff"]
    assert (f"{faster} (estimate)" in words["padding"]) == (known is None)
    assert f"{faster} than static" in words["tradeoff"]
    assert all(faster in each for each in words.values())
    assert all(("(estimate)" in each) == (known is None) for each in words.values())
    by_time, counts = made.current.on_device.rank_idle_time, made.current.counts
    idle = counts.rank_idle if known is None else by_time
    ranks = " ".join(texts(drawn["ranks"].figure()))
    assert f"static {100 * idle:.1f}% of the time" in " ".join(ranks.split())
    assert (by_time is None) == (known is None)


def test_the_plot_of_read_ahead_has_the_numbers_of_the_json():
    lengths = np.random.default_rng(0).integers(1, 300, 7_777)
    made = batchstat.compare(lengths, strategies=["static", "token-budget"], tokens_per_batch=900)
    padding, similar = comparison_plots(made)["read_ahead"].figure().axes
    points = comparison_document(made)["sweep"]["points"]
    sizes = [each["read_ahead"] for each in points]
    assert padding.lines[0].get_xdata().tolist() == similar.lines[0].get_xdata().tolist() == sizes
    assert padding.lines[0].get_ydata().tolist() == [each["padding_ratio"] for each in points]
    found = [each["grouping"]["length_homogeneity"] for each in points]
    assert similar.lines[0].get_ydata() == pytest.approx(found)
    chosen = made.sweep.recommended
    assert [chosen.read_ahead, chosen.padding_ratio] in [
        line.get_xydata()[0].tolist() for line in padding.lines
    ]
    ticks = dict(zip(similar.get_xticks(), similar.get_xticklabels(), strict=True))
    assert ticks[7_777].get_text() == "7,777"
    assert ticks[100].get_text() == "100"


def test_the_plots_of_samplers_have_the_numbers_of_the_json():
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 300, 2_000)
    labels = [f"class {int(x)}" for x in np.minimum(generator.exponential(8, 2_000), 59)]
    samplers = ["none", "upsampling", "downsampling", "dynamic"]
    report = batchstat.balance(lengths, labels=labels, samplers=samplers)
    record, pictures = balance_document(report), balance_plots(report)
    figure = pictures["balance"].figure()
    [axes] = figure.axes
    classes = record["samplers"][0]["classes"]
    assert len(classes) > 24
    order = sorted(range(len(classes)), key=lambda i: -classes[i]["before"])
    shown = [*order[:15], *order[-5:]]
    assert f"{len(classes) - 20} more classes" in texts(figure)
    for label, row in zip(["none, dynamic", *samplers[1:3]], record["samplers"], strict=False):
        drawn = [row["classes"][i]["after"] / row["classes"][i]["before"] for i in shown]
        assert line_of(axes, label).get_xdata() == pytest.approx(drawn)
    figure = pictures["coverage"].figure()
    [axes] = figure.axes
    named = {name.strip(): line for line in axes.lines for name in line.get_label().split(",")}
    assert set(named) == set(samplers)
    assert named["none"] is named["dynamic"]
    for row in record["samplers"]:
        expected = [each["coverage"] for each in row["epochs"]]
        assert named[row["name"]].get_ydata() == pytest.approx(expected, abs=0.005)
        assert any(row["name"] in text for text in texts(figure))


@pytest.mark.parametrize("cost", ["linear", "quadratic"])
def test_the_plot_of_buckets_has_the_numbers_of_the_json(cost):
    lengths = np.random.default_rng(0).integers(30, 100, 500)
    found = find_buckets(lengths, buckets=3, cost=cost)
    histogram, numbers = bucket_plots(found)["buckets"].figure().axes
    edges = [line.get_xdata()[0] for line in histogram.lines if line.get_label() == "_edge"]
    assert edges == [edge + 1 for edge in found.chosen.edges]
    for rule in buckets_document(found)["rules"]:
        line = line_of(numbers, rule["name"])
        key = "padding_ratio" if cost == "linear" else "relative_cost"
        assert line.get_xdata().tolist() == [each["buckets"] for each in rule["points"]]
        assert line.get_ydata().tolist() == [each[key] for each in rule["points"]]


@in_turn(
    ("value", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (7_400, "7.4k"),
        (16_384, "16.38k"),
        (999_990, "999.99k"),
        (2e9, "2G"),
    ],
)
def test_labels_of_axes(value, shown):
    assert style.short(value) == shown


@in_turn(
    ("value", "shown"),
    [(0, "0x"), (0.0033, "0.0033x"), (0.58, "0.58x"), (1, "1x"), (3.72, "3.7x"), (300.4, "300x")],
)
def test_factors(value, shown):
    assert style.times(value) == shown
