"""The column that says which tokens carry loss: in every form and format, and what is wrong."""

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchstat
from conftest import write_jsonl
from tables import in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

ROWS = [
    {"ids": [7, 8, 9], "labels": [-100, -100, 9], "mask": [0, 0, 1], "n": 1},
    {"ids": [7, 8], "labels": [-100, -100], "mask": [0, 0], "n": 0},
    {"ids": [7, 8, 9, 5], "labels": [-100, 8, 9, 5], "mask": [0, 1, 1, 1], "n": 3},
    {"ids": [], "labels": [], "mask": [], "n": 0},
    {"ids": [3], "labels": [3], "mask": [1], "n": 1},
]
COUNTS = [1, 0, 3, 0, 1]


def profile(corpus, column: str, **options) -> batchstat.Profile:
    return batchstat.profile(corpus, tokens_column="ids", trained_column=column, **options)


@pytest.mark.parametrize("column", ["labels", "mask", "n"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "frame"])
def test_every_form_in_every_format(tmp_path, column, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        write_jsonl(path, ROWS)
    elif kind == "json":
        path.write_text(json.dumps(ROWS))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=2)
    found = profile(pd.DataFrame(ROWS) if kind == "frame" else path, column)
    assert found.trained is not None
    assert found.trained.counts().tolist() == COUNTS
    assert found.trained.counts(stops=2).tolist() == [0, 0, 1, 0, 1]
    assert found.to_frame()["trained"].tolist() == COUNTS
    assert (found.trained_tokens, found.untrained_samples) == (5, 2)


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int8(), pa.uint32(), pa.dictionary("i4", "i8")])
@pytest.mark.parametrize("listed", [pa.list_, pa.large_list])
def test_masks_of_any_arrow_type(tmp_path, kind, listed):
    if pa.types.is_dictionary(kind):
        values = pa.array([0, 0, 1, 1, 0, 1]).dictionary_encode()
        flat = values.cast(pa.dictionary(pa.int32(), pa.int64()))
    else:
        flat = pa.array([0, 0, 1, 1, 0, 1], pa.int64()).cast(kind)
    masks = pa.ListArray.from_arrays([0, 3, 3, 6], flat)
    table = pa.table({"ids": [[1, 2, 3], [], [4, 5, 6]], "mask": masks.cast(listed(flat.type))})
    pq.write_table(table, tmp_path / "a.parquet", store_schema=True)
    made = profile(tmp_path / "a.parquet", "mask")
    assert made.trained.counts().tolist() == [1, 0, 2]
    assert made.trained.counts(stops=1).tolist() == [0, 0, 1]


@given(st.lists(st.lists(st.sampled_from([-100, 0, 1, 2, 99]), max_size=6), min_size=1))
def test_lists_with_a_label_are_labels_and_others_masks(lists):
    frame = pd.DataFrame({"ids": lists, "labels": lists})
    found = profile(frame[["ids", "labels"]].assign(ids=[[1] * len(x) for x in lists]), "labels")
    expected = [
        [value == 1 for value in values]
        if set(values) <= {0, 1}
        else [value != -100 for value in values]
        for values in lists
    ]
    assert found.trained.counts().tolist() == list(map(sum, expected))
    assert found.trained.counts(1, 4).tolist() == [sum(each[1:4]) for each in expected]


def test_a_number_is_of_the_last_tokens_of_a_text(tmp_path):
    (tmp_path / "a.csv").write_text("text,n\none two three,2\nfour,0\nfive six,2\n")
    found = batchstat.profile(tmp_path / "a.csv", trained_column="n")
    lengths = found.lengths.tolist()
    assert found.trained.counts().tolist() == [2, 0, 2]
    assert found.trained.counts(stops=lengths[0] - 1).tolist() == [1, 0, 2]


@in_turn(
    ("row", "message"),
    [
        ({"ids": [1, 2], "m": [1]}, "1 values for a sample of 2 tokens"),
        ({"ids": [1, 2], "m": [1, 0, 1]}, "3 values for a sample of 2 tokens"),
        ({"ids": [1, 2], "m": [4, -5]}, "'m' contains -5: labels are token ids or -100"),
        ({"ids": [1, 2], "m": [1, 0.5]}, "'m' contains a number where a whole number is expected"),
        ({"ids": [1, 2], "m": [1, None]}, "'m' contains null where a whole number is expected"),
        ({"ids": [1, 2], "m": [1, 2**70]}, "'m' contains a number of more than 64 bits"),
        ({"ids": [1, 2], "m": 3}, "3 trained tokens in a sample of 2"),
        ({"ids": [1, 2], "m": -1}, "'m' is -1: must be between 0 and"),
        ({"ids": [1, 2], "m": "x"}, "'m' is text where a whole number is expected"),
        ({"ids": [1, 2], "m": None}, "'m' is null where a whole number is expected"),
        ({"ids": [1, 2]}, "column 'm' is missing"),
    ],
)
def test_what_is_wrong_is_named_and_may_be_skipped(tmp_path, row, message):
    good = {"ids": [1, 2], "m": [0, 1] if isinstance(row.get("m"), list) else 1}
    path = write_jsonl(tmp_path / "a.jsonl", [good, row, good])
    with pytest.raises(batchstat.InputError) as caught:
        profile(path, "m")
    assert message in str(caught.value)
    assert "a.jsonl, line 2" in str(caught.value)
    found = profile(path, "m", on_error="skip")
    assert found.records.tolist() == [0, 2]
    assert found.trained.counts().tolist() == [1, 1]
    assert found.corpus.unreadable == 1


def test_a_number_among_lists(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"ids": [1], "m": [1]}, {"ids": [1], "m": 1}])
    with pytest.raises(batchstat.InputError, match="line 2: 'm' is a number where a list is"):
        profile(path, "m")


@pytest.mark.parametrize("values", [pa.array([[0.5]]), pa.array([["a"]]), pa.array([[[1]]])])
def test_a_column_of_another_type(tmp_path, values):
    pq.write_table(pa.table({"ids": [[1]], "m": values}), tmp_path / "a.parquet")
    with pytest.raises(batchstat.InputError, match="where a mask, labels, or a number of trained"):
        profile(tmp_path / "a.parquet", "m")


def test_nulls_in_columns(tmp_path):
    masks = pa.array([[1], None, [None, 1], [0, 1]])
    pq.write_table(
        pa.table({"ids": [[1], [1], [1, 2], [1, 2]], "m": masks}), tmp_path / "a.parquet"
    )
    found = profile(tmp_path / "a.parquet", "m", on_error="skip")
    assert found.records.tolist() == [0, 3]
    assert found.trained.counts().tolist() == [1, 1]


def test_a_column_that_is_not_there(run, tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    assert run("profile", "a.txt", "--trained-column", "m").returncode == 3
    (tmp_path / "a.csv").write_text("text,n\na,1\n")
    result = run("profile", "a.csv", "--trained-column", "m")
    assert result.returncode == 3
    assert "column 'm' not in a.csv (has: text, n): pass --trained-column" in result.stderr


def many(folder: Path) -> list[Path]:
    """Files of labels with several ranges."""
    rng = random.Random(0)
    paths = []
    for k in range(3):
        rows = []
        for _ in range(150):
            mask = [rng.random() < 0.5 for _ in range(rng.randint(1, 40))]
            rows.append({"ids": [5] * len(mask), "labels": [5 if m else -100 for m in mask]})
        paths.append(write_jsonl(folder / f"{k}.jsonl", rows))
    return paths


def masks_of(paths: list[Path]) -> list[list[bool]]:
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return [[label != -100 for label in json.loads(line)["labels"]] for line in lines]


@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_any_way_of_counting_finds_the_same(tmp_path, executor):
    paths = many(tmp_path)
    masks = masks_of(paths)
    for _ in range(2):  # the second time from the cache
        how = {"executor": executor, "workers": 1, "count_cache": tmp_path / "cache"}
        found = profile(paths, "labels", **how)
        assert found.trained.counts().tolist() == list(map(sum, masks))
        assert found.trained.counts(3, 9).tolist() == [sum(mask[3:9]) for mask in masks]
    for cut in found.truncation:
        left = [sum(mask[: cut.max_length]) for mask in masks]
        assert cut.trained_tokens == sum(map(sum, masks)) - sum(left)
        assert cut.untrained_samples == left.count(0)


def test_what_is_saved_is_loaded(run, tmp_path):
    paths = many(tmp_path)
    flags = ["--tokens-column", "ids", "--trained-column", "labels"]
    saved = run("profile", *paths, *flags, "--json", "--no-plots")
    report = json.loads(saved.stdout)
    masks = masks_of(paths)
    tokens = sum(map(len, masks))
    trained = sum(map(sum, masks))
    assert report["trained"] == {
        "tokens": trained,
        "share": trained / tokens,
        "untrained_samples": sum(not any(mask) for mask in masks),
    }
    from batchstat.profiling.parquet import read_file

    loaded = read_file(tmp_path / "batchstat-results" / "lengths.parquet")
    assert loaded.trained.counts(3, 9).tolist() == [sum(mask[3:9]) for mask in masks]


@in_turn(
    ("trained", "ranges"),
    [
        ([2], [[0, 1]]),
        ([1], [[0, 1, 2]]),
        ([1], [[1, 0]]),
        ([1], [[3, 4]]),
        ([1], [[-1, 0]]),
        ([0], [[1, 1]]),
        ([1], [None]),
        ([1], [[0, None]]),
    ],
)
def test_ranges_that_cannot_be(trained, ranges):
    from batchstat.profiling.parquet import _ranges

    block = pa.table(
        {
            "trained": pa.array(trained, pa.int64()),
            "trained_ranges": pa.array(ranges, pa.large_list(pa.int64())),
        }
    )
    with pytest.raises(ValueError, match="trained_ranges"):
        _ranges(block, "trained", np.array([3]), 0)


def test_the_screen_and_the_page(run, tmp_path):
    write_jsonl(tmp_path / "a.jsonl", ROWS)
    flags = ["--tokens-column", "ids", "--trained-column", "labels", "--no-plots"]
    shown = run("profile", "a.jsonl", *flags, "--html", "page.html")
    assert shown.returncode == 0, shown.stderr
    assert "trained  50.0% of the tokens carry loss · 2 samples with none" in shown.stdout
    assert "untrained" in shown.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "of the tokens carry loss" in page
    plain = run("profile", "a.jsonl", "--tokens-column", "ids", "--no-plots")
    assert "trained" not in plain.stdout
