"""Join the labels of blocks of samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.profiling.profile import Labels


def as_labels(parts: Sequence[pa.Array]) -> Labels:
    """Join blocks of labels; the result has lists if any block has lists."""
    listed = [pa.types.is_large_list(part.type) for part in parts]
    if not any(listed):
        codes, names = _encoded(pa.chunked_array(list(parts), pa.large_string()))
        return Labels(codes, names)
    sizes = [
        np.maximum(pc.fill_null(pc.list_value_length(part), 0).to_numpy(zero_copy_only=False), 1)
        if is_list
        else np.ones(len(part), dtype=np.int64)
        for part, is_list in zip(parts, listed, strict=True)
    ]
    # A sample without a label still takes one entry, for the code that means "no label".
    none = pa.array([[None]], pa.large_list(pa.large_string()))[0]
    flat = [
        pc.list_flatten(pc.coalesce(part, none)) if is_list else part
        for part, is_list in zip(parts, listed, strict=True)
    ]
    codes, names = _encoded(pa.chunked_array(flat, pa.large_string()))
    return Labels(codes, names, offsets_from_sizes(np.concatenate(sizes)))


def _encoded(values: pa.ChunkedArray) -> tuple[Any, tuple[str, ...]]:
    encoded = values.dictionary_encode().unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return codes, tuple(encoded.dictionary.to_pylist())
