"""Texts cut for SentencePiece BPE: the parts have as many tokens as the tokenizer finds whole."""

import pytest
from tokenizers import AddedToken, Tokenizer, models

from batchstat.tokenization.counting import engine_counter
from batchstat.tokenization.counting.engine_counter import LongTexts
from batchstat.tokenization.token_lengths import token_lengths
from small_tokenizers import MARK, MARKED, crafted_texts, marked, texts_of_entries

pytestmark = pytest.mark.usefixtures("no_text_is_few")


@pytest.fixture(autouse=True)
def _soon_long(monkeypatch):
    monkeypatch.setattr(engine_counter, "_PART", 20)
    monkeypatch.setattr(engine_counter, "_SEARCHED", 200)


def tokens(tokenizer: Tokenizer, texts: list[str]) -> int:
    return sum(len(each) for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False))


@pytest.mark.parametrize("name", MARKED)
def test_the_parts_of_a_text_have_its_tokens(name):
    """By the tokenizer itself, whatever its merges; texts without spaces too."""
    cuts = 0
    for seed in range(40):
        tokenizer, entries = marked(name, seed)
        long = LongTexts(tokenizer)
        texts = texts_of_entries(entries, 60, seed) + crafted_texts(20, seed)
        texts += ["".join(text.split()) * 3 for text in texts]
        for i in long.positions(texts):
            parts, repeated = long.split(texts[i])
            expected = tokens(tokenizer, [texts[i]])
            assert tokens(tokenizer, parts) - tokens(tokenizer, repeated) == expected
            cuts += len(repeated)
    assert cuts > 500


def spelled(*merges: str, **options) -> Tokenizer:
    """SentencePiece BPE of a few letters and their merges."""
    pairs = [tuple(merge.split()) for merge in merges]
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    names += [*"abxyz<0>123456789ABCDEF", MARK, *("".join(pair) for pair in pairs)]
    vocabulary = {name: i for i, name in enumerate(dict.fromkeys(names))}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, byte_fallback=True, **options))
    tokenizer.normalizer, _ = MARKED["llama-2, mistral-7b"]
    return tokenizer


def test_a_text_is_cut_where_no_entry_spans():
    long = LongTexts(spelled("a b", "x y"))
    assert long.split("ab" * 11 + "xyba") == (["ab" * 10, "babxyba"], ["b"])
    assert LongTexts(spelled("a a")).split("a" * 300) == (["a" * 300], [])


@pytest.mark.parametrize(
    "tokenizer",
    [
        spelled("a b", ignore_merges=True),
        models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]),
    ],
)
def test_other_tokenizers_are_not_cut(tokenizer):
    backend = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer(tokenizer)
    assert LongTexts(backend).positions(["ab" * 99]) == []


def test_words_that_are_tokens_of_their_own_are_not_cut():
    """At the end of a part, a token would seem to be a whole word."""
    tokenizer = spelled("a b")
    assert LongTexts(tokenizer).positions(["ab" * 99]) == [0]
    tokenizer.add_tokens([AddedToken("xx", single_word=True)])
    assert LongTexts(tokenizer).positions(["ab" * 99]) == []


def test_the_engine_counts_parts(monkeypatch):
    pytest.importorskip("fastokens")
    from batchstat.tokenization.counting.engine_counter import EngineCounter

    tokenizer = spelled("a b", "x y")
    cut = []
    own = LongTexts.split
    monkeypatch.setattr(EngineCounter, "_note", lambda self, *_: self.load())
    monkeypatch.setattr(LongTexts, "split", lambda self, text: cut.append(text) or own(self, text))
    texts = ["short", "abxyba" * 100, "", "ab xy y1 " * 50]
    assert token_lengths(texts, tokenizer).tolist() == [
        len(each) for each in tokenizer.encode_batch_fast(texts)
    ]
    assert {texts[1], texts[3]} <= set(cut)
