"""What a tokenizer's post-processor does to the number of tokens, measured on a few texts.

A template puts special tokens around a text's own, and may also repeat a text or omit it. It never
looks at the tokens themselves, so the resulting number is linear in the number of tokens it gets.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import tokenizers

_PROBES = ("a", "e i o u", "The 1st, 2nd and 3rd of them.")
_MOST_ADDED = 3
"""Added tokens that are tried as texts, for vocabularies without letters."""


@dataclass(frozen=True)
class Rule:
    """Tokens of a sample from those of its sides: its text, or the two texts of a pair.

    Attributes:
        special: tokens that every sample has in addition to those of its sides.
        times: for each side, how often its tokens occur.
    """

    special: int
    times: tuple[int, ...]

    def total(self, tokens: Sequence[int]) -> int:
        """Return the tokens of a sample whose sides have so many."""
        return self.special + sum(n * m for n, m in zip(self.times, tokens, strict=True))


def find_rules(backend: tokenizers.Tokenizer, *, special_tokens: bool) -> dict[int, Rule | None]:
    """Find the rules for samples of one and of two sides, or those without special tokens."""
    if not special_tokens:
        return {sides: Rule(0, (1,) * sides) for sides in (1, 2)}
    return {sides: find_rule(backend, sides) for sides in (1, 2)}


def find_rule(backend: tokenizers.Tokenizer, sides: int) -> Rule | None:
    """Find the rule for samples of one or two sides; None if no rule holds for all tested texts.

    The tokenizer must be without truncation and padding.
    """
    probes = _probes(backend)
    if not probes:
        return None
    empty = ("",) * sides
    special = _count(backend, empty)
    times = []
    for side in range(sides):
        text, tokens = next(iter(probes.items()))
        tokens_with = _count(backend, (*empty[:side], text, *empty[side + 1 :]))
        times.append((tokens_with - special) // tokens)
    rule = Rule(special, tuple(times))
    probes[""] = 0
    holds = all(
        _count(backend, texts) == rule.total([probes[text] for text in texts])
        for texts in product(probes, repeat=sides)
    )
    return rule if holds else None


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


def _count(backend: tokenizers.Tokenizer, texts: Sequence[str]) -> int:
    return len(backend.encode(texts[0], texts[1] if len(texts) > 1 else None))
