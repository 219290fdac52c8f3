"""Which characters of a text each token stands for. The tokenizers library says it, but takes many
times as long as the engine, which returns only ids. In byte-level BPE, the entry of a token has one
character for each byte of the text: so sizes of entries, added up, say which bytes each token has.
Where they do not add up, or NFC changes the text, the tokenizers library is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unicodedata import is_normalized

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.counting.engine_gate import keeps_bytes
from batchstat.tokenization.counting.safe_cuts import definition_of_part
from batchstat.tokenization.counting.separable import Definition, steps_of

_SPACE = "\u0120"  # the character that stands for a space in entries of byte-level BPE
_SIGNS = frozenset(tokenizers.pre_tokenizers.ByteLevel.alphabet())
_WHITESPACE = "".join(
    sign for sign in map(chr, range(0x3001)) if sign.isspace() and not "\x1c" <= sign <= "\x1f"
)
"""What the library takes for whitespace: without the four separators that Python counts too."""


@dataclass(frozen=True, eq=False)
class Offsets:
    """The characters of each token of one text, from the first token on."""

    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    def position(self, char: int) -> int | None:
        """Return the first token that has a character, or None. Raises OverflowError below 0."""
        if char < 0:  # for which the tokenizers library raises it too
            raise OverflowError("no character is before the first")
        # The first token that ends after the character; it may begin after it, too.
        token = int(self.offsets[:, 1].searchsorted(char, side="right"))
        return token if token < len(self) and self.offsets[token, 0] <= char else None

    def overlapping(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first token of a range and one past the last; of an empty one, its token."""
        # The first token that ends after `begin`, and the first that does not begin before `end`.
        first = self.offsets[:, 1].searchsorted(begin, side="right")
        stop = self.offsets[:, 0].searchsorted(end, side="left")
        return int(first), max(int(first), int(stop))  # no token: an empty range of tokens


@dataclass(frozen=True, eq=False)
class Encoded:
    """Like `Offsets`, of the tokenizers library, asked by character: converting all takes long."""

    encoding: tokenizers.Encoding

    def __len__(self) -> int:
        return len(self.encoding)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """See `Offsets`."""
        return self.encoding.offsets

    def position(self, char: int) -> int | None:
        """See `Offsets`."""
        return self.encoding.char_to_token(char)

    def overlapping(self, begin: int, end: int) -> tuple[int, int]:
        """Find the tokens that have characters of a range: see `Offsets.overlapping`."""
        if begin < end:
            first, stop = self.position(begin), self.position(end - 1)
            if first is not None and stop is not None:
                # `stop` is the first token of the last character. Others may share it, such as the
                # bytes of an emoji: go on to the first token that begins at `end` or later, or past
                # the last token, for which the library returns None.
                while (chars := self.encoding.token_to_chars(stop)) and chars[0] < end:
                    stop += 1
                return first, stop
        # The range is empty, or begins or ends with a character of no token: take all offsets.
        offsets = np.array(self.offsets, dtype=np.int64).reshape(-1, 2)
        return Offsets(offsets).overlapping(begin, end)


Tokens = Offsets | Encoded  # tokens of one text, with their characters


class TokenPositions(dict[str, Any]):
    """What `apply_chat_template` reads of a BatchEncoding; of `input_ids` only their number."""

    def __init__(self, encodings: Sequence[Tokens]) -> None:
        super().__init__(input_ids=[range(len(each)) for each in encodings])
        self.encodings = encodings

    def char_to_token(self, text: int, char: int) -> int | None:
        """See `Offsets.position`."""
        return self.encodings[text].position(char)


def tokens_of(encoded: Any, text: int) -> Tokens:
    """Return a text's tokens with their characters; raise ValueError if those are not known."""
    if encoded.encodings is None:
        raise ValueError("a tokenizer written in Python does not know the characters of its tokens")
    encoding: Tokens | tokenizers.Encoding = encoded.encodings[text]
    return Encoded(encoding) if isinstance(encoding, tokenizers.Encoding) else encoding


@dataclass(frozen=True, eq=False)
class TokenLocator:
    """Finds the characters of the tokens of texts; no special tokens are added to the texts."""

    backend: tokenizers.Tokenizer

    def locate(self, texts: Sequence[str], engine: EngineCounter | None) -> TokenPositions:
        """Return the tokens of texts, with their characters. Raises MiscountError."""
        token_ids = None
        # `keeps_bytes` is right for tokenizers that the engine's gate admits; for others, the
        # engine returns None. `_trimmed` knows the effect of one trimming step, not of several.
        if engine is not None and keeps_bytes(self.backend) and len(self._trimming_steps) <= 1:
            token_ids = engine.token_ids(pa.array(texts, pa.large_string()))
        if token_ids is None:
            return TokenPositions([Encoded(each) for each in self._encoded(texts)])
        # The ids of all texts end to end, and (n + 1,) where those of each text begin. The ids of
        # texts whose positions are in `unsure` may be wrong.
        ids, begins, unsure = token_ids
        # Of the normalizers that the engine admits, only NFC changes a text.
        has_nfc = self.backend.normalizer is not None
        tokens: list[Tokens] = []
        for i, text in enumerate(texts):
            is_changed = has_nfc and not text.isascii() and not is_normalized("NFC", text)
            found = None
            if i not in unsure and not is_changed:
                found = self._offsets_of_ids(text, ids[begins[i] : begins[i + 1]])
            # If the ids do not tell the characters, the library tokenizes this text alone.
            tokens.append(Encoded(*self._encoded([text])) if found is None else found)
        return TokenPositions(tokens)

    def _encoded(self, texts: Sequence[str]) -> list[tokenizers.Encoding]:
        return self.backend.encode_batch(list(texts), add_special_tokens=False)

    def _offsets_of_ids(self, text: str, ids: Ints) -> Offsets | None:
        """Return the characters of a text's tokens, found by how many bytes each token has."""
        sizes = self._byte_sizes[ids]  # (n,) bytes of each token; 0 where they are not certain
        text_bytes = text.encode()
        if not sizes.all() or len(text_bytes) != sizes.sum():
            return None
        # The first byte of each token, and one past its last.
        stops: Ints = np.cumsum(sizes)
        starts: Ints = stops - sizes
        if len(text_bytes) != len(text):  # not ASCII: turn bytes into characters
            # Bytes that continue a character are 0b10xxxxxx.
            begins_character = (np.frombuffer(text_bytes, np.uint8) & 0xC0) != 0x80
            # n_begun[b] is how many characters have begun up to and including byte b. So byte b is
            # in character n_begun[b] - 1, and a token with last byte b ends before n_begun[b].
            n_begun = np.cumsum(begins_character, dtype=np.int64)
            starts, stops = n_begun[starts] - 1, n_begun[stops - 1]
        if self._trimming_steps:
            starts, stops = self._trimmed(starts, stops, ids)
        return Offsets(np.stack([starts, stops], axis=1))

    def _trimmed(self, starts: Ints, stops: Ints, ids: Ints) -> tuple[Ints, Ints]:
        """Leave the whitespace around words out of tokens, as the post-processor does."""
        # Source: process_offsets of tokenizers/src/pre_tokenizers/byte_level.rs, tokenizers 0.23.
        # (n,) with how many whitespace characters the text of each token begins and ends.
        leading, trailing = self._whitespace_sizes[:, ids]
        [step] = self._trimming_steps  # `locate` excludes several
        if step["add_prefix_space"]:
            # The library takes a single space at the start for its own, and does not trim it.
            leading = np.where((starts == 0) & (leading == 1), 0, leading)
        # A token of nothing but spaces becomes empty: it does not begin after its end.
        new_starts: Ints = np.minimum(starts + leading, stops)
        # Like the library, trim nothing at the end of a token if it would end before position 0.
        has_room = (trailing > 0) & (stops >= trailing)
        new_stops: Ints = np.where(has_room, np.maximum(stops - trailing, new_starts), stops)
        return new_starts, new_stops

    @cached_property
    def _trimming_steps(self) -> list[Definition]:
        steps = steps_of(definition_of_part(self.backend.post_processor), "processors")
        return [step for step in steps if step.get("trim_offsets")]

    @cached_property
    def _byte_sizes(self) -> Ints:
        """(largest id + 1,) bytes that each token stands for; 0 if that is not certain."""
        added_sizes = {number: len(token.encode()) for number, token in self._added.items()}
        # Each character of an entry is a byte.
        entry_sizes = {number: len(entry) for entry, number in self._entries.items()}
        # Ids of entries that are also those of an added token of another size.
        uncertain = [
            number
            for entry, number in self._entries.items()
            if added_sizes.get(number, len(entry)) != len(entry) and _SIGNS.issuperset(entry)
        ]
        if any(text.strip(_WHITESPACE) != text for text in self._added.values()):
            tokens = self.backend.get_added_tokens_decoder()
            uncertain += [i for i, token in tokens.items() if token.lstrip or token.rstrip]
        # If an id is in several of these, the last one holds.
        return _table({**entry_sizes, **added_sizes, **dict.fromkeys(uncertain, 0)})

    @cached_property
    def _whitespace_sizes(self) -> Ints:
        """(2, largest id + 1) whitespace characters that each token begins with, and ends with."""
        entries = {number: entry for entry, number in self._entries.items()} | self._added
        texts = {number: entry.replace(_SPACE, " ") for number, entry in entries.items()}
        leading = {i: len(text) - len(text.lstrip(_WHITESPACE)) for i, text in texts.items()}
        trailing = {i: len(text) - len(text.rstrip(_WHITESPACE)) for i, text in texts.items()}
        return np.stack([_table(leading), _table(trailing)])

    @cached_property
    def _added(self) -> dict[int, str]:
        decoder = self.backend.get_added_tokens_decoder()
        return {number: token.content for number, token in decoder.items()}

    @property
    def _entries(self) -> dict[str, int]:
        return self.backend.get_vocab(with_added_tokens=False)


def _table(numbers: dict[int, int]) -> Ints:
    table: Ints = np.zeros(max(numbers) + 1, dtype=np.int64)
    table[list(numbers)] = list(numbers.values())
    return table
