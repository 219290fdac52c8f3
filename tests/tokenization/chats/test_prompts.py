"""Tokens that a text shares with its prompt: as the tokenizer itself gives them, one by one."""

import json
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

import batchstat
from batchstat.corpus.content import Completions
from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition
from batchstat.tokenization.chats.prompts import Surroundings
from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.loading.load import as_tokenizer
from conftest import SAMPLE_DATA, write_jsonl
from small_tokenizers import (
    FAMILIES,
    MARKED,
    crafted_texts,
    half_slow,
    marked,
    of_pairs,
    texts_of_entries,
    trained,
)

TEMPLATES = {
    "no special tokens": "$A",
    "one before": "[MASK] $A",
    "one after": "$A <|end|>",
    "around": "[MASK] <pad> $A <|end|> <pad>",
}


def column(texts) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def with_template(tokenizer: Tokenizer, template: str) -> Tokenizer:
    names = [name for name in template.split() if name != "$A"]
    special = [(name, tokenizer.token_to_id(name)) for name in dict.fromkeys(names)]
    if names:
        tokenizer.post_processor = processors.TemplateProcessing(template, None, special)
    return tokenizer


def one_by_one(tokenizer: Tokenizer, pairs) -> list[tuple[int, int]]:
    found = []
    for prompt, completion in pairs:
        alone = tokenizer.encode(prompt).ids
        whole = tokenizer.encode(prompt + completion).ids
        shared = 0
        while shared < min(len(alone), len(whole)) and alone[shared] == whole[shared]:
            shared += 1
        found.append((len(whole), shared))
    return found


def pairs_of(texts: list[str], seed: int) -> list[tuple[str, str]]:
    """Texts cut anywhere, in the middle of words too, and such that begin with special tokens."""
    rng = random.Random(seed)
    cut = [(text[:at], text[at:]) for text in texts for at in (rng.randint(0, len(text)),)]
    ends = ["", "<|end|>", "<|end|><pad>", "<pad>", "[MASK]", "x<|end|>", "\u180e", "'\u017f"]
    return cut + [(text, rng.choice(ends)) for text in texts[::3]]


def assert_counted(tokenizer: Tokenizer, pairs, monkeypatch) -> None:
    monkeypatch.setattr(EngineCounter, "_note", lambda self, *_: self.load())
    expected = one_by_one(tokenizer, pairs)
    samples = Completions(*(column(side) for side in zip(*pairs, strict=True)))
    loaded = as_tokenizer(tokenizer)
    for way in (loaded, loaded.without_shortcuts()):
        tokens, places, kinds = way.count(samples)
        assert places.tolist() == list(range(len(pairs)))
        shared = tokens - kinds["trained"].counts()
        found = list(zip(tokens.tolist(), shared.tolist(), strict=True))
        differing = [(a, b, c) for a, b, c in zip(pairs, expected, found, strict=True) if b != c]
        assert differing[:3] == []
    assert loaded.encoder.engine._engine is not None


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(
    "family", half_slow(["gpt2, roberta", "llama-3, glm-4, olmo-2", "qwen2, qwen3"])
)
def test_shared_tokens_are_those_of_the_tokenizer(monkeypatch, template, family):
    pytest.importorskip("fastokens")
    texts = crafted_texts(150, 1)
    tokenizer = with_template(of_pairs(*FAMILIES[family], texts), TEMPLATES[template])
    assert_counted(tokenizer, pairs_of(texts, 2), monkeypatch)


@pytest.mark.parametrize("name", MARKED)
def test_shared_tokens_of_sentence_piece(monkeypatch, name):
    pytest.importorskip("fastokens")
    tokenizer, entries = marked(name, 5)
    assert_counted(tokenizer, pairs_of(texts_of_entries(entries, 150, 3), 4), monkeypatch)


def test_special_tokens_around_a_text():
    for template, expected in (("around", (2, 2)), ("one after", (0, 1)), ("one before", (1, 0))):
        tokenizer = with_template(trained(*FAMILIES["gpt2, roberta"]), TEMPLATES[template])
        found = Surroundings.find(tokenizer, sum(expected))
        assert (found.before, len(found.after)) == expected
        assert Surroundings.find(tokenizer, sum(expected) + 1) is None


def test_a_prompt_that_the_tokenizer_rejects(two_words):
    """Some words are unknown to it, and it raises."""
    samples = Completions(column(["some", "other", "words"]), column([" words", " some", ""]))
    failed = []
    tokens, places, kinds = as_tokenizer(two_words).count(
        samples, lambda i, error: failed.append((i, str(error)))
    )
    assert [i for i, _ in failed] == [1]
    assert places.tolist() == [0, 2]
    assert tokens[places].tolist() == [2, 1]
    assert kinds["trained"].counts()[places].tolist() == [1, 0]


ROWS = [
    {"prompt": "one two", "completion": " three four"},
    {"prompt": "", "completion": "one two"},
    {"prompt": "one two three", "completion": ""},
    {"prompt": "un", "completion": "til"},
]


def test_a_corpus_of_prompts(run, tmp_path):
    write_jsonl(tmp_path / "a.jsonl", ROWS)
    found = batchstat.profile(tmp_path / "a.jsonl", **COLUMNS)
    tokenizer = Tokenizer.from_str(definition())
    expected = one_by_one(tokenizer, [tuple(row.values()) for row in ROWS])
    assert found.lengths.tolist() == [tokens for tokens, _ in expected]
    assert found.trained.counts().tolist() == [tokens - shared for tokens, shared in expected]
    assert found.untrained_samples == 1
    ends = [found.lengths[i] - 1 for i in range(len(ROWS))]
    assert found.trained.counts(stops=np.array(ends)).sum() == found.trained_tokens - 3
    ranges = [[(shared, tokens)] if shared < tokens else [] for tokens, shared in expected]
    rows = [{**row, "trained": each} for row, each in zip(ROWS, ranges, strict=True)]
    assert batchstat.read_samples(found) == rows
    result = run("profile", "a.jsonl")
    assert result.returncode == 3
    remedy = "pass --prompt-column prompt --completion-column completion"
    assert remedy in result.stderr
    shown = run("profile", "a.jsonl", *remedy.split()[1:], "--no-plots")
    assert shown.returncode == 0
    assert "carry loss · 1 sample with none" in shown.stdout


def chats() -> list[dict[str, list[dict[str, str]]]]:
    """The sample chats, their last message as the completion."""
    lines = (SAMPLE_DATA / "chat.jsonl").read_text(encoding="utf-8").splitlines()
    every = [json.loads(line)["messages"] for line in lines[:40]]
    return [{"prompt": each[:-1], "completion": each[-1:]} for each in every]


COLUMNS = {"prompt_column": "prompt", "completion_column": "completion"}


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "frame"])
def test_prompts_of_chats(tmp_path, kind):
    """As transformers renders the prompt alone and the whole chat."""
    rows, path = chats(), tmp_path / f"a.{kind}"
    if kind == "jsonl":
        write_jsonl(path, rows)
    elif kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    found = batchstat.profile(pd.DataFrame(rows) if kind == "frame" else path, **COLUMNS)
    loaded = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(definition()))
    loaded.chat_template = CHAT_TEMPLATE
    expected = []
    for row in rows:
        whole = loaded.apply_chat_template(row["prompt"] + row["completion"], return_dict=False)
        prompt = loaded.apply_chat_template(
            row["prompt"], add_generation_prompt=True, return_dict=False
        )
        assert whole[: len(prompt)] == prompt
        expected.append((len(whole), len(whole) - len(prompt)))
    counts = zip(found.lengths.tolist(), found.trained.counts().tolist(), strict=True)
    assert list(counts) == expected
    if kind == "jsonl":
        known = [
            {**row, "trained": [(whole - trained, whole)]}
            for row, (whole, trained) in zip(rows, expected, strict=True)
        ]
        assert batchstat.read_samples(found) == known


def test_prompts_of_chats_are_found_by_name(run, tmp_path):
    write_jsonl(tmp_path / "a.jsonl", chats()[:3])
    result = run("profile", "a.jsonl")
    assert result.returncode == 3
    assert "pass --prompt-column prompt --completion-column completion" in result.stderr


def test_prompts_of_chats_that_are_taken_for_texts(run, tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [{"prompt": "a", "completion": "b"}, *chats()[:1]])
    flags = ["--prompt-column", "prompt", "--completion-column", "completion"]
    result = run("profile", "a.jsonl", *flags)
    assert result.returncode == 3
    assert "line 2: 'prompt' is a list where text is expected" in result.stderr
    piped = json.dumps(chats()[0]).encode()
    result = run("profile", "-", "--input-format", "jsonl", *flags, stdin=piped)
    assert result.returncode == 3
    assert "pass files that have chats only" in result.stderr
    result = run("profile", "a.jsonl", *flags, "--chat-template", "a.jsonl")
    assert result.returncode == 2
    assert "chat_template needs" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_column": "p"}, "prompt_column and completion_column belong together: pass both"),
        ({"completion_column": "p"}, "prompt_column and completion_column belong together"),
        (
            {"prompt_column": "p", "completion_column": "c", "text_column": "t"},
            "text_column and completion_column are mutually exclusive",
        ),
        (
            {"prompt_column": "p", "completion_column": "c", "trained_column": "t"},
            "completion_column and trained_column are mutually exclusive",
        ),
        (
            {"prompt_column": "p", "completion_column": "c", "strip": True},
            "strip and min_chars are for texts, not with completion_column",
        ),
    ],
)
def test_options_that_contradict_each_other(options, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.profile("a.jsonl", **options)


@pytest.mark.parametrize("row", [{"prompt": "a"}, {"prompt": "a", "completion": None}, {"x": 1}])
def test_records_without_a_completion(tmp_path, row):
    path = write_jsonl(tmp_path / "a.jsonl", [ROWS[0], row])
    with pytest.raises(batchstat.InputError, match="line 2"):
        batchstat.profile(path, **COLUMNS)
    assert len(batchstat.profile(path, on_error="skip", **COLUMNS)) == 1
