"""Where a text may be cut so that its pieces' token counts add up to its own.

A piece is a slice of the text's bytes, its spaces included, and is counted as a text of its own.
The counts add up where a tokenizer does to both sides of a cut, apart, what it does to them
together. A tokenizer normalizes, splits into words, and hands every word to its model, and the
models that are recognised here see one word at a time; so a cut needs a reason only from the first
two steps, and from the added tokens, which are found in the text before either.

Two cuts are known, and each needs only the byte before it and the byte after it:

before a space that follows visible ASCII
    No splitter below has a word that goes on over such a space. BERT's and T5's drop white space.
    Metaspace makes of a space the mark that begins the next word. The patterns of byte-level BPE
    take a space into a match only as its first character or among nothing but white space, and
    look ahead only from white space to what comes after it, never back. The patterns are matched
    from left to right, so that a match that must end here ends here, and the next begins as it
    would in a text of its own.
after an ASCII letter or digit, before ASCII punctuation, a tab or a line end
    BERT splits at punctuation and white space. In the patterns of byte-level BPE letters and digits
    go on only with letters and digits: an apostrophe begins a contraction or a word of its own. Not
    so in the newer pattern of o200k, where 's belongs to the word before it, nor in Metaspace,
    where punctuation belongs to the word.

Normalizers that are let through change no character by one on the other side of these cuts: NFC and
accent stripping compose with marks, which are not ASCII; lower case, control characters and Chinese
characters are dealt with one by one, a precompiled map by grapheme clusters, which end before a
space that follows ASCII; such a map is let through only where it leaves ASCII as it is, which is
tried; runs of spaces lie on one side.

Anything else about a tokenizer that is not recognised to the letter means that it is never cut. The
conditions come from a study in which every one of them was found by a text that broke without it.
"""

import json
import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tokenizers

_VISIBLE = bytes(range(0x21, 0x7F))
_WORD = (string.ascii_letters + string.digits).encode()
_AFTER_WORD = (string.punctuation + "\t\n\r").encode()

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CL100K = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _REST
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _REST

Definition = dict[str, Any]
"""A part of a tokenizer.json, parsed."""


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
    """The cuts that are sound for a tokenizer; None where it is not one of the kinds known."""
    added = list(tokenizer.get_added_tokens_decoder().values())
    by_word = _counts_by_word(tokenizer.model) and not tokenizer.encode_special_tokens
    if not (by_word and _plain(added)):
        return None
    normalizer, splitter = _definition(tokenizer.normalizer), _definition(tokenizer.pre_tokenizer)
    if _is_bert(normalizer, splitter) or _is_byte_level(normalizer, splitter):
        return _cuts(within=[token.content for token in added])
    if _is_metaspace(normalizer, splitter) and _keeps_ascii(tokenizer.normalizer):
        return _cuts(within=None)
    return None


def _definition(part: Any) -> Definition:
    """A part of a tokenizer as in its tokenizer.json, which is what pickling keeps of it."""
    try:
        definition: Definition = {} if part is None else json.loads(part.__getstate__())
    except Exception:  # tokenizers raises bare Exception for a part that is written in Python
        return {"type": "Custom"}
    return definition


def _cuts(within: Iterable[str] | None) -> Cuts:
    """Cuts before spaces; also after words, but not `within` these tokens, unless it is None."""
    space, word = 1, 2
    before, after = bytearray(256), bytearray(256)
    for byte in _VISIBLE:
        before[byte] |= space
    after[ord(" ")] |= space
    if within is not None:
        inner = {byte for token in within for byte in token.encode()[1:]}
        for byte in _WORD:
            before[byte] |= word
        for byte in set(_AFTER_WORD) - inner:
            after[byte] |= word
    return Cuts(bytes(before), bytes(after))


def _counts_by_word(model: Any) -> bool:
    """Whether a word always gives the same tokens; with dropout or sampling it does not."""
    known = ("BPE", "WordPiece", "Unigram")
    chance = ("dropout", "alpha", "nbest_size")
    return type(model).__name__ in known and not any(getattr(model, name, None) for name in chance)


def _plain(added: Iterable[tokenizers.AddedToken]) -> bool:
    """Whether added tokens neither hold a space inside nor look at what comes after them.

    Those of nothing but spaces are let through, as a run of spaces is never cut; so are those that
    take the white space before them, which begins with the space at which a cut may lie. Of those
    that are found in normalized text, only such as no normalizer gives another space.
    """
    return not any(
        token.rstrip
        or token.single_word
        or (" " in token.content[1:] and token.content.strip(" "))
        or (token.normalized and not (token.content.isascii() and token.content.isprintable()))
        for token in added
    )


def _is_bert(normalizer: Definition, splitter: Definition) -> bool:
    return splitter == {"type": "BertPreTokenizer"} and normalizer.get("type") in (
        None,
        "BertNormalizer",
    )


def _is_byte_level(normalizer: Definition, splitter: Definition) -> bool:
    if normalizer not in ({}, {"type": "NFC"}):
        return False
    if splitter.get("type") == "ByteLevel":
        return _is_bytes(splitter, use_regex=True)
    parts = splitter.get("pretokenizers", [])
    return (
        len(parts) == 2
        and parts[0]["type"] == "Split"
        and parts[0]["pattern"].get("Regex") in (_CL100K, _QWEN2)
        and parts[0]["behavior"] == "Isolated"
        and not parts[0]["invert"]
        and _is_bytes(parts[1], use_regex=False)
    )


def _is_bytes(splitter: Definition, use_regex: bool) -> bool:
    return (
        splitter["type"] == "ByteLevel"
        and not splitter["add_prefix_space"]
        and splitter["use_regex"] is use_regex
    )


def _is_metaspace(normalizer: Definition, splitter: Definition) -> bool:
    """SentencePiece's way, for T5 and its like after splitting at white space.

    A mark is set before every text or before none: `first` sets it by where the text stands.
    """
    parts = splitter.get("pretokenizers", [splitter])
    if parts and parts[0] == {"type": "WhitespaceSplit"}:
        parts = parts[1:]
    return (
        len(parts) == 1
        and parts[0].get("type") == "Metaspace"
        and parts[0]["prepend_scheme"] in ("always", "never")
        and parts[0]["split"]
        and all(_is_sentencepiece(part) for part in normalizer.get("normalizers", [normalizer]))
    )


def _keeps_ascii(normalizer: Any) -> bool:
    """Whether a normalizer leaves visible ASCII as it is, alone and around a space.

    A precompiled map says what it does only by doing it.
    """
    signs = [chr(byte) for byte in _VISIBLE]
    texts = [text for sign in signs for text in (sign, f"{sign} {sign}", f"{sign} \u00e9")]
    return normalizer is None or all(normalizer.normalize_str(text) == text for text in texts)


def _is_sentencepiece(normalizer: Definition) -> bool:
    replacement = (normalizer.get("pattern"), normalizer.get("content"))
    return normalizer.get("type") in (None, "Precompiled") or (
        normalizer["type"] == "Replace" and replacement == ({"Regex": " {2,}"}, " ")
    )
