"""Count texts by their pieces: each distinct piece is tokenized only once.

Words repeat far more often than whole texts. The pieces of a block of texts are slices of its
bytes, found and deduplicated by Arrow without a copy. A tokenizer sees only pieces that were not in
an earlier block, many at a time, joined by one of its own special tokens, whose ids separate the
results. How often pieces repeat is measured in every block: where they hardly do, as in Chinese or
base64, tokenizing whole texts is faster, and `count` says so.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.storage.arrow_numbers import as_numpy
from batchstat.tokenization.counting.count_check import encodings, text_buffers
from batchstat.tokenization.counting.safe_cuts import Cuts, overlaps
from batchstat.tokenization.counting.shortcut import Shortcut

_PROBES, _PROBED, _LEAST_PROBED = 8, 16, 256 << 10
"""Positions of a block at which pieces are sampled, in one of so many of its bytes together, or in
so many bytes: fewer repeat less."""
_MOST_NEW = 0.85
"""Fraction of distinct bytes in sampled pieces above which tokenizing whole texts is faster."""
_ASKED_TOGETHER = 500
_REMEMBERED = 2_000_000
_LONGEST_REMEMBERED = 64
"""Maximum number of pieces, and of bytes per piece: at most some 300 MB in all."""
_IN_NO_VOCABULARY = "\U0010fffd"
_MOST_BYTES = 2**31 - 1
"""Limit of Arrow's 32-bit offsets."""


class PieceCounter(Shortcut):
    """Counter of the texts of one run; may be called from several threads.

    It counts none whose pieces hardly repeat.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, cuts: Cuts, *, special_tokens: bool = True
    ) -> None:
        """Use a tokenizer without truncation and padding, and the cuts that are valid for it."""
        super().__init__(backend, "its pieces have", special_tokens=special_tokens)
        self._cuts, self._separator = cuts, _separator(backend)
        self._known: dict[bytes, int] = {}
        self._asking = threading.Lock()

    def _is_taken(self, sides: Sequence[pa.LargeStringArray]) -> bool:
        """Return whether their pieces repeat enough."""
        # Asked of every block alone: an answer that held for later ones would make what is checked,
        # and counted by pieces at all, depend on which thread comes first.
        return all(
            data.size <= _MOST_BYTES and self._repeat(offsets, data)
            for offsets, data in map(text_buffers, sides)
        )

    def _repeat(self, offsets: Ints, data: pa.Buffer) -> bool:
        """Return whether pieces repeat enough: few bytes of some pieces are in distinct ones.

        The pieces come from several positions: a text may begin in English and continue in numbers.
        """
        import pyarrow.compute as pc

        probed = max(data.size // _PROBED, min(_LEAST_PROBED, data.size))
        size = -(-probed // _PROBES)
        first = np.linspace(0, data.size - size, _PROBES, dtype=np.int64)
        parts = []
        for start in dict.fromkeys(first.tolist()):
            inside = offsets[(offsets >= start) & (offsets <= start + size)] - start
            part = data.slice(start, size)
            parts.append(_slices(part, self._starts(part, inside)))
        pieces = pa.chunked_array(parts)
        lengths = (pc.sum(pc.binary_length(some)).as_py() for some in (pieces.unique(), pieces))
        new, every = (length or 0 for length in lengths)
        return bool(new <= _MOST_NEW * every)

    def _side(self, column: pa.LargeStringArray) -> Ints:
        """Return (n,) tokens of texts, without special tokens."""
        offsets, data = text_buffers(column)
        starts = self._starts(data, offsets)
        distinct = _slices(data, starts).dictionary_encode()
        sizes = self._sizes(distinct.dictionary.to_pylist())
        sums = np.zeros(len(starts), dtype=np.int64)
        np.cumsum(sizes[as_numpy(distinct.indices)], out=sums[1:])
        counts: Ints = np.diff(sums[np.searchsorted(starts, offsets)])
        return counts

    def _starts(self, data: pa.Buffer, offsets: Ints) -> npt.NDArray[np.int32]:
        """Return (p + 1,) start of each of p pieces in the data of the texts, and the end."""
        octets = data.to_pybytes()
        before = np.frombuffer(octets.translate(self._cuts.before), dtype=np.uint8)
        after = np.frombuffer(octets.translate(self._cuts.after), dtype=np.uint8)
        cut = np.zeros(len(octets) + 1, dtype=bool)
        np.not_equal(before[:-1] & after[1:], 0, out=cut[1:-1])
        cut[offsets] = cut[0] = cut[-1] = True
        return np.flatnonzero(cut).astype(np.int32)

    def _sizes(self, pieces: list[bytes]) -> Ints:
        """Return (n,) tokens of each of these distinct pieces."""
        # One thread at a time: the tokenizer uses all cores itself, and others would ask for the
        # same.
        with self._asking:
            sizes = np.fromiter(map(self._known.get, pieces, repeat(-1)), np.int64, len(pieces))
            unknown = np.flatnonzero(sizes < 0)
            if len(unknown):
                new = [pieces[i] for i in unknown.tolist()]
                sizes[unknown] = asked = self._ask(new)
                if len(self._known) + len(new) > _REMEMBERED:
                    self._known.clear()
                self._known.update(
                    (piece, size)
                    for piece, size in zip(new, asked.tolist(), strict=True)
                    if len(piece) <= _LONGEST_REMEMBERED
                )
        return sizes

    def _ask(self, pieces: list[bytes]) -> Ints:
        if self._separator is None:
            return self._alone(pieces)
        text, number = self._separator
        groups = [
            pieces[first : first + _ASKED_TOGETHER]
            for first in range(0, len(pieces), _ASKED_TOGETHER)
        ]
        answers = encodings(self._backend, [text.join(group).decode() for group in groups])
        return np.concatenate(
            [
                self._between(np.array(answer.ids), number, group)
                for answer, group in zip(answers, groups, strict=True)
            ]
        )

    def _between(self, ids: Ints, number: int, group: list[bytes]) -> Ints:
        borders = np.flatnonzero(ids == number)
        if len(borders) != len(group) - 1:  # a piece contains the text of the special token
            return self._alone(group)
        return np.diff(borders, prepend=-1, append=len(ids)) - 1

    def _alone(self, pieces: list[bytes]) -> Ints:
        """Return (n,) tokens of each of these pieces, tokenized separately."""
        encoded = encodings(self._backend, [piece.decode() for piece in pieces])
        return np.fromiter(map(len, encoded), np.int64, len(pieces))


def _slices(data: pa.Buffer, starts: npt.NDArray[np.int32]) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(starts), data])


def _separator(backend: tokenizers.Tokenizer) -> tuple[bytes, int] | None:
    """Return a special token that texts can be joined with, and its id; None if there is none.

    In a joined text it must be found exactly where it was inserted, and must be the whole match: it
    takes no whitespace with it, does not end the way it begins, and no other added token contains
    its text or overlaps with it. The unknown token is none: pieces of characters that a vocabulary
    lacks have it too, so that all of them would be tokenized twice (XLNet's is its first token).

    Tokens that are found in normalized text are looked for after all others, in what those leave.
    Such a token still is a separator if there is no normalizer, which might change it (NFC composes
    `>` with a mark after it), and if no other token begins within it.
    """
    added, unknown = backend.get_added_tokens_decoder(), _unknown_ids(backend)
    for number, token in sorted(added.items()):
        text = token.content
        others = [other.content for other in added.values() if other.content != text]
        if not token.special or token.lstrip or token.rstrip or token.single_word:
            continue
        if number in unknown or any(text[:size] == text[-size:] for size in range(1, len(text))):
            continue
        if any(text in other or overlaps(other, text) for other in others):
            continue
        is_lost = any(other in text or overlaps(text, other) for other in others)
        if token.normalized and (backend.normalizer is not None or is_lost):
            continue
        return text.encode(), number
    return None


def _unknown_ids(backend: tokenizers.Tokenizer) -> set[int]:
    """Return the ids that its model gives a character outside its vocabulary."""
    with suppress(Exception):  # tokenizers raises bare Exception without an unknown token
        return {token.id for token in backend.model.tokenize(_IN_NO_VOCABULARY)}
    return set()
