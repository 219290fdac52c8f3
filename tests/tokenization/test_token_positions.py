"""Tokens and their characters: those that the tokenizer itself names."""

import random
from itertools import pairwise

import pytest
from small_tokenizers import (
    FAMILIES,
    MARKED,
    crafted_texts,
    half_slow,
    marked,
    of_pairs,
    random_tokenizer,
    texts_of_entries,
)
from tokenizers import Encoding, Tokenizer, processors

from batchstat.tokenization.engine_counter import EngineCounter
from batchstat.tokenization.token_positions import TokenLocator, Tokens

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
    tokenizer = of_pairs(*FAMILIES[family], seed=1)
    after = [*POST_PROCESSORS.values()][len(family) % len(POST_PROCESSORS)]
    if after is not None:
        tokenizer.post_processor = after
    assert_located(tokenizer, crafted_texts(100, seed=len(family)))


@pytest.mark.parametrize("seed", range(10))
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


def test_a_position_before_the_text_is_refused_as_by_the_tokenizer():
    tokenizer = of_pairs(*FAMILIES["gpt2, roberta"])
    engine = EngineCounter(tokenizer, special_tokens=False)
    engine.load()
    found = TokenLocator(tokenizer).locate(["a b"], engine)
    with pytest.raises(OverflowError):
        found.char_to_token(0, -1)
