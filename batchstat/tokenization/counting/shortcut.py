"""A way of counting texts that is faster than the tokenizer itself, and is checked against it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.counting.count_check import CountCheck, RefusedError
from batchstat.tokenization.counting.safe_cuts import definition_of_part
from batchstat.tokenization.counting.separable import Definition, steps_of

_PROBES = ("a", "e i o u", "The 1st, 2nd and 3rd of them.")
"""Test texts: a letter, some words, and a sentence with digits."""


class Shortcut(ABC):
    """Counts the texts of one run faster, one side of samples at a time, for several threads."""

    def __init__(self, backend: tokenizers.Tokenizer, way: str, *, special_tokens: bool) -> None:
        self._backend = backend
        # Special tokens of a sample, by its sides: 1 for texts, 2 for pairs. None if not fixed.
        self._special = find_special(backend, special_tokens=special_tokens)
        self._check = CountCheck(backend, way, special_tokens=special_tokens)

    def count(
        self, first: pa.LargeStringArray, second: pa.LargeStringArray | None = None
    ) -> Ints | None:
        """Return (n,) tokens of texts or pairs, with special tokens if counted; None if this way
        cannot count them now, or the tokenizer raises. Raises MiscountError: a wrong count.
        """
        sides = [first] if second is None else [first, second]
        if self._special[len(sides)] is None:  # only the tokenizer itself counts such samples
            return None
        if len(first) == 0:  # the check needs a sample
            return np.empty(0, dtype=np.int64)
        if not self._can_count_now(sides):
            return None
        try:
            counts = self._count_sides(sides)
            self._check.check(sides, counts, self._count_sides)
        except RefusedError:
            return None
        return counts

    @abstractmethod
    def _can_count_now(self, sides: Sequence[pa.LargeStringArray]) -> bool:
        """Return whether this way counts the texts of these columns now."""

    @abstractmethod
    def _count_side(self, column: pa.LargeStringArray) -> Ints:
        """Return (n,) tokens of texts, without special tokens."""

    def _count_sides(self, sides: Sequence[pa.LargeStringArray]) -> Ints:
        special = self._special[len(sides)]
        assert special is not None
        total: Ints = np.sum([self._count_side(side) for side in sides], axis=0) + special
        return total


def find_special(backend: tokenizers.Tokenizer, *, special_tokens: bool) -> dict[int, int | None]:
    """Return the number of special tokens of a sample by its texts, 1 or 2. None if it has other
    tokens than those of its texts and a fixed number of these: it is tokenized whole.
    """
    # A template of the post-processor puts the same special tokens around all texts. But it may
    # also repeat or omit a text, even without special tokens: none that is published does.
    part = definition_of_part(backend.post_processor)
    find = _count_special if special_tokens else lambda *_: 0
    keeps_one = _keeps_texts(part, "single", ["A"])
    # The texts of a pair are counted one by one, so a single text must be kept as well.
    keeps_two = keeps_one and _keeps_texts(part, "pair", ["A", "B"])
    return {1: find(backend, 1) if keeps_one else None, 2: find(backend, 2) if keeps_two else None}


def _keeps_texts(part: Definition, kind: str, texts: list[str]) -> bool:
    """Return whether every template of a post-processor has each of the texts exactly once."""
    steps = steps_of(part, "processors")
    templates = [step[kind] for step in steps if step["type"] == "TemplateProcessing"]
    return all(
        sorted(piece["Sequence"]["id"] for piece in template if "Sequence" in piece) == texts
        for template in templates
    )


def _count_special(backend: tokenizers.Tokenizer, sides: int) -> int | None:
    """Return the number of special tokens in a sample of `sides` texts, one or two."""
    token_counts = _probe_counts(backend)
    if not token_counts:
        return None
    encode: Any = backend.encode  # takes a text, or the two of a pair
    special = len(encode(*[""] * sides))
    token_counts[""] = 0  # the empty text is tried, too
    is_fixed = all(
        len(encode(*texts)) == special + sum(token_counts[text] for text in texts)
        for texts in product(token_counts, repeat=sides)
    )
    return special if is_fixed else None


def _probe_counts(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """Return the number of tokens of each test text, without special tokens."""
    # Nothing is returned if the empty text has tokens: special ones could not be told apart.
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    counts = {}
    # Added tokens are test texts, too, for vocabularies without letters.
    for text in (*_PROBES, *added[:3]):
        # tokenizers raises bare Exception for texts outside a vocabulary without an unknown token.
        with suppress(Exception):
            counts[text] = len(backend.encode(text, add_special_tokens=False))
    of_empty_text = len(backend.encode("", add_special_tokens=False))
    return {} if of_empty_text else {text: count for text, count in counts.items() if count}
