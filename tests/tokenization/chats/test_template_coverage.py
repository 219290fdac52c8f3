"""What a chat template leaves out of a chat: reported, and never counted."""

import json

import pytest

import batchstat
from batchstat.corpus.chat import NO_INPUTS, TemplateInputs, inputs_from_tools
from batchstat.documents.profile import profile_document
from batchstat.tokenization import builtin
from batchstat.tokenization.chats.template_coverage import TemplateCoverage
from conftest import write_jsonl
from tables import in_turn

WORDS = "tool output " * 250
USER, ANSWER = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}
TOOL = {"role": "tool", "content": WORDS}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "of a town"}}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": "b"}}}],
}

QWEN2 = (
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% for m in messages %}{% if m.role in ('user', 'assistant') %}{{ m.content }}"
    "{% endif %}{% endfor %}"
)
EVERYTHING = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: "
    "{{ m.reasoning_content }}{{ m.content | trim | tojson }}{{ m.function_call }}"
    "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}"
)
NO_THOUGHTS = "{% for m in messages %}{{ m.content.split('</think>')[-1] | upper }}{% endfor %}"
CALLED = (
    "{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% endif %}"
    "{{ m.content }}{% endfor %}"
)
RAISES = "{% for m in messages %}{{ raise_exception('no') if 'zq' in m.content }}x{% endfor %}"


def left_out(tmp_path, template, messages, **record):
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": messages, **record}])
    (tmp_path / "t.jinja").write_text(template)
    options = {"messages_column": "messages", "chat_template": tmp_path / "t.jinja"}
    profile = batchstat.profile(path, **options)
    assert profile_document(profile)["corpus"]["left_out"] == profile.corpus.left_out
    return profile.corpus.left_out


THINKS = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nok"}
EXPECTED = [
    (QWEN2, [USER, ANSWER], {}),
    (QWEN2, [USER, TOOL, ANSWER], {"tool_messages": 1}),
    (
        QWEN2,
        [USER, {"role": "tool", "content": "4"}, {"role": "user", "content": "4"}],
        {"tool_messages": 1},
    ),
    (QWEN2, [USER, {"role": "tool", "content": " "}], {}),
    (QWEN2, [{"role": "system", "content": "s"}, USER, ANSWER], {}),
    (QWEN2, [USER, {"role": "system", "content": "s"}, ANSWER], {"system_messages": 1}),
    (QWEN2, [USER, ANSWER | {"reasoning_content": "hm"}], {"reasoning": 1}),
    (QWEN2, [USER, ANSWER | {"thinking": "hm"}], {"reasoning": 1}),
    (QWEN2, [USER, ANSWER | {"function_call": {"name": "f"}}], {"function_call": 1}),
    (QWEN2, [USER, THINKS], {}),
    (EVERYTHING, [USER, TOOL, CALL, ANSWER | {"reasoning_content": "hm"}], {}),
    (EVERYTHING, [USER, ANSWER | {"function_call": {"name": "f", "arguments": "{}"}}], {}),
    (EVERYTHING, [USER, {"role": "tool", "content": '"quoted"\n<&>'}], {}),
    (NO_THOUGHTS, [USER, THINKS], {"reasoning": 1}),
    (NO_THOUGHTS, [{"role": "user", "content": "\u00e9 \u00df lower"}], {}),
    (CALLED, [USER, CALL], {"tool_calls": 1}),
    (RAISES, [USER, TOOL], {}),
]


@in_turn(("template", "messages", "expected"), EXPECTED)
def test_what_is_left_out_is_said(tmp_path, template, messages, expected):
    assert left_out(tmp_path, template, messages) == expected


def test_every_chat_is_counted_and_each_kind_is_rendered_once():
    rendered = []

    def render(messages, _):
        rendered.append(messages)
        return " ".join(each["content"] for each in messages if each["role"] != "tool")

    places = TemplateCoverage(render)
    for number in range(50):
        assert places.left_out([USER | {"content": str(number)}, TOOL], NO_INPUTS) == {
            "tool_messages"
        }
    assert places.left_out([USER], NO_INPUTS) == set()
    assert len(rendered) == 2


@in_turn(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ([], None),
        ([WEATHER], [WEATHER]),
        (json.dumps([WEATHER]), [WEATHER]),
        ("not JSON", ...),
        (5, ...),
        ([{"name": "weather"}], [{"name": "weather"}]),
        ([{"type": "function", "function": {}}], [{"type": "function", "function": {}}]),
        (json.dumps([{"name": "f", "parameters": {}}]), [{"name": "f", "parameters": {}}]),
        ([WEATHER, "f"], ...),
        ("[" * 100_000, ...),
    ],
)
def test_tools_are_objects_of_any_shape(value, expected):
    given = inputs_from_tools(value)
    assert given == TemplateInputs(None if expected is ... else expected, expected is ...)


def test_tools_are_handed_to_the_template(tmp_path):
    given = ([WEATHER], json.dumps([WEATHER]), [WEATHER["function"]], None)
    rows = [{"messages": [USER], "tools": tools} for tools in given]
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": [USER]}, *rows])
    (tmp_path / "t.jinja").write_text(
        "{% if tools and 'function' in tools[0] %}{{ tools[0].function.description }}{% endif %}"
        "{{ messages[0].content }}"
    )
    options = {"messages_column": "messages", "chat_template": tmp_path / "t.jinja"}
    profile = batchstat.profile(path, **options)
    [plain, listed, as_text, other, none] = profile.lengths.tolist()
    assert plain == other == none < listed == as_text  # the template asks for another shape
    assert profile.corpus.left_out == {"tools": 1}
    (tmp_path / "t.jinja").write_text("{{ tools | tojson }}{{ messages[0].content }}")
    profile = batchstat.profile(path, **options)
    assert profile.corpus.left_out == {}
    [plain, listed, as_text, other, none] = profile.lengths.tolist()
    assert plain == none < other < listed == as_text
    (tmp_path / "t.jinja").write_text("{{ messages[0].content }}")
    assert batchstat.profile(path, **options).corpus.left_out == {"tools": 3}


def test_tools_have_a_template_of_their_own_where_a_tokenizer_has_one(tmp_path):
    named = [{"name": "default", "template": "x"}, {"name": "tool_use", "template": "x y z"}]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": named}
    (tmp_path / "tokenizer.json").write_text(builtin.definition())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    rows = [{"messages": [USER]}, {"messages": [USER], "tools": [WEATHER]}]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    profile = batchstat.profile(path, messages_column="messages", tokenizer=str(tmp_path))
    assert profile.lengths.tolist() == [1, 3]


def test_chats_are_counted_as_transformers_counts_them(tmp_path):
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_str(builtin.definition())
    own = PreTrainedTokenizerFast(tokenizer_object=backend)
    (tmp_path / "t.jinja").write_text(EVERYTHING)
    bare = {"name": "f", "description": "what", "parameters": {"a": "b"}}
    chats = [([USER, ANSWER], []), ([USER, CALL, TOOL, THINKS], [WEATHER]), ([TOOL], [WEATHER] * 2)]
    chats += [([USER, ANSWER], [bare]), ([USER], [{"f": [1]}, {"type": "x"}])]
    rows = [{"messages": messages, "tools": tools} for messages, tools in chats]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    options = {"messages_column": "messages", "chat_template": tmp_path / "t.jinja"}
    expected = [
        own.apply_chat_template(
            messages, tools=tools or None, chat_template=EVERYTHING, return_dict=False
        )
        for messages, tools in chats
    ]
    assert batchstat.profile(path, **options).lengths.tolist() == [len(ids) for ids in expected]


@pytest.mark.usefixtures("tokenizers_loaded_once")
def test_the_warning_stands_with_every_command(cli, tmp_path):
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": QWEN2}
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(builtin.definition())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    write_jsonl(tmp_path / "a.jsonl", [{"messages": [USER, TOOL, ANSWER]}, {"messages": [USER]}])
    corpus = ("a.jsonl", "--tokenizer", folder, "--messages-column", "messages")
    warning = "warning: the chat template ignores tool messages of 1 chat; they are not counted"
    assert warning in cli("profile", *corpus, "--no-plots")[2]
    assert warning in cli("compare", *corpus, "--no-plots")[2]
    assert warning in cli("compare", "--no-plots")[2]
    assert warning in cli("check", *corpus, "--max-padding", "99%")[2]
    record = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text())
    assert record["corpus"]["left_out"] == {"tool_messages": 1}
