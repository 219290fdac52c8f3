"""Which characters of a text each token stands for.

The tokenizers library knows, but takes many times as long as the engine. A token of byte-level BPE
stands for as many bytes as its entry has characters, so the engine's tokens tell it too, as long as
they stand for all bytes of a text: whitespace that an added token takes is missing from their sum.
Only the normalizer, NFC, may leave the sum as it is and change the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any
from unicodedata import is_normalized

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.counting.engine_gate import keeps_bytes
from batchstat.tokenization.counting.safe_cuts import definition_of_part
from batchstat.tokenization.counting.separable import Definition

_SPACE = "\u0120"
"""The character that stands for a space in entries of byte-level BPE."""
_SIGNS = frozenset(tokenizers.pre_tokenizers.ByteLevel.alphabet())
_WHITESPACE = "".join(
    sign for sign in map(chr, range(0x3001)) if sign.isspace() and not "\x1c" <= sign <= "\x1f"
)
"""What the library takes for whitespace: not the four separators that Python does."""


@dataclass(frozen=True, eq=False)
class Offsets:
    """Tokens of one text in sequence, by their characters.

    Attributes:
        offsets: (n, 2) the first character of each token, and the one after its last.
    """

    offsets: Ints

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.offsets)

    def position(self, char: int) -> int | None:
        """Return the position of the first token that has a character; None if none has it.

        Raises:
            OverflowError: a character before the text, as the tokenizers library has it.
        """
        if char < 0:
            raise OverflowError("no character is before the first")
        found = int(self.offsets[:, 1].searchsorted(char, side="right"))
        return found if found < len(self) and self.offsets[found, 0] <= char else None

    def overlapping(self, begin: int, end: int) -> tuple[int, int]:
        """Return the position of the first token that has a character of a range, and the one after
        the last; of an empty range, those of a token around it.
        """
        first = self.offsets[:, 1].searchsorted(begin, side="right")
        stop = self.offsets[:, 0].searchsorted(end, side="left")
        return int(first), max(int(first), int(stop))


@dataclass(frozen=True, eq=False)
class Encoded:
    """The same as the tokenizers library has it, most of which it is not asked for.

    Attributes:
        encoding: what the library made of the text.
    """

    encoding: tokenizers.Encoding

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.encoding)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """See `Offsets`."""
        return self.encoding.offsets

    def position(self, char: int) -> int | None:
        """See `Offsets`."""
        return self.encoding.char_to_token(char)

    def overlapping(self, begin: int, end: int) -> tuple[int, int]:
        """See `Offsets`."""
        if begin < end:
            first, stop = self.position(begin), self.position(end - 1)
            if first is not None and stop is not None:
                while (chars := self.encoding.token_to_chars(stop)) and chars[0] < end:
                    stop += 1
                return first, stop
        known = np.array(self.offsets, dtype=np.int64).reshape(-1, 2)
        return Offsets(known).overlapping(begin, end)


Tokens = Offsets | Encoded
"""Tokens of one text, with their characters."""


class TokenPositions(dict[str, Any]):
    """Tokens of texts, as `apply_chat_template` of transformers needs them of a BatchEncoding.

    Its `input_ids` have the numbers of tokens only.

    Attributes:
        encodings: the tokens of each text.
    """

    def __init__(self, encodings: Sequence[Tokens]) -> None:
        """Store the tokens of each text."""
        super().__init__(input_ids=[range(len(each)) for each in encodings])
        self.encodings = encodings

    def char_to_token(self, text: int, char: int) -> int | None:
        """See `Offsets.position`."""
        return self.encodings[text].position(char)


def tokens_of(encoded: Any, text: int) -> Tokens:
    """Return the tokens of one text of `TokenPositions`, or of a BatchEncoding of transformers.

    Raises:
        ValueError: the tokenizer does not know their characters.
    """
    if encoded.encodings is None:
        raise ValueError("a tokenizer written in Python does not know the characters of its tokens")
    found: Tokens | tokenizers.Encoding = encoded.encodings[text]
    return Encoded(found) if isinstance(found, tokenizers.Encoding) else found


@dataclass(frozen=True, eq=False)
class TokenLocator:
    """Finder of the characters of tokens, special tokens in texts included and none added.

    Attributes:
        backend: a tokenizer without truncation and padding.
    """

    backend: tokenizers.Tokenizer

    def locate(self, texts: Sequence[str], engine: EngineCounter | None) -> TokenPositions:
        """Return the tokens of texts; `engine`: counts them faster, if anything.

        Raises:
            MiscountError: see `EngineCounter.count`.
        """
        counted = None
        if engine is not None and keeps_bytes(self.backend) and len(self._trims) <= 1:
            counted = engine.token_ids(pa.array(texts, pa.large_string()))
        if counted is None:
            return TokenPositions([Encoded(each) for each in self._encoded(texts)])
        ids, offsets, left = counted
        # Of the normalizers that the engine admits, NFC alone changes a text.
        normalizes = self.backend.normalizer is not None
        tokens: list[Tokens] = []
        for i, (text, (begin, end)) in enumerate(
            zip(texts, pairwise(offsets.tolist()), strict=True)
        ):
            is_other = not text.isascii() and normalizes and not is_normalized("NFC", text)
            fast = None if i in left or is_other else self._fast(text, ids[begin:end])
            tokens.append(Encoded(*self._encoded([text])) if fast is None else fast)
        return TokenPositions(tokens)

    def _encoded(self, texts: Sequence[str]) -> list[tokenizers.Encoding]:
        return self.backend.encode_batch(list(texts), add_special_tokens=False)

    def _fast(self, text: str, ids: Ints) -> Offsets | None:
        """Return the characters of tokens by the bytes that they stand for; None if these are not
        all bytes of the text.
        """
        sizes = self._sizes[ids]
        stops: Ints = np.cumsum(sizes)
        content = text.encode()
        if not sizes.all() or len(content) != (int(stops[-1]) if len(stops) else 0):
            return None
        starts: Ints = stops - sizes
        if len(content) != len(text):
            # Bytes that continue a character are 0b10xxxxxx.
            begins = (np.frombuffer(content, np.uint8) & 0xC0) != 0x80
            begun = np.cumsum(begins, dtype=np.int64)
            starts, stops = begun[starts] - 1, begun[stops - 1]
        if self._trims:
            starts, stops = self._trimmed(starts, stops, ids)
        return Offsets(np.stack([starts, stops], axis=1))

    def _trimmed(self, starts: Ints, stops: Ints, ids: Ints) -> tuple[Ints, Ints]:
        """Return the characters of tokens without the spaces around words.

        Source: process_offsets of tokenizers/src/pre_tokenizers/byte_level.rs, tokenizers 0.23.
        """
        leading, trailing = self._spaces[:, ids]
        if self._trims[0]["add_prefix_space"]:
            # A single space may have been put there: it is no space of the text. More never are.
            leading = np.where((starts == 0) & (leading == 1), 0, leading)
        first: Ints = np.minimum(starts + leading, stops)
        has_room = (trailing > 0) & (stops >= trailing)
        last: Ints = np.where(has_room, np.maximum(stops - trailing, first), stops)
        return first, last

    @cached_property
    def _trims(self) -> list[Definition]:
        """The post-processors that take the spaces around a word out of its token."""
        return _trimming(definition_of_part(self.backend.post_processor))

    @cached_property
    def _sizes(self) -> Ints:
        """(largest id + 1,) bytes that each token stands for; 0 if that is not certain.

        An added token has the id of the entry that is written alike. That of `\u0120` may stand for
        a space, or for this letter. And whitespace that one token takes may begin another: it would
        be counted for one of them, and missing from the other.
        """
        added = {each: len(token.encode()) for each, token in self._added.items()}
        entries = {number: len(entry) for entry, number in self._entries.items()}
        tokens = self.backend.get_added_tokens_decoder()
        is_shared = any(text.strip(_WHITESPACE) != text for text in self._added.values())
        taking = [each for each, token in tokens.items() if token.lstrip or token.rstrip]
        double = [
            number
            for entry, number in self._entries.items()
            if added.get(number, len(entry)) != len(entry) and _SIGNS.issuperset(entry)
        ]
        uncertain = dict.fromkeys([*double, *(taking if is_shared else [])], 0)
        return _table({**entries, **added, **uncertain})

    @cached_property
    def _spaces(self) -> Ints:
        """(2, largest id + 1) spaces before and after what each token stands for."""
        entries = {number: entry for entry, number in self._entries.items()} | self._added
        texts = {number: entry.replace(_SPACE, " ") for number, entry in entries.items()}
        tables = [
            {number: len(text) - len(strip(text, _WHITESPACE)) for number, text in texts.items()}
            for strip in (str.lstrip, str.rstrip)
        ]
        return np.stack(list(map(_table, tables)))

    @cached_property
    def _added(self) -> dict[int, str]:
        decoder = self.backend.get_added_tokens_decoder()
        return {number: token.content for number, token in decoder.items()}

    @property
    def _entries(self) -> dict[str, int]:
        return self.backend.get_vocab(with_added_tokens=False)


def _trimming(part: Definition) -> list[Definition]:
    """Return the steps of a post-processor that trim offsets."""
    steps = [each for inner in part.get("processors", []) for each in _trimming(inner)]
    return [*steps, *([part] if part.get("trim_offsets") else [])]


def _table(numbers: dict[int, int]) -> Ints:
    """Return an array with each number at its place."""
    found: Ints = np.zeros(max(numbers) + 1, dtype=np.int64)
    found[list(numbers)] = list(numbers.values())
    return found
