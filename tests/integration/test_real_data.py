"""Real corpora and tokenizers, where BATCHSTAT_DATA names their folder: every count is the
tokenizer's own, every plan is the plain loop's."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import batchstat
import oracle
from batchstat.tokenization import builtin

TOKENIZERS = ["bert-base-cased", "gpt2", "t5-base", "qwen2"]


def lines(path: Path) -> list[str]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found = data.decode().split("\n")
    return [line.removesuffix("\r") for line in (found if found[-1] else found[:-1])]


CORPORA = {
    "wikitext-valid.raw": (lambda path: lines(path), {}),
    "wikipedia-en.txt.gz": (lambda path: lines(path)[:50_000], {}),
    "multilingual.txt": (lambda path: lines(path), {}),
    "sms-spam.tsv": (
        lambda path: [line.split("\t")[1] for line in lines(path)],
        {"header": False, "text_column": "1", "label_column": "0"},
    ),
    "gsm8k.jsonl": (
        lambda path: [json.loads(line)["answer"] for line in lines(path)],
        {"text_column": "answer"},
    ),
}


SOME = {"wikipedia-en.txt.gz": 6, "multilingual.txt": 2}
"""Corpora of which one text in so many is counted: transformers takes seconds for all."""


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request, real_data):
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from transformers import AutoTokenizer

    folder = real_data / "tokenizers" / request.param
    return folder, AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_count_is_the_tokenizers_own(real_data, tokenizer, corpus, tmp_path):
    folder, own = tokenizer
    texts, options = CORPORA[corpus]
    found_texts, path = texts(real_data / corpus), real_data / corpus
    if corpus in SOME:
        found_texts, path = (
            found_texts[:: SOME[corpus]],
            tmp_path / f"some-{corpus.removesuffix('.gz')}.gz",
        )
        path.write_bytes(gzip.compress("".join(f"{text}\n" for text in found_texts).encode(), 1))
    samples = [(i, text) for i, text in enumerate(found_texts) if text.strip()]
    profile = batchstat.profile(path, tokenizer=str(folder), **options)
    found = dict(zip(profile.records.tolist(), profile.lengths.tolist(), strict=True))
    assert len(found) == len(profile) == len(samples)
    for first in range(0, len(samples), 20_000):
        part = samples[first : first + 20_000]
        encoded = own([text for _, text in part], verbose=False, return_attention_mask=False)
        expected = {i: len(ids) for (i, _), ids in zip(part, encoded["input_ids"], strict=True)}
        assert {i: found[i] for i, _ in part} == expected
    if corpus == "sms-spam.tsv":
        classes = {each.label: each.count for each in profile.classes}
        assert classes == {"ham": 4827, "spam": 747}


def test_words_are_tokenized_as_transformers_does(real_data, tokenizer):
    folder, own = tokenizer
    samples = [line.split() for line in lines(real_data / "multilingual.txt")[:4_000:2]]
    profile = batchstat.profile(
        pd.DataFrame({"words": samples}), words_column="words", tokenizer=str(folder)
    )
    encoded = own(samples, is_split_into_words=True, verbose=False)["input_ids"]
    assert profile.lengths.tolist() == list(map(len, encoded))


@pytest.fixture(scope="module")
def wikitext(real_data, tokenizer):
    folder, _ = tokenizer
    path = real_data / "wikitext-valid.raw"
    return batchstat.profile(path, tokenizer=str(folder), strip=True, min_chars=3)


@pytest.mark.parametrize(("order", "multiple"), [("file", 1), ("shuffled", 8), ("blocks", 1)])
def test_plans_of_real_lengths_are_the_plain_loops(wikitext, order, multiple):
    from batchstat.planning.shares import make_order

    settings = {"tokens_per_batch": 16_384, "max_length": 512, "pad_to_multiple_of": multiple}
    rows = {
        "static:batch_size=32": lambda x: oracle.static(x, batch_size=32, multiple=multiple),
        "bucketed:batch_size=32,read_ahead=320": lambda x: oracle.bucketed(
            x, batch_size=32, read_ahead=320, multiple=multiple
        ),
        "token-budget:read_ahead=10000": lambda x: oracle.token_budget(
            x, tokens_per_batch=16_384, read_ahead=10_000, multiple=multiple
        ),
        "token-budget:read_ahead=100": lambda x: oracle.token_budget(
            x, tokens_per_batch=16_384, read_ahead=100, multiple=multiple
        ),
        "fixed": lambda x: oracle.fixed(
            x, batch_size=16_384 // 512, max_length=512, multiple=multiple
        ),
    }
    made = batchstat.compare(wikitext, strategies=list(rows), order=order, **settings)
    sequence = make_order(len(wikitext), order, seed=0, epoch=0)
    lengths = np.minimum(wikitext.lengths[sequence], 512).tolist()
    for row, expected in zip(made.strategies, rows.values(), strict=True):
        batches = expected(lengths)
        assert row.counts.batches == len(batches)
        assert row.counts.total_tokens == oracle.total_tokens(batches)
        assert row.counts.real_tokens == sum(lengths)


def test_the_builtin_counts_english_prose_as_gpt2_does(real_data):
    prose = {
        "wikitext-valid.raw": {},
        "gsm8k.jsonl": {"text_column": "question"},
        "sms-spam.tsv": CORPORA["sms-spam.tsv"][1],
    }
    for corpus, options in prose.items():
        ours = batchstat.profile(real_data / corpus, tokenizer=builtin.NAME, **options)
        gpt2 = str(real_data / "tokenizers" / "gpt2")
        theirs = batchstat.profile(real_data / corpus, tokenizer=gpt2, **options)
        assert ours.stats.sum == pytest.approx(theirs.stats.sum, rel=0.1)


def test_the_commands_on_real_data(run, real_data, tmp_path):
    gpt2 = real_data / "tokenizers" / "gpt2"
    options = ["--no-header", "--text-column", 1, "--label-column", 0, "--tokenizer", gpt2]
    result = run("profile", real_data / "sms-spam.tsv", *options, "--no-plots")
    assert result.returncode == 0, result.stderr
    assert "PyTorch" not in result.stderr
    assert "4,827" in result.stdout
    record = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text())
    assert record["tokenizer"]["max_length"] == 1024
    assert run("compare", "--no-plots").returncode == 0


@pytest.mark.skipif("BATCHSTAT_WIKITEXT103" not in os.environ, reason="names no training split")
def test_the_published_table_of_wikitext_103(real_data):
    """Static padding to the digit; the others came from shards in an order not recorded."""
    path = os.environ["BATCHSTAT_WIKITEXT103"]
    bert = str(real_data / "tokenizers" / "bert-base-cased")
    profile = batchstat.profile(path, tokenizer=bert, strip=True, min_chars=3)
    assert len(profile) == 1_164_464
    rows = [
        "static:batch_size=32",
        "bucketed:batch_size=32,read_ahead=320",
        "token-budget:tokens_per_batch=16384,read_ahead=10000",
    ]
    made = batchstat.compare(profile, strategies=rows, max_length=512, order="file")
    static, bucketed, budget = (row.counts for row in made.strategies)
    assert static.real_tokens == 119_699_332
    assert (static.batches, static.padding_tokens) == (36_390, 244_072_396)
    assert static.total_tokens == 363_771_728
    assert bucketed.batches == 36_390
    assert bucketed.padding_ratio == pytest.approx(0.20993, abs=0.005)
    assert budget.batches == pytest.approx(7650, rel=0.01)
    assert budget.padding_ratio == pytest.approx(0.03107, abs=0.005)
