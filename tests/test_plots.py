"""Plots are drawn for whatever a user has, and say of what they are."""

import struct

import numpy as np
import pytest

import batchstat
from batchstat.buckets import find_buckets
from batchstat.render.plots import bucket_plots, comparison_plots, profile_plots, rank_plots


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
