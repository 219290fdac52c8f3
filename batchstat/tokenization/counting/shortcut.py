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
    """Counter of the texts of one run; may be called from several threads."""

    def __init__(self, backend: tokenizers.Tokenizer, way: str, *, special_tokens: bool) -> None:
        """Use a tokenizer without truncation and padding; `way`: as of `CountCheck`."""
        self._backend = backend
        self._special = find_special(backend, special_tokens=special_tokens)
        self._check = CountCheck(backend, way, special_tokens=special_tokens)

    def count(
        self, first: pa.LargeStringArray, second: pa.LargeStringArray | None = None
    ) -> Ints | None:
        """Return (n,) tokens of texts without nulls, or of pairs, with special tokens if any.

        None if this way is not taken now, or if it or the tokenizer raises on one of them: the
        ordinary way of counting then finds which one.

        Raises:
            MiscountError: the counts differ for a text that is also counted by the tokenizer.
        """
        sides = [first] if second is None else [first, second]
        if self._special[len(sides)] is None:
            return None
        if len(first) == 0:
            return np.empty(0, dtype=np.int64)
        if not self._is_taken(sides):
            return None
        try:
            counts = self._recount(sides)
            self._check.check(sides, counts, self._recount)
        except RefusedError:
            return None
        return counts

    @abstractmethod
    def _is_taken(self, sides: Sequence[pa.LargeStringArray]) -> bool:
        """Return whether this way counts such texts now."""

    @abstractmethod
    def _side(self, column: pa.LargeStringArray) -> Ints:
        """Return (n,) tokens of texts, without special tokens."""

    def _recount(self, sides: Sequence[pa.LargeStringArray]) -> Ints:
        special = self._special[len(sides)]
        assert special is not None
        total: Ints = np.sum([self._side(side) for side in sides], axis=0) + special
        return total
