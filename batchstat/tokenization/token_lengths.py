"""`token_lengths`: token counts of texts as an array."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from batchstat.corpus.arrow_values import decoded, holds_text
from batchstat.corpus.content import Texts
from batchstat.errors import InputError, OptionError, arguments_named
from batchstat.findings import warn_in_python
from batchstat.lengths.arrays import Ints
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.counting.count_check import (
    MiscountError,
    counting_after,
    panics_as_errors,
    recounted,
)
from batchstat.tokenization.loading.load import as_tokenizer, backend_of
from batchstat.tokenization.threads import in_order, worker_count
from batchstat.tokenization.tokenizer import TOGETHER_BYTES, Tokenizer

if TYPE_CHECKING:
    import pandas as pd
    import tokenizers
    import transformers

    AnyTokenizer = (
        str | os.PathLike[str] | tokenizers.Tokenizer | transformers.PreTrainedTokenizerBase
    )

_BLOCKS, _LEAST_TEXTS, _MOST_TEXTS = 32, 10_000, 100_000
"""Texts are counted in so many blocks, but of at least and at most so many texts."""

_FEW_BYTES = 64 << 10
"""So much text is counted in some 20 ms without looking at the tokenizer first, which takes 10."""


@arguments_named()
def token_lengths(
    texts: "Sequence[str] | pd.Series[str] | pa.Array | pa.ChunkedArray",
    tokenizer: "AnyTokenizer" = BUILTIN,
    *,
    workers: int | None = None,
) -> Ints:
    """Return (n,) tokens of each text, special tokens counted.

    Truncation and padding set in the tokenizer are ignored; the tokenizer is not modified.

    Args:
        texts: n texts.
        tokenizer: `builtin`, the path of a tokenizer.json, a local folder, a hub name, or a
            tokenizer of tokenizers or transformers.
        workers: number of counting threads; defaults to the number of cores.

    Example:
        >>> batchstat.token_lengths(["one", "one, two"])
        array([1, 3])

    Raises:
        OptionError: an item that is not a text, an unsupported tokenizer type, or an invalid number
            of workers.
        InputError: a tokenizer that cannot be loaded, or that raises an exception on a text.
    """
    threads = worker_count(workers)
    if not _is_column(texts):
        raise OptionError(
            f"texts of type {type(texts).__name__}",
            "pass a list, a pandas column or an Arrow array",
        )
    counts = _counts_of_few(texts, tokenizer)
    if counts is not None:
        return counts
    loaded = as_tokenizer(tokenizer)
    try:
        return _counts(loaded, texts, threads)
    # A check found that a faster way counts a text wrong: the tokenizer itself counts all of them.
    except MiscountError as difference:
        warn_in_python(recounted(difference))
        return _counts(loaded.without_shortcuts(), texts, threads)


def _counts_of_few(texts: Any, tokenizer: Any) -> Ints | None:
    """Return (n,) tokens of each text where a loaded tokenizer itself counts as fast as any way."""
    backend = backend_of(tokenizer)
    if backend is None or not 0 < len(texts) <= _FEW_BYTES:
        return None
    column = _as_arrow(getattr(texts, "iloc", texts)[:], 0)
    if column.nbytes > _FEW_BYTES:
        return None
    try:
        with panics_as_errors():
            encoded = backend.encode_batch_fast(column.to_pylist())
    except Exception:  # the other way finds the text
        return None
    return np.fromiter(map(len, encoded), np.int64, len(column))


def _is_column(texts: Any) -> bool:
    try:
        return not isinstance(texts, str | bytes) and len(texts) >= 0 and np.ndim(texts[:0]) == 1
    except (TypeError, KeyError):  # it has no length, or cannot be sliced: a dict raises KeyError
        return False


def _counts(tokenizer: Tokenizer, texts: Any, workers: int) -> Ints:
    """Return (n,) tokens of each text, counted in blocks by several threads."""

    def count(block: tuple[int, Texts]) -> Ints:
        first, block_texts = block

        def refuse(i: int, error: Exception) -> None:
            # The tokenizer raised on text i of this block.
            reason = tokenizer.cannot_count(error)
            raise InputError(f"texts[{first + i}]: {reason}", "leave it out") from None

        with counting_after(first):  # where a block begins decides which of its texts are checked
            return tokenizer.count(block_texts, refuse).tokens

    counts = list(in_order(count, _blocks(tokenizer, texts), workers))
    # np.concatenate raises without any array.
    return np.concatenate(counts) if counts else np.empty(0, dtype=np.int64)


def _blocks(tokenizer: Tokenizer, texts: Any) -> Iterator[tuple[int, Texts]]:
    """Yield the texts in blocks, each after the number of texts before it."""
    # Whatever the number of workers, since a block decides which of its texts are checked; small
    # enough that one thread converts texts to Arrow while another counts.
    size = min(max(_LEAST_TEXTS, len(texts) // _BLOCKS), _MOST_TEXTS)
    # A pandas Series is sliced by position, whatever its index, through `iloc`.
    by_position = getattr(texts, "iloc", texts)
    for first in range(0, len(texts), size):
        column = _as_arrow(by_position[first : first + size], first)
        # Announce how many bytes will come, estimated from the first block: the engine may load.
        if first == 0:
            tokenizer.expect(column.nbytes * len(texts) // len(column))
        block = Texts(column)
        # A block of long texts is divided further, by bytes.
        for start, stop in block.ranges(TOGETHER_BYTES, size):
            yield first + start, block.slice(start, stop)


def _as_arrow(texts: Any, first: int) -> pa.LargeStringArray:
    """Convert a block of texts to Arrow; `first`: position of its first text, for messages."""
    try:
        if isinstance(texts, pa.ChunkedArray):
            texts = texts.combine_chunks()
        # Arrow would cast numbers to text.
        if isinstance(texts, pa.Array) and not holds_text(texts.type):
            raise TypeError(f"they are {texts.type}")
        if isinstance(texts, pa.Array):
            # Arrow checks by itself neither that buffers are sound nor that text is UTF-8.
            texts.validate(full=True)
            block = decoded(texts).cast(pa.large_string())
        else:
            # from_pandas: NaN is missing, and not a value of another type.
            block = pa.array(texts, pa.large_string(), from_pandas=True)
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(
            f"texts[{first}:] contains values that are not strings: {reason}"
        ) from None
    if block.null_count:
        missing = int(np.flatnonzero(block.is_null().to_numpy(zero_copy_only=False))[0])
        raise OptionError(f"texts[{first + missing}] is missing", "pass text for every item")
    return block
