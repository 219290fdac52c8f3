"""Prompts and completions that are tokenized apart: as axolotl joins the ids of both."""

import random

import pandas as pd
import pytest
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

import batchstat
from conftest import write_jsonl
from piece_tokenizers import metaspace
from small_tokenizers import FAMILIES, crafted_texts, half_slow, of_pairs, trained

COLUMNS = {"prompt_column": "prompt", "completion_column": "completion", "tokenize_apart": True}
BEGIN, END = "[MASK]", "<|end|>"
TEMPLATES = {"plain": "$A", "begun": f"{BEGIN} $A", "around": f"{BEGIN} $A {END}"}


def rows_of(texts: list[str]) -> list[dict[str, str]]:
    """Texts cut anywhere, and such as begin or end with special tokens, or have only one side."""
    rng = random.Random(2)
    cut = [(text[:at], text[at:]) for text in texts for at in (rng.randint(0, len(text)),)]
    ends = [
        ("a", ""),
        ("", "b"),
        ("a", END),
        ("a", f"b{END}"),
        (f"a{END}", f"{BEGIN}b"),
        ("a", BEGIN),
    ]
    return [{"prompt": prompt, "completion": rest} for prompt, rest in [*cut, *ends]]


def joined(loaded, row) -> tuple[int, int]:
    """Tokens of a sample and of its completion, by lists of ids."""
    prompt = loaded(row["prompt"])["input_ids"] if row["prompt"] else []
    rest = loaded(row["completion"])["input_ids"] if row["completion"] else []
    if rest and rest[-1] != loaded.eos_token_id:
        rest = [*rest, loaded.eos_token_id]
    if rest and rest[0] == loaded.bos_token_id:
        rest = rest[1:]
    return len(prompt + rest), len(rest)


def saved(backend: Tokenizer, template: str, folder, *, begins: bool) -> PreTrainedTokenizerFast:
    backend.add_special_tokens([BEGIN, END])
    names = [name for name in template.split() if name != "$A"]
    special = [(name, backend.token_to_id(name)) for name in names]
    if names:
        backend.post_processor = processors.TemplateProcessing(template, None, special)
    loaded = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, **{"bos_token": BEGIN} if begins else {}
    )
    loaded.save_pretrained(folder)
    return loaded


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("template", half_slow(TEMPLATES))
@pytest.mark.parametrize("family", ["gpt2, roberta", "metaspace"])
def test_tokens_are_those_of_both_sides(tmp_path, family, template, begins):
    texts = crafted_texts(60, seed=1)
    backend = metaspace("always") if family == "metaspace" else of_pairs(*FAMILIES[family], texts)
    loaded = saved(backend, TEMPLATES[template], tmp_path / "tokenizer", begins=begins)
    rows = rows_of(texts)
    rows = [row for row in rows if (row["prompt"] + row["completion"]).strip()]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    found = batchstat.profile(path, tokenizer=str(tmp_path / "tokenizer"), **COLUMNS)
    counts = found.trained.counts().tolist()
    expected = [joined(loaded, row) for row in rows]
    assert list(zip(found.lengths.tolist(), counts, strict=True)) == expected
    # The completion is what is trained, so it is last.
    assert found.trained.counts(stops=found.lengths - counts).sum() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenize_apart": True}, "tokenize_apart is for prompts and completions: pass their col"),
        ({**COLUMNS, "append": "x"}, "tokenize_apart and append are mutually exclusive"),
    ],
)
def test_options_that_contradict_each_other(options, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.profile("a.jsonl", **options)


def test_a_tokenizer_needs_a_token_that_ends_a_sequence(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": "a", "completion": "b"}])
    with pytest.raises(batchstat.InputError, match="'builtin' has no end-of-sequence token"):
        batchstat.profile(path, **COLUMNS)


def test_chats_are_refused(tmp_path):
    message = {"role": "user", "content": "b"}
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": [message], "completion": [message]}])
    with pytest.raises(batchstat.InputError, match="'prompt' holds chats, which are tokenized wh"):
        batchstat.profile(path, **COLUMNS)


def test_samples_are_read_as_prompts_and_completions(tmp_path):
    loaded = saved(trained(*FAMILIES["gpt2, roberta"]), "$A", tmp_path / "t", begins=False)
    row = {"prompt": "some words", "completion": " more"}
    path = write_jsonl(tmp_path / "a.jsonl", [row])
    found = batchstat.profile(path, tokenizer=str(tmp_path / "t"), **COLUMNS)
    prompt, whole = len(loaded(row["prompt"])["input_ids"]), joined(loaded, row)[0]
    assert batchstat.read_samples(found) == [{**row, "trained": [(prompt, whole)]}]


def test_the_digest_holds_the_tokens_that_begin_and_end(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": "a", "completion": "b"}])
    digests = set()
    for begins in (True, False):
        folder = tmp_path / f"t{begins}"
        saved(trained(*FAMILIES["gpt2, roberta"]), "$A", folder, begins=begins)
        profile = batchstat.profile(path, tokenizer=str(folder), **COLUMNS)
        digests.add(profile.tokenizer.digest)
    assert len(digests) == 2


@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_other_processes_count_them_too(tmp_path, executor):
    saved(trained(*FAMILIES["gpt2, roberta"]), TEMPLATES["begun"], tmp_path / "t", begins=True)
    rows = [{"prompt": f"p {i}", "completion": f"c {i}"} for i in range(5)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    options = {"tokenizer": str(tmp_path / "t"), **COLUMNS}
    found = batchstat.profile(path, executor=executor, **options)
    frame = batchstat.profile(pd.DataFrame(rows), **options)
    assert found.lengths.tolist() == frame.lengths.tolist()
