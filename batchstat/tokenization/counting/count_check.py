"""Count some texts of every block with the tokenizer itself too, and compare with a faster way."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.findings import Finding
from batchstat.lengths.arrays import Ints
from batchstat.storage.arrow_numbers import as_arrow

_SHARES = ((8 << 20, 100), (1 << 30, 200))
"""One byte in 100 is checked of blocks in the first 8 MB of a file, one in 200 up to 1 GB."""
_LAST_SHARE = 800  # after that, one byte in 800
_EXCERPT = 16_384
"""Most characters of a text that are checked; of a longer text, so many at a random position."""

Recount = Callable[[Sequence[pa.LargeStringArray]], Ints]
"""Returns (n,) tokens of samples by the way of counting that is checked. A sample has one side, a
text, or two, the texts of a pair; the argument has a column for each side."""


class MiscountError(Exception):
    """A text that a faster way of counting counts differently than the tokenizer itself."""


def recounted(difference: MiscountError | str) -> Finding:
    """Return the finding that a corpus is counted again without shortcuts, after a difference."""
    return Finding("counting/recounted", f"{difference}: recounting without shortcuts")


class RefusedError(Exception):
    """The tokenizer raised an exception."""


def encodings(
    backend: tokenizers.Tokenizer,
    samples: Sequence[str | tuple[str, str]],
    *,
    special_tokens: bool = False,
) -> list[tokenizers.Encoding]:
    """Tokenize texts or pairs, and raise RefusedError if the tokenizer raises anything."""
    try:
        with panics_as_errors():
            return backend.encode_batch_fast(list(samples), add_special_tokens=special_tokens)
    except Exception as error:  # tokenizers raises bare Exception
        raise RefusedError from error


_PLACE: ContextVar[tuple[int, int]] = ContextVar("_PLACE", default=(0, 0))
"""Where a thread's texts are in their file: the first byte of their split, and records before."""


@contextmanager
def counting_after(records: int, *, first_byte: int = 0) -> Iterator[None]:
    """Set the place in their file of this thread's texts, from that of an outer block: it decides
    which are checked. A context variable, as transformers passes no arguments on.
    """
    outer_byte, outer_records = _PLACE.get()
    outer_place = _PLACE.set((outer_byte + first_byte, outer_records + records))
    try:
        yield
    finally:
        _PLACE.reset(outer_place)


@dataclass(frozen=True, eq=False)
class CountCheck:
    """Checks one way of counting, in several threads. Which texts are checked depends only on the
    bytes of their block and its place: what one run finds is found by every run.
    """

    backend: tokenizers.Tokenizer
    way: str
    special_tokens: bool = True

    def check(self, sides: Sequence[pa.LargeStringArray], counts: Ints, recount: Recount) -> None:
        """Compare the counts of some samples. Raises MiscountError, or RefusedError."""
        # For each side, (n + 1,) where each text begins in its bytes, and where the last one ends.
        borders = [text_buffers(side)[0] for side in sides]
        block_bytes = sum(int(offsets[-1]) for offsets in borders)
        # (n,) bytes of each sample that would be checked: of a long text, only an excerpt.
        sizes = np.sum([np.minimum(np.diff(offsets), _EXCERPT) for offsets in borders], axis=0)
        # The byte at which the block begins in its file. It is estimated, because only the number
        # of records before the block is known: they are taken to be as large as its own.
        first_byte, records_before = _PLACE.get()
        block_begin = first_byte + records_before * block_bytes // max(1, len(counts))
        # Of so many bytes of the block, one is checked: fewer, the later the block is in its file.
        one_in = next((n for limit, n in _SHARES if block_begin < limit), _LAST_SHARE)
        # The seed makes the random samples the same whenever the same block is counted.
        _, data = text_buffers(sides[0])
        seed = zlib.crc32(data.slice(0, min(data.size, 32 << 10)))
        rng = np.random.default_rng((seed, block_begin))
        # The first samples and random ones, each for half of those bytes, but at least one.
        half, shuffled = block_bytes // one_in // 2, rng.permutation(len(sizes))
        first_ones = np.arange(_n_fitting(sizes, half))
        picked = np.union1d(first_ones, shuffled[: _n_fitting(sizes[shuffled], half)])
        texts = [side.take(as_arrow(picked)).to_pylist() for side in sides]
        self._compare(texts, counts[picked], recount, rng)

    def _compare(
        self, texts: Sequence[list[str]], counts: Ints, recount: Recount, rng: np.random.Generator
    ) -> None:
        """Tokenize some samples, and raise MiscountError if a count differs."""
        excerpts = [[_excerpt(text, rng) for text in side] for side in texts]
        whole_samples, samples = list(zip(*texts, strict=True)), list(zip(*excerpts, strict=True))
        is_cut = np.array([s != whole for s, whole in zip(samples, whole_samples, strict=True)])
        # `counts` are of whole samples: those that are cut must be counted in the same way again.
        if is_cut.any():
            columns = [pa.array(side, pa.large_string()) for side in excerpts]
            counts = np.where(is_cut, recount(columns), counts)
        encoded = encodings(
            self.backend,
            excerpts[0] if len(excerpts) == 1 else samples,  # texts or pairs
            special_tokens=self.special_tokens,
        )
        exact = np.fromiter(map(len, encoded), np.int64, len(samples))
        differing = np.flatnonzero(exact != counts)
        if len(differing):
            i = int(differing[0])
            text = " | ".join(samples[i])
            shown = text if len(text) <= 80 else f"{text[:80]}…"
            raise MiscountError(f"{shown!r} has {exact[i]} tokens, but {self.way} {counts[i]}")


def _n_fitting(sizes: Ints, budget: int) -> int:
    return max(1, int(np.searchsorted(np.cumsum(sizes), budget, side="right")))


def _excerpt(text: str, rng: np.random.Generator) -> str:
    if len(text) <= _EXCERPT:
        return text
    start = int(rng.integers(len(text) - _EXCERPT))
    return text[start : start + _EXCERPT]


def text_buffers(texts: pa.LargeStringArray) -> tuple[Ints, pa.Buffer]:
    """Return (n + 1,) where texts begin and the last ends in their bytes, and these, uncopied."""
    # The array may be a slice of a longer one, with which it shares its buffers.
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:  # Arrow has no buffer where all texts are empty: all begin at 0
        return starts, pa.py_buffer(b"")
    return starts - starts[0], data.slice(starts[0], starts[-1] - starts[0])


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic in Rust, a BaseException that `except Exception` misses, into a RuntimeError."""
    try:
        yield
    except BaseException as error:
        # A panic is recognized by its name: pyo3 has no module to import the class from.
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the tokenizers library panics: {error}") from None
