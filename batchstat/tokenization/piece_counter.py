"""Count texts by their pieces: each distinct piece is tokenized only once.

Words repeat far more often than whole texts. The pieces of a block of texts are slices of its
bytes, found and deduplicated by Arrow without a copy. A tokenizer sees only pieces that were not in
an earlier block, many at a time, joined by one of its own special tokens, whose ids separate the
results. How often pieces repeat is measured in each block: where they hardly do, as in Chinese or
base64, tokenizing whole texts is faster, and `count` says so.
"""

import threading
import zlib
from collections.abc import Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.panics import panics_as_errors
from batchstat.tokenization.post_processing import find_rule
from batchstat.tokenization.safe_cuts import Cuts

_PROBES, _PROBE_BYTES = 8, 32 << 10
_MOST_NEW = 0.85
"""Fraction of distinct bytes in sampled pieces above which tokenizing whole texts is faster."""
_ASKED_TOGETHER = 500
_REMEMBERED = 2_000_000
_LONGEST_REMEMBERED = 64
"""Maximum number of pieces, and of bytes per piece: at most some 300 MB in all."""
_MOST_BYTES = 2**31 - 1
"""Limit of Arrow's 32-bit offsets."""
_CHECKED, _CHECKED_OF_SMALL, _CHECKED_BYTES = 200, 50, 32 << 10
"""One in so many bytes of a block is also counted whole; more in a small block, up to a limit."""
_EXCERPT = 16_384
"""Characters of a text that are checked; in a longer text, at a random position."""


class PieceError(Exception):
    """A text whose pieces' counts do not add up to its own: the cuts are wrong for a tokenizer."""


class _RefusedError(Exception):
    """The tokenizer raised an exception."""


class PieceCounter:
    """Counter of the texts of one run; may be called from several threads."""

    def __init__(self, backend: tokenizers.Tokenizer, cuts: Cuts) -> None:
        """Use a tokenizer without truncation and padding, and the cuts that are valid for it."""
        self._backend, self._cuts = backend, cuts
        self._separator = _separator(backend)
        self._rules = {number: find_rule(backend, number) for number in (1, 2)}
        self._known: dict[bytes, int] = {}
        self._asking = threading.Lock()

    def count(
        self, first: pa.LargeStringArray, second: pa.LargeStringArray | None = None
    ) -> Ints | None:
        """Return (n,) tokens of texts without nulls, or of pairs, special tokens counted.

        None if their pieces hardly repeat, or if the tokenizer raises on one of them: the ordinary
        way of counting then finds which one.

        Raises:
            PieceError: the counts differ for a text that is also counted whole.
        """
        sides = [first] if second is None else [first, second]
        if self._rules[len(sides)] is None:
            return None
        if len(first) == 0:
            return np.empty(0, dtype=np.int64)
        buffers = [_buffers(side) for side in sides]
        if not all(
            data.size <= _MOST_BYTES and self._repeat(offsets, data) for offsets, data in buffers
        ):
            return None
        try:
            counts = self._by_pieces(buffers)
            head = buffers[0][1].slice(0, min(buffers[0][1].size, _PROBE_BYTES))
            self._check(sides, counts, zlib.crc32(head))
        except _RefusedError:
            return None
        return counts

    def _repeat(self, offsets: Ints, data: pa.Buffer) -> bool:
        """Return whether pieces repeat enough: few bytes of some pieces are in distinct ones.

        The pieces come from several positions: a text may begin in English and continue in numbers.
        """
        size = min(_PROBE_BYTES, -(-data.size // _PROBES))
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

    def _by_pieces(self, sides: Sequence[tuple[Ints, pa.Buffer]]) -> Ints:
        """Return (n,) tokens of the samples whose sides begin at these offsets in these bytes."""
        rule = self._rules[len(sides)]
        assert rule is not None
        counts = [times * self._side(*side) for times, side in zip(rule.times, sides, strict=True)]
        total: Ints = np.sum(counts, axis=0) + rule.special
        return total

    def _side(self, offsets: Ints, data: pa.Buffer) -> Ints:
        """Return (n,) tokens of the texts that begin at the offsets, without special tokens."""
        starts = self._starts(data, offsets)
        distinct = _slices(data, starts).dictionary_encode()
        sizes = self._sizes(distinct.dictionary.to_pylist())
        sums = np.zeros(len(starts), dtype=np.int64)
        np.cumsum(sizes[distinct.indices], out=sums[1:])
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
        answers = self._encoded([text.join(group).decode() for group in groups])
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
        encoded = self._encoded([piece.decode() for piece in pieces])
        return np.fromiter(map(len, encoded), np.int64, len(pieces))

    def _encoded(
        self, texts: Sequence[str | tuple[str, str]], *, special: bool = False
    ) -> list[tokenizers.Encoding]:
        try:
            with panics_as_errors():
                return self._backend.encode_batch_fast(list(texts), add_special_tokens=special)
        except Exception as error:  # tokenizers raises bare Exception
            raise _RefusedError from error

    def _whole(self, samples: Sequence[str | tuple[str, str]]) -> Ints:
        """Return (n,) tokens of each of these samples, tokenized as a whole."""
        encoded = self._encoded(samples, special=True)
        return np.fromiter(map(len, encoded), np.int64, len(samples))

    def _check(self, sides: Sequence[pa.LargeStringArray], counts: Ints, seed: int) -> None:
        """Count some samples whole: the first of a block and random ones; of long ones, a part."""
        ends = [_buffers(side)[0] for side in sides]
        sizes = np.sum([np.minimum(np.diff(each), _EXCERPT) for each in ends], axis=0)
        bytes_ = sum(int(each[-1]) for each in ends)
        budget = max(bytes_ // _CHECKED, min(bytes_ // _CHECKED_OF_SMALL, _CHECKED_BYTES))
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(sizes))
        picked = np.union1d(
            np.arange(_fitting(sizes, budget // 2)), order[: _fitting(sizes[order], budget // 2)]
        )
        picked_texts = [side.take(pa.array(picked)).to_pylist() for side in sides]
        parts = [[_excerpt(text, rng) for text in texts] for texts in picked_texts]
        samples = list(zip(*parts, strict=True))
        cut = np.array(
            [
                part != text
                for part, text in zip(samples, zip(*picked_texts, strict=True), strict=True)
            ]
        )
        by_pieces = counts[picked]
        by_pieces[cut] = self._by_pieces([_buffers(pa.array(p, pa.large_string())) for p in parts])[
            cut
        ]
        by_text = self._whole(parts[0] if len(parts) == 1 else samples)
        differing = np.flatnonzero(by_text != by_pieces)
        if len(differing):
            i = int(differing[0])
            text = " | ".join(samples[i])
            shown = text if len(text) <= 80 else f"{text[:80]}…"
            raise PieceError(
                f"{shown!r} has {by_text[i]} tokens, but its pieces have {by_pieces[i]}"
            )


def _fitting(sizes: Ints, budget: int) -> int:
    """Return how many of the first sizes fit into a budget together; at least one."""
    return max(1, int(np.searchsorted(np.cumsum(sizes), budget, side="right")))


def _excerpt(text: str, rng: np.random.Generator) -> str:
    if len(text) <= _EXCERPT:
        return text
    start = int(rng.integers(len(text) - _EXCERPT))
    return text[start : start + _EXCERPT]


def _buffers(texts: pa.LargeStringArray) -> tuple[Ints, pa.Buffer]:
    """Return (n + 1,) start of each text in the bytes of all texts, and those bytes."""
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:
        return starts, pa.py_buffer(b"")
    return starts - starts[0], data.slice(starts[0], starts[-1] - starts[0])


def _slices(data: pa.Buffer, starts: npt.NDArray[np.int32]) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(starts), data])


def _separator(backend: tokenizers.Tokenizer) -> tuple[bytes, int] | None:
    """Return a special token that texts can be joined with, and its id; None if there is none.

    In a joined text it must be found exactly where it was inserted, and must be the whole match: it
    takes no whitespace with it, does not end the way it begins, and no other added token contains
    its text or overlaps with it.
    """
    added = backend.get_added_tokens_decoder()
    for number, token in sorted(added.items()):
        text = token.content
        others = [other.content for other in added.values() if other.content != text]
        if token.special and not (
            *(token.lstrip, token.rstrip, token.single_word, token.normalized),
            any(text[:size] == text[-size:] for size in range(1, len(text))),
            *(text in other or _overlap(other, text) for other in others),
        ).count(True):
            return text.encode(), number
    return None


def _overlap(one: str, other: str) -> bool:
    """Return whether the end of one text is the beginning of the other."""
    return any(one.endswith(other[:size]) for size in range(1, min(len(one), len(other)) + 1))
