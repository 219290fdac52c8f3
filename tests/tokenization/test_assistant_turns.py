"""Chats of which only the assistants' turns carry loss: by marks, or by what a turn adds."""

import json

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

import batchstat
from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition
from conftest import SAMPLE_DATA, write_jsonl

LINES = (SAMPLE_DATA / "chat.jsonl").read_text(encoding="utf-8").splitlines()
CHATS = [json.loads(line)["messages"] for line in LINES]
UNMARKED = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def profile(path, **options) -> batchstat.Profile:
    return batchstat.profile(path, messages_column="messages", assistant_only_loss=True, **options)


def trained_texts(found: batchstat.Profile, tokenizer, template: str, chats) -> list[list[str]]:
    """The text of each trained range of each chat."""
    texts = []
    for i, chat in enumerate(chats):
        rendered = tokenizer.apply_chat_template(chat, chat_template=template, tokenize=False)
        ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
        assert len(ids) == found.lengths[i]
        edges = found.trained.edges[found.trained.offsets[i] : found.trained.offsets[i + 1]]
        ranges = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        texts.append([tokenizer.decode(ids[a:b]) for a, b in ranges])
    return texts


@pytest.fixture(scope="module")
def builtin() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(definition()))


def spoken(chat, ending: str) -> list[str]:
    return [each["content"] + ending for each in chat if each["role"] == "assistant"]


def test_marked_turns(builtin):
    found = profile(SAMPLE_DATA / "chat.jsonl")
    texts = trained_texts(found, builtin, CHAT_TEMPLATE, CHATS)
    assert texts == [spoken(chat, "<|im_end|>") for chat in CHATS]
    assert found.untrained_samples == 0
    whole = batchstat.profile(SAMPLE_DATA / "chat.jsonl", messages_column="messages")
    assert (whole.lengths == found.lengths).all()
    assert whole.trained is None


def test_turns_without_marks_are_what_they_add(builtin, tmp_path):
    (tmp_path / "chat.jinja").write_text(UNMARKED)
    found = profile(SAMPLE_DATA / "chat.jsonl", chat_template=tmp_path / "chat.jinja")
    texts = trained_texts(found, builtin, UNMARKED, CHATS)
    assert texts == [spoken(chat, "<|im_end|>\n") for chat in CHATS]


def test_turns_of_a_published_template(real_data):
    """Of Qwen2, which adds a system prompt where there is none, and has no marks."""
    folder = real_data / "tokenizers" / "qwen2"
    loaded = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    assert "generation %}" not in template
    found = profile(SAMPLE_DATA / "chat.jsonl", tokenizer=str(folder))
    texts = trained_texts(found, loaded, template, CHATS)
    assert texts == [spoken(chat, "<|im_end|>\n") for chat in CHATS]


def test_chats_without_an_assistant_that_says_anything(tmp_path):
    user = {"role": "user", "content": "Well?"}
    chats = [[{"role": "system", "content": "Be brief."}], [user], [user, user]]
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": chat} for chat in chats])
    assert profile(path).trained.counts().tolist() == [0, 0, 0]
    silent = [user, {"role": "assistant", "content": ""}]
    write_jsonl(path, [{"messages": silent}])
    assert profile(path).trained.counts().tolist() == [1]  # <|im_end|>


LAST_DIFFERS = UNMARKED.replace("'<|im_end|>\n'", "('' if loop.last else '<|im_end|>') + '\n'")
NO_PROMPT = UNMARKED.partition("{% if add_generation_prompt")[0]


@pytest.mark.parametrize(
    ("template", "roles", "message"),
    [
        (LAST_DIFFERS, "ua ua", "renders message 1 differently without those after it: mark"),
        (NO_PROMPT, "ua", "has neither marks nor a generation prompt: mark"),
        (UNMARKED, "au", "it begins with an assistant: mark"),
    ],
)
def test_a_template_that_leaves_turns_ambiguous(run, tmp_path, template, roles, message):
    (tmp_path / "chat.jinja").write_text(template)
    names = {"u": "user", "a": "assistant"}
    chat = [{"role": names[each], "content": "words"} for each in roles.replace(" ", "")]
    good = [{"role": "user", "content": "words"}]
    write_jsonl(tmp_path / "a.jsonl", [{"messages": good}, {"messages": chat}])
    flags = ["--messages-column", "messages", "--assistant-only-loss"]
    flags += ["--chat-template", "chat.jinja", "--no-plots"]
    result = run("profile", "a.jsonl", *flags)
    assert result.returncode == 3
    assert "a.jsonl, line 2" in result.stderr
    assert message in result.stderr
    skipped = run("profile", "a.jsonl", *flags, "--on-error", "skip", "--json")
    assert json.loads(skipped.stdout)["corpus"]["skipped"]["not_counted"] == 1


def test_tool_calls_of_an_assistant_carry_loss(tmp_path, builtin):
    template = UNMARKED.replace(
        "message['content'] + '<|im_end|>\n'",
        "(message['content'] or '') + (message['tool_calls'] | tojson if message['tool_calls'] "
        "else '') + '<|im_end|>\n'",
    )
    (tmp_path / "chat.jinja").write_text(template)
    call = {"type": "function", "function": {"name": "find", "arguments": {"what": "owls"}}}
    chat = [
        {"role": "user", "content": "Find owls."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "3 owls"},
        {"role": "assistant", "content": "Three."},
    ]
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": chat}])
    found = profile(path, chat_template=tmp_path / "chat.jinja")
    first, second = trained_texts(found, builtin, template, [chat])[0]
    assert json.loads(first.removesuffix("<|im_end|>\n")) == [call]
    assert second == "Three.<|im_end|>\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "assistant_only_loss is for chats: pass messages_column"),
        (
            {"messages_column": "m", "trained_column": "t"},
            "assistant_only_loss and trained_column are mutually exclusive",
        ),
    ],
)
def test_options_that_contradict_each_other(options, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.profile("a.jsonl", assistant_only_loss=True, **options)
