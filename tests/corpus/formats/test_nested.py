"""Samples and columns inside of the objects and lists of JSON, Parquet and tables in memory."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchstat
from conftest import write_jsonl

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": f"title {i}",
            "paragraphs": [
                {
                    "context": f"context {i} {j}",
                    "qas": [{"id": f"{i}{j}{k}", "question": f"q {i} {j} {k}"} for k in range(j)],
                }
                for j in range(3)
            ],
        }
        for i in range(2)
    ],
}


def texts_of(path, **options) -> list[str]:
    profile = batchstat.profile(path, **options)
    return [sample["text"] for sample in batchstat.read_samples(profile)]


def written(path, value, **how):
    path.write_text(json.dumps(value, **how))
    return path


@pytest.mark.parametrize("indent", [None, 1])
def test_records_inside_of_lists_have_the_columns_around_them(tmp_path, indent):
    path = written(tmp_path / "squad.json", SQUAD, indent=indent)
    found = texts_of(path, records="data[].paragraphs[].qas[]", text_column=["question", "context"])
    expected = [
        [qa["question"], paragraph["context"]]
        for article in SQUAD["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]
    assert list(map(list, found)) == expected
    assert texts_of(path, records="data", text_column="title") == ["title 0", "title 1"]


PATHS = st.lists(st.sampled_from(["a", "b", "[]"]), min_size=1, max_size=5)


@given(
    steps=PATHS.filter(lambda steps: any(step != "[]" for step in steps)),
    texts=st.lists(st.text("xyz", min_size=1), min_size=1, max_size=4),
    is_first=st.booleans(),
)
def test_any_path_is_read_as_a_plain_loop_reads_it(tmp_path_factory, steps, texts, is_first):
    """Built from the inside: each step wraps what it leads to, beside other keys."""
    value: object = [{"text": text, "own": "0"} for text in texts]
    for step in reversed(steps):
        other = {"other": [{"deep": ["]", "}"]}], "also": 'a "quote" \\'}
        if step == "[]":
            value = [value]
        else:
            value = {step: value, **other} if is_first else {**other, step: value}
    file = written(tmp_path_factory.mktemp("paths") / "a.json", value)
    # A key has a dot before it; the list at the end needs no brackets behind a key.
    dotted = "".join(f".{step}" if step != "[]" and at else step for at, step in enumerate(steps))
    dotted += "[]" if steps[-1] == "[]" else ""
    found = texts_of(file, records=dotted, text_column="text")
    assert found == texts
    line = file.with_suffix(".jsonl")
    line.write_text(f"{json.dumps(value)}\n" * 2)
    if steps[0] != "[]":
        assert texts_of(line, records=dotted, text_column="text") == texts * 2


def test_lists_and_texts_are_records(tmp_path):
    path = written(tmp_path / "a.json", [["one two", 1], ["three", 0]])
    profile = batchstat.profile(path, text_column="0", label_column="1")
    assert [c.label for c in profile.classes] == ["1", "0"]
    assert texts_of(path, text_column="0") == ["one two", "three"]
    assert texts_of(written(tmp_path / "b.json", ["x", "y"])) == ["x", "y"]
    (tmp_path / "c.jsonl").write_text('["x", 1]\n["y", 2]\n')
    assert texts_of(tmp_path / "c.jsonl", text_column="0") == ["x", "y"]


@given(st.lists(st.tuples(st.text("ab", min_size=1), st.integers(0, 3)), min_size=1, max_size=5))
def test_tables_as_pandas_writes_them(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("pandas")
    frame = pd.DataFrame(rows, columns=["text", "label"])
    expected = frame["text"].tolist()
    read = {
        "columns": {},
        "records": {},
        "split": {"records": "data", "text_column": "0"},
        "table": {"records": "data", "text_column": "text"},
        "values": {"text_column": "0"},
        "index": {"records": "[]", "text_column": "text"},
    }
    for orient, options in read.items():
        frame.to_json(folder / f"{orient}.json", orient=orient)
        assert texts_of(folder / f"{orient}.json", **options) == expected
        marked = f"\ufeff {frame.to_json(orient=orient)}\n"  # with a byte-order mark
        (folder / "marked.json").write_text(marked, encoding="utf-8")
        assert texts_of(folder / "marked.json", **options) == expected


def test_columns_inside_of_objects(tmp_path):
    rows = [
        {
            "id": i,
            "data": {"text": f"t {i}", "more": [{"x": f"x {i}"}]},
            "kind": {"name": f"k{i % 2}"},
        }
        for i in range(4)
    ]
    expected = [row["data"]["text"] for row in rows]
    write_jsonl(tmp_path / "a.jsonl", rows)
    written(tmp_path / "a.json", rows)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "a.parquet")
    files = [tmp_path / name for name in ("a.jsonl", "a.json", "a.parquet")]
    options = {"text_column": "data.text", "label_column": "kind.name"}
    for corpus in (*files, pd.DataFrame(rows)):
        profile = batchstat.profile(corpus, **options)
        assert {c.label: c.count for c in profile.classes} == {"k0": 2, "k1": 2}
        assert profile.lengths.tolist() == batchstat.token_lengths(expected).tolist()
    for path in files:
        assert texts_of(path, text_column="data.text") == expected
        with pytest.raises(batchstat.InputError, match=r'pass text_column="data\.text"'):
            batchstat.profile(path)
        with pytest.raises(batchstat.InputError, match=r"'data\.other'|data\.other"):
            batchstat.profile(path, text_column="data.other")
    assert texts_of(tmp_path / "a.json", text_column="data.more.0.x") == [
        f"x {i}" for i in range(4)
    ]


def test_fields_of_null_structs_are_null(tmp_path):
    table = pa.Table.from_pylist([{"data": {"text": "x"}}, {"data": None}])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(batchstat.InputError, match="null where text is expected"):
        batchstat.profile(tmp_path / "a.parquet", text_column="data.text")
    profile = batchstat.profile(tmp_path / "a.parquet", text_column="data.text", on_error="skip")
    assert profile.records.tolist() == [0]


def test_objects_of_many_keys(tmp_path):
    value = {f"k{i}": i for i in range(100_000)}
    with pytest.raises(batchstat.InputError, match="99980 more|99,980 more"):
        batchstat.profile(written(tmp_path / "a.json", value))
    text = json.dumps(value)[:-1] + ', "k99999": 0}'
    (tmp_path / "b.jsonl").write_text(text + "\n")
    with pytest.raises(batchstat.InputError, match="key 'k99999' appears 2 times"):
        batchstat.profile(tmp_path / "b.jsonl", text_column="k0")
