"""Plots are drawn for whatever a user has, and say of what they are."""

import math
import struct
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

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
from batchstat.simulation.bucket_search import find_buckets


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def profile(tmp_path, rows: list[tuple[str, str]]):
    import csv

    path = tmp_path / "a $x$ [b].csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return batchstat.profile(path, label_column="label")


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
    assert set(plots) == {"lengths.png", "classes.png", "lengths_by_class.png"}
    plots |= comparison_plots(batchstat.compare(made, tokens_per_batch=64))
    plots |= bucket_plots(find_buckets(made, buckets=1))
    for png in plots.values():
        width, height = size(png)
        assert width == 1350
        assert 250 < height < 3500


def test_lengths_alone_can_be_drawn():
    lengths = np.random.default_rng(0).integers(0, 9, 500)
    specs = ["static", "token-budget:read_ahead=50,shuffle_batches=false", "static:batch_size=3"]
    for overflow in ("truncate", "drop"):
        made = batchstat.compare(lengths, strategies=specs, max_length=5, overflow=overflow)
        assert set(map(size, comparison_plots(made).values()))


@pytest.mark.parametrize(("n", "world_size"), [(3, 2), (500, 8), (30_000, 3), (2, 64)])
def test_ranks_can_be_drawn(n, world_size):
    lengths = np.random.default_rng(0).integers(1, 9, n)
    made = batchstat.compare(lengths, tokens_per_batch=32, world_size=world_size)
    assert set(rank_plots(made)) == {"ranks.png"}
    assert made.best.steps.shape == (made.best.counts.steps, world_size)
    assert rank_plots(batchstat.compare(lengths)) == {}


def test_equal_records_are_equal_pictures(tmp_path):
    made = profile(tmp_path, [("some words", "a"), ("more words than these", "b")])
    assert profile_plots(made) == profile_plots(made)


@pytest.fixture
def drawn(monkeypatch):
    """Gives the figures of pictures in place of their bytes, and quicker."""

    def figure(draw, height):
        made = Figure(figsize=(style.WIDTH, height))
        draw(made)
        return made

    monkeypatch.setattr(style, "png", figure)


def label_of(axes, word: str):
    """The line whose label has a word."""
    [line] = [each for each in axes.lines if word in str(each.get_label())]
    return line


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(("n", "world_size"), [(9, 2), (2_000, 3), (30_000, 4), (900, 300)])
def test_the_picture_of_ranks_has_the_most_of_its_steps(n, world_size):
    lengths = np.random.default_rng(n).integers(1, 65, n)
    made = batchstat.compare(lengths, strategies=["static:batch_size=2"], world_size=world_size)
    steps, worst = made.best.steps, made.best.counts.ranks.worst
    lines, heat, bar = rank_plots(made)["ranks.png"].axes
    slowest, mean = label_of(lines, "slowest"), label_of(lines, "mean rank")
    assert slowest.get_ydata().max() == steps.max() == made.best.counts.max_batch_tokens
    size = -(-len(steps) // 400)
    parts = [steps[i : i + size] for i in range(0, len(steps), size)]
    assert slowest.get_ydata().tolist() == [part.max() for part in parts]
    assert mean.get_ydata() == pytest.approx([part.mean() for part in parts])
    places = [i + (len(part) - 1) / 2 for i, part in zip(range(0, n, size), parts, strict=False)]
    assert slowest.get_xdata().tolist() == places
    waited = label_of(lines, "longest wait")
    assert (waited.get_xdata()[0], waited.get_ydata()[0]) == (worst.step, worst.tokens)
    assert steps[worst.step].max() == worst.tokens
    assert (f", maximum of {size} steps" in slowest.get_label()) == (size > 1)
    assert (f"{size} steps" in bar.get_ylabel()) == (size > 1)
    [mesh] = heat.collections
    cells = np.asarray(mesh.get_array())
    assert cells.max() == steps.max()
    if world_size <= 200:
        assert cells.tolist() == [[part[:, r].max() for part in parts] for r in range(world_size)]
    else:
        assert "maximum of 2 ranks" in bar.get_ylabel()


LENGTHS = {
    "one": [7],
    "equal": [4] * 50,
    "with zeros": [0, 0, 0, 1, 2, 40, 41],
    "zeros": [0, 0],
    "many": np.random.default_rng(3).integers(0, 3_000, 999).tolist(),
}


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("name", LENGTHS)
def test_the_pictures_of_lengths_have_the_numbers_of_the_json(tmp_path, name):
    lengths = LENGTHS[name]
    rows = [f'{{"n": {n}, "y": "class {i % 3}"}}\n' for i, n in enumerate(lengths)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    made = batchstat.profile(tmp_path / "a.jsonl", length_column="n", label_column="y")
    record, pictures = profile_document(made), profile_plots(made)
    bars, share = pictures["lengths.png"].axes
    histogram = record["lengths"]["histogram"]
    assert [bar.get_height() for bar in bars.patches] == [*histogram["counts"]]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars.patches]
    edges = [max(edge, 0.5) for edge in histogram["edges"]]
    assert np.allclose(ends, list(pairwise(edges)))
    percentiles = [line.get_xdata()[0] for line in bars.lines]
    assert percentiles == [max(record["lengths"][key], 0.5) for key in ("p50", "p90", "p99")]
    cumulative = share.lines[0]
    for length in {*lengths}:
        at = np.flatnonzero(cumulative.get_xdata() <= max(length, 0.5))[-1]
        expected = np.mean(np.array(lengths) <= length)
        assert length == 0 or cumulative.get_ydata()[at] == pytest.approx(expected)
    assert (cumulative.get_ydata()[0], cumulative.get_ydata()[-1]) == (0, 1)
    for axes in pictures["lengths.png"].axes[:1]:
        ticks = axes.yaxis.get_major_locator().tick_values(*axes.get_ylim())
        assert all(tick == round(tick) for tick in ticks)
    [classes] = pictures["classes.png"].axes
    assert [bar.get_width() for bar in classes.patches] == [c["count"] for c in record["classes"]]


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("n", [1, 2, 3, 10, 101])
def test_boxes_are_at_observed_lengths(tmp_path, n):
    lengths = sorted(np.random.default_rng(n).integers(1, 500, n).tolist())
    (tmp_path / "a.jsonl").write_text("".join(f'{{"n": {v}, "y": "a"}}\n' for v in lengths))
    made = batchstat.profile(tmp_path / "a.jsonl", length_column="n", label_column="y")
    [axes] = profile_plots(made)["lengths_by_class.png"].axes

    def observed(share: float) -> int:
        return lengths[max(math.ceil(share * n) - 1, 0)]

    expected = {observed(share) for share in (0.01, 0.25, 0.5, 0.75, 0.99)}
    box = {float(x) for patch in axes.patches for x in patch.get_path().vertices[:, 0]}
    at = {float(x) for line in axes.lines for x in line.get_xdata()} | box
    assert at - {0.0} == expected | {made.classes[0].mean_length}


@pytest.mark.usefixtures("drawn")
def test_the_pictures_of_a_comparison_have_the_numbers_of_the_json():
    lengths = np.random.default_rng(0).integers(0, 300, 800)
    specs = ["static", "token-budget", "fixed:batch_size=3"]
    made = batchstat.compare(lengths, strategies=specs, tokens_per_batch=900, max_length=200)
    record, pictures = comparison_document(made), comparison_plots(made)
    [bars] = pictures["padding.png"].axes
    real, padding, lost = ([bar.get_width() for bar in part] for part in bars.containers)
    for i, row in enumerate(record["strategies"]):
        assert (real[i], padding[i]) == (row["real_tokens"], row["padding_tokens"])
        assert lost[i] == row["truncated_tokens"] + row["dropped_tokens"]
    for axes, row in zip(pictures["batch_lengths.png"].axes, record["strategies"], strict=True):
        values, edges, _ = axes.patches[0].get_data()
        assert values * row["batches"] == pytest.approx(row["widths"]["counts"])
        assert edges.tolist() == [max(edge, 0.5) for edge in row["widths"]["edges"]]
        assert values.sum() == pytest.approx(1)
    [sweep] = pictures["read_ahead.png"].axes
    points = record["sweep"]["points"]
    assert sweep.lines[0].get_xdata().tolist() == [each["read_ahead"] for each in points]
    assert sweep.lines[0].get_ydata().tolist() == [each["padding_ratio"] for each in points]
    chosen = made.sweep.recommended
    assert sweep.lines[1].get_xydata().tolist() == [[chosen.read_ahead, chosen.padding_ratio]]


@pytest.mark.usefixtures("drawn")
def test_the_pictures_of_samplers_and_buckets_have_the_numbers_of_the_json():
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 300, 2_000)
    labels = [f"class {int(x)}" for x in np.minimum(generator.exponential(8, 2_000), 59)]
    report = batchstat.balance(lengths, labels=labels, samplers=["none", "upsampling"])
    record, pictures = balance_document(report), balance_plots(report)
    classes = record["samplers"][0]["classes"]
    assert len(classes) > 25
    assert f"the 20 largest of {len(classes)} classes" in pictures["balance.png"].get_suptitle()
    for axes, row in zip(pictures["balance.png"].axes, record["samplers"], strict=False):
        largest = sorted(row["classes"], key=lambda each: -each["before"])[:20]
        before = sum(each["before"] for each in row["classes"])
        after = sum(each["after"] for each in row["classes"])
        shares = [x for c in largest for x in (c["before"] / before, c["after"] / after)]
        assert [bar.get_width() for bar in axes.patches] == pytest.approx(shares)
    [axes] = pictures["coverage.png"].axes
    for row in record["samplers"]:
        [line] = [line for line in axes.lines if line.get_label() == row["name"]]
        assert line.get_ydata() == pytest.approx([each["coverage"] for each in row["epochs"]])
    found = find_buckets(lengths, buckets=3)
    [axes] = bucket_plots(found)["buckets.png"].axes
    for rule in buckets_document(found)["rules"]:
        line = label_of(axes, rule["name"])
        assert line.get_xdata().tolist() == [each["buckets"] for each in rule["points"]]
        assert line.get_ydata().tolist() == [each["padding_ratio"] for each in rule["points"]]


@pytest.mark.parametrize(
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
