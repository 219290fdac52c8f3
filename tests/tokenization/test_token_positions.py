"""Tokens and their characters: those that the tokenizer itself names."""

import random
from itertools import pairwise

import pytest
from tokenizers import AddedToken, Encoding, Tokenizer, models, processors

from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.counting.engine_gate import engine_admits
from batchstat.tokenization.counting.safe_cuts import CL100K, QWEN2
from batchstat.tokenization.token_positions import TokenLocator, Tokens
from small_tokenizers import (
    BYTES,
    FAMILIES,
    MARKED,
    byte_level,
    crafted_texts,
    half_slow,
    marked,
    of_pairs,
    random_tokenizer,
    split_by,
    texts_of_entries,
)
from tables import in_pairs

POST_PROCESSORS = {
    "none": None,
    "whole": processors.ByteLevel(trim_offsets=False),
    "trimmed": processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
    "trimmed first": processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing("<pad> $A", None, [("<pad>", 0)]),
        ]
    ),
}


@pytest.fixture(autouse=True)
def _needs_the_engine():
    pytest.importorskip("fastokens")


def assert_located(tokenizer: Tokenizer, texts: list[str]) -> None:
    engine = EngineCounter(tokenizer, special_tokens=False)
    engine.load()
    found = TokenLocator(tokenizer).locate(texts, engine)
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    for i, (text, encoding) in enumerate(zip(texts, encoded, strict=True)):
        assert len(found["input_ids"][i]) == len(encoding), text
        assert_known(found.encodings[i], encoding, text)
        chars = range(min(len(text) + 2, 60))
        expected = [encoding.char_to_token(char) for char in chars]
        assert [found.char_to_token(i, char) for char in chars] == expected, text


def assert_known(tokens: Tokens, encoding: Encoding, text: str) -> None:
    """The characters of all tokens, and the tokens of some ranges of characters."""
    assert [(begin, end) for begin, end in tokens.offsets] == encoding.offsets, text
    size = min(len(text), 30)
    for begin, end in [*pairwise(range(0, size + 1, 3)), (0, size), (size // 2, size // 2)]:
        inside = [i for i, (a, b) in enumerate(encoding.offsets) if b > begin and a < end]
        assert [*range(*tokens.overlapping(begin, end))] == inside, (text, begin, end)


@pytest.mark.parametrize("family", half_slow(FAMILIES))
def test_published_ways_of_splitting(family):
    """With the post-processors in turn."""
    texts = crafted_texts(100, seed=len(family))
    tokenizer = of_pairs(*FAMILIES[family], texts, seed=1)
    after = [*POST_PROCESSORS.values()][len(family) % len(POST_PROCESSORS)]
    if after is not None:
        tokenizer.post_processor = after
    assert_located(tokenizer, texts)


@pytest.mark.parametrize("seed", range(4))
def test_random_tokenizers(seed):
    tokenizer = random_tokenizer(seed)
    after = random.Random(seed).choice([*POST_PROCESSORS.values()])
    if after is not None:
        tokenizer.post_processor = after
    assert_located(tokenizer, crafted_texts(100, seed))


@pytest.mark.parametrize("name", MARKED)
def test_sentence_piece(name):
    tokenizer, entries = marked(name, seed=3)
    assert_located(tokenizer, texts_of_entries(entries, 100, seed=4))


BYTE_LEVEL, ROBERTA = processors.ByteLevel, processors.RobertaProcessing
TRIMMING = {
    "ByteLevel": lambda **flags: BYTE_LEVEL(**flags),
    "Roberta": lambda **flags: ROBERTA(("<s>", 0), ("</s>", 1), **flags),
    "inside": lambda **flags: processors.Sequence([processors.Sequence([BYTE_LEVEL(**flags)])]),
}
RUNS = ["Ġ" * 2, "Ġ" * 4, "Ġ" * 8, "Ċ" * 2, "ĊĠ", "Ġa", "ab", "ĠĠa"]
SAME_IDS = ["Ġ", "Ċ", "é", "ab", "ĠĠ", "Ġa"]
"""Texts of added tokens that are entries too, which stand for other bytes."""


def of_runs(rng: random.Random) -> Tokenizer:
    """Byte-level BPE with entries of several spaces, and added tokens of any flags."""
    entries = [*BYTES, *RUNS]
    merges = [("Ġ", "Ġ"), ("ĠĠ", "ĠĠ"), ("Ġ" * 4, "Ġ" * 4), ("Ċ", "Ċ"), ("Ċ", "Ġ"), ("Ġ", "a")]
    merges += [("a", "b"), ("ĠĠ", "a")]
    rng.shuffle(merges)
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=rng.random() < 0.5))
    patterns = rng.choice([(), (CL100K,), (QWEN2,)])
    tokenizer.pre_tokenizer = split_by(*patterns) if patterns else byte_level()
    for content in rng.sample([*SAME_IDS, "\x1cz", "z\x1f", "\u2003z", "<x>"], rng.randint(0, 3)):
        flags = {flag: rng.random() < 0.3 for flag in ("lstrip", "rstrip", "single_word")}
        tokenizer.add_tokens([AddedToken(content, normalized=False, **flags)])
    return tokenizer


def text_of_runs(rng: random.Random) -> str:
    parts = [*" " * 6, "  ", "     ", "\n", "\t", "\u00a0", "a", "ab", "é", "日", "hello", "<x>"]
    return "".join(
        rng.choices([*parts, *SAME_IDS, "\x1cz", "z\x1f", "\u2003z"], k=rng.randrange(9))
    )


@in_pairs(kind=TRIMMING, trim=[False, True], prefix=[False, True])
def test_spaces_around_words(kind, trim, prefix):
    """Texts that begin with any number of spaces, whose first token has several of them.

    A token's offsets were one space too long there, and wrong beside an id of two meanings.
    """
    rng, admitted = random.Random(f"{kind} {trim} {prefix}"), 0
    for _ in range(4):
        tokenizer = of_runs(rng)
        tokenizer.post_processor = TRIMMING[kind](trim_offsets=trim, add_prefix_space=prefix)
        texts = [" " * rng.randrange(7) + text_of_runs(rng) for _ in range(150)]
        assert_located(tokenizer, texts)
        admitted += engine_admits(tokenizer)
    assert admitted


def test_an_id_of_two_meanings_is_left_to_the_tokenizer():
    """The bytes of both meanings may add up by chance: a token takes the space before it."""
    texts = [" ːa// ĠĠĠ'll", "a Ġ b", " Ġ", "  Ġ", "Ġ", "a b"]
    tokenizer = of_pairs(*FAMILIES["gpt2, roberta"], texts)
    tokenizer.add_tokens([AddedToken("Ġ", lstrip=True, normalized=False)])
    assert_located(tokenizer, texts)


def test_whitespace_of_two_tokens_is_left_to_the_tokenizer():
    """The first takes the space that the second begins with, and both have it."""
    texts = ["ab\u2003z", "ab \u2003z", "ab z", " ab", "\u2003z"]
    tokenizer = of_pairs(*FAMILIES["gpt2, roberta"], texts)
    tokenizer.add_tokens([AddedToken("ab", rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("\u2003z", normalized=False)])
    assert engine_admits(tokenizer)
    assert_located(tokenizer, texts)


def test_a_position_before_the_text_is_refused_as_by_the_tokenizer():
    tokenizer = of_pairs(*FAMILIES["gpt2, roberta"], ["a b"])
    engine = EngineCounter(tokenizer, special_tokens=False)
    engine.load()
    found = TokenLocator(tokenizer).locate(["a b"], engine)
    with pytest.raises(OverflowError):
        found.char_to_token(0, -1)
