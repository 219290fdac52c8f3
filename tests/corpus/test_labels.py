"""Labels of every kind, and tables in memory, which bring theirs along."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import batchstat
from conftest import write_jsonl

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")


def test_a_list_of_labels_counts_in_each_of_its_classes(tmp_path):
    rows = [("a", ["x", "y"]), ("b b", "x"), ("c c c", []), ("d d d d", None), ("e", [1, True])]
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": t, "y": y} for t, y in rows])
    profile = batchstat.profile(path, label_column="y")
    found = {c.label: (c.count, c.tokens, c.share) for c in profile.classes}
    assert found == {
        "x": (2, 1 + 2, 0.4),
        "y": (1, 1, 0.2),
        None: (2, 3 + 4, 0.4),
        "1": (1, 1, 0.2),
        "true": (1, 1, 0.2),
    }
    assert profile.lengths_of("x").tolist() == [1, 2]
    assert profile.to_frame()["label"].tolist() == [["x", "y"], ["x"], [], [], ["1", "true"]]


def test_labels_that_become_lists_half_way(tmp_path):
    rows = [{"text": "a", "y": "x"}] * 3
    write_jsonl(tmp_path / "a.jsonl", rows)
    write_jsonl(tmp_path / "b.jsonl", [{"text": "b", "y": ["x", "z"]}])
    profile = batchstat.profile([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], label_column="y")
    assert {c.label: c.count for c in profile.classes} == {"x": 4, "z": 1}


@pytest.mark.parametrize("kind", [pa.int64(), pa.bool_(), pa.string(), pa.list_(pa.string())])
def test_labels_of_any_column(tmp_path, kind):
    values = {pa.int64(): [1, None], pa.bool_(): [True, None], pa.string(): ["p", None]}
    labels = values.get(kind, [["p", "q"], None])
    table = pa.table({"text": ["a", "b"], "y": pa.array(labels, kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    profile = batchstat.profile(tmp_path / "a.parquet", label_column="y")
    found = {c.label for c in profile.classes}
    assert None in found
    assert len(found) == (3 if pa.types.is_list(kind) else 2)


def counted(path, **options) -> dict[str | None, int]:
    made = batchstat.profile(path, label_column="y", **options)
    return {each.label: each.count for each in made.classes}


def test_a_label_twice_in_a_list_counts_once(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "y": ["x", "x", "z"]}\n')
    assert counted(tmp_path / "a.jsonl") == {"x": 1, "z": 1}
    pq.write_table(pa.table({"text": ["a"], "y": [["x", "x", "z"]]}), tmp_path / "a.parquet")
    assert counted(tmp_path / "a.parquet") == {"x": 1, "z": 1}


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("rows", [[{}, {"y": "p"}], [{"y": "p"}, {}]])
def test_a_missing_label_is_a_class_of_its_own(tmp_path, name, rows):
    lines = [json.dumps({"text": "a", **row}) for row in rows]
    text = "\n".join(lines) if name == "a.jsonl" else f"[{','.join(lines)}]"
    (tmp_path / name).write_text(text)
    assert counted(tmp_path / name) == {None: 1, "p": 1}
    with pytest.raises(batchstat.InputError, match="no record of .* has column 'z'"):
        batchstat.profile(tmp_path / name, label_column="z")


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([b"\xff", b"a"]),
        pa.array([[b"a"], None]),
        pa.array([{"a": 1}, None]),
        pa.array([[["a"]], None]),
    ],
)
def test_columns_that_are_no_labels(tmp_path, labels):
    pq.write_table(pa.table({"text": ["a", "b"], "y": labels}), tmp_path / "a.parquet")
    with pytest.raises(batchstat.InputError, match="where a label is expected: text, a number"):
        batchstat.profile(tmp_path / "a.parquet", label_column="y")


def test_half_a_surrogate_in_a_list_of_labels(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "y": ["\\ud800"]}\n')
    with pytest.raises(batchstat.InputError, match="line 1: label 'y' contains half a surrogate"):
        batchstat.profile(tmp_path / "a.jsonl", label_column="y")


FRAME = {"body": ["a b c", "d", " "], "text": ["x", "y z", "w"], "y": ["p", "q", "p"]}


def test_a_data_frame_is_a_corpus():
    profile = batchstat.profile(pd.DataFrame(FRAME), label_column="y")
    assert profile.lengths.tolist() == [1, 2, 1]
    assert [(c.label, c.count) for c in profile.classes] == [("p", 2), ("q", 1)]
    other = batchstat.profile(pd.DataFrame(FRAME), text_column="body")
    assert other.records.tolist() == [0, 1]
    assert other.corpus.sources[0].path == "DataFrame"
    again = batchstat.profile(pd.DataFrame(FRAME), text_column="body")
    assert again.corpus.sources == other.corpus.sources
    with pytest.raises(batchstat.InputError, match="record 1: 'text' is null"):
        batchstat.profile(pd.DataFrame({"text": ["a", None]}))


def test_a_dataset_is_a_corpus(tmp_path):
    import datasets

    dataset = datasets.Dataset.from_dict(FRAME)
    assert batchstat.profile(dataset).lengths.tolist() == [1, 2, 1]
    reordered = dataset.select([1, 0])
    assert batchstat.profile(reordered, label_column="y").lengths.tolist() == [2, 1]
    ids = dataset.map(lambda row: {"input_ids": list(range(len(row["text"])))})
    assert batchstat.profile(ids, tokens_column="input_ids").lengths.tolist() == [1, 3, 1]
    dataset.save_to_disk(tmp_path / "saved")
    saved = batchstat.profile(tmp_path / "saved", label_column="y")
    assert saved.lengths.tolist() == [1, 2, 1]
    datasets.DatasetDict({"train": dataset}).save_to_disk(tmp_path / "splits")
    with pytest.raises(batchstat.InputError, match="several splits: name one of them: train"):
        batchstat.profile(tmp_path / "splits")
    assert batchstat.profile(tmp_path / "splits" / "train").records.tolist() == [0, 1, 2]


def test_anything_else_is_no_corpus():
    with pytest.raises(batchstat.OptionError, match="unsupported corpus type int"):
        batchstat.profile(5)


def test_class_labels_have_their_names(tmp_path):
    import datasets

    features = datasets.Features(
        {"text": datasets.Value("string"), "y": datasets.ClassLabel(names=["neg", "pos"])}
    )
    rows = {"text": ["a", "b", "c"], "y": [1, 0, -1]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    dataset.save_to_disk(tmp_path / "saved")
    dataset.to_parquet(tmp_path / "a.parquet")
    stream = dataset.to_iterable_dataset()
    for corpus in (dataset, stream, tmp_path / "saved", tmp_path / "a.parquet"):
        assert counted(corpus) == {"pos": 1, "neg": 1, None: 1}


def test_splits_and_streams_of_the_datasets_library():
    import datasets

    dataset = datasets.Dataset.from_dict(FRAME)
    with pytest.raises(batchstat.OptionError, match="several splits: pass one: train"):
        batchstat.profile(datasets.DatasetDict({"train": dataset}))
    stream = datasets.IterableDataset.from_generator(lambda: iter([{"text": "a b"}, {"text": "c"}]))
    assert batchstat.profile(stream).lengths.tolist() == [2, 1]


def test_only_the_wanted_columns_of_a_frame_matter():
    mixed = pd.DataFrame({"text": ["a", "b"], "x": [1, "q"]})
    assert len(batchstat.profile(mixed)) == 2
    frame = pd.DataFrame([["a", 1, 2]], columns=["text", "n", "n"])
    assert len(batchstat.profile(frame)) == 1
    with pytest.raises(batchstat.InputError, match="column 'n' appears 2 times"):
        batchstat.profile(frame, length_column="n")
    some = pd.DataFrame({"text": [None, 5, "a", np.nan]})
    made = batchstat.profile(some, on_error="skip")
    assert made.records.tolist() == [2]
    assert made.corpus.skipped["wrong_type"] == 3
    none = pd.DataFrame({"text": [None] * 10_000 + ["a"]})
    assert batchstat.profile(none, on_error="skip").records.tolist() == [10_000]
    assert len(batchstat.profile(pd.DataFrame({0: ["a", "b"]}), text_column=0)) == 2
