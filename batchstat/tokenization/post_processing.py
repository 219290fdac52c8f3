"""What a tokenizer's post-processor makes of the tokens of texts, measured on a few.

A template puts special tokens around a text's own, and may also repeat a text or leave it out. It
never looks at what the tokens are, so the number that comes out is linear in those that go in.
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
    """How many tokens a sample has by those of its sides: its text, or the two of a pair.

    Attributes:
        special: tokens that every sample has beside those of its sides.
        times: for each side, how often its tokens occur.
    """

    special: int
    times: tuple[int, ...]

    def total(self, tokens: Sequence[int]) -> int:
        """Tokens of a sample whose sides have so many."""
        return self.special + sum(n * m for n, m in zip(self.times, tokens, strict=True))


def find_rule(backend: tokenizers.Tokenizer, sides: int) -> Rule | None:
    """The rule for samples of one or two sides; None where none holds for all that are tried.

    The tokenizer is one without truncation and padding.
    """
    probes = _probes(backend)
    if not probes:
        return None
    empty = ("",) * sides
    special = _count(backend, empty)
    times = []
    for side in range(sides):
        text, tokens = next(iter(probes.items()))
        found = _count(backend, (*empty[:side], text, *empty[side + 1 :]))
        times.append((found - special) // tokens)
    rule = Rule(special, tuple(times))
    probes[""] = 0
    holds = all(
        _count(backend, texts) == rule.total([probes[text] for text in texts])
        for texts in product(probes, repeat=sides)
    )
    return rule if holds else None


def _probes(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """Texts that have tokens, with how many; none where the empty text has any."""
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    found = {}
    for text in (*_PROBES, *added[:_MOST_ADDED]):
        # tokenizers raises bare Exception for what is not in a vocabulary without unknowns.
        with suppress(Exception):
            found[text] = len(backend.encode(text, add_special_tokens=False))
    nothing = len(backend.encode("", add_special_tokens=False))
    return {} if nothing else {text: tokens for text, tokens in found.items() if tokens}


def _count(backend: tokenizers.Tokenizer, texts: Sequence[str]) -> int:
    return len(backend.encode(texts[0], texts[1] if len(texts) > 1 else None))
