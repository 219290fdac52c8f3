"""Small tokenizers with published ways of splitting; stand-ins for those that are not at hand."""

import itertools
import json
import random
import string
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from batchstat.tokenization.counting.safe_cuts import (
    BLOOM,
    CL100K,
    DEEPSEEK3,
    O200K,
    QWEN2,
    QWEN35,
    TEKKEN,
)
from conftest import SAMPLE_DATA

SPECIAL = ["<pad>", "[UNK]", "<|end|>", "[MASK]"]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def split_by(*patterns: str, behavior: str = "isolated", invert: bool = False):
    splits = [pre_tokenizers.Split(Regex(each), behavior, invert=invert) for each in patterns]
    after = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*splits, after])


def byte_level(*before, prefix: bool = False):
    own = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return pre_tokenizers.Sequence([*before, own]) if before else own


FAMILIES = {
    "gpt2, roberta": (byte_level(), None),
    "bart with a space before": (byte_level(prefix=True), None),
    "gpt-neox, olmo": (byte_level(), normalizers.NFC()),
    "starcoder, smollm": (byte_level(pre_tokenizers.Digits(individual_digits=True)), None),
    "command-r": (byte_level(pre_tokenizers.Digits(individual_digits=True)), normalizers.NFC()),
    "llama-3, glm-4, olmo-2": (split_by(CL100K), None),
    "phi-4": (split_by(CL100K, behavior="removed", invert=True), None),
    "qwen2, qwen3": (split_by(QWEN2), normalizers.NFC()),
    "qwen3.5": (split_by(QWEN35), normalizers.NFC()),
    "gpt-oss, llama-4": (split_by(O200K), None),
    "mistral-nemo": (split_by(TEKKEN), None),
    "deepseek-v3": (split_by(*DEEPSEEK3), normalizers.Sequence([])),
    "deepseek-v3, some line ends unescaped": (
        split_by(*(each.replace(r"[\r\n]", "[\r\n]") for each in DEEPSEEK3)),
        None,
    ),
    "bloom": (split_by(BLOOM), None),
}


_AS_SIGNS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def of_pairs(splitter, normalizer, texts: Iterable[str], seed: int = 0) -> Tokenizer:
    """Any two bytes of a word merge, in random order, so that words show in the counts.

    Those that stand side by side in the texts: of all pairs, of which most are in no text, the
    engine takes a second to load.
    """
    rng, text = random.Random(seed), " ".join(["", *texts])
    if normalizer is not None:
        text += normalizer.normalize_str(text)
    [(signs, _)] = _AS_SIGNS.pre_tokenize_str(text)
    merges = sorted(set(itertools.pairwise(signs)))
    rng.shuffle(merges)
    tokens = BYTES + ["".join(pair) for pair in merges]
    rng.shuffle(tokens)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    model = models.BPE(vocabulary, merges, ignore_merges=bool(seed % 2))
    return _with(Tokenizer(model), splitter, normalizer)


def half_slow(names: Iterable[Any]) -> list[Any]:
    """Every second name marked as slow: there are many alike."""
    return [
        pytest.param(each, marks=pytest.mark.slow) if i % 2 else each
        for i, each in enumerate(names)
    ]


def _with(tokenizer: Tokenizer, splitter, normalizer) -> Tokenizer:
    tokenizer.pre_tokenizer = splitter
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def trained(splitter, normalizer, size: int = 1000) -> Tokenizer:
    """Trained on the sample corpus, for at most 3,000 entries."""
    entries, merges = _learned(splitter, normalizer)
    missing = len(entries) - size  # each of the last entries is what the last merges make
    vocabulary = {entry: number for number, entry in enumerate(entries[:size])}
    model = models.BPE(vocabulary, merges[: len(merges) - missing] if missing > 0 else merges)
    return _with(Tokenizer(model), splitter, normalizer)


@cache
def _learned(splitter, normalizer) -> tuple[list[str], list[tuple[str, str]]]:
    """The entries and merges of a large vocabulary, whose first ones are those of a smaller one."""
    tokenizer = _with(Tokenizer(models.BPE()), splitter, normalizer)
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()[:300]
    tokenizer.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=3000, special_tokens=SPECIAL, show_progress=False, initial_alphabet=BYTES
        ),
    )
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary: dict[str, int] = model["vocab"]
    return sorted(vocabulary, key=vocabulary.__getitem__), [tuple(p) for p in model["merges"]]


CONTENTS = ["<extra>", "two words", "it's", " x", "é!", "e\u0301!", "\u212b", "ab", "   ", "\n\n"]


def random_tokenizer(seed: int) -> Tokenizer:
    """A tokenizer that the engine may count, with random merges and added tokens."""
    rng = random.Random(seed)
    splitter, normalizer = rng.choice(list(FAMILIES.values()))
    tokenizer = trained(splitter, normalizer, rng.randint(300, 3000))
    tokenizer.model.ignore_merges = rng.random() < 0.3
    for content in rng.sample(CONTENTS, rng.randint(0, 4)):
        flags = rng.choice([{}, {"normalized": True}, {"single_word": True}, {"special": True}])
        is_word = content == content.strip() and "single_word" not in flags
        strips = {"lstrip": rng.random() < 0.4, "rstrip": rng.random() < 0.4} if is_word else {}
        tokenizer.add_tokens([AddedToken(content, **({"normalized": False} | flags | strips))])
    return tokenizer


MARK = "\u2581"
AS_MARK = normalizers.Replace(" ", MARK)
MARKED = {
    "llama-2, mistral-7b": (normalizers.Sequence([normalizers.Prepend(MARK), AS_MARK]), None),
    "yi": (AS_MARK, None),
    "gemma": (AS_MARK, pre_tokenizers.Split(" ", "merged_with_previous")),
}
"""SentencePiece BPE: its normalizers and pre-tokenizers as published."""


@cache
def _taught(size: int, splits_words: bool) -> tuple[list[str], list[tuple[str, str]]]:
    """The entries and merges of BPE taught on the sample corpus, with marks for spaces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=splits_words)
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()[:300]
    short = (line[at : at + 200] for line in lines for at in range(0, len(line), 200))
    tokenizer.train_from_iterator(short, trainers.BpeTrainer(vocab_size=size, show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    return list(model["vocab"]), [tuple(pair) for pair in model["merges"]]


def marked(name: str, seed: int, *, knows_characters: bool = True) -> tuple[Tokenizer, list[str]]:
    """SentencePiece BPE with random merges and added tokens, and the entries of its vocabulary.

    Some entries are reached by no merge: of characters that are entries too, except in the tokens
    of bytes if it does not know all characters.
    """
    rng = random.Random(seed)
    entries, merges = _taught(rng.choice([300, 1000, 3000]), splits_words=rng.random() < 0.7)
    signs = set(string.punctuation + string.digits + string.ascii_letters) | {MARK, "é", "日"}
    known = sorted({sign for entry in entries for sign in entry} | signs)
    indents = [(MARK * size, MARK * size) for size in (1, 2, 4)][: rng.randint(0, 3)]
    merges = [*merges, *indents]
    if rng.random() < 0.4:
        rng.shuffle(merges)
    out_of_reach = ["".join(rng.choices(known, k=rng.randint(2, 6))) for _ in range(50)]
    entries = [*known, *entries, *map("".join, indents), *out_of_reach]
    if not knows_characters:
        entries = [entry for entry in entries if ">" not in entry]
        merges = [pair for pair in merges if ">" not in "".join(pair)]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *entries]
    vocabulary = {entry: number for number, entry in enumerate(dict.fromkeys(names))}
    options = {"fuse_unk": rng.random() < 0.7, "ignore_merges": rng.random() < 0.3}
    model = models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, **options)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, splitter = MARKED[name]
    if splitter is not None:
        tokenizer.pre_tokenizer = splitter
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    for content in rng.sample([*CONTENTS, MARK * 2, f"a{MARK}b", "<0x41>", " "], rng.randint(0, 5)):
        flags = {key: rng.random() < 0.3 for key in ("normalized", "single_word", "special")}
        tokenizer.add_tokens([AddedToken(content, **flags)])
    return tokenizer, entries


def texts_of_entries(entries: list[str], number: int, seed: int) -> list[str]:
    """Texts of entries of a vocabulary, beside spaces, unknown characters and names of bytes."""
    rng = random.Random(seed)
    odd = [*GAPS, *CONTENTS, "<0x41>", "<0xE2>", "<0x", "<s>", "</s", MARK, "🤗", "\u0301", "ß"]

    def part() -> str:
        entry = rng.choice(entries)
        return rng.choice([entry, entry.replace(MARK, " "), rng.choice(odd)])

    return ["".join(part() for _ in range(rng.randrange(12))) for _ in range(number)]


PLAIN = "don't I'LL it's x's 's ' a Z9 1234567 the railway . , ... </ - _x # ~x [ ## ab"
OTHERS = "İ ß 日本 語 🦉 👩\u200d👧 한국 Ω ﬁ \u212a ΑΣ Dž e\u0301 ５ ² Ⅷ १२३ \u0600 \u0301 ▁ Ġ Ċ"
DIFFERING = "'ſb a'ſ'ſ ſ \u180e a\u180eb <|end|> <pad> [MASK] <|end <pad two\u3000words"
WORDS = [word for text in (PLAIN, OTHERS, DIFFERING) for word in text.split(" ")] + CONTENTS
EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
ALIKE = [
    *map(chr, range(0x3400, 0x9FFE)),  # ideographs
    *map(chr, range(0xAC00, 0xD7A0)),  # syllables of Korean
    *map(chr, range(0xE000, 0xF900)),  # private
    *map(chr, range(0x13440, 0x16800)),  # hieroglyphs, and not assigned
    *map(chr, range(0x17000, 0x1AFF0)),  # Tangut, and not assigned
    *map(chr, range(0x20000, 0x33480)),  # ideographs
]
BY_CATEGORY: dict[str, list[str]] = {}
for _sign in EVERY:
    BY_CATEGORY.setdefault(unicodedata.category(_sign), []).append(_sign)
GAPS = ["", "", " ", " ", "  ", "   ", "\t", "\n", "\r\n", " \n ", "\u00a0", "\x00", "\u2028"]


def crafted_texts(number: int, seed: int) -> list[str]:
    """Texts of words and gaps that splitters look at, of every kind of character, and of runs."""
    rng = random.Random(seed)
    kinds = list(BY_CATEGORY.values())

    def sign() -> str:
        return rng.choice(rng.choice(kinds))

    def text() -> str:
        kind = rng.random()
        if kind < 0.7:
            gaps = (sign() if rng.random() < 0.2 else rng.choice(GAPS) for _ in range(12))
            return "".join(
                rng.choice(WORDS) + gap for gap in itertools.islice(gaps, rng.randrange(12))
            )
        if kind < 0.9:
            return "".join(sign() for _ in range(rng.randrange(20)))
        return rng.choice(["", "a", " "]) + rng.choice(WORDS) * rng.choice([2, 7, 50, 300])

    return [text() for _ in range(number)]


def in_contexts(sign: str) -> str:
    """A character wherever a splitter may look at it."""
    return (
        f"a'{sign}b {sign}'{sign}\n'{sign}b a{sign}b '{sign} 1{sign}1.{sign}. {sign}\n {sign}'s"
        f"{sign}{sign} A{sign}{sign}a {sign} 日{sign}é{sign} \n{sign}/\n  {sign} {sign}a  '"
    )
