"""Where a text may be cut so that its pieces' token counts add up to its own.

A piece is a slice of the text's bytes, spaces included, and is counted as a text of its own. The
counts add up if a tokenizer treats both sides of a cut separately exactly as it treats them
together. A tokenizer normalizes, splits into words, and passes every word to its model, and the
models that are recognized here see one word at a time; so a cut must be justified only for the
first two steps, and for the added tokens, which are found in the text before either.

Two kinds of cuts are known, and each depends only on the byte before it and the byte after it:

before a space that follows visible ASCII
    No splitter below has a word that continues over such a space. BERT's and T5's drop whitespace.
    Metaspace turns a space into the mark that begins the next word. The patterns of byte-level BPE
    take a space into a match only as its first character or among nothing but whitespace, and
    look ahead only from whitespace to what comes after it, never back. The patterns are matched
    from left to right, so a match that must end here ends here, and the next begins as it would in
    a text of its own.
after an ASCII letter or digit, before ASCII punctuation, a tab or a line end
    BERT splits at punctuation and whitespace. In the patterns of byte-level BPE, letters and digits
    continue only with letters and digits: an apostrophe begins a contraction or a word of its own.
    This does not hold in the newer pattern of o200k, where 's belongs to the word before it, nor in
    Metaspace, where punctuation belongs to the word.

Accepted normalizers change no character depending on one on the other side of these cuts: NFC and
accent stripping compose with marks, which are not ASCII; lower case, control characters and Chinese
characters are handled one by one, a precompiled map by grapheme clusters, which end before a space
that follows ASCII; such a map is accepted only if it leaves ASCII unchanged, which is tested; runs
of spaces are on one side.

A tokenizer with anything else that is not recognized exactly is never cut. The conditions come from
a study in which each of them was found through a text that broke without it.
"""

import json
import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tokenizers

from batchstat.tokenization.split_patterns import CL100K, QWEN2

_VISIBLE = bytes(range(0x21, 0x7F))
_WORD = (string.ascii_letters + string.digits).encode()
_AFTER_WORD = (string.punctuation + "\t\n\r").encode()

Definition = dict[str, Any]
"""A component of a tokenizer.json, parsed."""


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
    normalizer, splitter = (
        definition_of_part(tokenizer.normalizer),
        definition_of_part(tokenizer.pre_tokenizer),
    )
    if _is_bert(normalizer, splitter) or _is_byte_level(normalizer, splitter):
        return _cuts(within=[token.content for token in added])
    if _is_metaspace(normalizer, splitter) and _keeps_ascii(tokenizer.normalizer):
        return _cuts(within=None)
    return None


def definition_of_part(part: Any) -> Definition:
    """Return a component as in tokenizer.json, which is also what its pickle contains."""
    try:
        definition: Definition = {} if part is None else json.loads(part.__getstate__())
    except Exception:  # tokenizers raises bare Exception for a component written in Python
        return {"type": "Custom"}
    return definition


def _cuts(within: Iterable[str] | None) -> Cuts:
    """Return cuts before spaces and, unless `within` is None, after words outside these tokens."""
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
        and parts[0]["pattern"].get("Regex") in (CL100K, QWEN2)
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
    """Return whether it is SentencePiece-like, as for T5 and others that split at whitespace first.

    A mark is added before every text or before none; `first` makes that depend on its position.
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
    """Return whether a normalizer leaves visible ASCII unchanged, alone and around a space.

    What a precompiled map does can only be found by applying it.
    """
    signs = [chr(byte) for byte in _VISIBLE]
    texts = [text for sign in signs for text in (sign, f"{sign} {sign}", f"{sign} \u00e9")]
    return normalizer is None or all(normalizer.normalize_str(text) == text for text in texts)


def _is_sentencepiece(normalizer: Definition) -> bool:
    replacement = (normalizer.get("pattern"), normalizer.get("content"))
    return normalizer.get("type") in (None, "Precompiled") or (
        normalizer["type"] == "Replace" and replacement == ({"Regex": " {2,}"}, " ")
    )
