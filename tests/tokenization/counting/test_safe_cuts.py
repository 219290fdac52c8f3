"""Where texts may be cut, and texts whose pieces would not add up if they were cut elsewhere."""

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from batchstat.tokenization.counting.piece_counter import PieceCounter
from batchstat.tokenization.counting.safe_cuts import O200K, Cuts, find_cuts
from batchstat.tokenization.counting.separable import VISIBLE, keeps_line_ends, valid_before_space
from piece_tokenizers import (
    CONTROLS,
    EVERY,
    MARKS,
    SPACES,
    albert,
    assert_equal_counts,
    by_pieces,
    byte_level,
    metaspace,
    recent,
    sentence_piece,
    whole,
    word_piece,
    xlnet,
)
from tables import in_turn


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
    "special tokens spelled out are text": with_split_special_tokens,
    "a word split by chance": with_sampling,
    "no splitter": with_no_splitter,
    "a splitter written in Python": with_own_splitter,
    "stripping": lambda: with_normalizer(normalizers.Strip()),
}


@in_turn("name", WHOLE)
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
    wrong = PieceCounter(tokenizer, Cuts(*tables))
    assert by_pieces(wrong, [text]) != whole(tokenizer, [text])
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
        for sign in (*EVERY[:0x3100:7], *MARKS, *SPACES, *CONTROLS):
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
    assert not keeps_line_ends(MAP)


@pytest.mark.slow
@pytest.mark.parametrize("made", [albert, xlnet, recent])
def test_published_normalizers_with_a_real_map(real_data, made):
    """Stand-ins: published pipelines, T5's map, and a vocabulary of their own."""
    t5 = Tokenizer.from_file(str(real_data / "tokenizers/t5-base/tokenizer.json"))
    tokenizer = made(t5.normalizer)
    cuts = find_cuts(tokenizer)
    assert cuts is not None
    lines = (real_data / "multilingual.txt").read_text(encoding="utf-8").split("\n")
    assert_equal_counts(tokenizer, PieceCounter(tokenizer, cuts), list(dict.fromkeys(lines[::4])))
