"""Token counts for a program: texts in, an array out."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from batchstat.corpus.arrow_values import decoded, holds_text
from batchstat.corpus.content import Texts
from batchstat.errors import OptionError
from batchstat.lengths.arrays import Ints
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.loading import as_tokenizer
from batchstat.tokenization.piece_counter import PieceError
from batchstat.tokenization.threads import in_order, worker_count
from batchstat.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    import pandas as pd
    import tokenizers
    import transformers

    AnyTokenizer = (
        str | os.PathLike[str] | tokenizers.Tokenizer | transformers.PreTrainedTokenizerBase
    )

_LEAST_TEXTS, _MOST_TEXTS = 1_000, 20_000
_BLOCK_BYTES = 8 << 20


def token_lengths(
    texts: "Sequence[str] | pd.Series[str] | pa.Array | pa.ChunkedArray",
    tokenizer: "AnyTokenizer" = BUILTIN,
    *,
    workers: int | None = None,
) -> Ints:
    """(n,) tokens of each text: those the tokenizer gives it, special ones counted.

    Truncation and padding set in the tokenizer are left out of account; it is not changed.

    Args:
        texts: n texts.
        tokenizer: `builtin`, the path of a tokenizer.json, a local folder, a hub name, or a
            tokenizer of tokenizers or transformers.
        workers: threads that count; as many as there are cores unless set.

    Raises:
        OptionError: something among the texts that is no text, or no tokenizer; a number of
            workers that cannot be.
        InputError: a tokenizer that cannot be loaded.
    """
    threads = worker_count(workers)
    if not _is_column(texts):
        raise OptionError(
            f"texts of type {type(texts).__name__}: give a list, a pandas column or an Arrow array"
        )
    loaded = as_tokenizer(tokenizer)
    try:
        return _counts(loaded, texts, threads)
    except PieceError as difference:
        warnings.warn(f"{difference}: everything is counted again, whole", stacklevel=2)
        return _counts(replace(loaded, pieces=None), texts, threads)


def _is_column(texts: Any) -> bool:
    try:
        return not isinstance(texts, str | bytes) and len(texts) >= 0 and np.ndim(texts[:0]) == 1
    except (TypeError, KeyError):
        return False


def _counts(tokenizer: Tokenizer, texts: Any, workers: int) -> Ints:
    def count(block: pa.LargeStringArray) -> Ints:
        return tokenizer.count(Texts(block))[0]

    parts = list(in_order(count, _blocks(texts, workers), workers))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _blocks(texts: Any, workers: int) -> Iterator[pa.LargeStringArray]:
    # Two blocks for each worker at least: what one thread converts, another counts meanwhile.
    size = min(max(_LEAST_TEXTS, len(texts) // (2 * workers)), _MOST_TEXTS)
    # A Series is sliced by place here, whatever its index.
    rows = getattr(texts, "iloc", texts)
    for first in range(0, len(texts), size):
        block = _as_arrow(rows[first : first + size], first)
        for start, stop in Texts(block).ranges(_BLOCK_BYTES, size):
            yield block.slice(start, stop - start)


def _as_arrow(texts: Any, first: int) -> pa.LargeStringArray:
    try:
        if isinstance(texts, pa.ChunkedArray):
            texts = texts.combine_chunks()
        if isinstance(texts, pa.Array) and not holds_text(texts.type):
            raise TypeError(f"they are {texts.type}")
        if isinstance(texts, pa.Array):
            texts.validate(full=True)
            block = decoded(texts).cast(pa.large_string())
        else:
            block = pa.array(texts, pa.large_string(), from_pandas=True)
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"texts {first} and on are no texts: {reason}") from None
    if block.null_count:
        at = int(np.flatnonzero(block.is_null().to_numpy(zero_copy_only=False))[0])
        raise OptionError(f"texts[{first + at}] is missing where text is expected")
    return block
