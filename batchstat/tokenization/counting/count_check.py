"""Count some texts of every block with the tokenizer itself too, to find a faster way wrong."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.storage.arrow_numbers import as_arrow
from batchstat.tokenization.counting.panics import panics_as_errors

_SHARES = ((8 << 20, 100), (1 << 30, 200))
"""Of a block that begins before so many bytes of its file, one byte in so many is checked."""
_LAST_SHARE = 800
_EXCERPT = 16_384
"""Characters of a text that are checked; in a longer text, at a random position."""
_SEED_BYTES = 32 << 10

Recount = Callable[[Sequence[pa.LargeStringArray]], Ints]
"""Returns (n,) tokens of samples, given their sides, by the way of counting that is checked."""


class MiscountError(Exception):
    """A text that a faster way of counting counts differently than the tokenizer itself."""


class RefusedError(Exception):
    """The tokenizer raised an exception."""


def encodings(
    backend: tokenizers.Tokenizer,
    samples: Sequence[str | tuple[str, str]],
    *,
    special_tokens: bool = False,
) -> list[tokenizers.Encoding]:
    """Return what a tokenizer makes of texts or pairs. Raise RefusedError if it raises."""
    try:
        with panics_as_errors():
            return backend.encode_batch_fast(list(samples), add_special_tokens=special_tokens)
    except Exception as error:  # tokenizers raises bare Exception
        raise RefusedError from error


_PLACE: ContextVar[tuple[int, int]] = ContextVar("_PLACE", default=(0, 0))
"""First byte of the split that is counted, and records of it before the texts that are counted."""


@contextmanager
def counting_after(records: int, *, first_byte: int = 0) -> Iterator[None]:
    """Say how many records are before the texts that this thread counts meanwhile, in the split
    that begins at `first_byte`, or in the texts that were placed before.

    Some texts reach a counter through transformers, which passes nothing on, so they cannot bring
    their place with them.
    """
    placed_byte, placed_records = _PLACE.get()
    token = _PLACE.set((placed_byte + first_byte, placed_records + records))
    try:
        yield
    finally:
        _PLACE.reset(token)


@dataclass(frozen=True, eq=False)
class CountCheck:
    """Check of one way of counting; may be called from several threads.

    Which texts are checked follows from the bytes of their block and its place in its file alone:
    a difference that one run finds, every run finds, whatever the machine was doing.

    Attributes:
        backend: what counts are checked against.
        way: names what is checked, with its verb, for messages.
        special_tokens: whether special tokens are counted.
    """

    backend: tokenizers.Tokenizer
    way: str
    special_tokens: bool = True

    def check(self, sides: Sequence[pa.LargeStringArray], counts: Ints, recount: Recount) -> None:
        """Count some samples whole: the first of a block and random ones; of long ones, a part.

        Args:
            sides: (n,) texts, or the first and the second texts of pairs.
            counts: (n,) their tokens, special tokens counted.
            recount: counts parts of texts as `counts` were counted.

        Raises:
            MiscountError: the counts of a sample differ.
            RefusedError: the tokenizer raises on a sample.
        """
        ends = [text_buffers(side)[0] for side in sides]
        sizes = np.sum([np.minimum(np.diff(each), _EXCERPT) for each in ends], axis=0)
        bytes_ = sum(int(each[-1]) for each in ends)
        first_byte, record = _PLACE.get()
        # Not every format knows at which byte a record begins; how many come before it, all do.
        offset = first_byte + record * bytes_ // max(1, len(counts))
        share = next((n for most, n in _SHARES if offset < most), _LAST_SHARE)
        _, data = text_buffers(sides[0])
        seed = zlib.crc32(data.slice(0, min(data.size, _SEED_BYTES)))
        rng = np.random.default_rng((seed, offset))
        picked = _picked(sizes, bytes_ // share, rng)
        texts = [side.take(as_arrow(picked)).to_pylist() for side in sides]
        self._compare(texts, counts[picked], recount, rng)

    def _compare(
        self, texts: Sequence[list[str]], counts: Ints, recount: Recount, rng: np.random.Generator
    ) -> None:
        """Compare the counts of some samples, given their sides."""
        parts = [[_excerpt(text, rng) for text in side] for side in texts]
        samples = list(zip(*parts, strict=True))
        is_part = np.array(
            [part != text for part, text in zip(samples, zip(*texts, strict=True), strict=True)]
        )
        if is_part.any():
            columns = [pa.array(side, pa.large_string()) for side in parts]
            counts = np.where(is_part, recount(columns), counts)
        encoded = encodings(
            self.backend,
            parts[0] if len(parts) == 1 else samples,
            special_tokens=self.special_tokens,
        )
        by_text = np.fromiter(map(len, encoded), np.int64, len(samples))
        differing = np.flatnonzero(by_text != counts)
        if len(differing):
            i = int(differing[0])
            text = " | ".join(samples[i])
            shown = text if len(text) <= 80 else f"{text[:80]}…"
            raise MiscountError(f"{shown!r} has {by_text[i]} tokens, but {self.way} {counts[i]}")


def _picked(sizes: Ints, budget: int, rng: np.random.Generator) -> Ints:
    """Return positions of texts that fit into a budget: half of it the first, half random ones."""
    order = rng.permutation(len(sizes))
    return np.union1d(
        np.arange(_fitting(sizes, budget // 2)), order[: _fitting(sizes[order], budget // 2)]
    )


def _fitting(sizes: Ints, budget: int) -> int:
    """Return how many of the first sizes fit into a budget together; at least one."""
    return max(1, int(np.searchsorted(np.cumsum(sizes), budget, side="right")))


def _excerpt(text: str, rng: np.random.Generator) -> str:
    if len(text) <= _EXCERPT:
        return text
    start = int(rng.integers(len(text) - _EXCERPT))
    return text[start : start + _EXCERPT]


def text_buffers(texts: pa.LargeStringArray) -> tuple[Ints, pa.Buffer]:
    """Return (n + 1,) start of each text in the bytes of all texts, and those bytes."""
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:
        return starts, pa.py_buffer(b"")
    return starts - starts[0], data.slice(starts[0], starts[-1] - starts[0])
