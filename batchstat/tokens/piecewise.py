"""Counting texts by their pieces: each distinct piece is asked of the tokenizer once.

Texts repeat their words far more than themselves. The pieces of a block of texts are slices of its
bytes, found and made distinct by Arrow without a copy; a tokenizer sees only those that no earlier
block had, many at a time, joined by one of its own special tokens, whose ids in the answer are the
borders. How often pieces repeat is seen in each block itself: where they hardly do, as in Chinese
or base64, asking for whole texts is quicker, and `count` says so.
"""

import threading
from itertools import count, repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tokenizers

from batchstat.tokens.pieces import Cuts

_PROBE_BYTES = 256 << 10
_MOST_NEW = 0.85
"""Of a block's first pieces, by bytes: where more are distinct, whole texts are quicker."""
_ASKED_TOGETHER = 500
_REMEMBERED = 2_000_000
_LONGEST_REMEMBERED = 64
"""Pieces and bytes a piece: together some 300 MB at most."""
_MOST_BYTES = 2**31 - 1
"""What Arrow's 32-bit offsets reach."""
_CHECKED_FIRST, _CHECKED_LATER = 50, 200
"""One byte in so many is also counted whole: of the first block of a run, and of later ones."""

Ints = npt.NDArray[np.int64]


class PieceError(Exception):
    """A text whose pieces' counts do not add up to its own: the cuts are wrong for a tokenizer."""


class PieceCounter:
    """Counts the texts of one run; may be called from several threads."""

    def __init__(self, backend: tokenizers.Tokenizer, cuts: Cuts) -> None:
        """For a tokenizer without truncation and padding, and the cuts that are sound for it."""
        self._backend, self._cuts = backend, cuts
        self._separator = _separator(backend)
        self._known: dict[bytes, int] = {}
        self._asking = threading.Lock()
        self._blocks = count()

    def count(
        self, first: pa.LargeStringArray, second: pa.LargeStringArray | None = None
    ) -> Ints | None:
        """(n,) tokens of texts without nulls, or of pairs of them, special ones counted.

        None where their pieces hardly repeat, or where the tokenizer raises on one of them.

        Raises:
            PieceError: a text of those that are also counted whole.
        """
        special = self._backend.num_special_tokens_to_add(second is not None)
        counts = self._texts(first)
        if counts is None or second is None:
            return None if counts is None else counts + special
        others = self._texts(second)
        return None if others is None else counts + others + special

    def _texts(self, texts: pa.LargeStringArray) -> Ints | None:
        if len(texts) == 0:
            return np.empty(0, dtype=np.int64)
        offsets, data = _buffers(texts)
        if data.size > _MOST_BYTES:
            return None
        head = data.slice(0, min(_PROBE_BYTES, data.size))
        if not _repeat(_slices(head, self._starts(head, offsets[offsets <= head.size]))):
            return None
        starts = self._starts(data, offsets)
        distinct = _slices(data, starts).dictionary_encode()
        try:
            sizes = self._sizes(distinct.dictionary.to_pylist())
            sums = np.zeros(len(starts), dtype=np.int64)
            np.cumsum(sizes[distinct.indices], out=sums[1:])
            counts: Ints = np.diff(sums[np.searchsorted(starts, offsets)])
            self._check(texts, np.diff(offsets), counts)
        except PieceError:
            raise
        except Exception:  # the ordinary path finds the text that the tokenizer raises on
            return None
        return counts

    def _starts(self, data: pa.Buffer, offsets: Ints) -> npt.NDArray[np.int32]:
        """(p + 1,) where each of p pieces starts in the data of the texts, and where it ends."""
        octets = data.to_pybytes()
        before = np.frombuffer(octets.translate(self._cuts.before), dtype=np.uint8)
        after = np.frombuffer(octets.translate(self._cuts.after), dtype=np.uint8)
        cut = np.zeros(len(octets) + 1, dtype=bool)
        np.not_equal(before[:-1] & after[1:], 0, out=cut[1:-1])
        cut[offsets] = cut[-1] = True
        return np.flatnonzero(cut).astype(np.int32)

    def _sizes(self, pieces: list[bytes]) -> Ints:
        """(n,) tokens of each of these distinct pieces."""
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
            return self._whole([piece.decode() for piece in pieces])
        text, number = self._separator
        groups = [
            pieces[first : first + _ASKED_TOGETHER]
            for first in range(0, len(pieces), _ASKED_TOGETHER)
        ]
        answers = self._backend.encode_batch_fast(
            [text.join(group).decode() for group in groups], add_special_tokens=False
        )
        return np.concatenate(
            [
                self._between(np.array(answer.ids), number, group)
                for answer, group in zip(answers, groups, strict=True)
            ]
        )

    def _between(self, ids: Ints, number: int, group: list[bytes]) -> Ints:
        borders = np.flatnonzero(ids == number)
        if len(borders) != len(group) - 1:  # a piece holds the text of the special token
            return self._whole([piece.decode() for piece in group])
        return np.diff(borders, prepend=-1, append=len(ids)) - 1

    def _whole(self, texts: list[str]) -> Ints:
        encoded = self._backend.encode_batch_fast(texts, add_special_tokens=False)
        return np.fromiter(map(len, encoded), np.int64, len(texts))

    def _check(self, texts: pa.LargeStringArray, sizes: Ints, counts: Ints) -> None:
        """Counts some texts whole: the first of a run, and of every later block some by chance."""
        block = next(self._blocks)
        order = np.arange(len(sizes))
        if block:
            order = np.random.default_rng(block).permutation(len(sizes))
        budget = sizes.sum() // (_CHECKED_LATER if block else _CHECKED_FIRST)
        picked = order[: 1 + np.searchsorted(np.cumsum(sizes[order]), budget)]
        if sizes[picked].sum() > 2 * budget + _PROBE_BYTES:
            return
        whole = self._whole(texts.take(pa.array(picked)).to_pylist())
        differing = np.flatnonzero(whole != counts[picked])
        if len(differing):
            i = differing[0]
            text = texts[int(picked[i])].as_py()
            shown = text if len(text) <= 80 else f"{text[:80]}…"
            raise PieceError(f"{shown!r} has {whole[i]} tokens, and its pieces {counts[picked][i]}")


def _buffers(texts: pa.LargeStringArray) -> tuple[Ints, pa.Buffer]:
    """(n + 1,) where each text starts in the bytes of all, and those bytes."""
    _, offsets, data = texts.buffers()
    found = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:
        return found, pa.py_buffer(b"")
    return found - found[0], data.slice(found[0], found[-1] - found[0])


def _slices(data: pa.Buffer, starts: npt.NDArray[np.int32]) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(starts), data])


def _repeat(pieces: pa.BinaryArray) -> bool:
    """Whether these are worth finding again: few of their bytes are in distinct ones."""
    new, all_bytes = (pc.sum(pc.binary_length(some)).as_py() for some in (pieces.unique(), pieces))
    return bool((new or 0) <= _MOST_NEW * (all_bytes or 0))


def _separator(backend: tokenizers.Tokenizer) -> tuple[bytes, int] | None:
    """A special token that texts can be joined by, and its id; None where there is none.

    Found in a joined text it must be the whole match, and where it was put: so it takes no white
    space with it, and no other added token holds its text or ends as it begins.
    """
    added = backend.get_added_tokens_decoder()
    for number, token in sorted(added.items()):
        text = token.content
        others = [other.content for other in added.values() if other.content != text]
        if token.special and not (
            *(token.lstrip, token.rstrip, token.single_word, token.normalized),
            *(text in other or _overlap(other, text) for other in others),
        ).count(True):
            return text.encode(), number
    return None


def _overlap(one: str, other: str) -> bool:
    """Whether the end of one text is the beginning of the other."""
    return any(one.endswith(other[:size]) for size in range(1, min(len(one), len(other)) + 1))
