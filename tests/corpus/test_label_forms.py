"""What labels are: a class, several, 0 or 1 for each class; and the same from every format."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchstat
from batchstat.planning.classes import Classes
from conftest import write_jsonl

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")


def counted(corpus, **options) -> dict[str | None, int]:
    made = batchstat.profile(corpus, **{"label_column": "y", "text_column": "text"} | options)
    return {each.label: each.count for each in made.classes}


@given(
    st.integers(3, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1)
    ),
    st.sampled_from([int, float, bool]),
)
def test_lists_of_0_and_1_are_classes_by_position(rows, kind):
    """In a frame of lists or arrays, as JSON, as the texts that pandas writes, and as an array."""
    expected = {str(i): sum(column) for i, column in enumerate(zip(*rows, strict=True))}
    expected = {name: count for name, count in expected.items() if count}
    unlabelled = sum(not any(row) for row in rows)
    values = [[kind(one) for one in row] for row in rows]
    shapes = [values, [np.array(row) for row in values]]
    shapes += [[str(row) for row in values]] if kind is not bool else []
    for labels in shapes:
        frame = pd.DataFrame({"text": ["a"] * len(rows), "y": labels})
        found = counted(frame)
        assert found.pop(None, 0) == unlabelled
        assert found == expected
    if expected:
        classes = Classes.encode(np.array(values))
        assert classes.unlabelled_count == unlabelled
        assert set(classes.names) <= set(expected)


def test_lists_are_classes_by_position_in_every_split(tmp_path):
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    for i in range(3):
        write_jsonl(tmp_path / f"{i}.jsonl", [{"text": "a", "y": row} for row in rows])
    profile = batchstat.profile([tmp_path / f"{i}.jsonl" for i in range(3)], label_column="y")
    assert {c.label: c.count for c in profile.classes} == {"0": 6, "2": 6, "1": 3, None: 3}
    assert profile.corpus.label_form == "positions"
    assert profile.to_frame()["label"].tolist()[:4] == [["0"], ["1", "2"], [], ["0", "2"]]
    again = batchstat.read_samples(profile)
    assert [each["label"] for each in again[:4]] == [["0"], ["1", "2"], [], ["0", "2"]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([[27], [2, 5], [2]], {"27": 1, "2": 2, "5": 1}),  # numbers of classes
        (["27", "2,5", "2"], {"27": 1, "2": 2, "5": 1}),  # as in the files of GoEmotions
        (["a,b", "2,5"], {"a,b": 1, "2,5": 1}),  # names may have commas
        ([[1], [0], [1]], {"1": 2, "0": 1}),
        (["['x', 'y']", "['x']"], {"x": 2, "y": 1}),  # as pandas writes lists to CSV
        ([["x"], "x"], {"x": 2}),
    ],
)
def test_other_lists_hold_classes(tmp_path, labels, expected):
    write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "y": label} for label in labels])
    assert counted(tmp_path / "a.jsonl") == expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0.1, 0.9], [0.5, 0.5]], "lists such as '0.1, 0.9', which name no classes"),
        ([[1, 0, 1], [0, 1]], "lists of 0 and 1 of several lengths"),
    ],
)
def test_lists_that_are_no_labels(tmp_path, labels, message):
    write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "y": label} for label in labels])
    with pytest.raises(batchstat.InputError, match=message):
        counted(tmp_path / "a.jsonl")


def test_names_of_a_feature(tmp_path):
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["joy", "anger", "fear"])
    rows = {"text": ["a", "b", "c"], "y": [[0, 2], [1], []]}
    features = datasets.Features({"text": datasets.Value("string"), "y": datasets.List(names)})
    data = datasets.Dataset.from_dict(rows, features=features)
    expected = {"joy": 1, "fear": 1, "anger": 1, None: 1}
    assert counted(data) == expected
    data.to_parquet(tmp_path / "a.parquet")
    assert counted(tmp_path / "a.parquet") == expected
    by_position = {"text": ["a", "b"], "y": [[1, 0, 1], [0, 0, 1]]}
    data = datasets.Dataset.from_dict(by_position, features=features)
    assert counted(data) == {"joy": 1, "fear": 2}


def test_several_label_columns_are_a_class_each(run, tmp_path):
    (tmp_path / "j.csv").write_text(
        "text,toxic,obscene\nyou fool,1,0\nhi there,0,0\nbad words,1,1\nbye now,0,\n"
    )
    frame = pd.read_csv(tmp_path / "j.csv")
    frame.to_parquet(tmp_path / "j.parquet")
    frame.to_json(tmp_path / "j.jsonl", orient="records", lines=True)
    for corpus in (tmp_path / "j.csv", tmp_path / "j.parquet", tmp_path / "j.jsonl", frame):
        found = counted(corpus, label_column=["toxic", "obscene"])
        assert found == {"toxic": 2, "obscene": 1, None: 2}
    flags = ["--label-column", "toxic", "--label-column", "obscene"]
    result = run("profile", tmp_path / "j.csv", *flags)
    assert "labels from toxic, obscene (0 and 1 each)" in " ".join(result.stdout.split())
    (tmp_path / "k.csv").write_text("text,a,b\nx,1,2\n")
    with pytest.raises(batchstat.InputError, match="label 'b' is '2' where 0 or 1 is expected"):
        counted(tmp_path / "k.csv", label_column=("a", "b"))


@given(st.lists(st.none() | st.integers(-3, 3) | st.booleans(), min_size=1, max_size=8))
def test_a_frame_has_the_same_classes_from_every_format(tmp_path_factory, labels):
    """Whatever pandas makes of the column: integers, floats for the sake of a missing one, or
    objects.
    """
    folder = tmp_path_factory.mktemp("frames")
    kinds = {bool} if all(isinstance(each, bool | None) for each in labels) else {int}
    labels = [each if each is None else next(iter(kinds))(each) for each in labels]
    frame = pd.DataFrame({"text": [f"t{i}" for i in range(len(labels))], "y": labels})
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_csv(folder / "a.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "a.parquet")
    rows = json.loads(frame.to_json(orient="records"))
    write_jsonl(folder / "a.jsonl", rows)
    names = ("a.csv", "a.tsv", "a.parquet", "a.jsonl")
    first, *others = [counted(folder / name) for name in names] + [counted(frame)]
    assert all(each == first for each in others)


def test_an_empty_label_is_none(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "y": ""}, {"text": "b", "y": "x"}])
    frame = pd.read_json(tmp_path / "a.jsonl", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    for corpus in (tmp_path / "a.jsonl", tmp_path / "a.parquet", frame):
        assert counted(corpus) == {None: 1, "x": 1}
