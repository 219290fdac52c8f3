"""How many special tokens a tokenizer's post-processor adds to those of texts.

A template puts special tokens around a text's own. It never looks at the tokens themselves, so
their number is the same for all texts. It may also repeat a text, or omit it, even where special
tokens are not asked for: nobody publishes such a template, and texts are counted whole by it.
"""

from contextlib import suppress
from itertools import product
from typing import Any

import tokenizers

from batchstat.tokenization.counting.safe_cuts import definition_of_part
from batchstat.tokenization.counting.separable import Definition

_PROBES = ("a", "e i o u", "The 1st, 2nd and 3rd of them.")
_MOST_ADDED = 3
"""Added tokens that are tried as texts, for vocabularies without letters."""


def find_special(backend: tokenizers.Tokenizer, *, special_tokens: bool) -> dict[int, int | None]:
    """Return the special tokens of samples of one and of two sides; 0 if not to be added.

    None if a sample's tokens may be others than these and those of its sides. The tokenizer must be
    without truncation and padding.
    """
    part = definition_of_part(backend.post_processor)
    find = _find if special_tokens else lambda *_: 0
    # The texts of a pair, and pieces of texts, are tokenized as single ones.
    single = _keeps_texts(part, "single", ["A"])
    pair = single and _keeps_texts(part, "pair", ["A", "B"])
    return {1: find(backend, 1) if single else None, 2: find(backend, 2) if pair else None}


def _keeps_texts(part: Definition, kind: str, texts: list[str]) -> bool:
    """Return whether every template has each of the texts once."""
    if part.get("type") == "TemplateProcessing":
        pieces = [piece["Sequence"]["id"] for piece in part[kind] if "Sequence" in piece]
        return sorted(pieces) == texts
    return all(_keeps_texts(step, kind, texts) for step in part.get("processors", []))


def _find(backend: tokenizers.Tokenizer, sides: int) -> int | None:
    """Return the special tokens of such samples; None if tested texts have different numbers."""
    probes = _probes(backend)
    if not probes:
        return None
    encode: Any = backend.encode  # a text, or the two of a pair
    special = len(encode(*[""] * sides))
    probes[""] = 0
    holds = all(
        len(encode(*texts)) == special + sum(probes[text] for text in texts)
        for texts in product(probes, repeat=sides)
    )
    return special if holds else None


def _probes(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """Return test texts and their numbers of tokens; none if the empty text has any."""
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    tokens_of = {}
    for text in (*_PROBES, *added[:_MOST_ADDED]):
        # tokenizers raises bare Exception for texts outside a vocabulary without an unknown token.
        with suppress(Exception):
            tokens_of[text] = len(backend.encode(text, add_special_tokens=False))
    nothing = len(backend.encode("", add_special_tokens=False))
    return {} if nothing else {text: tokens for text, tokens in tokens_of.items() if tokens}
