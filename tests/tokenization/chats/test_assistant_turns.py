"""Chats of which only the assistants' turns carry loss: by marks, or by what a turn adds."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

import batchstat
from batchstat.corpus.chat import NO_INPUTS
from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition
from batchstat.tokenization.chats.chat_template import ChatTemplate
from batchstat.tokenization.counting.engine_counter import EngineCounter
from conftest import SAMPLE_DATA, write_jsonl

FILES = ("chat.jsonl", "conversations.jsonl")
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


@pytest.fixture(params=FILES)
def corpus(request, tmp_path) -> Path:
    """The first chats of a file."""
    lines = (SAMPLE_DATA / request.param).read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path / request.param
    path.write_text("".join(lines[:40]), encoding="utf-8")
    return path


def chats_of(path: Path) -> list[list[dict[str, str]]]:
    return [json.loads(line)["messages"] for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def published(folder: Path) -> tuple[PreTrainedTokenizerFast, str]:
    """Qwen2's tokenizer and template, which adds a system prompt and has no marks."""
    loaded = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    assert "generation %}" not in template
    return loaded, template


def spoken(chat, ending: str) -> list[str]:
    return [each["content"] + ending for each in chat if each["role"] == "assistant"]


def masks(found: batchstat.Profile) -> list[list[int]]:
    made = [[0] * int(length) for length in found.lengths]
    for i, mask in enumerate(made):
        edges = found.trained.edges[found.trained.offsets[i] : found.trained.offsets[i + 1]]
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            mask[start:stop] = [1] * (stop - start)
    return made


def masks_of_transformers(tokenizer, template: str, chats) -> list[list[int]]:
    return [
        tokenizer.apply_chat_template(
            chat,
            chat_template=template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )["assistant_masks"]
        for chat in chats
    ]


def test_marked_turns(builtin, corpus):
    found = profile(corpus)
    chats = chats_of(corpus)
    assert masks(found) == masks_of_transformers(builtin, CHAT_TEMPLATE, chats)
    texts = trained_texts(found, builtin, CHAT_TEMPLATE, chats)
    assert texts == [spoken(chat, "<|im_end|>") for chat in chats]
    assert found.untrained_samples == 0
    whole = batchstat.profile(corpus, messages_column="messages")
    assert (whole.lengths == found.lengths).all()
    assert whole.trained is None


def test_turns_without_marks_are_what_they_add(builtin, corpus, tmp_path):
    (tmp_path / "chat.jinja").write_text(UNMARKED)
    found, chats = profile(corpus, chat_template=tmp_path / "chat.jinja"), chats_of(corpus)
    texts = trained_texts(found, builtin, UNMARKED, chats)
    assert texts == [spoken(chat, "<|im_end|>\n") for chat in chats]


@pytest.mark.usefixtures("tokenizers_loaded_once")
def test_turns_of_a_published_template(real_data, corpus):
    folder, chats = real_data / "tokenizers" / "qwen2", chats_of(corpus)
    loaded, template = published(folder)
    found = profile(corpus, tokenizer=str(folder))
    texts = trained_texts(found, loaded, template, chats)
    assert texts == [spoken(chat, "<|im_end|>\n") for chat in chats]


@pytest.mark.usefixtures("tokenizers_loaded_once")
def test_marks_in_a_published_template(real_data, corpus, tmp_path):
    folder, chats = real_data / "tokenizers" / "qwen2", chats_of(corpus)
    loaded, template = published(folder)
    said = "{{ content + '<|im_end|>' + '\n' }}"
    marked = template.replace(said, f"{{% generation %}}{said}{{% endgeneration %}}")
    assert marked != template
    (tmp_path / "chat.jinja").write_text(marked)
    found = profile(corpus, tokenizer=str(folder), chat_template=tmp_path / "chat.jinja")
    assert masks(found) == masks_of_transformers(loaded, marked, chats)
    assert masks(found) == masks(profile(corpus, tokenizer=str(folder)))


def test_a_wrong_engine_is_found_and_not_used(corpus, monkeypatch):
    """What marks them then is the tokenizer itself."""
    pytest.importorskip("fastokens")
    expected = masks(profile(corpus))
    right = EngineCounter._ids

    def wrong(self, texts):
        ids, ends = right(self, texts)
        return np.repeat(ids, 2), 2 * ends

    monkeypatch.setattr(EngineCounter, "_note", lambda self, *_: self.load())
    assert masks(profile(corpus)) == expected
    monkeypatch.setattr(EngineCounter, "_ids", wrong)
    with pytest.warns(UserWarning, match="recounting without shortcuts"):
        assert masks(profile(corpus)) == expected


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


@pytest.mark.parametrize("is_marked", [True, False])
def test_threads_that_render_with_one_template(builtin, is_marked):
    chat, other = chats_of(SAMPLE_DATA / "conversations.jsonl")[:2]
    # Slow enough for threads to meet inside a turn.
    loop = "{% for i in range(999) %}{% for j in range(999) %}{% endfor %}{% endfor %}"
    made = ChatTemplate(
        builtin, CHAT_TEMPLATE.replace("{% generation %}", "{% generation %}" + loop)
    )
    start = Barrier(2)

    def mask(chat: list[dict[str, str]]) -> object:
        return made.mask([chat], NO_INPUTS, lambda texts: builtin(texts, add_special_tokens=False))

    def render(chat: list[dict[str, str]]) -> object:
        return made.render([chat], NO_INPUTS)

    def together(work: Callable[..., object], chat: list[dict[str, str]]) -> object:
        start.wait(60)
        return work(chat)

    second = mask if is_marked else render
    expected = [mask(chat), second(other)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(together, (mask, second), (chat, other))) == expected
