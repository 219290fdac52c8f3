"""Which tokenizers the fast engine, fastokens, counts as the tokenizers library does. Both were
compared on real texts, on every character in several contexts, and on edited definitions; each
difference, shown by `tests/tokenization/counting/test_engine_gate.py`, is excluded, and what was
not compared:

- Byte-level BPE is wrong without a pre-tokenizer, and with an end-of-word suffix.
- SentencePiece BPE, as of Llama 2, Mistral 7B, Yi and Gemma, is wrong where an entry of the
  vocabulary has a character without an entry of its own: the engine finds such an entry in a text,
  but merges cannot reach it. (Entries of known characters that no merge reaches do no harm.)
- It may be wrong for added tokens that are restricted to whole words and take the whitespace around
  them, and for whitespace that does so; and for tokens found in normalized text in the cases of
  `_finds_added_tokens`.
- In the patterns of byte-level BPE, a long s continues no contraction (the tokenizers library
  ignores case there, as Unicode has it), and a Mongolian vowel separator may be whitespace. Texts
  with either are counted by the tokenizer itself: see `possibly_miscounted`.
"""

import json
import re
from collections.abc import Collection
from itertools import product
from typing import Any

import tokenizers

from batchstat.tokenization.counting.safe_cuts import (
    BLOOM,
    CL100K,
    DEEPSEEK3,
    O200K,
    QWEN2,
    QWEN35,
    TEKKEN,
    definition_of_part,
    overlaps,
)
from batchstat.tokenization.counting.separable import Definition

_PATTERNS = ((CL100K,), (QWEN2,), (QWEN35,), (O200K,), (TEKKEN,), DEEPSEEK3, (BLOOM,))
_BYTES_IN_NO_TEXT = (0xC0, 0xC1, *range(0xF5, 0x100))
"""Bytes that are never in UTF-8; GPT-NeoX's vocabulary has no token for them."""
_BYTE_SIGNS = {*tokenizers.pre_tokenizers.ByteLevel.alphabet()} - {*map(chr, _BYTES_IN_NO_TEXT)}
_BYTE_TOKENS = {f"<0x{byte:02X}>" for byte in range(256)}
_SPACE, _MARK = {"String": " "}, "\u2581"
_MARKED: Definition = {"type": "Replace", "pattern": _SPACE, "content": _MARK}
_MARKING: tuple[tuple[Definition, Definition], ...] = (
    ({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": _MARK}, _MARKED]}, {}),
    (_MARKED, {}),
    (
        _MARKED,
        {"type": "Split", "pattern": _SPACE, "behavior": "MergedWithPrevious", "invert": False},
    ),
)
"""Normalizers and pre-tokenizers: of Llama 2 and Mistral 7B, of Yi, and of Gemma."""


def engine_admits(backend: tokenizers.Tokenizer) -> bool:
    """Return whether the engine counts as this tokenizer does, `possibly_miscounted` aside."""
    model = backend.model
    # With dropout, a text has no fixed number of tokens.
    if type(model).__name__ != "BPE" or model.dropout:
        return False
    # The engine is wrong with a suffix, and was not compared with a prefix.
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return False
    added = backend.get_added_tokens_decoder().values()
    if merges_over_spaces(backend):  # SentencePiece BPE
        # Each byte must have a token, and each character of an entry must be an entry itself: else
        # the engine would find entries in a text that merges cannot reach.
        entries = backend.get_vocab(with_added_tokens=False).keys()
        is_complete = model.byte_fallback and entries >= _BYTE_TOKENS | set("".join(entries))
        return bool(is_complete) and not any(token.lstrip or token.rstrip for token in added)
    # Byte-level BPE: each byte must have a token, and every step must be one that was compared.
    normalizer, splitter = _normalizer_and_splitter(backend)
    return (
        not model.byte_fallback
        and all(model.token_to_id(sign) is not None for sign in _BYTE_SIGNS)
        and normalizer in ({}, {"type": "NFC"}, {"type": "Sequence", "normalizers": []})
        and _is_known_splitter(splitter)
        and _finds_added_tokens(
            added,
            is_normalizing=normalizer == {"type": "NFC"},
            splits_special_tokens=backend.encode_special_tokens,
        )
    )


def merges_over_spaces(backend: tokenizers.Tokenizer) -> bool:
    """Return whether a tokenizer is SentencePiece BPE: it marks spaces in a way of `_MARKING`."""
    return _normalizer_and_splitter(backend) in _MARKING


def keeps_bytes(backend: tokenizers.Tokenizer) -> bool:
    """Return whether every token stands for bytes of the normalized text and for nothing else."""
    _, splitter = _normalizer_and_splitter(backend)
    # The setting may be in any step: so it is searched in the text of the whole definition.
    adds_space = '"add_prefix_space": true' in json.dumps(splitter)
    return not merges_over_spaces(backend) and not adds_space


def possibly_miscounted(texts: list[str]) -> list[int]:
    """Return the positions of texts that the engine may count differently: see this module."""
    # The long s alone is searched first: Python skips the search for it in ASCII texts.
    return [
        i
        for i, text in enumerate(texts)
        if ("\u017f" in text and "'\u017f" in text) or "\u180e" in text
    ]


def _normalizer_and_splitter(backend: tokenizers.Tokenizer) -> tuple[Definition, Definition]:
    return definition_of_part(backend.normalizer), definition_of_part(backend.pre_tokenizer)


def _is_known_splitter(splitter: Definition) -> bool:
    """Return whether a pre-tokenizer splits by patterns with which the engine was compared."""
    # A Sequence has several steps; any other pre-tokenizer is a single one.
    steps = splitter.get("pretokenizers", [splitter])
    if not steps or steps[-1].get("type") != "ByteLevel":
        return False
    *splits, byte_level = steps
    if byte_level["use_regex"]:  # splits by its own pattern
        # StarCoder and SmolLM split digits first.
        return [step["type"] for step in splits] in ([], ["Digits"])
    if byte_level["add_prefix_space"] or not all(_keeps_matches(step) for step in splits):
        return False
    # Some tokenizers write line ends in a pattern as they are, others write the escapes \r and \n.
    patterns = [str(step["pattern"].get("Regex")) for step in splits]
    escaped = [each.replace("\r", "\\r").replace("\n", "\\n") for each in patterns]
    return tuple(escaped) in _PATTERNS


def _keeps_matches(step: Definition) -> bool:
    """Return whether a step makes each match of its pattern a word, and drops nothing."""
    if step["type"] != "Split":
        return False
    if step["behavior"] == "Isolated":
        return not step["invert"]
    # Some definitions remove what lies between matches: here nothing, as each character is in one.
    removes_between = step["behavior"] == "Removed" and step["invert"]
    return bool(removes_between and step["pattern"] == {"Regex": CL100K})


def _finds_added_tokens(
    added: Collection[Any], *, is_normalizing: bool, splits_special_tokens: bool
) -> bool:
    """Return whether the engine finds all added tokens where the tokenizers library does."""
    # Tokens that take whitespace, or begin or end with it, may compete for it. If they are of
    # several kinds, (normalized, has another flag), and one kind is normalized, the engine may
    # choose another token than tokenizers. Raw tokens without flags, (False, False), do not count:
    # both find them alike, as Dolly's "### Response:\n" beside GPT-NeoX's runs of spaces.
    kinds_beside_space = {
        (token.normalized, token.lstrip or token.rstrip or token.single_word)
        for token in added
        if token.lstrip or token.rstrip or token.content != token.content.strip()
    } - {(False, False)}
    if len(kinds_beside_space) > 1 and any(normalized for normalized, _ in kinds_beside_space):
        return False
    # tokenizers looks for normalized tokens in what the tokens of raw text leave. Without a
    # normalizer, the engine looks for both at once: in "abc", with a raw token "bc" and a
    # normalized token "ab", it finds "ab", and tokenizers finds "bc".
    raw = [token for token in added if not token.normalized]
    normalized = [token.content for token in added if token.normalized]
    if not is_normalizing and any(_may_be_lost(*pair) for pair in product(raw, normalized)):
        return False
    # tokenizers takes raw tokens out of a text before it decides whether a normalized token is a
    # whole word; the engine decides that in the whole text. So beside a raw token "12", or any that
    # begins or ends with a letter or digit, another token is a whole word for tokenizers only.
    is_word = any(token.normalized and token.single_word for token in added)
    if is_word and any(re.match(r"\w|.*\w\Z", token.content, re.DOTALL) for token in raw):
        return False
    return all(_is_found(token, is_normalizing, splits_special_tokens) for token in added)


def _may_be_lost(raw: Any, normalized: str) -> bool:
    # The engine may miss a raw token that can begin inside the normalized one. One that must be a
    # whole word, also if the normalized one can begin inside it, where that is not a word.
    raw_text: str = raw.content
    if raw_text in normalized or overlaps(normalized, raw_text):
        return True
    return bool(raw.single_word) and (normalized in raw_text or overlaps(raw_text, normalized))


def _is_found(token: Any, is_normalizing: bool, splits_special_tokens: bool) -> bool:
    """Return whether the flags of an added token let the engine find it as tokenizers does."""
    takes_space: bool = token.lstrip or token.rstrip
    if token.normalized:
        # Normalization may make two different tokens the same text.
        may_equal_another = is_normalizing and not token.content.isascii()
        return not (takes_space or may_equal_another or splits_special_tokens)
    has_space = token.content != token.content.strip()
    return not (takes_space and (token.single_word or has_space))
