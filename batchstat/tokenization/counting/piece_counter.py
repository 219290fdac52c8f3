"""Count texts by their pieces: what lies between two places at which a text may be cut (see
`safe_cuts`), such as a word with the space before it. Each distinct piece is tokenized only once,
many at a time, joined by a special token whose id separates the results. How often pieces repeat is
measured in every block: where they hardly do, as in Chinese or base64, whole texts are faster, and
`count` returns None.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.storage.arrow_numbers import as_numpy
from batchstat.tokenization.counting.count_check import encodings, text_buffers
from batchstat.tokenization.counting.safe_cuts import Cuts, overlaps
from batchstat.tokenization.counting.shortcut import Shortcut

_POSITIONS, _SAMPLED_ONE_IN, _MIN_SAMPLED = 8, 16, 256 << 10
"""Pieces are sampled at 8 positions of a block, from one 16th of its bytes in total, but from at
least 256 KB: in less text, pieces repeat less."""
_MOST_NEW = 0.85  # share of sampled bytes in distinct pieces above which whole texts are faster
_JOINED = 500  # pieces that are joined to one text
_REMEMBERED = 2_000_000
_LONGEST_REMEMBERED = 64
"""Pieces whose counts are remembered, and the most bytes of one: at most some 300 MB in all."""
_IN_NO_VOCABULARY = "\U0010fffd"  # a character of private use


class PieceCounter(Shortcut):
    """Counts the texts of one run by their pieces; may be called from several threads."""

    def __init__(
        self, backend: tokenizers.Tokenizer, cuts: Cuts, *, special_tokens: bool = True
    ) -> None:
        super().__init__(backend, "its pieces have", special_tokens=special_tokens)
        self._cuts, self._separator = cuts, _find_separator(backend)
        # The tokens of each piece that is remembered; the lock guards them.
        self._known: dict[bytes, int] = {}
        self._lock = threading.Lock()

    def _can_count_now(self, sides: Sequence[pa.LargeStringArray]) -> bool:
        # Repetition is measured in each block by itself. If one answer held for later blocks, what
        # is counted by pieces, and what is checked, would depend on which thread comes first.
        return all(
            # Arrow's 32-bit offsets reach no further.
            data.size <= 2**31 - 1 and self._pieces_repeat(offsets, data)
            for offsets, data in map(text_buffers, sides)
        )

    def _pieces_repeat(self, offsets: Ints, data: pa.Buffer) -> bool:
        """Return whether enough of the bytes of sampled pieces are repetitions."""
        # Pieces come from several positions: a text may begin in English and continue in numbers.
        import pyarrow.compute as pc

        sampled_bytes = max(data.size // _SAMPLED_ONE_IN, min(_MIN_SAMPLED, data.size))
        size = -(-sampled_bytes // _POSITIONS)  # bytes at each position, rounded up
        positions = np.linspace(0, data.size - size, _POSITIONS, dtype=np.int64)
        sampled = []
        # In small data some positions are the same: np.unique keeps each once.
        for start in np.unique(positions).tolist():
            # Where texts begin and end inside this part of the data, from its own first byte on.
            part_offsets = offsets[(offsets >= start) & (offsets <= start + size)] - start
            part = data.slice(start, size)
            sampled.append(_slices(part, self._starts(part, part_offsets)))
        pieces = pa.chunked_array(sampled)
        # Arrow's sum over no pieces is null.
        all_bytes = pc.sum(pc.binary_length(pieces)).as_py() or 0
        distinct_bytes = pc.sum(pc.binary_length(pieces.unique())).as_py() or 0
        return bool(distinct_bytes <= _MOST_NEW * all_bytes)

    def _count_side(self, column: pa.LargeStringArray) -> Ints:
        """Return (n,) tokens of texts, without special tokens: the sums of their pieces' tokens."""
        offsets, data = text_buffers(column)
        starts = self._starts(data, offsets)
        # The dictionary has each distinct piece once: piece i is dictionary[indices[i]].
        pieces = _slices(data, starts).dictionary_encode()
        distinct_counts = self._count_distinct(pieces.dictionary.to_pylist())
        piece_counts = distinct_counts[as_numpy(pieces.indices)]
        # (p + 1,) tokens of all pieces before piece i, for each of the p pieces and for their end.
        tokens_before = offsets_from_sizes(piece_counts)
        # A text begins where a piece begins: (n + 1,) the index of that piece.
        first_pieces = np.searchsorted(starts, offsets)
        return np.diff(tokens_before[first_pieces])

    def _starts(self, data: pa.Buffer, offsets: Ints) -> npt.NDArray[np.int32]:
        """Cut the bytes of texts into pieces."""
        octets = data.to_pybytes()
        # Each kind of cut has a bit: left[i] has the bits of the kinds that allow byte i before a
        # cut, right[i] of those that allow it after one.
        left = np.frombuffer(octets.translate(self._cuts.left), dtype=np.uint8)
        right = np.frombuffer(octets.translate(self._cuts.right), dtype=np.uint8)
        # is_cut[i]: whether a cut lies between bytes i - 1 and i: a kind must allow both its sides.
        is_cut = np.zeros(len(octets) + 1, dtype=bool)
        np.not_equal(left[:-1] & right[1:], 0, out=is_cut[1:-1])
        # Pieces also end where texts end, and at both ends of the data, which may be a sample.
        is_cut[offsets] = is_cut[0] = is_cut[-1] = True
        return np.flatnonzero(is_cut).astype(np.int32)

    def _count_distinct(self, pieces: list[bytes]) -> Ints:
        """Return (n,) tokens of each of these distinct pieces: remembered, or tokenized now."""
        # Only one thread tokenizes, which uses all cores: others would tokenize the same pieces.
        with self._lock:
            counts = np.fromiter(map(self._known.get, pieces, repeat(-1)), np.int64, len(pieces))
            unknown = np.flatnonzero(counts < 0)
            if len(unknown):
                new_pieces = [pieces[i] for i in unknown.tolist()]
                counts[unknown] = new_counts = self._tokenize(new_pieces)
                # All are forgotten, without a choice: pieces that repeat are soon there again.
                if len(self._known) + len(new_pieces) > _REMEMBERED:
                    self._known.clear()
                self._known.update(
                    (piece, count)
                    for piece, count in zip(new_pieces, new_counts.tolist(), strict=True)
                    if len(piece) <= _LONGEST_REMEMBERED
                )
        return counts

    def _tokenize(self, pieces: list[bytes]) -> Ints:
        """Return (n,) tokens of each of these pieces; they are joined, which is faster."""
        if self._separator is None:
            return self._tokenize_separately(pieces)
        text, separator_id = self._separator
        groups = [pieces[first : first + _JOINED] for first in range(0, len(pieces), _JOINED)]
        encoded = encodings(self._backend, [text.join(group).decode() for group in groups])
        counts: list[Ints] = []
        for encoding, group in zip(encoded, groups, strict=True):
            separators = np.flatnonzero(np.array(encoding.ids) == separator_id)
            if len(separators) != len(group) - 1:  # a piece contains the text of the special token
                counts.append(self._tokenize_separately(group))
            else:  # distances, as if a separator were before the first id and after the last
                counts.append(np.diff(separators, prepend=-1, append=len(encoding)) - 1)
        return np.concatenate(counts)

    def _tokenize_separately(self, pieces: list[bytes]) -> Ints:
        encoded = encodings(self._backend, [piece.decode() for piece in pieces])
        return np.fromiter(map(len, encoded), np.int64, len(pieces))


def _slices(data: pa.Buffer, starts: npt.NDArray[np.int32]) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(starts), data])


def _find_separator(backend: tokenizers.Tokenizer) -> tuple[bytes, int] | None:
    """Find a special token by which texts can be joined, and told apart again by its id."""
    # In a joined text, the tokenizer must find it exactly where it was inserted.
    added, unknown = backend.get_added_tokens_decoder(), set[int]()
    with suppress(Exception):  # tokenizers raises bare Exception without an unknown token
        unknown = {token.id for token in backend.model.tokenize(_IN_NO_VOCABULARY)}
    for number, token in sorted(added.items()):
        text = token.content
        others = [other.content for other in added.values() if other.content != text]
        # It must not take whitespace of the texts with it, nor be found only as a whole word.
        if not token.special or token.lstrip or token.rstrip or token.single_word:
            continue
        # It must not be the unknown token, which pieces of characters that a vocabulary lacks have
        # too: all of them would be tokenized twice. (XLNet's is its first token.)
        if number in unknown:
            continue
        # It must not begin and end with the same text: it may be found across a piece's end.
        if any(text[:size] == text[-size:] for size in range(1, len(text))):
            continue
        # A longer token may be found instead, or one that begins in the text before it.
        if any(text in other or overlaps(other, text) for other in others):
            continue
        # One that is looked for in normalized text, in what all others leave, is lost where another
        # begins within it, or a normalizer changes it: NFC composes `>` with a mark after it.
        is_lost = any(other in text or overlaps(text, other) for other in others)
        if token.normalized and (backend.normalizer is not None or is_lost):
            continue
        return text.encode(), number
    return None
