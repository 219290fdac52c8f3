"""Counting with the fast engine: when it is loaded, what is checked, and what happens without."""

import multiprocessing
import os
import sys
import threading

import pyarrow as pa
import pytest
from tokenizers import Tokenizer, processors

import batchstat
from batchstat.corpus.content import Texts
from batchstat.tokenization.counting import engine_counter
from batchstat.tokenization.counting.count_check import MiscountError
from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.loading.load import as_tokenizer
from conftest import SAMPLE_DATA
from small_tokenizers import FAMILIES, crafted_texts, of_pairs, trained

pytestmark = pytest.mark.usefixtures("no_text_is_few")

pytest.importorskip("fastokens")

LINES = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()[::4]


def column(texts) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def whole(tokenizer: Tokenizer, samples) -> list[int]:
    return [len(each) for each in tokenizer.encode_batch_fast(list(samples))]


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return trained(*FAMILIES["gpt2, roberta"])


@pytest.fixture
def _at_once(monkeypatch):
    """The engine is loaded from the first text on, and nothing is counted before."""
    monkeypatch.setattr(EngineCounter, "_note", lambda self, *_: self.load())


def loaded(tokenizer: Tokenizer) -> EngineCounter:
    counter = EngineCounter(tokenizer)
    counter.load()
    return counter


def test_it_is_loaded_after_some_text_of_unknown_size(gpt2, monkeypatch):
    monkeypatch.setattr(engine_counter, "_LOADED_FOR_BYTES", 10_000)
    monkeypatch.setattr(engine_counter, "_LOADED_FOR_BYTES_PER_TOKEN", 0)
    counter = EngineCounter(gpt2)
    assert counter.count(column(["a" * 9_000])) is None
    assert counter._loading is None
    texts = ["a" * 9_000, "some words " * 900]
    assert counter.count(column(texts)).tolist() == whole(gpt2, texts)


def test_a_long_text_waits_for_it(gpt2, monkeypatch):
    """The tokenizer itself takes a hundred times the size of a text in memory."""
    monkeypatch.setattr(engine_counter, "_LOADED_FOR_BYTES", 10_000)
    monkeypatch.setattr(engine_counter, "_LOADED_FOR_BYTES_PER_TOKEN", 0)
    text = " ".join(LINES)
    assert EngineCounter(gpt2).count(column([text])).tolist() == whole(gpt2, [text])


def test_a_long_last_text_does_not_load_it(gpt2, monkeypatch):
    """What is to come is estimated from the first texts only."""
    expected = []
    monkeypatch.setattr(EngineCounter, "expect", lambda _, bytes_: expected.append(bytes_))
    monkeypatch.setattr(EngineCounter, "_note", lambda *_: None)
    batchstat.token_lengths(["a" * 10] * 4_000 + ["a" * 10_000], gpt2, workers=2)
    assert len(expected) == 1
    assert 40_000 <= expected[0] <= 100_000


def test_it_is_loaded_at_once_for_a_corpus_of_known_size(gpt2, monkeypatch, tmp_path):
    monkeypatch.setattr(engine_counter, "_LOADED_FOR_BYTES", 10_000)
    monkeypatch.setattr(engine_counter, "_LOADED_FOR_BYTES_PER_TOKEN", 0)
    counter = EngineCounter(gpt2)
    counter.expect(9_999)
    assert counter._loading is None
    counter.expect(10_000)
    assert counter.count(column(LINES)).tolist() == whole(gpt2, LINES)
    begun = []
    monkeypatch.setattr(EngineCounter, "load", lambda _: begun.append(True))
    monkeypatch.setattr(EngineCounter, "_note", lambda *_: None)
    corpus, definition = tmp_path / "corpus.txt", tmp_path / "tokenizer.json"
    gpt2.save(str(definition))
    for lines, times in ((9, 0), (11, 2)):
        texts = ["a" * 1_000] * lines
        corpus.write_text("\n".join(texts), encoding="utf-8")
        batchstat.profile(corpus, tokenizer=str(definition))
        batchstat.token_lengths(texts, gpt2)
        for thread in threading.enumerate():
            if thread.name == "loading fastokens":
                thread.join()
        assert len(begun) == times


@pytest.mark.parametrize("name", ["wrong import", "refuses", "panics"])
def test_without_the_engine_counting_is_as_before(gpt2, monkeypatch, name):
    class PanicException(BaseException):
        pass

    def refuse(*_):
        raise {"refuses": ValueError, "panics": PanicException}[name]

    engine_counter._load.cache_clear()
    if name == "wrong import":
        monkeypatch.setitem(sys.modules, "fastokens", None)
    else:
        monkeypatch.setattr(engine_counter, "_load", refuse)
    tokenizer = as_tokenizer(gpt2)
    tokenizer.encoder.engine.load()
    assert tokenizer.encoder.engine.count(column(LINES)) is None
    assert tokenizer.count(Texts(column(LINES)))[0].tolist() == whole(gpt2, LINES)


def test_a_tokenizer_that_is_not_admitted_is_counted_as_before(gpt2, monkeypatch):
    """The gate is asked when the engine would be loaded, and not before."""
    asked = []
    monkeypatch.setattr(engine_counter, "engine_admits", lambda it: asked.append(it) or False)
    tokenizer = as_tokenizer(gpt2)
    assert tokenizer.count(Texts(column(LINES)))[0].tolist() == whole(gpt2, LINES)
    assert not asked
    tokenizer.expect(1 << 40)
    assert tokenizer.count(Texts(column(LINES)))[0].tolist() == whole(gpt2, LINES)
    assert len(asked) == 1
    assert tokenizer.encoder.engine.count(column(LINES)) is None


class Raising:
    """An engine that raises on a text."""

    def encode_batch_flat(self, *_, **__):
        raise ValueError("match limit exceeded")


def test_an_engine_that_raises_counts_nothing(gpt2):
    tokenizer = as_tokenizer(gpt2)
    tokenizer.encoder.engine._engine = Raising()
    assert tokenizer.encoder.engine.count(column(LINES)) is None
    assert tokenizer.count(Texts(column(LINES)))[0].tolist() == whole(gpt2, LINES)


TEXTS = ["", "\x00", "a'ſb", "a\u180eb", "a" * 100_000, "\n" * 9_000, *crafted_texts(300, 0)]


@pytest.mark.parametrize("pair", ["$A [UNK] $B", "[UNK] $B $A"])
def test_texts_and_pairs_with_their_special_tokens(pair):
    tokenizer = of_pairs(*FAMILIES["llama-3, glm-4, olmo-2"], TEXTS)
    special = [("[UNK]", tokenizer.token_to_id("[UNK]"))]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[UNK] $A", pair=pair, special_tokens=special
    )
    counter = loaded(tokenizer)
    first, second = TEXTS, TEXTS[::-1]
    assert counter.count(column(first)).tolist() == whole(tokenizer, first)
    found = counter.count(column(first), column(second))
    assert found.tolist() == whole(tokenizer, zip(first, second, strict=True))
    assert counter.count(column([])).tolist() == []


def test_a_post_processor_that_the_engine_refuses(gpt2):
    tokenizer = Tokenizer.from_str(gpt2.to_str())
    tokenizer.post_processor = processors.RobertaProcessing(("[UNK]", 1), ("<pad>", 0))
    assert loaded(tokenizer).count(column(LINES)).tolist() == whole(tokenizer, LINES)


@pytest.mark.usefixtures("_at_once")
def test_a_wrong_engine_is_found_out_and_everything_is_recounted(gpt2, monkeypatch):
    """An engine of another tokenizer."""
    other = trained(*FAMILIES["gpt2, roberta"], size=400).to_str()
    right = engine_counter._load
    monkeypatch.setattr(engine_counter, "_load", lambda _: right(other))
    with pytest.warns(UserWarning, match="tokens, but fastokens counts .*: recounting without"):
        assert batchstat.token_lengths(LINES, gpt2).tolist() == whole(gpt2, LINES)


@pytest.mark.usefixtures("_at_once")
def test_a_corpus_too_is_recounted(gpt2, monkeypatch, tmp_path):
    other = trained(*FAMILIES["gpt2, roberta"], size=400).to_str()
    right = engine_counter._load
    monkeypatch.setattr(engine_counter, "_load", lambda _: right(other))
    monkeypatch.setattr("batchstat.tokenization.tokenizer.TOGETHER_BYTES", 20_000)
    (tmp_path / "tokenizer.json").write_text(gpt2.to_str(), encoding="utf-8")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(LINES), encoding="utf-8")
    with pytest.warns(UserWarning, match="fastokens counts .*: recounting without shortcuts"):
        profile = batchstat.profile(corpus, tokenizer=str(tmp_path / "tokenizer.json"))
    assert profile.lengths.tolist() == whole(gpt2, (line for line in LINES if line.strip()))


def test_parts_of_long_texts_are_checked(gpt2):
    counter = loaded(gpt2)
    counter._engine = loaded(trained(*FAMILIES["gpt2, roberta"], size=400))._engine
    with pytest.raises(MiscountError, match="fastokens counts"):
        counter.count(column([" ".join(LINES)]))


def count_in_child(definition: str, texts: list[str], answers) -> None:
    counter = loaded(Tokenizer.from_str(definition))
    answers.put((os.getpid(), counter.count(column(texts)).tolist()))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_another_process(gpt2, method):
    """Also in a fork of a process whose engine has threads."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"{method} is not available here")
    expected = whole(gpt2, LINES)
    assert loaded(gpt2).count(column(LINES)).tolist() == expected
    context = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    child = context.Process(target=count_in_child, args=(gpt2.to_str(), LINES, answers))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    pid, found = answers.get()
    assert pid != os.getpid()
    assert found == expected


def test_without_shortcuts(gpt2):
    tokenizer = as_tokenizer(gpt2)
    assert tokenizer.has_shortcuts
    assert not tokenizer.without_shortcuts().has_shortcuts
