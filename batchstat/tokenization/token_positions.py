"""Which token each character of a text is in.

The tokenizers library knows, but takes many times as long as the engine. A token of byte-level BPE
stands for as many bytes as its entry has characters, so the engine's tokens tell it too, as long as
they stand for all bytes of a text: whitespace that an added token takes is missing from their sum.
Only the normalizer, NFC, may leave the sum as it is and change the text.
"""

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.engine_counter import EngineCounter
from batchstat.tokenization.engine_gate import keeps_bytes
from batchstat.tokenization.safe_cuts import definition_of_part

_TRIMS = '"trim_offsets": true'
"""Setting of a post-processor that takes the spaces around a word out of its token."""

Positions = Callable[[int], int | None]
"""Returns the position of the token that has a character of one text; None if none has it."""


class TokenPositions(dict[str, Any]):
    """Tokens of texts, as `apply_chat_template` of transformers needs them of a BatchEncoding.

    Its `input_ids` have the numbers of tokens only.
    """

    def __init__(self, sizes: Sequence[int], positions: Sequence[Positions]) -> None:
        """Store the number of tokens of each text, and where its characters are."""
        super().__init__(input_ids=[range(size) for size in sizes])
        self._positions = positions

    def char_to_token(self, text: int, char: int) -> int | None:
        """Return the position of the token that has a character of one of the texts.

        The first one, where several tokens share the character; None if none has it.
        """
        return self._positions[text](char)


@dataclass(frozen=True, eq=False)
class TokenLocator:
    """Finder of the tokens of characters, special tokens in texts included and none added.

    Attributes:
        backend: a tokenizer without truncation and padding.
    """

    backend: tokenizers.Tokenizer

    def locate(self, texts: Sequence[str], engine: EngineCounter | None) -> TokenPositions:
        """Return the positions of the tokens of texts; `engine`: counts them faster, if anything.

        Raises:
            MiscountError: see `EngineCounter.count`.
        """
        found = None
        if engine is not None and keeps_bytes(self.backend):
            found = engine.token_ids(pa.array(texts, pa.large_string()))
        if found is None:
            encoded = self.backend.encode_batch(list(texts), add_special_tokens=False)
            return TokenPositions([len(each) for each in encoded], [_slow(e) for e in encoded])
        ids, offsets, left = found
        ends = np.cumsum(self._sizes[ids])
        sizes, positions = [], []
        for i, (text, (begin, end)) in enumerate(
            zip(texts, pairwise(offsets.tolist()), strict=True)
        ):
            before = int(ends[begin - 1]) if begin else 0
            own = _Bytes(text, ends[begin:end] - before, self._alone, trims=self._trims)
            if i in left or not own.are_whole or self._normalizes(text):
                encoding = self._alone(text)
                sizes.append(len(encoding))
                positions.append(_slow(encoding))
            else:
                sizes.append(end - begin)
                positions.append(own.position)
        return TokenPositions(sizes, positions)

    def _alone(self, text: str) -> tokenizers.Encoding:
        return self.backend.encode(text, add_special_tokens=False)

    def _normalizes(self, text: str) -> bool:
        """Return whether the normalizer, which is NFC or none, changes a text."""
        if self.backend.normalizer is None or text.isascii():
            return False
        return not unicodedata.is_normalized("NFC", text)

    @cached_property
    def _trims(self) -> bool:
        return _TRIMS in json.dumps(definition_of_part(self.backend.post_processor))

    @cached_property
    def _sizes(self) -> Ints:
        """(largest id + 1,) bytes that each token stands for."""
        added = self.backend.get_added_tokens_decoder()
        entries = {number: len(entry) for entry, number in self._entries.items()}
        entries |= {number: len(token.content.encode()) for number, token in added.items()}
        sizes: Ints = np.zeros(max(entries) + 1, dtype=np.int64)
        sizes[list(entries)] = list(entries.values())
        return sizes

    @property
    def _entries(self) -> dict[str, int]:
        return self.backend.get_vocab(with_added_tokens=False)


class _Bytes:
    """Tokens of one text by the bytes they stand for."""

    def __init__(
        self,
        text: str,
        ends: Ints,
        encode: Callable[[str], tokenizers.Encoding],
        *,
        trims: bool,
    ) -> None:
        self._text, self._ends, self._encode, self._trims = text, ends, encode, trims
        self._is_ascii = text.isascii()

    @property
    def are_whole(self) -> bool:
        """Whether the tokens stand for as many bytes as the text has."""
        size = len(self._text) if self._is_ascii else len(self._text.encode())
        return size == (int(self._ends[-1]) if len(self._ends) else 0)

    def position(self, char: int) -> int | None:
        if char < 0 or (self._trims and self._text[char : char + 1] == " "):
            return _slow(self._encode(self._text))(char)
        if char >= len(self._text):
            return None
        before = char if self._is_ascii else len(self._text[:char].encode())
        return int(self._ends.searchsorted(before, side="right"))


def _slow(encoding: tokenizers.Encoding) -> Positions:
    return encoding.char_to_token
