"""Counting by pieces: the tokenizers' own counts, whatever the text."""

import json
import unicodedata
from dataclasses import replace
from functools import cache

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from batchstat.tokenization import piece_counter as piecewise
from batchstat.tokenization.count_check import CountCheck, MiscountError
from batchstat.tokenization.piece_counter import PieceCounter
from batchstat.tokenization.safe_cuts import Cuts, find_cuts
from batchstat.tokenization.separable import VISIBLE, keeps_lines, valid_before_space
from batchstat.tokenization.split_patterns import CL100K, O200K, QWEN2
from conftest import SAMPLE_DATA

SPECIAL = ["<pad>", "[UNK]", "<|end|>", "[MASK]"]


def byte_level(pattern: str | None, normalizer=None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    if pattern is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return train(tokenizer, trainers.BpeTrainer, initial_alphabet=alphabet)


def word_piece(**options: object) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return train(tokenizer, trainers.WordPieceTrainer)


def metaspace(scheme: str, *, split_first: bool = False, unigram: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram() if unigram else models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    marks = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    splits = [pre_tokenizers.WhitespaceSplit(), marks]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits) if split_first else marks
    if unigram:
        return train(tokenizer, trainers.UnigramTrainer, unk_token="[UNK]")
    return train(tokenizer, trainers.BpeTrainer)


def sentence_piece(*steps, split_first: bool = True) -> Tokenizer:
    """A stand-in: these published normalizers, and a vocabulary of its own."""
    tokenizer = metaspace("always", split_first=split_first)
    tokenizer.normalizer = normalizers.Sequence(list(steps))
    return tokenizer


def quotes() -> list:
    return [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]


def albert(*steps) -> Tokenizer:
    accents = [normalizers.NFKD(), normalizers.StripAccents()]
    return sentence_piece(*quotes(), *accents, normalizers.Lowercase(), *steps)


def xlnet(*steps) -> Tokenizer:
    runs = normalizers.Replace(Regex(" {2,}"), " ")
    return sentence_piece(*quotes(), normalizers.NFKD(), normalizers.StripAccents(), *steps, runs)


def recent(*steps, split_first: bool = False) -> Tokenizer:
    """As transformers converts Pegasus, XLM-R and others today."""
    runs = normalizers.Replace(Regex(" {2,}"), "\u2581")
    end = normalizers.Strip(left=False, right=True)
    return sentence_piece(*steps, end, runs, split_first=split_first)


def unsplit(**options: object) -> Tokenizer:
    """A stand-in for Llama 2 and Mistral: no pre-tokenizer, bytes for unknown characters."""
    taught = metaspace("always", unigram=False)
    model = json.loads(taught.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    indents = [("▁" * size, "▁" * size) for size in (1, 2, 4)]
    entries = [*model["vocab"], "▁", *("".join(pair) for pair in indents)]
    entries += [f"<0x{byte:02X}>" for byte in range(256)]
    vocab = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    given = {"byte_fallback": True, "fuse_unk": True, **options}
    tokenizer = Tokenizer(models.BPE(vocab, [*merges, *indents], unk_token="[UNK]", **given))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def merging_over_spaces() -> Tokenizer:
    definition = json.loads(unsplit().to_str())
    model = definition["model"]
    model["vocab"]["a▁"] = len(model["vocab"])
    model["merges"].insert(0, ["a", "▁"])
    return Tokenizer.from_str(json.dumps(definition))


def with_normalized_token() -> Tokenizer:
    tokenizer = unsplit()
    tokenizer.add_tokens(["<extra>"])
    return tokenizer


def train(tokenizer: Tokenizer, trainer, **options) -> Tokenizer:
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()[:300]
    made = trainer(vocab_size=600, special_tokens=SPECIAL, show_progress=False, **options)
    tokenizer.train_from_iterator(lines, made)
    return tokenizer


CUT = {
    "WordPiece": lambda: word_piece(lowercase=False),
    "WordPiece, uncased": lambda: word_piece(lowercase=True, strip_accents=True),
    "gpt2": lambda: byte_level(None),
    "cl100k": lambda: byte_level(CL100K),
    "qwen2": lambda: byte_level(QWEN2, normalizers.NFC()),
    "Metaspace, Unigram": lambda: metaspace("always"),
    "Metaspace, BPE": lambda: metaspace("always", unigram=False),
    "Metaspace, no prepend": lambda: metaspace("never"),
    "T5's": lambda: metaspace("always", split_first=True),
    "ALBERT's": albert,
    "XLNet's": xlnet,
    "a recent conversion": recent,
    "a recent conversion, whitespace dropped": lambda: recent(split_first=True),
    "compatibility characters": lambda: sentence_piece(normalizers.Nmt(), normalizers.NFKC()),
    "no pre-tokenizer": unsplit,
}


TAKES_SPACE = AddedToken("~x", lstrip=True)
LITERAL = [AddedToken(text, normalized=False) for text in ("<extra_0>", "it's")]
ADDED = {
    # With Strip, tokenizers itself panics on some texts if there are tokens in normalized text.
    "a recent conversion": LITERAL,
    "a recent conversion, whitespace dropped": LITERAL,
    "no pre-tokenizer": LITERAL,
}
"""Added tokens of tokenizers that take fewer kinds of them."""
NO_SPACES = ("WordPiece", "WordPiece, uncased", "T5's", "ALBERT's", "XLNet's")
for _name in NO_SPACES:
    CUT[f"{_name}, no token with spaces"] = CUT[_name]
    ADDED[f"{_name}, no token with spaces"] = [
        "<extra_0>",
        "it's",
        AddedToken("字.", normalized=False),
        TAKES_SPACE,
    ]


def with_dropout() -> Tokenizer:
    tokenizer = byte_level(None)
    tokenizer.model.dropout = 0.1
    return tokenizer


def with_added(**options: object) -> Tokenizer:
    tokenizer = byte_level(None)
    tokenizer.add_tokens([AddedToken("<extra>", **options)])
    return tokenizer


def with_token(text: str) -> Tokenizer:
    tokenizer = byte_level(None)
    tokenizer.add_tokens([text])
    return tokenizer


def with_prefix_space() -> Tokenizer:
    tokenizer = byte_level(None)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def with_split_special_tokens() -> Tokenizer:
    tokenizer = metaspace("always")
    tokenizer.encode_special_tokens = True
    return tokenizer


def with_sampling() -> Tokenizer:
    tokenizer = metaspace("always")
    model = tokenizer.model
    model.alpha, model.nbest_size = 0.1, 64
    tokenizer.model = model
    return tokenizer


def with_no_splitter() -> Tokenizer:
    tokenizer = metaspace("always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([])
    return tokenizer


class Letters:
    """A splitter written in Python."""

    def pre_tokenize(self, text) -> None:
        text.split(lambda _, part: [part[i : i + 1] for i in range(len(str(part)))])


def with_own_splitter() -> Tokenizer:
    tokenizer = byte_level(None)
    tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Letters())
    return tokenizer


def with_normalizer(normalizer) -> Tokenizer:
    return byte_level(None, normalizer)


WHOLE = {
    "o200k": lambda: byte_level(O200K),
    "a mark at the first word only": lambda: metaspace("first"),
    "dropout": with_dropout,
    "a token that takes the space after it": lambda: with_added(rstrip=True),
    "a token that must be a word": lambda: with_added(single_word=True),
    "a token with a space inside": lambda: with_token("two words"),
    "a token that normalizes to one with a space": lambda: with_token("two\u3000words"),
    "a space before every text": with_prefix_space,
    "compatibility characters": lambda: with_normalizer(normalizers.NFKC()),
    "stripping on the left": lambda: sentence_piece(normalizers.Strip(left=True, right=False)),
    "a replaced space": lambda: sentence_piece(normalizers.Replace("a b", "ab")),
    "a replacement by a space": lambda: sentence_piece(normalizers.Replace("~", " ")),
    "a replacement by nothing": lambda: sentence_piece(normalizers.Replace("~", "")),
    "a replaced pattern": lambda: sentence_piece(normalizers.Replace(Regex("~+"), "~")),
    "a mark before every text": lambda: sentence_piece(normalizers.Prepend("x")),
    "steps after the mark of a space": lambda: recent(*recent().normalizer),
    "merges over spaces": merging_over_spaces,
    "no bytes for unknown characters": lambda: unsplit(byte_fallback=False),
    "words that merge at once": lambda: unsplit(ignore_merges=True),
    "a space beside a token in normalized text": with_normalized_token,
    "special tokens spelled out are text": with_split_special_tokens,
    "a word split by chance": with_sampling,
    "no splitter": with_no_splitter,
    "a splitter written in Python": with_own_splitter,
    "stripping": lambda: with_normalizer(normalizers.Strip()),
}


@pytest.fixture(autouse=True)
def always_by_pieces(monkeypatch):
    """Also where pieces do not repeat, and without the check that would hide a wrong cut."""
    monkeypatch.setattr(PieceCounter, "_repeat", lambda *_: True)
    monkeypatch.setattr(CountCheck, "check", lambda *_: None)


@pytest.fixture(scope="module")
def counters():
    made = {}

    def counter(name: str) -> tuple[Tokenizer, PieceCounter]:
        if name not in made:
            tokenizer = CUT[name]()
            tokenizer.add_tokens(ADDED.get(name, ["<extra_0>", "    ", "it's", TAKES_SPACE]))
            cuts = find_cuts(tokenizer)
            assert cuts is not None
            made[name] = (tokenizer, PieceCounter(tokenizer, cuts))
        return made[name]

    return counter


def whole(tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    return [len(each) for each in tokenizer.encode_batch_fast(texts)]


def assert_equal_counts(tokenizer: Tokenizer, counter: PieceCounter, texts: list[str]) -> None:
    found = counter.count(pa.array(texts, pa.large_string()))
    assert found is not None
    assert dict(zip(texts, found.tolist(), strict=True)) == dict(
        zip(texts, whole(tokenizer, texts), strict=True)
    )


EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
SPACES = [c for c in EVERY if c.isspace() or unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cf")]
CONTROLS = [c for c in EVERY[:0x300] if unicodedata.category(c) == "Cc"]
MARKS = [c for c in EVERY[:0x3100] if unicodedata.combining(c)][::7]
PLAIN = "don't I'LL it's x's 's ' a Z9 1234567 the railway . , ... </ - _x # ~x ~ [ ## <extra_0>"
PARTS = "<extra _0> <|end |> MASK] ▁ Ġ e\u0301 İ ß 日本 語 🦉 👩\u200d👧 한국 Ω \u0600 \u0301"
WORDS = st.sampled_from([*PLAIN.split(" "), *PARTS.split(" "), *SPECIAL])
GAPS = st.one_of(
    st.sampled_from(["", " ", " ", "  ", "    ", "     ", "\t", "\n", "\r\n", " \n ", "\u00a0"]),
    st.sampled_from(SPACES + CONTROLS + MARKS),
)
CRAFTED = st.lists(st.tuples(WORDS, GAPS), max_size=12).map(
    lambda pairs: "".join(f"{word}{gap}" for word, gap in pairs)
)
RANDOM = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
@settings(max_examples=150)
@given(texts=st.lists(CRAFTED | RANDOM, min_size=1, max_size=30, unique=True))
def test_pieces_add_up(counters, name, texts):
    assert_equal_counts(*counters(name), texts)


@pytest.mark.parametrize("name", CUT)
def test_every_space_control_and_mark_between_words(counters, name):
    odd = [*SPACES, *CONTROLS, *MARKS]
    around = [
        f"{before}{each}{gap}{after}c"
        for each in odd
        for before in ("a", ".", "é")
        for gap in (" ", "")
        for after in ("", each)
    ]
    assert_equal_counts(*counters(name), list(dict.fromkeys(around)))


@pytest.mark.parametrize("name", CUT)
def test_every_cjk_and_emoji_character_beside_a_cut(counters, name):
    codes = [*range(0x2600, 0x3100), *range(0x3400, 0xA000, 97), *range(0x1F300, 0x1FB00)]
    texts = [f"a {chr(code)} b.{chr(code)} c{chr(code)} d" for code in codes]
    assert_equal_counts(*counters(name), texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
def test_sample_data_by_pieces(counters, name):
    tokenizer, counter = counters(name)
    for file in ("corpus.txt", "reviews.csv", "chat.jsonl", "make.py"):
        text = (SAMPLE_DATA / file).read_text(encoding="utf-8")
        lines = list(dict.fromkeys(text.splitlines()))
        assert_equal_counts(tokenizer, counter, lines)
        assert_equal_counts(tokenizer, counter, [text])


@pytest.mark.parametrize("name", WHOLE)
def test_what_must_not_be_cut(name):
    assert find_cuts(WHOLE[name]()) is None


ANYWHERE = bytes(set(range(256)) - {0x20})
BREAKS = {
    "spaces that are marks": (
        lambda: metaspace("always"),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]),
        *(ANYWHERE, b" ", "é\u3000 b"),
    ),
    "lines within a word": (lambda: metaspace("always"), None, ANYWHERE, b"\n", "a\nb"),
    "a token of spaces": (word_piece, None, ANYWHERE, b" ", "日   b"),
    "hexagrams": (word_piece, normalizers.Lowercase(), ANYWHERE, b"\xe4", "a\u4dc0"),
    "runs replaced by a mark": (
        lambda: metaspace("never", split_first=True),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), "▁")]),
        *(ANYWHERE, b" ", "é\u00a0 the"),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_texts_that_break_at_refused_cuts(name):
    """Each would be cut if a condition were dropped, and its pieces do not add up."""
    made, normalizer, before, after, text = BREAKS[name]
    tokenizer = made()
    tokenizer.add_tokens(["    "])
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tables = [bytes(byte in those for byte in range(256)) for those in (before, after)]
    texts = pa.array([text], pa.large_string())
    wrong = PieceCounter(tokenizer, Cuts(*tables)).count(texts)
    assert wrong is not None
    assert wrong.tolist() != whole(tokenizer, [text])
    cuts = find_cuts(tokenizer)
    if cuts is not None:
        assert_equal_counts(tokenizer, PieceCounter(tokenizer, cuts), [text])


def test_every_character_before_and_after_a_space():
    """What `separable` says about each step, for every character there is."""
    accents = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()]
    others = [normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Nmt()]
    bert = normalizers.BertNormalizer(lowercase=True)
    for normalizer in (*accents, *others, bert):
        change = normalizer.normalize_str
        for sign in (*EVERY[:0x3100:3], *MARKS, *SPACES, *CONTROLS):
            assert change(f"{sign} x") == f"{change(sign)} x"
            assert change(f"x {sign}") == f"x{change(f' {sign}')}"
            assert change(f" {sign}").startswith(" ")


def test_all_characters_of_the_first_bytes_that_are_cut_are_words():
    for options in ({"lowercase": False}, {"lowercase": True}):
        change = normalizers.BertNormalizer(**options).normalize_str
        codes = [byte << 12 & 0xF000 | rest for byte in range(0xE5, 0xEA) for rest in range(0x1000)]
        signs = [chr(code) for code in codes]
        assert all(sign.encode()[0] in range(0xE5, 0xEA) for sign in signs)
        assert change("a".join(signs)) == "a".join(f" {sign} " for sign in signs)


class Mapped:
    """A precompiled map that does what it is said to do."""

    def __init__(self, sign: str, becomes: str) -> None:
        self._sign, self._becomes = sign, becomes

    def normalize_str(self, text: str) -> str:
        return text.replace(self._sign, self._becomes)


MAP = {"type": "Precompiled", "precompiled_charsmap": "AA=="}


@pytest.mark.parametrize(
    ("sign", "becomes", "valid"),
    [
        ("~", " ", b""),
        (" ", "", b""),
        ("A", "Ä", b""),
        (" \u0301", "\u00b4", b""),
        ("\u0600 ", "\u0600", VISIBLE),
        ("ä", "a", ANYWHERE),
    ],
)
def test_a_precompiled_map_is_tried(monkeypatch, sign, becomes, valid):
    monkeypatch.setattr(normalizers, "Precompiled", lambda _: Mapped(sign, becomes))
    assert valid_before_space(MAP, splits_at_whitespace=True) == valid


def test_a_map_that_removes_line_ends(monkeypatch):
    monkeypatch.setattr(normalizers, "Precompiled", lambda _: Mapped("\n", ""))
    assert not keeps_lines(MAP)


@pytest.mark.slow
@pytest.mark.parametrize("made", [albert, xlnet, recent])
def test_published_normalizers_with_a_real_map(real_data, made):
    """Stand-ins: published pipelines, T5's map, and a vocabulary of their own."""
    t5 = Tokenizer.from_file(str(real_data / "tokenizers/t5-base/tokenizer.json"))
    tokenizer = made(t5.normalizer)
    cuts = find_cuts(tokenizer)
    assert cuts is not None
    lines = (real_data / "multilingual.txt").read_text(encoding="utf-8").split("\n")
    assert_equal_counts(tokenizer, PieceCounter(tokenizer, cuts), list(dict.fromkeys(lines)))


@pytest.mark.parametrize("normalizer", [None, normalizers.NFC()])
def test_a_separator_found_in_normalized_text(normalizer):
    """As in RoBERTa; NFC might compose its end with a mark, so it is then no separator."""
    tokenizer = byte_level(None, normalizer)
    tokenizer = Tokenizer.from_str(
        tokenizer.to_str().replace('"normalized":false', '"normalized":true')
    )
    assert all(token.normalized for token in tokenizer.get_added_tokens_decoder().values())
    counter = PieceCounter(tokenizer, find_cuts(tokenizer))
    assert (counter._separator is None) == (normalizer is not None)
    assert_equal_counts(tokenizer, counter, ["a <pad>\u0338 b", "<pad", "> \u0338", "a<pad>b"])


@pytest.mark.parametrize("separator", ["||", "***", "|SEP|", "__x__"])
def test_a_special_token_that_ends_as_it_begins(separator):
    """Joined by it, a piece that ends so would make another border than the one put there."""
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "|": 2, "b": 3}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([separator])
    cuts = find_cuts(tokenizer)
    assert cuts is not None
    texts = ["a a b", f"a{separator[0]}", "b", f"b{separator[:-1]}", separator[-1], "_", "*"]
    assert_equal_counts(tokenizer, PieceCounter(tokenizer, cuts), texts)


@pytest.mark.slow
def test_real_tokenizers_are_recognised_and_equal(real_data):
    lines = (real_data / "multilingual.txt").read_text(encoding="utf-8").split("\n")[:8000]
    for folder in sorted((real_data / "tokenizers").iterdir()):
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        cuts = find_cuts(tokenizer)
        assert cuts is not None, folder.name
        counter = PieceCounter(tokenizer, cuts)
        assert_equal_counts(tokenizer, counter, list(dict.fromkeys(lines)))


def test_what_is_remembered_has_a_limit(counters, monkeypatch):
    tokenizer, counter = counters("gpt2")
    monkeypatch.setattr(piecewise, "_REMEMBERED", 100)
    rng = np.random.default_rng(0)
    for _ in range(20):
        words = rng.integers(0, 10**9, 60).astype(str)
        assert_equal_counts(tokenizer, counter, [f"{' '.join(words)} {'x' * 200}"])
        assert len(counter._known) <= 100
    assert all(len(piece) <= 64 for piece in counter._known)


TEMPLATES = {
    "a side twice": ("[UNK] $A", "[UNK] $A $B $B <pad>"),
    "the first twice": ("$A", "$A <pad> $B <pad> $A"),
    "sides exchanged": ("$A [UNK]", "$B:1 $A:0"),
    "a single text twice": ("$A $A", "$A $B"),
    "both twice": ("[UNK] $A $A", "[UNK] $A $A $B $B"),
}


@cache
def templated(single: str, pair: str) -> Tokenizer:
    tokenizer = byte_level(None)
    special = [(text, tokenizer.token_to_id(text)) for text in ("[UNK]", "<pad>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=special
    )
    return tokenizer


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=20)
@given(pairs=st.lists(st.tuples(CRAFTED, CRAFTED), min_size=1, max_size=5))
def test_whatever_a_template_makes_of_texts_and_pairs(name, pairs):
    """Counted as the tokenizer does, or not by pieces."""
    tokenizer = templated(*TEMPLATES[name])
    counter = PieceCounter(tokenizer, find_cuts(tokenizer))
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    columns = [pa.array(texts, pa.large_string()) for texts in (first, second)]
    for found, samples in ((counter.count(columns[0]), first), (counter.count(*columns), pairs)):
        assert found is None or found.tolist() == whole(tokenizer, samples)


def test_pairs_of_a_repeating_template_are_counted_by_pieces():
    tokenizer = templated(*TEMPLATES["a side twice"])
    counter = PieceCounter(tokenizer, find_cuts(tokenizer))
    column = pa.array(["some words", "more"], pa.large_string())
    expected = whole(tokenizer, [("some words", "some words"), ("more", "more")])
    assert counter.count(column, column).tolist() == expected


@pytest.mark.parametrize("sides", [1, 2])
def test_the_check_compares_what_users_get(monkeypatch, sides):
    """A wrong number of special tokens is found, for texts and for pairs."""
    monkeypatch.undo()
    monkeypatch.setattr(PieceCounter, "_repeat", lambda *_: True)
    right = piecewise.find_rule
    monkeypatch.setattr(piecewise, "find_rule", lambda *given: replace(right(*given), special=7))
    tokenizer = byte_level(None)
    counter = PieceCounter(tokenizer, find_cuts(tokenizer))
    column = pa.array(["some words", "more"] * 20, pa.large_string())
    with pytest.raises(MiscountError, match="some words"):
        counter.count(*[column] * sides)
