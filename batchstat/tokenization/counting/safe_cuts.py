"""Where a text may be cut so that its pieces' token counts add up to its own. A piece is a slice of
the text's bytes, spaces included. A tokenizer normalizes, splits into words, and passes every word
to its model, and the models that are recognized here see one word at a time; so a cut must be
justified only for the first two steps, and for the added tokens, which are found in the text before
either. Three kinds of cuts are known, which depend only on the byte before a cut and the byte after
it:

before a space that follows visible ASCII
    No splitter below has a word that continues over such a space. BERT's and T5's drop whitespace.
    Metaspace turns a space into the mark that begins the next word. The patterns of byte-level BPE
    take a space into a match only as its first character or among nothing but whitespace, and
    look ahead only from whitespace to what comes after it, never back: so a match that must end
    here ends here, and the next begins as in a text of its own. Where the splitter begins by
    dropping whitespace, the same holds after any other byte, and before a tab or a line end.
after an ASCII letter or digit, before ASCII punctuation, a tab or a line end
    BERT splits at punctuation and whitespace. In the patterns of byte-level BPE, letters and digits
    continue only with letters and digits, but for the newer pattern of o200k, where 's belongs to
    the word before it. Nor does it hold in Metaspace, where punctuation belongs to the word.
before a Chinese character
    BertNormalizer puts spaces around every one. The first byte is that of characters from U+5000 to
    U+9FFF; those before share their first byte with signs that are not Chinese.

Normalizers change no character depending on one on the other side of these cuts: see `separable`.
BertNormalizer decomposes first, for which a space, or a Chinese character in spaces, is a border;
NFC composes with marks, which are not ASCII. A token that is found in normalized text may consist
of spaces: then no run of spaces must be cut, nor one that a normalizer makes, of U+00A0 or around a
Chinese character, so only spaces after visible ASCII are. A tokenizer with anything that is not
recognized exactly is never cut: each condition was found through a text that broke without it.
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
    keeps_line_ends,
    valid_before_space,
)

# Published patterns by which byte-level BPE splits texts into words, as in tokenizer.json.
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BEFORE_LETTERS = r"[^\r\n\p{L}\p{N}]?"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES
_LOWER_END = _BEFORE_LETTERS + r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_UPPER_START = _BEFORE_LETTERS + r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
_SIGNS_AND_SLASHES = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _SPACES

CL100K = f"{_CONTRACTIONS}|{_BEFORE_LETTERS}" + r"\p{L}+|\p{N}{1,3}" + _SIGNS
"""GPT-4, Llama 3, GLM-4, OLMo 2, Phi-4."""
QWEN2 = f"{_CONTRACTIONS}|{_BEFORE_LETTERS}" + r"\p{L}+|\p{N}" + _SIGNS  # qwen2, Qwen2.5, Qwen3
QWEN35 = (
    f"{_CONTRACTIONS}|{_BEFORE_LETTERS}"
    + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    + _SPACES
)
"""Qwen3.5."""
O200K = (
    f"{_LOWER_END}{_CONTRACTIONS}?|{_UPPER_START}{_CONTRACTIONS}?"
    + r"|\p{N}{1,3}"
    + _SIGNS_AND_SLASHES
)
"""GPT-4o, gpt-oss, Llama 4."""
TEKKEN = f"{_LOWER_END}|{_UPPER_START}" + r"|\p{N}" + _SIGNS_AND_SLASHES  # mistral Nemo and later
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + _SPACES,
)
"""DeepSeek V3 and R1, one after the other."""
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"  # BLOOM


_WORD = (string.ascii_letters + string.digits).encode()
_LINE_ENDS = b"\t\n\r"
_AFTER_WORD = string.punctuation.encode() + _LINE_ENDS
_CHINESE = bytes(range(0xE5, 0xEA))  # first bytes of U+5000 to U+9FFF
_ANY = bytes(range(256))


@dataclass(frozen=True)
class Cuts:
    """Where texts may be cut: between bytes a and b if `left[a] & right[b]`, a bit per kind."""

    left: bytes
    right: bytes


def find_cuts(tokenizer: tokenizers.Tokenizer) -> Cuts | None:
    """Return where texts may be cut, as this module says; None for a tokenizer of another kind."""
    added = list(tokenizer.get_added_tokens_decoder().values())
    # With encode_special_tokens, special tokens in a text are counted as text: not admitted.
    model = tokenizer.model
    by_word = type(model).__name__ in ("BPE", "WordPiece", "Unigram")
    # Dropout (BPE) or sampling (Unigram: `alpha`, `nbest_size`) would choose words at random.
    is_random = any(getattr(model, name, None) for name in ("dropout", "alpha", "nbest_size"))
    if not by_word or is_random or tokenizer.encode_special_tokens or not _allow_cuts(added):
        return None
    normalizer = definition_of_part(tokenizer.normalizer)
    splitter = definition_of_part(tokenizer.pre_tokenizer)
    tokens = [token.content for token in added]
    # A token that contains a space may be found across cuts at runs of spaces: then these are few.
    no_spaces = not any(" " in token for token in tokens)
    normalizer_type = normalizer.get("type")
    # Each pair below is one kind of cut: the bytes before it, and the bytes after it.
    after_word = (_WORD, _never_inside(tokens, _AFTER_WORD))
    if splitter == {"type": "BertPreTokenizer"} and normalizer_type in (None, "BertNormalizer"):
        cuts_chinese = no_spaces and normalizer.get("handle_chinese_chars", False)
        return _cuts_between(
            (ALL_BUT_SPACE if no_spaces else VISIBLE, b" "),
            after_word,
            (_ANY, _never_inside(tokens, _CHINESE if cuts_chinese else b"")),
        )
    if _is_byte_level(normalizer, splitter):
        return _cuts_between((VISIBLE, b" "), after_word)
    if _is_metaspace(splitter):
        drops_whitespace = _drops_whitespace(splitter)
        before_space = valid_before_space(normalizer, drops_whitespace and no_spaces)
        if not before_space:  # the normalizer has a step that is not recognized
            return None
        # A tab or a line end ends a word only where it stays whitespace, and whitespace is dropped.
        ends_words = drops_whitespace and keeps_line_ends(normalizer)
        line_ends = _never_inside(tokens, _LINE_ENDS) if ends_words else b""
        return _cuts_between((before_space, b" "), (VISIBLE, line_ends))
    return None


def definition_of_part(part: Any) -> Definition:
    """Return a component as tokenizer.json and its pickle have it; {} if `part` is None."""
    try:
        definition: Definition = {} if part is None else json.loads(part.__getstate__())
    except Exception:  # tokenizers raises bare Exception for a component written in Python
        return {"type": "Custom"}
    return definition


def overlaps(one: str, other: str) -> bool:
    """Return whether the end of one text is the beginning of the other."""
    return any(one.endswith(other[:size]) for size in range(1, min(len(one), len(other)) + 1))


def _cuts_between(*kinds: tuple[bytes, bytes]) -> Cuts:
    """Return the tables of some kinds of cuts."""
    left, right = bytearray(256), bytearray(256)
    for bit, (bytes_before, bytes_after) in enumerate(kinds):
        for byte in bytes_before:
            left[byte] |= 1 << bit
        for byte in bytes_after:
            right[byte] |= 1 << bit
    return Cuts(bytes(left), bytes(right))


def _never_inside(tokens: Iterable[str], after: bytes) -> bytes:
    return bytes(set(after) - {byte for token in tokens for byte in token.encode()[1:]})


def _allow_cuts(added: Iterable[tokenizers.AddedToken]) -> bool:
    """Return whether a cut divides no added token, and hides from none what comes after it."""
    # Tokens of spaces alone are accepted, as a run of spaces is not cut with them; so are those
    # that take the whitespace before them: it begins with the space before which a cut may be.
    return not any(
        # These two depend on what comes after the token.
        token.rstrip
        or token.single_word
        or (" " in token.content[1:] and token.content.strip(" "))
        # A normalizer may add a space to any text but visible ASCII.
        or (token.normalized and not (token.content.isascii() and token.content.isprintable()))
        for token in added
    )


def _is_byte_level(normalizer: Definition, splitter: Definition) -> bool:
    """Return whether texts are split by a pattern of byte-level BPE for which cuts are proven."""
    if normalizer not in ({}, {"type": "NFC"}):
        return False
    *splits, last = splitter.get("pretokenizers") or [splitter]
    # With `add_prefix_space`, a space would be put before every piece.
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return False
    if last["use_regex"]:  # it splits by its own pattern, so that it must be the only step
        return last is splitter
    return (
        len(splits) == 1
        and splits[0]["type"] == "Split"
        and splits[0]["pattern"].get("Regex") in (CL100K, QWEN2)
        and splits[0]["behavior"] == "Isolated"
        and not splits[0]["invert"]
    )


def _is_metaspace(splitter: Definition) -> bool:
    """Return whether Metaspace splits at spaces, alone or after WhitespaceSplit (T5)."""
    parts = splitter.get("pretokenizers", [splitter])
    if _drops_whitespace(splitter):
        parts = parts[1:]
    return bool(
        len(parts) == 1
        and parts[0].get("type") == "Metaspace"
        and parts[0]["replacement"] == "\u2581"
        # A mark comes before every text or none: with `first`, that depends on where a piece is.
        and parts[0]["prepend_scheme"] in ("always", "never")
        and parts[0]["split"]
    )


def _drops_whitespace(splitter: Definition) -> bool:
    return bool(splitter.get("pretokenizers", [None])[:1] == [{"type": "WhitespaceSplit"}])
