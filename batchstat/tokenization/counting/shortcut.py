"""A way of counting texts that is faster than the tokenizer itself, and is checked against it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.counting.count_check import CountCheck, RefusedError
from batchstat.tokenization.counting.post_processing import find_special


class Shortcut(ABC):
    """Counts the texts of one run faster, one side of samples at a time, for several threads."""

    def __init__(self, backend: tokenizers.Tokenizer, way: str, *, special_tokens: bool) -> None:
        self._backend = backend
        # Special tokens of a sample, by the number of its sides: 1 for texts, 2 for pairs. None if
        # their number is not fixed.
        self._special = find_special(backend, special_tokens=special_tokens)
        self._check = CountCheck(backend, way, special_tokens=special_tokens)

    def count(
        self, first: pa.LargeStringArray, second: pa.LargeStringArray | None = None
    ) -> Ints | None:
        """Return (n,) tokens of texts, or of pairs, with special tokens if these are counted.

        None if this way cannot count them now, or if the tokenizer raises on one of them: the
        ordinary way of counting then finds out on which one.

        Raises:
            MiscountError: a text that the tokenizer also counted has another number of tokens.
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
