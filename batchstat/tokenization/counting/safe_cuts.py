"""Where a text may be cut so that its pieces' token counts add up to its own.

A piece is a slice of the text's bytes, spaces included, and is counted as a text of its own. The
counts add up if a tokenizer treats both sides of a cut separately exactly as it treats them
together. A tokenizer normalizes, splits into words, and passes every word to its model, and the
models that are recognized here see one word at a time; so a cut must be justified only for the
first two steps, and for the added tokens, which are found in the text before either.

Three kinds of cuts are known, which depend only on the byte before a cut and the byte after it:

before a space that follows visible ASCII
    No splitter below has a word that continues over such a space. BERT's and T5's drop whitespace.
    Metaspace turns a space into the mark that begins the next word. The patterns of byte-level BPE
    take a space into a match only as its first character or among nothing but whitespace, and
    look ahead only from whitespace to what comes after it, never back. The patterns are matched
    from left to right, so a match that must end here ends here, and the next begins as it would in
    a text of its own. Where the splitter begins by dropping whitespace, the same holds after any
    other byte, and before a tab or a line end.
after an ASCII letter or digit, before ASCII punctuation, a tab or a line end
    BERT splits at punctuation and whitespace. In the patterns of byte-level BPE, letters and digits
    continue only with letters and digits: an apostrophe begins a contraction or a word of its own.
    This does not hold in the newer pattern of o200k, where 's belongs to the word before it, nor in
    Metaspace, where punctuation belongs to the word.
before a Chinese character
    BertNormalizer puts spaces around every one, so it is a word. The first byte is that of
    characters from U+5000 to U+9FFF, which are all among them; those before U+5000 share their
    first byte with signs that are not.

Normalizers change no character depending on one on the other side of these cuts: see `separable`.
BertNormalizer handles control characters, Chinese characters, accents and case one by one, after a
decomposition to which a space, or a Chinese character in spaces, is a border. NFC composes with
marks, which are not ASCII.

A token that is found in normalized text may consist of spaces. Then a run of spaces must not be
cut, nor a run that a normalizer makes: of U+00A0, or around a Chinese character. So of tokenizers
with tokens that contain spaces, only spaces after visible ASCII are cut.

A tokenizer with anything else that is not recognized exactly is never cut. The conditions come from
a study in which each of them was found through a text that broke without it.
"""

import json
import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tokenizers

from batchstat.tokenization.counting.separable import (
    ALL_BUT_SPACE,
    VISIBLE,
    Definition,
    keeps_lines,
    valid_before_space,
)
from batchstat.tokenization.counting.split_patterns import CL100K, QWEN2

_WORD = (string.ascii_letters + string.digits).encode()
_LINE = b"\t\n\r"
_AFTER_WORD = string.punctuation.encode() + _LINE
_CHINESE = bytes(range(0xE5, 0xEA))
"""First bytes of U+5000 to U+9FFF."""
_ANY = bytes(range(256))


@dataclass(frozen=True)
class Cuts:
    """Where the texts of one tokenizer may be cut: where a bit of `before` meets one of `after`.

    Attributes:
        before: (256,) for each byte, which cuts it may come before.
        after: (256,) for each byte, which cuts it may come after.
    """

    before: bytes
    after: bytes


def find_cuts(tokenizer: tokenizers.Tokenizer) -> Cuts | None:
    """Return the cuts that are valid for a tokenizer; None if it is not of a known kind."""
    added = list(tokenizer.get_added_tokens_decoder().values())
    by_word = _counts_by_word(tokenizer.model) and not tokenizer.encode_special_tokens
    if not (by_word and _plain(added)):
        return None
    normalizer = definition_of_part(tokenizer.normalizer)
    splitter = definition_of_part(tokenizer.pre_tokenizer)
    tokens = [token.content for token in added]
    no_spaces = not any(" " in token for token in tokens)
    kind = normalizer.get("type")
    if splitter == {"type": "BertPreTokenizer"} and kind in (None, "BertNormalizer"):
        chinese = no_spaces and normalizer.get("handle_chinese_chars", False)
        return _cuts(
            (ALL_BUT_SPACE if no_spaces else VISIBLE, b" "),
            (_WORD, _outside(tokens, _AFTER_WORD)),
            (_ANY, _outside(tokens, _CHINESE if chinese else b"")),
        )
    if _is_byte_level(normalizer, splitter):
        return _cuts((VISIBLE, b" "), (_WORD, _outside(tokens, _AFTER_WORD)))
    if _is_metaspace(splitter):
        drops = _drops_whitespace(splitter)
        before = valid_before_space(normalizer, drops and no_spaces)
        lines = _outside(tokens, _LINE) if drops and keeps_lines(normalizer) else b""
        return _cuts((before, b" "), (VISIBLE, lines)) if before else None
    return None


def definition_of_part(part: Any) -> Definition:
    """Return a component as in tokenizer.json, which is also what its pickle contains."""
    try:
        definition: Definition = {} if part is None else json.loads(part.__getstate__())
    except Exception:  # tokenizers raises bare Exception for a component written in Python
        return {"type": "Custom"}
    return definition


def overlaps(one: str, other: str) -> bool:
    """Return whether the end of one text is the beginning of the other."""
    return any(one.endswith(other[:size]) for size in range(1, min(len(one), len(other)) + 1))


def _cuts(*kinds: tuple[bytes, bytes]) -> Cuts:
    """Return cuts between any byte of the first and any of the second of each of these kinds."""
    before, after = bytearray(256), bytearray(256)
    for kind, bytes_ in enumerate(kinds):
        for table, those in zip((before, after), bytes_, strict=True):
            for byte in those:
                table[byte] |= 1 << kind
    return Cuts(bytes(before), bytes(after))


def _outside(tokens: Iterable[str], after: bytes) -> bytes:
    """Return those of the bytes after a cut that are in none of the tokens, except first in it."""
    return bytes(set(after) - {byte for token in tokens for byte in token.encode()[1:]})


def _counts_by_word(model: Any) -> bool:
    """Return whether a word always gives the same tokens: not with dropout or sampling."""
    known = ("BPE", "WordPiece", "Unigram")
    chance = ("dropout", "alpha", "nbest_size")
    return type(model).__name__ in known and not any(getattr(model, name, None) for name in chance)


def _plain(added: Iterable[tokenizers.AddedToken]) -> bool:
    """Return whether added tokens neither contain a space nor look at what comes after them.

    Tokens of nothing but spaces are accepted, as a run of spaces is never cut; so are those that
    take the whitespace before them, which begins with the space at which a cut may be. Of tokens
    that are found in normalized text, only those to which no normalizer adds a space.
    """
    return not any(
        token.rstrip
        or token.single_word
        or (" " in token.content[1:] and token.content.strip(" "))
        or (token.normalized and not (token.content.isascii() and token.content.isprintable()))
        for token in added
    )


def _is_byte_level(normalizer: Definition, splitter: Definition) -> bool:
    if normalizer not in ({}, {"type": "NFC"}):
        return False
    *splits, last = splitter.get("pretokenizers") or [splitter]
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return False
    if last["use_regex"]:  # by its own pattern, that of gpt2
        return last is splitter
    return (
        len(splits) == 1
        and splits[0]["type"] == "Split"
        and splits[0]["pattern"].get("Regex") in (CL100K, QWEN2)
        and splits[0]["behavior"] == "Isolated"
        and not splits[0]["invert"]
    )


def _is_metaspace(splitter: Definition) -> bool:
    """Return whether it is SentencePiece-like, as for T5 and others that split at whitespace first.

    A mark is added before every text or before none; `first` makes that depend on its position.
    """
    parts = splitter.get("pretokenizers", [splitter])
    if _drops_whitespace(splitter):
        parts = parts[1:]
    return bool(
        len(parts) == 1
        and parts[0].get("type") == "Metaspace"
        and parts[0]["replacement"] == "\u2581"
        and parts[0]["prepend_scheme"] in ("always", "never")
        and parts[0]["split"]
    )


def _drops_whitespace(splitter: Definition) -> bool:
    return bool(splitter.get("pretokenizers", [None])[:1] == [{"type": "WhitespaceSplit"}])
