"""Counting by pieces: the tokenizers' own counts, whatever the text."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from batchstat.tokenization.counting import piece_counter as piecewise
from batchstat.tokenization.counting import shortcut
from batchstat.tokenization.counting.count_check import CountCheck, MiscountError
from batchstat.tokenization.counting.piece_counter import PieceCounter
from batchstat.tokenization.counting.safe_cuts import find_cuts
from conftest import SAMPLE_DATA
from piece_tokenizers import (
    ADDED,
    CONTROLS,
    CUT,
    MARKS,
    SPACES,
    SPECIAL,
    TAKES_SPACE,
    assert_equal_counts,
    byte_level,
)

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


@pytest.fixture(autouse=True)
def always_by_pieces(monkeypatch):
    """Also where pieces do not repeat, and without the check that would hide a wrong cut."""
    monkeypatch.setattr(PieceCounter, "_pieces_repeat", lambda *_: True)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
@settings(max_examples=50)
@given(texts=st.lists(CRAFTED | RANDOM, min_size=1, max_size=30, unique=True))
def test_pieces_add_up(counters, name, texts):
    assert_equal_counts(*counters(name), texts)


@pytest.mark.parametrize("name", CUT)
def test_spaces_controls_and_marks_between_words(counters, name):
    """A third of all there are; tokenizers alike take different ones."""
    odd = [*SPACES, *CONTROLS, *MARKS][len(name) % 3 :: 3]
    around = [
        f"{before}{each}{gap}{after}c"
        for each in odd
        for before in ("a", ".", "é")
        for gap in (" ", "")
        for after in ("", each)
    ]
    assert_equal_counts(*counters(name), list(dict.fromkeys(around)))


@pytest.mark.parametrize("name", CUT)
def test_cjk_and_emoji_characters_beside_a_cut(counters, name):
    """A quarter of them; tokenizers alike take different ones."""
    codes = [*range(0x2600, 0x3100), *range(0x3400, 0xA000, 97), *range(0x1F300, 0x1FB00)]
    some = codes[len(name) % 4 :: 4]
    texts = [f"a {chr(code)} b.{chr(code)} c{chr(code)} d" for code in some]
    assert_equal_counts(*counters(name), texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
def test_sample_data_by_pieces(counters, name):
    tokenizer, counter = counters(name)
    for file in ("corpus.txt", "reviews.csv", "chat.jsonl", "make.py"):
        text = (SAMPLE_DATA / file).read_text(encoding="utf-8")
        lines = list(dict.fromkeys(text.splitlines()[::4]))
        assert_equal_counts(tokenizer, counter, lines)
        assert_equal_counts(tokenizer, counter, [text[:20_000]])


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


@pytest.mark.parametrize(
    "model",
    [
        models.Unigram([("<unk>", 0.0), ("<pad>", 0.0), ("\u2581", -1.0), ("a", -1.0)], 0, False),
        models.WordPiece({"<unk>": 0, "<pad>": 1, "\u2581": 2, "a": 3}, unk_token="<unk>"),
        models.BPE({"<unk>": 0, "<pad>": 1, "\u2581": 2, "a": 3}, [], unk_token="<unk>"),
    ],
)
def test_pieces_with_unknown_characters_are_asked_once(monkeypatch, model):
    """Not joined by the unknown token, though it comes first, as in XLNet: all were asked again."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "<pad>"])
    cuts = find_cuts(tokenizer)
    assert cuts is not None
    monkeypatch.setattr(PieceCounter, "_tokenize_separately", lambda *_: pytest.fail("asked again"))
    assert_equal_counts(tokenizer, PieceCounter(tokenizer, cuts), ["a 日 a", "éa", "", "a a"])


@pytest.mark.slow
def test_real_tokenizers_are_recognised_and_equal(real_data):
    lines = (real_data / "multilingual.txt").read_text(encoding="utf-8").split("\n")[:2500]
    folders = [each for each in (real_data / "tokenizers").iterdir() if each.name != "mistral-v1"]
    for folder in sorted(folders):
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


@pytest.mark.parametrize("sides", [1, 2])
def test_the_check_compares_what_users_get(monkeypatch, sides):
    """A wrong number of special tokens is found, for texts and for pairs."""
    monkeypatch.undo()
    monkeypatch.setattr(PieceCounter, "_pieces_repeat", lambda *_: True)
    monkeypatch.setattr(shortcut, "_count_special", lambda *_: 7)
    tokenizer = byte_level(None)
    counter = PieceCounter(tokenizer, find_cuts(tokenizer))
    column = pa.array(["some words", "more"] * 20, pa.large_string())
    with pytest.raises(MiscountError, match="some words"):
        counter.count(*[column] * sides)
