"""Definitions at random, many a step away from the published ones: never cut, or cut rightly."""

import random
from functools import cache

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from batchstat.tokenization.counting.count_check import RefusedError, encodings
from batchstat.tokenization.counting.piece_counter import PieceCounter
from batchstat.tokenization.counting.safe_cuts import find_cuts
from piece_tokenizers import (
    CONTROLS,
    MARKS,
    SPACES,
    by_pieces,
    byte_level,
    metaspace,
    word_piece,
)

BASES = (
    lambda: byte_level(None),
    lambda: metaspace("always"),
    lambda: metaspace("never", unigram=False),
    lambda: word_piece(lowercase=False),
)
STEPS = [
    *(normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()),
    *(normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Nmt()),
    *(normalizers.Strip(), normalizers.Strip(left=False), normalizers.Prepend("▁")),
    *(normalizers.Replace("``", '"'), normalizers.Replace(" ", "▁"), normalizers.Replace("~", " ")),
    normalizers.Replace(Regex(" {2,}"), " "),
    normalizers.Replace(Regex(" {2,}"), "▁"),
    normalizers.BertNormalizer(lowercase=True),
    normalizers.BertNormalizer(handle_chinese_chars=False),
]
SPLITTERS = [
    pre_tokenizers.Metaspace(prepend_scheme="always"),
    pre_tokenizers.Metaspace(prepend_scheme="never"),
    pre_tokenizers.Metaspace(prepend_scheme="first"),
    pre_tokenizers.Metaspace(replacement="_"),
    pre_tokenizers.Metaspace(split=False),
    pre_tokenizers.BertPreTokenizer(),
    pre_tokenizers.ByteLevel(add_prefix_space=False),
    pre_tokenizers.Punctuation(),
]
CONTENTS = ("<x>", "it's", "  ", " y", "two words", "字.", "\u00a0", "é", "~", "</s>", "\n\n")
PLAIN = "don't it's a Z9 railway . , ... </ - _x ~ ~~ [ `` '' ▁ a▁b e\u0301 İ ß 日本 字. 한국 ﬁ ①"
OTHERS = "привет नमस्ते مرحبا \u0600 \u0d4e 👩\u200d👧 <x> </s> <pad> [MASK] \u00a8 鿿 \u4dc0"
WORDS = f"{PLAIN} {OTHERS}".split(" ")
GAPS = (
    "",
    "",
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r\n",
    " \n ",
    "\u00a0",
    "\u3000",
    "\u200b",
)


@cache
def base(number: int) -> str:
    return BASES[number]().to_str()


def random_tokenizer(rng: random.Random) -> Tokenizer:
    number = rng.randrange(len(BASES))
    tokenizer = Tokenizer.from_str(base(number))
    if rng.random() < 0.7:
        tokenizer.normalizer = normalizers.Sequence(rng.sample(STEPS, rng.randrange(4)))
    if rng.random() < 0.5:
        splitter = rng.choice(SPLITTERS)
        first = [pre_tokenizers.WhitespaceSplit()] if rng.random() < 0.6 else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*first, splitter])
    for content in rng.sample(CONTENTS, rng.choice((0, 0, 1, 2))):
        flags = {name: rng.random() < 0.15 for name in ("lstrip", "rstrip", "single_word")}
        tokenizer.add_tokens([AddedToken(content, normalized=rng.random() < 0.4, **flags)])
    return tokenizer


def random_text(rng: random.Random) -> str:
    odd = [*SPACES, *CONTROLS, *MARKS]
    return "".join(
        rng.choice(WORDS) + rng.choice(GAPS if rng.random() < 0.85 else odd)
        for _ in range(rng.randrange(1, 8))
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_definitions(seed):
    rng = random.Random(seed)
    counted = 0
    for _ in range(40):
        tokenizer = random_tokenizer(rng)
        texts = [random_text(rng) for _ in range(100)]
        cuts = find_cuts(tokenizer)
        if cuts is None:
            continue
        try:
            expected = [len(each) for each in encodings(tokenizer, texts)]
            found = by_pieces(PieceCounter(tokenizer, cuts), texts)
        except RefusedError:  # tokenizers itself panics, as with Strip and some added tokens
            continue
        counted += 1
        assert dict(zip(texts, found, strict=True)) == dict(zip(texts, expected, strict=True)), (
            tokenizer.normalizer,
            tokenizer.pre_tokenizer,
            tokenizer.get_added_tokens_decoder(),
        )
    assert counted >= 3
