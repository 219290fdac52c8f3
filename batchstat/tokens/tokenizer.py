"""What counts: a tokenizer with its name, its digest and its batch call."""

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BATCH_CHARS = 4 << 20
_BATCH_TEXTS = 10_000


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokenizer as batchstat uses it: truncation and padding off, special tokens added.

    Attributes:
        name: as the user wrote it.
        digest: SHA-256 of its definition, in hexadecimal after `sha256:`.
        special_tokens_per_sample: tokens of an empty text.
        max_length: the longest sample its maker states, in tokens; None where none is stated.
        library: what counts, with its version.
        encode_batch: texts to one sized thing each, whose size is the count.
    """

    name: str
    digest: str
    special_tokens_per_sample: int
    max_length: int | None
    library: str
    encode_batch: Callable[[list[str]], Iterable[Sized]]

    def count(self, texts: pa.LargeStringArray) -> npt.NDArray[np.int64]:
        """(n,) tokens of each text, special tokens counted."""
        counts = np.zeros(len(texts), dtype=np.int64)
        for first, last in _batches(texts):
            encoded = self.encode_batch(texts.slice(first, last - first).to_pylist())
            counts[first:last] = np.fromiter(map(len, encoded), np.int64, last - first)
        return counts


def _batches(texts: pa.LargeStringArray) -> Iterable[tuple[int, int]]:
    """Ranges of texts that are encoded together: few enough that their ids fit in memory."""
    ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][1 : len(texts) + 1]
    first = 0
    while first < len(texts):
        begin = ends[first - 1] if first else ends[0] - len(texts[0].as_buffer())
        last = int(np.searchsorted(ends, begin + _BATCH_CHARS, side="right"))
        last = min(max(last, first + 1), first + _BATCH_TEXTS, len(texts))
        yield first, last
        first = last
