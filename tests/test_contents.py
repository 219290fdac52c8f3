"""What is counted beside plain text, each held against the tokenizer's own way of counting it."""

import json

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from tokenizers import Tokenizer as Backend

import batchstat
from batchstat.corpus.chat import ChatError, as_chat
from batchstat.render.json import profile_json
from batchstat.tokens import builtin

BACKEND = Backend.from_str(builtin.definition())
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
CHATS = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), WORDS),
    min_size=1,
    max_size=5,
)


def write_jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def chatml(chat) -> str:
    return "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in chat)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("contents")


@settings(max_examples=25)
@given(chats=st.lists(CHATS, min_size=1, max_size=6))
def test_chats_are_counted_through_the_builtin_chatml(folder, chats):
    openai = [[{"role": r, "content": c} for r, c in chat] for chat in chats]
    path = write_jsonl(folder / "chats.jsonl", [{"messages": chat} for chat in openai])
    profile = batchstat.profile(path, messages_column="messages")
    expected = [len(BACKEND.encode(chatml(chat)).ids) for chat in chats]
    assert profile.lengths.tolist() == expected
    table = pa.table({"messages": openai})
    pq.write_table(table, folder / "chats.parquet")
    columnar = batchstat.profile(folder / "chats.parquet", messages_column="messages")
    assert columnar.lengths.tolist() == expected


def test_sharegpt_is_the_same_chat():
    ours = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]
    theirs = [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "c"}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "a b"}]}, ours[1]]
    assert as_chat(theirs) == as_chat(ours) == as_chat(parts) == ours


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        ("text", "no list of messages"),
        (None, "no list of messages"),
        ([], "no message"),
        (["hi"], "message 0 is no object"),
        (
            [{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}],
            "unknown role 'wizard'",
        ),
        ([{"content": "a"}], "unknown role None"),
        ([{"role": "user"}], "message 0 has no content"),
        ([{"role": "user", "content": None}], "message 0 has no content"),
        ([{"role": "user", "content": 5}], "content that is no text"),
        ([{"role": "user", "content": [{"type": "image"}]}], "content that is no text"),
        ([{"from": "human"}], "message 0 has no content"),
    ],
)
def test_what_is_no_chat_is_said(chat, message):
    with pytest.raises(ChatError, match=message):
        as_chat(chat)


CALL = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}


def test_a_tool_call_needs_a_template_with_a_place_for_it(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": [CALL]}])
    with pytest.raises(batchstat.InputError, match="line 1: .* a tool call, and the chat template"):
        batchstat.profile(path, messages_column="messages")
    template = tmp_path / "template.jinja"
    template.write_text("{% for m in messages %}{{ m.tool_calls[0].function.name }}{% endfor %}")
    profile = batchstat.profile(path, messages_column="messages", chat_template=template)
    assert profile.lengths.tolist() == [1]


def test_a_template_that_raises_names_the_record(tmp_path):
    template = tmp_path / "template.jinja"
    template.write_text("{% if messages|length > 1 %}{{ raise_exception('one only') }}{% endif %}x")
    one, two = [{"role": "user", "content": "a"}], [{"role": "user", "content": "a"}] * 2
    path = write_jsonl(tmp_path / "a.jsonl", [{"m": one}, {"m": two}, {"m": one}])
    options = {"messages_column": "m", "chat_template": template}
    with pytest.raises(batchstat.InputError, match=r"a.jsonl, line 2: .* one only"):
        batchstat.profile(path, **options)
    profile = batchstat.profile(path, **options, on_error="skip")
    assert profile.records.tolist() == [0, 2]
    assert profile.corpus.skipped["not_counted"] == 1


def test_the_template_is_part_of_the_digest(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"m": [{"role": "user", "content": "a"}]}])
    (tmp_path / "t.jinja").write_text("x")
    options = [{}, {"chat_template": tmp_path / "t.jinja"}]
    digests = {batchstat.profile(path, messages_column="m", **o).tokenizer.digest for o in options}
    (tmp_path / "a.txt").write_text("a\n")
    digests.add(batchstat.profile(tmp_path / "a.txt").tokenizer.digest)
    assert len(digests) == 3


def test_a_tokenizer_without_a_template_is_said(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"m": [{"role": "user", "content": "a"}]}])
    (tmp_path / "tokenizer.json").write_text(builtin.definition())
    with pytest.raises(batchstat.InputError, match="has no chat template: pass --chat-template"):
        batchstat.profile(path, messages_column="m", tokenizer=str(tmp_path / "tokenizer.json"))
    with pytest.raises(batchstat.OptionError, match="chat_template is for a messages_column"):
        batchstat.profile(path, chat_template="t.jinja")
    with pytest.raises(batchstat.InputError, match="nowhere.jinja cannot be read"):
        batchstat.profile(path, messages_column="m", chat_template="nowhere.jinja")


def test_chats_of_a_real_tokenizer_are_counted_as_it_does(real_data, tmp_path):
    from transformers import AutoTokenizer

    own = AutoTokenizer.from_pretrained(real_data / "tokenizers" / "qwen2")
    with (real_data / "gsm8k.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:500]
    chats = [
        [{"role": "user", "content": r["question"]}, {"role": "assistant", "content": r["answer"]}]
        for r in rows
    ]
    path = write_jsonl(tmp_path / "chats.jsonl", [{"messages": chat} for chat in chats])
    tokenizer = str(real_data / "tokenizers" / "qwen2")
    profile = batchstat.profile(path, messages_column="messages", tokenizer=tokenizer)
    for i in (0, 1, 250, 499):
        assert profile.lengths[i] == len(own.apply_chat_template(chats[i], return_dict=False))
    whole = own.apply_chat_template(chats, return_dict=False)
    assert profile.lengths.tolist() == [len(ids) for ids in whole]


@settings(max_examples=25)
@given(pairs=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_a_pair_is_tokenized_as_a_pair(folder, pairs):
    rows = [{"a": "x" + a, "b": b} for a, b in pairs]
    path = write_jsonl(folder / "pairs.jsonl", rows)
    profile = batchstat.profile(path, text_column=["a", "b"])
    expected = [len(BACKEND.encode("x" + a, b).ids) for a, b in pairs]
    assert profile.lengths.tolist() == expected


def test_pairs_have_the_special_tokens_of_pairs(real_data, tmp_path):
    path = write_jsonl(
        tmp_path / "pairs.jsonl", [{"a": "one two", "b": "three"}, {"a": " ", "b": "x"}]
    )
    bert = str(real_data / "tokenizers" / "bert-base-cased")
    profile = batchstat.profile(path, text_column=["a", "b"], tokenizer=bert)
    assert profile.lengths.tolist() == [6, 4]


def test_a_pair_is_blank_only_where_both_are(tmp_path):
    rows = [{"a": " ", "b": ""}, {"a": "x", "b": ""}, {"a": "", "b": "yy"}]
    path = write_jsonl(tmp_path / "pairs.jsonl", rows)
    assert batchstat.profile(path, text_column=["a", "b"]).records.tolist() == [1, 2]
    profile = batchstat.profile(path, text_column=["a", "b"], min_chars=2)
    assert profile.records.tolist() == [2]
    assert profile.corpus.skipped == {"blank": 1, "short": 1}


@settings(max_examples=25)
@given(ids=st.lists(st.lists(st.integers(0, 9), max_size=9), min_size=1, max_size=20))
def test_token_lists_are_counted_already(folder, ids):
    path = write_jsonl(folder / "ids.jsonl", [{"ids": each} for each in ids])
    pq.write_table(pa.table({"ids": pa.array(ids, pa.list_(pa.int32()))}), folder / "ids.parquet")
    for each in (path, folder / "ids.parquet"):
        profile = batchstat.profile(each, tokens_column="ids")
        assert profile.lengths.tolist() == [len(i) for i in ids]
        assert profile.tokenizer is None
        assert profile_json(profile)["tokenizer"] is None


def test_lengths_are_counted_already(tmp_path):
    np.save(tmp_path / "a.npy", np.array([3, 0, 10**9], dtype=np.uint32))
    (tmp_path / "a.csv").write_text("n\n3\n0\n1000000000\n")
    feather.write_feather(pa.table({"n": [3, 0, 10**9]}), tmp_path / "a.feather")
    assert batchstat.profile(tmp_path / "a.npy").lengths.tolist() == [3, 0, 10**9]
    for name in ("a.csv", "a.feather"):
        profile = batchstat.profile(tmp_path / name, length_column="n")
        assert profile.lengths.tolist() == [3, 0, 10**9]
        assert batchstat.compare(profile, max_length=10).samples == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1, 2_000_000_000],
            "record 1: 'length' is 2000000000: must be between 0 and 1,000,000,000",
        ),
        ([-1], "record 0: 'length' is -1"),
        ([1.5], "float64 of shape"),
        ([[1], [2]], "int64 of shape"),
    ],
)
def test_lengths_that_are_none(tmp_path, values, message):
    np.save(tmp_path / "a.npy", np.array(values))
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.profile(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens_column": "a", "length_column": "b"}, "tokens_column and length_column exclude"),
        ({"text_column": ["a", "b", "c"]}, "given 3 times"),
        ({"length_column": "a", "strip": True}, "strip and min_chars are for texts"),
        (
            {"length_column": "a", "tokenizer": "builtin"},
            "counted already, leave the tokenizer out",
        ),
        ({"on_error": "ignore"}, "unknown on_error 'ignore'"),
        ({"input_format": "xml"}, "unknown input_format 'xml'"),
    ],
)
def test_options_that_exclude_each_other(tmp_path, options, message):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.profile(tmp_path / "a.csv", **options)


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
    with pytest.raises(batchstat.OptionError, match="a corpus of type int"):
        batchstat.profile(5)
