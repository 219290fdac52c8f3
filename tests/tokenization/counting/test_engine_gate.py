"""What the fast engine may count: exactly what it counts as the tokenizers library does."""

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

from batchstat.tokenization.counting.count_check import CountCheck
from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.counting.engine_gate import engine_admits, possibly_miscounted
from conftest import SAMPLE_DATA
from small_tokenizers import (
    ALIKE,
    BYTES,
    CONTENTS,
    EVERY,
    FAMILIES,
    MARKED,
    crafted_texts,
    half_slow,
    in_contexts,
    marked,
    of_pairs,
    random_tokenizer,
    split_by,
    texts_of_entries,
    trained,
)

fastokens = pytest.importorskip("fastokens")


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch):
    """Without the check of some texts, which would hide a wrong count of the others."""
    monkeypatch.setattr(CountCheck, "check", lambda *_: None)


def loaded(tokenizer: Tokenizer) -> EngineCounter:
    assert engine_admits(tokenizer)
    counter = EngineCounter(tokenizer)
    counter.load()
    return counter


def assert_equal_counts(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    found = loaded(tokenizer).count(pa.array(texts, pa.large_string()))
    assert found is not None
    expected = [len(each) for each in tokenizer.encode_batch_fast(list(texts))]
    differing = np.flatnonzero(found != expected)
    assert [(texts[i], expected[i], found[i]) for i in differing[:5].tolist()] == []


@cache
def real_texts() -> list[str]:
    """The beginning of each file as one text of many lines, and all lines."""
    files = [SAMPLE_DATA / name for name in ("corpus.txt", "reviews.csv", "make.py")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return [
        *(text[:10_000] for text in texts),
        *(line for text in texts for line in text.split("\n")),
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_families_on_crafted_and_real_texts_and_characters_in_every_context(name):
    """A sample of all characters, and all that some library takes for whitespace or a contraction.

    One tokenizer for both: the engine takes long to load.
    """
    texts = crafted_texts(300, seed=len(name)) + real_texts()[::30]
    signs = random.Random(name).sample(EVERY, 300)
    notable = [sign for sign in EVERY[:0x3100] if sign.isspace() or sign in "ſ\u180e\u200b"]
    characters = [in_contexts(sign) for sign in signs + notable]
    texts_of_pairs = texts + characters
    tokenizer = of_pairs(*FAMILIES[name], texts_of_pairs, seed=len(name))
    assert_equal_counts(tokenizer, texts_of_pairs)
    assert_equal_counts(trained(*FAMILIES[name]), texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_character_in_every_context(name):
    """A twelfth of them; of large blocks that are alike, one in 200. All were tried once."""
    rng, alike = random.Random(name), set(ALIKE)
    signs = [
        sign for sign in EVERY[:0x33500] if rng.random() < (1 / 200 if sign in alike else 1 / 12)
    ]
    texts = [in_contexts(sign) for sign in signs]
    assert_equal_counts(of_pairs(*FAMILIES[name], texts), texts)


def tried(seed: int) -> bool:
    """Whether the engine may count a random tokenizer; if so, it does so rightly."""
    tokenizer = random_tokenizer(seed)
    if not engine_admits(tokenizer):
        return False
    assert_equal_counts(tokenizer, crafted_texts(300, seed) + real_texts()[seed % 40 :: 40])
    return True


RANDOM = [
    *(range(first, 14, 2) for first in range(2)),
    # One in 24 of a thousand: all of them, and 1,800 more, were tried once.
    *(pytest.param(range(i, 1000, 96), marks=pytest.mark.slow) for i in range(40, 136, 24)),
]


@pytest.mark.parametrize("seeds", RANDOM, ids=str)
def test_random_tokenizers(seeds):
    assert sum(map(tried, seeds)) > len(seeds) / 2


@pytest.mark.parametrize("content", half_slow([*CONTENTS, "a", " "]))
@pytest.mark.parametrize("normalized", [False, True])
def test_added_tokens_of_every_kind(content, normalized):
    """With every flag that is admitted, alone and together with others."""
    tried = 0
    texts = crafted_texts(150, seed=1)
    for flags in ("", "lstrip", "rstrip", "single_word", "special", "lstrip rstrip special"):
        tokenizer = trained(*FAMILIES["qwen2, qwen3"])
        given = dict.fromkeys(flags.split(), True)
        tokenizer.add_tokens([AddedToken(content, normalized=normalized, **given)])
        if engine_admits(tokenizer):
            assert_equal_counts(tokenizer, texts)
            tried += 1
    assert (tried >= 3) == (content.isascii() or not normalized)


@pytest.mark.parametrize("name", ["gpt2, roberta", "gpt-neox, olmo"])
@pytest.mark.parametrize(
    ("raw", "normalized"),
    [("bc", "ab"), ("<x>", "<x>_"), ("<x>", "a<x>"), ("<x>_", "<x>"), ("ab", "cd"), ("ab", "b")],
)
def test_tokens_of_raw_and_normalized_text_that_share_characters(name, raw, normalized):
    """Without a normalizer the engine looks for both at once: of `abc`, it finds `ab`, not `bc`."""
    for flag in ("lstrip", "rstrip", "single_word", "special"):
        tokenizer = trained(*FAMILIES[name], size=400)
        tokenizer.add_tokens([AddedToken(raw, normalized=False, **{flag: True})])
        tokenizer.add_tokens([AddedToken(normalized, normalized=True)])
        if not engine_admits(tokenizer):
            assert tokenizer.normalizer is None
            assert set(raw) & set(normalized)
            continue
        rng = random.Random(flag)
        parts = [raw, normalized, raw[1:], normalized[:1], " ", "_", "a"]
        assert_equal_counts(tokenizer, ["".join(rng.choices(parts, k=4)) for _ in range(200)])


PLAIN = ["### Response:\n", " x", "  x", "x  ", "\nx", " ", "\u00a0", "<x>", "a b"]
IN_NORMALIZED = ["   ", "  ", "\n\n", " \n", " x", "x ", "<", "<x>", "a"]


@pytest.mark.parametrize("seed", half_slow(range(8)))
def test_plain_tokens_of_raw_text_may_share_spaces_with_others(seed):
    """As in Dolly, with NFC; tried once with 400 sets of them."""
    rng, tokenizer = random.Random(seed), trained(*FAMILIES["gpt-neox, olmo"])
    runs, plain = (rng.sample(some, rng.randint(1, 4)) for some in (IN_NORMALIZED, PLAIN))
    tokenizer.add_tokens([AddedToken(each, normalized=True) for each in runs])
    tokenizer.add_tokens([AddedToken(each, normalized=False) for each in plain])
    parts = [*runs, *plain, *(each[1:] for each in plain), " ", "\n", "x", "###", " the", "e\u0301"]
    texts = ["".join(rng.choices(parts, k=rng.randrange(8))) for _ in range(300)]
    assert_equal_counts(tokenizer, texts)


@pytest.mark.parametrize("name", FAMILIES)
def test_special_tokens_counted_as_text(name):
    tokenizer = trained(*FAMILIES[name])
    tokenizer.add_tokens([AddedToken("<extra>", normalized=False)])
    tokenizer.encode_special_tokens = True
    assert_equal_counts(tokenizer, crafted_texts(300, seed=2))


Edit = Callable[[dict[str, Any]], object]


def edited(name: str, edit: Edit) -> Tokenizer:
    definition = json.loads(trained(*FAMILIES[name], size=2000).to_str())
    edit(definition)
    return Tokenizer.from_str(json.dumps(definition))


def _shuffle_ids(definition: dict[str, Any]) -> None:
    vocabulary = definition["model"]["vocab"]
    ids = list(vocabulary.values())
    random.Random(0).shuffle(ids)
    vocabulary.update(zip(vocabulary, ids, strict=True))
    for token in definition["added_tokens"]:
        token["id"] = vocabulary[token["content"]]


def _drop_merges(definition: dict[str, Any]) -> None:
    """Words that are in the vocabulary but not made by merges."""
    definition["model"]["merges"] = definition["model"]["merges"][::2]
    definition["model"]["ignore_merges"] = True


EQUAL: dict[str, Edit] = {
    "ids in any order": _shuffle_ids,
    "merges in any order": lambda d: random.Random(0).shuffle(d["model"]["merges"]),
    "merges repeated": lambda d: d["model"]["merges"].extend(d["model"]["merges"][:100]),
    "words without merges": _drop_merges,
    "an unknown token": lambda d: d["model"].update(unk_token="[UNK]", fuse_unk=True),
    "no normalizer": lambda d: d.update(normalizer=None),
    "truncation": lambda d: d.update(truncation=None),
}


@pytest.mark.parametrize("edit", EQUAL)
@pytest.mark.parametrize("name", half_slow(["gpt2, roberta", "qwen2, qwen3", "deepseek-v3"]))
def test_edited_definitions(name, edit):
    texts = crafted_texts(200, seed=3) + real_texts()[::30]
    assert_equal_counts(edited(name, EQUAL[edit]), texts)


def _without_a_byte(definition: dict[str, Any]) -> None:
    """No z, which then gives no token."""
    model = definition["model"]
    model["vocab"] = {token: i for token, i in model["vocab"].items() if "z" not in token}
    model["merges"] = [pair for pair in model["merges"] if "z" not in "".join(pair)]


def _without_bytes_of_no_text(definition: dict[str, Any]) -> None:
    """As GPT-NeoX is published; the engine takes no vocabulary with gaps between its ids."""
    vocabulary = definition["model"]["vocab"]
    known = [token for token in sorted(vocabulary, key=vocabulary.get) if token not in NO_TEXT]
    definition["model"]["vocab"] = ids = {token: number for number, token in enumerate(known)}
    for token in definition["added_tokens"]:
        token["id"] = ids[token["content"]]


BYTES_OF_NO_TEXT = [0xC0, 0xC1, *range(0xF5, 0x100)]
NO_TEXT = {*map(chr, BYTES_OF_NO_TEXT)}
"""Those bytes as byte-level BPE writes them."""


def test_no_text_has_the_bytes_that_a_vocabulary_may_lack():
    """Every character but surrogates, which neither tokenizers nor Arrow takes."""
    assert {*range(256)} - {*"".join(EVERY).encode()} == {*BYTES_OF_NO_TEXT}
    words = pre_tokenizers.ByteLevel().pre_tokenize_str("".join(EVERY[:0x2000] + EVERY[::97]))
    assert {*BYTES} - {sign for word, _ in words for sign in word} == NO_TEXT
    for surrogate in ("\ud800", "a\udfffb"):
        with pytest.raises(UnicodeEncodeError):
            pa.array([surrogate], pa.large_string())
        with pytest.raises(TypeError):
            trained(*FAMILIES["gpt-neox, olmo"]).encode(surrogate)


@pytest.mark.parametrize("name", half_slow(["gpt-neox, olmo", "llama-3, glm-4, olmo-2"]))
def test_a_vocabulary_without_bytes_of_no_text(name):
    """With NFC or without, and added tokens of the letters that name those bytes."""
    tokenizer = edited(name, _without_bytes_of_no_text)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("À", "ÿÿ", "   ")])
    letters = [f"{chr(byte)} a{chr(byte)}\u0301{chr(byte)}" for byte in BYTES_OF_NO_TEXT]
    signs = [in_contexts(sign) for sign in random.Random(name).sample(EVERY, 200)]
    texts = crafted_texts(200, seed=5) + real_texts()[::30] + letters + signs
    assert_equal_counts(tokenizer, texts)
    ids, offsets, left = loaded(tokenizer).token_ids(pa.array(texts, pa.large_string()))
    for i, expected in enumerate(tokenizer.encode_batch(texts)):
        assert i in left or ids[offsets[i] : offsets[i + 1]].tolist() == expected.ids, texts[i]


EXCLUDED: dict[str, Edit] = {
    "dropout": lambda d: d["model"].update(dropout=0.1),
    "byte fallback": lambda d: d["model"].update(byte_fallback=True),
    "suffix": lambda d: d["model"].update(end_of_word_suffix="e"),
    "a byte missing": _without_a_byte,
    "no splitter": lambda d: d.update(pre_tokenizer=None),
    "lower case": lambda d: d.update(normalizer={"type": "Lowercase"}),
    "prepend": lambda d: d.update(normalizer={"type": "Prepend", "prepend": "a"}),
    "two normalizers": lambda d: d.update(
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKC"}]}
    ),
    "digits after": lambda d: d["pre_tokenizer"]["pretokenizers"].append(
        {"type": "Digits", "individual_digits": True}
    ),
    "other pattern": lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(
        pattern={"Regex": r"\p{L}+"}
    ),
    "a pattern as a text": lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(
        pattern={"String": d["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]}
    ),
    "matches removed": lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(behavior="Removed"),
    "inverted": lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(invert=True),
    "merged": lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(
        behavior="MergedWithPrevious"
    ),
}


@pytest.mark.parametrize("edit", EXCLUDED)
def test_what_was_not_found_equal_is_excluded(edit):
    assert not engine_admits(edited("qwen2, qwen3", EXCLUDED[edit]))


RUN, WORD = AddedToken("   ", normalized=True), AddedToken("-", single_word=True, normalized=True)


@pytest.mark.parametrize(
    ("name", "admitted", "token"),
    [
        ("gpt2, roberta", [], AddedToken("   ", lstrip=True)),
        ("gpt2, roberta", [], AddedToken("\n\n", rstrip=True)),
        ("gpt2, roberta", [], AddedToken("<extra>", lstrip=True, single_word=True)),
        # Tokens that may claim the same space: the engine is wrong for some of them.
        ("gpt-neox, olmo", [RUN], AddedToken("two words", normalized=False, rstrip=True)),
        ("gpt-neox, olmo", [RUN], AddedToken("\n\n", normalized=False, single_word=True)),
        # tokenizers looks for whole words in what is left beside the tokens of raw text, the engine
        # in all of the text: of `12-.`, it counts 2 tokens for 3.
        ("gpt2, roberta", [WORD], AddedToken("12", normalized=False, special=True)),
    ],
)
def test_added_tokens_that_are_excluded(name, admitted, token):
    tokenizer = trained(*FAMILIES[name])
    tokenizer.add_tokens(admitted)
    assert engine_admits(tokenizer)
    tokenizer.add_tokens([token])
    assert not engine_admits(tokenizer)


def test_normalized_tokens_are_excluded_when_special_tokens_are_text():
    tokenizer = trained(*FAMILIES["gpt2, roberta"])
    tokenizer.add_tokens([AddedToken("a", normalized=True)])
    assert engine_admits(tokenizer)
    tokenizer.encode_special_tokens = True
    assert not engine_admits(tokenizer)


def test_custom_components_are_excluded():
    class Own:
        def pre_tokenize(self, text) -> None:
            pass

    tokenizer = trained(*FAMILIES["gpt2, roberta"])
    tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Own())
    assert not engine_admits(tokenizer)


def test_the_engine_differs_where_the_gate_says():
    """If one of these becomes equal, its exclusion can go."""
    names = ("llama-3, glm-4, olmo-2", "deepseek-v3, some line ends unescaped")
    for name, sign in zip(names, "ſ\u180e", strict=True):
        text = in_contexts(sign)
        tokenizer = of_pairs(*FAMILIES[name], [text])
        engine = fastokens.Tokenizer.from_json_str(tokenizer.to_str())
        assert possibly_miscounted(["", text]) == [1]
        assert len(engine.encode(text).ids) != len(tokenizer.encode(text))


def assert_marked_equal(name: str, seed: int) -> None:
    tokenizer, entries = marked(name, seed)
    tokenizer.encode_special_tokens = seed % 4 == 0
    texts = texts_of_entries(entries, 300, seed) + crafted_texts(100, seed) + real_texts()[::40]
    assert_equal_counts(tokenizer, texts)


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize(
    "seeds", [(0, 1), *(pytest.param(range(i, i + 3), marks=pytest.mark.slow) for i in (2, 14, 26))]
)
def test_sentence_piece(name, seeds):
    for seed in seeds:
        tokenizer, entries = marked(name, seed)
        tokenizer.encode_special_tokens = seed % 4 == 0
        texts = texts_of_entries(entries, 300, seed) + crafted_texts(100, seed) + real_texts()[::40]
        assert_equal_counts(tokenizer, texts)


@pytest.mark.parametrize("name", MARKED)
def test_characters_in_sentence_piece(name):
    signs = random.Random(name).sample(EVERY, 1000) + EVERY[:0x300:2]
    assert_equal_counts(marked(name, 1)[0], [in_contexts(sign) for sign in signs])


def test_sentence_piece_must_know_the_characters_of_its_entries():
    """The engine is wrong otherwise: where a text has the name of a byte."""
    tokenizer, _ = marked("yi", 0, knows_characters=False)
    assert not engine_admits(tokenizer)
    engine = fastokens.Tokenizer.from_json_str(tokenizer.to_str())
    assert len(engine.encode("a<0x42>").ids) != len(tokenizer.encode("a<0x42>"))


MARKED_EDITS: dict[str, Callable[[Tokenizer], object]] = {
    "no bytes": lambda t: setattr(t.model, "byte_fallback", False),
    "dropout": lambda t: setattr(t.model, "dropout", 0.1),
    "another mark": lambda t: setattr(t, "normalizer", normalizers.Replace(" ", "_")),
    "two steps": lambda t: setattr(t, "normalizer", normalizers.Sequence([normalizers.NFC()])),
    "words": lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Metaspace()),
    "a token that strips": lambda t: t.add_tokens([AddedToken("<x>", rstrip=True)]),
}


@pytest.mark.parametrize("edit", MARKED_EDITS)
def test_what_was_not_found_equal_of_sentence_piece_is_excluded(edit):
    tokenizer, _ = marked("llama-2, mistral-7b", 0)
    assert engine_admits(tokenizer)
    MARKED_EDITS[edit](tokenizer)
    assert not engine_admits(tokenizer)


def test_byte_alphabet_and_pattern_are_complete():
    assert len(BYTES) == 256
    assert not engine_admits(of_pairs(split_by(r"\s+|\S+"), None, ["a b"]))


def test_real_tokenizers_on_real_texts(real_data):
    lines = (real_data / "multilingual.txt").read_text(encoding="utf-8").split("\n")
    texts = [*lines[::9], *crafted_texts(1500, seed=4), *real_texts()[::3]]
    admitted = set()
    for folder in sorted((real_data / "tokenizers").iterdir()):
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if engine_admits(tokenizer):
            assert_equal_counts(tokenizer, texts)
            admitted.add(folder.name)
    assert admitted >= {"gpt2", "gpt-neox-20b", "mistral-v1", "qwen2", "roberta-base"}
