"""What is counted beside plain text, each held against the tokenizer's own way of counting it."""

import json
import re
from functools import cache
from itertools import product
from typing import Any

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
from batchstat.documents.profile import profile_document
from batchstat.tokenization import builtin
from batchstat.tokenization.loading.load import load_tokenizer
from conftest import needs, two_words_definition, write_jsonl
from tables import in_pairs, in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

BACKEND = Backend.from_str(builtin.definition())
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
CHATS = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), WORDS),
    min_size=1,
    max_size=5,
)


def chatml(chat) -> str:
    return "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in chat)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("contents")


@pytest.mark.slow
@settings(max_examples=8)
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


@in_turn(
    ("chat", "message"),
    [
        ("text", "not a list of messages"),
        ([], "no message"),
        (["hi"], "message 0 is not an object"),
        (
            [{"role": "human", "content": "a"}],
            "unknown role 'human' .*with from and value as keys, human is user",
        ),
        ([{"content": "a"}], "unknown role None"),
        ([{"role": "user", "content": None}], "message 0 has no content"),
        ([{"role": "user", "content": 5}], "content that is not text"),
        ([{"role": "user", "content": [{"type": "image"}]}], "content that is not text"),
        ([{"from": "human"}], "message 0 has no content"),
    ],
)
def test_what_is_no_chat_is_said(chat, message):
    with pytest.raises(ChatError, match=message):
        as_chat(chat)


ODD = [
    [{"role": "critic", "content": "x y"}, {"role": "assistant"}],
    [{"role": "user", "content": [{"type": "text", "text": "a b"}, {"type": "text", "text": "c"}]}],
    [{"role": "human", "content": "a", "name": "ann"}, {"role": "assistant", "content": None}],
]
SETTINGS = [{}, {"enable_thinking": False}, {"enable_thinking": None}, {"note": "some words"}]
TOOLS = [None, [], [{"name": "f", "any": "shape"}], json.dumps([{"name": "g"}])]
EVERYTHING = """
{%- if tools is not none %}{{ tools | length }} tools {{ tools | tojson }}{% endif %}{{ note }}
{%- if enable_thinking is defined and not enable_thinking %}no thinking at all{% endif %}
{%- for m in messages %}[{{ m.role }}{{ m.name }}] {% if m.content is string %}{{ m.content }}
{%- else %}{% for part in m.content %}{{ part.text }}{{ part.type }}{% endfor %}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ enable_thinking }}:{% endif %}"""


@cache
def loaded() -> Any:
    return load_tokenizer(builtin.NAME).encoder.as_transformers()


def as_transformers(messages: list, tools: object, settings: dict, **more: object) -> list[int]:
    """The tokens of a chat, as transformers has them."""
    tools = json.loads(tools) if isinstance(tools, str) else tools
    found = loaded().apply_chat_template(
        messages, tools=tools, chat_template=EVERYTHING, return_dict=True, **settings, **more
    )
    return found["input_ids"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_template_gets_chats_as_they_are_written(tmp_path, kind):
    """Also where the datasets library writes objects of different fields, as JSON."""
    rows = [
        {"messages": messages, "tools": tools, "chat_template_kwargs": settings}
        for messages, tools, settings in product(ODD, TOOLS, SETTINGS)
    ]
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        write_jsonl(path, rows)
    else:
        texts = {
            "messages": [[*map(json.dumps, row["messages"])] for row in rows],
            "tools": [None if row["tools"] is None else json.dumps(row["tools"]) for row in rows],
            "chat_template_kwargs": [json.dumps(row["chat_template_kwargs"]) for row in rows],
        }
        kinds = [pa.list_(pa.json_()), pa.json_(), pa.json_()]
        arrays = map(pa.array, texts.values())
        columns = [each.cast(kind) for each, kind in zip(arrays, kinds, strict=True)]
        pq.write_table(pa.table(columns, [*texts]), path)
    (tmp_path / "t.jinja").write_text(EVERYTHING)
    options = {"chat_format": "openai", "chat_template": tmp_path / "t.jinja"}
    found = batchstat.profile(path, messages_column="messages", **options)
    expected = [
        len(as_transformers(row["messages"], row["tools"], row["chat_template_kwargs"]))
        for row in rows
    ]
    assert found.lengths.tolist() == expected
    assert len(set(expected)) > 5


def test_settings_change_the_prompt_that_a_completion_follows(tmp_path):
    rows = [
        {"prompt": ODD[0], "completion": ODD[1], "chat_template_kwargs": settings}
        for settings in SETTINGS
    ]
    (tmp_path / "t.jinja").write_text(EVERYTHING)
    found = batchstat.profile(
        write_jsonl(tmp_path / "a.jsonl", rows),
        prompt_column="prompt",
        completion_column="completion",
        chat_format="openai",
        chat_template=tmp_path / "t.jinja",
    )
    for row, length, trained in zip(rows, found.lengths, found.trained.counts(), strict=True):
        more = row["chat_template_kwargs"]
        prompt = as_transformers(row["prompt"], None, more, add_generation_prompt=True)
        whole = as_transformers(row["prompt"] + row["completion"], None, more)
        same = [a == b for a, b in zip(prompt, whole, strict=False)]
        shared = [*same, False].index(False)
        assert (length, trained) == (len(whole), len(whole) - shared)


@in_turn(
    ("record", "message"),
    [
        ({"chat_template_kwargs": None}, "'chat_template_kwargs' is None where an object is"),
        ({"chat_template_kwargs": "{}"}, "'chat_template_kwargs' is '{}' where an object is"),
        ({"chat_template_kwargs": {"tools": []}}, "has 'tools', which is for apply_chat_template"),
        ({"tools": {"name": "f"}}, "'tools' is {'name': 'f'} where a list of objects is expected"),
        ({"tools": "not JSON"}, "'tools' is 'not JSON' where a list of objects is expected"),
        (
            {"messages": [{"from": "human", "value": "a"}]},
            "message 0 has no role (has: from, value",
        ),
        ({"messages": [{"role": None, "content": "a"}]}, "message 0 has the role None, which is"),
    ],
)
def test_what_cannot_be_handed_on_is_said(tmp_path, record, message):
    chat = [{"role": "user", "content": "a"}]
    rows = [{"messages": chat, "chat_template_kwargs": {}, "tools": []}] * 2
    path = write_jsonl(tmp_path / "a.jsonl", [*rows, rows[0] | record])
    with pytest.raises(batchstat.InputError, match=f"line 3: .*{re.escape(message)}"):
        batchstat.profile(path, messages_column="messages", chat_format="openai")
    found = batchstat.profile(
        path, messages_column="messages", chat_format="openai", on_error="skip"
    )
    assert found.records.tolist() == [0, 1]


@pytest.mark.parametrize("settings", [None, "{}"])
def test_settings_beside_a_pair_of_texts_are_checked_too(tmp_path, settings):
    rows = [{"prompt": "a", "completion": "b", "chat_template_kwargs": {}}] * 2
    path = write_jsonl(tmp_path / "a.jsonl", [*rows, rows[0] | {"chat_template_kwargs": settings}])
    columns = {"prompt_column": "prompt", "completion_column": "completion"}
    with pytest.raises(batchstat.InputError, match="line 3: 'chat_template_kwargs' is"):
        batchstat.profile(path, **columns, chat_format="openai")
    assert len(batchstat.profile(path, **columns)) == 3


def test_without_a_format_settings_are_not_read(tmp_path):
    rows = [{"m": [{"role": "user", "content": "a"}], "chat_template_kwargs": None}]
    assert len(batchstat.profile(write_jsonl(tmp_path / "a.jsonl", rows), messages_column="m"))
    with pytest.raises(batchstat.OptionError, match="chat_format is for chats"):
        batchstat.CorpusOptions(text_column=("m",), chat_format="openai")


FUNCTION = {"name": "f", "arguments": "{}"}
CALLS = [{"tool_calls": [{"type": "function", "function": FUNCTION}]}, {"function_call": FUNCTION}]
TEMPLATES = {
    "prints": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
    "joins": "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}{% endfor %}",
    "asks": "{% for m in messages %}{% if m.content %}{{ m.content }}{% endif %}.{% endfor %}",
    "calls": "{% for m in messages %}{{ m.content or '' }}{{ m.tool_calls | default('') }}"
    "{% endfor %}",
}


@in_pairs(call=CALLS, content=[{}, {"content": ""}, {"content": "two words"}], name=TEMPLATES)
def test_calls_are_counted_as_transformers_renders_them(tmp_path, name, content, call):
    """Without them, where a template has no place for them; if it raises, its reason is said."""
    if not content and needs("transformers").__version__ < "5":
        pytest.skip("transformers 4 tells a missing content from an empty one")
    chat = [{"role": "user", "content": "land"}, {"role": "assistant", **content, **call}]
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": chat}])
    (tmp_path / "t.jinja").write_text(TEMPLATES[name])
    options = {"messages_column": "messages", "chat_template": tmp_path / "t.jinja"}
    loaded = load_tokenizer("builtin").encoder.as_transformers()
    try:
        expected = loaded.apply_chat_template(
            chat, chat_template=TEMPLATES[name], return_dict=False, tokenize=True
        )
    except Exception as error:
        reason = str(error)
        with pytest.raises(batchstat.InputError) as caught:
            batchstat.profile(path, **options)
        assert "message 1, which has no content" in str(caught.value)
        assert '"content": "", or pass' in str(caught.value)
        assert reason in str(caught.value)
        return
    profile = batchstat.profile(path, **options)
    assert profile.lengths.tolist() == [len(expected)]
    is_rendered = name == "calls" and "tool_calls" in call
    assert profile.corpus.left_out == ({} if is_rendered else {next(iter(call)): 1})


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


def test_a_tokenizer_without_a_template_is_said(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"m": [{"role": "user", "content": "a"}]}])
    (tmp_path / "tokenizer.json").write_text(two_words_definition())
    with pytest.raises(batchstat.InputError, match="has no chat template: pass chat_template=FILE"):
        batchstat.profile(path, messages_column="m", tokenizer=str(tmp_path / "tokenizer.json"))
    with pytest.raises(batchstat.OptionError, match="chat_template needs a messages_column"):
        batchstat.profile(path, chat_template="t.jinja")


@pytest.mark.slow
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
    profile = batchstat.profile(path, messages_column="messages", tokenizer=own)
    whole = own.apply_chat_template(chats, return_dict=False)
    assert profile.lengths.tolist() == [len(ids) for ids in whole]


@pytest.mark.slow
@settings(max_examples=8)
@given(pairs=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_a_pair_is_tokenized_as_a_pair(folder, pairs):
    rows = [{"a": "x" + a, "b": b} for a, b in pairs]
    path = write_jsonl(folder / "pairs.jsonl", rows)
    profile = batchstat.profile(path, text_column=["a", "b"])
    expected = [len(BACKEND.encode("x" + a, b).ids) for a, b in pairs]
    assert profile.lengths.tolist() == expected


def test_a_pair_is_blank_only_where_both_are(tmp_path):
    rows = [{"a": " ", "b": ""}, {"a": "x", "b": ""}, {"a": "", "b": "yy"}]
    path = write_jsonl(tmp_path / "pairs.jsonl", rows)
    assert batchstat.profile(path, text_column=["a", "b"]).records.tolist() == [1, 2]
    profile = batchstat.profile(path, text_column=["a", "b"], min_chars=2)
    assert profile.records.tolist() == [2]
    assert profile.corpus.skipped == {"blank": 1, "short": 1}


@settings(max_examples=8)
@given(ids=st.lists(st.lists(st.integers(0, 9), max_size=9), min_size=1, max_size=20))
def test_token_lists_are_counted_already(folder, ids):
    path = write_jsonl(folder / "ids.jsonl", [{"ids": each} for each in ids])
    pq.write_table(pa.table({"ids": pa.array(ids, pa.list_(pa.int32()))}), folder / "ids.parquet")
    for each in (path, folder / "ids.parquet"):
        profile = batchstat.profile(each, tokens_column="ids")
        assert profile.lengths.tolist() == [len(i) for i in ids]
        assert profile.tokenizer is None
        assert profile_document(profile)["tokenizer"] is None


def test_lengths_are_counted_already(tmp_path):
    np.save(tmp_path / "a.npy", np.array([3, 0, 10**9], dtype=np.uint32))
    (tmp_path / "a.csv").write_text("n\n3\n0\n1000000000\n")
    feather.write_feather(pa.table({"n": [3, 0, 10**9]}), tmp_path / "a.feather")
    assert batchstat.profile(tmp_path / "a.npy").lengths.tolist() == [3, 0, 10**9]
    for name in ("a.csv", "a.feather"):
        profile = batchstat.profile(tmp_path / name, length_column="n")
        assert profile.lengths.tolist() == [3, 0, 10**9]
        assert batchstat.compare(profile, max_length=10).samples == 3


def test_a_first_record_without_a_text_is_one_record(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": null, "id": 3}\n{"text": "a b", "id": 4}\n')
    with pytest.raises(batchstat.InputError, match="line 1: 'text' is null where text is expected"):
        batchstat.profile(tmp_path / "a.jsonl")
    assert batchstat.profile(tmp_path / "a.jsonl", on_error="skip").records.tolist() == [1]


def test_arrays_of_other_machines(tmp_path):
    np.save(tmp_path / "a.npy", np.array([3, 500], dtype=">i4"))
    assert batchstat.profile(tmp_path / "a.npy").lengths.tolist() == [3, 500]
    with pytest.raises(batchstat.OptionError, match="tokenizer is for texts, but a .npy file"):
        batchstat.profile(tmp_path / "a.npy", tokenizer="builtin")


@pytest.mark.slow
def test_a_profile_of_lengths_is_reused(run, tmp_path):
    np.save(tmp_path / "a.npy", np.array([3, 500]))
    assert "profile.json" in run("compare", "a.npy", "--no-plots").stderr
    assert "profile.json" not in run("compare", "a.npy", "--no-plots").stderr


@in_turn(
    ("name", "special", "lengths"),
    [("bert-base-cased", 3, [6, 4]), ("t5-base", 2, [5, 4]), ("gpt2", 0, [3, 2])],
)
def test_pairs_have_the_special_tokens_of_pairs(tmp_path, real_data, name, special, lengths):
    rows = [{"a": "one two", "b": "three"}, {"a": " ", "b": "x"}]
    path = write_jsonl(tmp_path / "pairs.jsonl", rows)
    tokenizer = str(real_data / "tokenizers" / name)
    made = batchstat.profile(path, text_column=["a", "b"], tokenizer=tokenizer)
    assert made.tokenizer.special_tokens_per_sample == special
    assert made.lengths.tolist() == lengths


def test_objects_that_hold_themselves_are_one_line():
    """Only in memory: a file has an end."""
    own: dict[str, object] = {"role": "user", "content": "a"}
    own["more"] = own
    frame = pd.DataFrame({"messages": [[own], 3]})  # a number keeps them objects of Python
    with pytest.raises(batchstat.InputError, match="column 'messages' is nested too deeply"):
        batchstat.profile(frame, messages_column="messages")
    with pytest.raises(batchstat.InputError, match="is an object where text is expected"):
        batchstat.profile(pd.DataFrame({"m": [own, 3]}), text_column="m.more.more")


def test_chats_that_are_nested_too_deeply_are_one_line(tmp_path):
    for depth in (900, 10_000):
        inside = "[" * depth + "]" * depth
        message = f'{{"role": "user", "content": "a", "more": {inside}}}'
        (tmp_path / "a.jsonl").write_text(f'{{"messages": [{message}]}}\n')
        with pytest.raises(batchstat.InputError, match="line 1: .*(nested too deeply|recursion)"):
            batchstat.profile(tmp_path / "a.jsonl", messages_column="messages")
