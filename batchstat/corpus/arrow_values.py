"""Decode the values of Arrow columns in any encoding, and estimate how much memory that takes."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.lengths.arrays import Ints, offsets_from_sizes

_OTHER_BYTES = 16
"""Bytes of a value that is neither text nor nested."""


def is_list(kind: pa.DataType) -> bool:
    """Return whether the values of a type are lists, of any layout."""
    types = pa.types
    return any(
        is_kind(kind)
        for is_kind in (
            *(types.is_list, types.is_large_list, types.is_fixed_size_list),
            *(types.is_list_view, types.is_large_list_view),
        )
    )


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values that `decoded` returns for a column of this type."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif pa.types.is_string_view(kind):
            return pa.large_string()
        elif pa.types.is_binary_view(kind):
            return pa.large_binary()
        else:
            return kind


def decoded(values: pa.Array) -> pa.Array:
    """Return the same values without dictionaries, runs, views of text or extension types."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(values.storage)
    if pa.types.is_dictionary(kind):
        return decoded(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        return decoded(values.values).take(pa.array(_runs(values)))
    target = decoded_type(kind)
    return values if target == kind else values.cast(target)


def decoded_bytes(values: pa.Array) -> Ints:
    """Return (n,) approximately how many bytes each value takes once it is decoded.

    A few bytes of a file can stand for gigabytes: the values of a dictionary, of runs and of views
    may all be the same long one. So this is computed without decoding them.

    Args:
        values: (n,) values whose buffers are consistent.
    """
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded_bytes(values.storage)
    if pa.types.is_dictionary(kind):
        sizes = np.append(decoded_bytes(values.dictionary), 0)
        taken: Ints = sizes[_filled(values.indices, len(values.dictionary))]
        return taken
    if pa.types.is_run_end_encoded(kind):
        each: Ints = decoded_bytes(values.values)[_runs(values)]
        return each
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _view_bytes(values)
    if _is_bytes(kind):
        return _filled(pc.binary_length(values), 0)
    if pa.types.is_struct(kind):
        return sum((decoded_bytes(each) for each in values.flatten()), _others(values))
    if pa.types.is_map(kind) or is_list(kind):
        first, sizes, elements = _spans(values)
        ends = offsets_from_sizes(elements)
        within: Ints = ends[first + sizes] - ends[first]
        return _others(values) + within
    return _others(values)


def ranges(sizes: Ints, most_bytes: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of consecutive values with at most so many bytes and values, or with one value.

    `sizes` are the bytes of each value.
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + most_bytes, side="right"))
        stop = min(max(stop, start + 1), start + most)
        yield start, min(stop, len(ends))
        start = stop


def _runs(values: pa.Array) -> Ints:
    """Return (n,) the run that each value belongs to."""
    positions = np.arange(values.offset, values.offset + len(values))
    return np.searchsorted(values.run_ends.to_numpy(), positions, side="right").astype(np.int64)


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)


def _others(values: pa.Array) -> Ints:
    return np.full(len(values), _OTHER_BYTES, dtype=np.int64)


def _filled(numbers: pa.Array, missing: int) -> Ints:
    filled: Ints = pc.fill_null(numbers.cast(pa.int64()), missing).to_numpy(zero_copy_only=False)
    return filled


def _view_bytes(values: pa.Array) -> Ints:
    """Return (n,) bytes of each value; the first 4 of the 16 bytes of a view are its length."""
    views = values.buffers()[1]
    if views is None or len(values) == 0:
        return np.zeros(len(values), dtype=np.int64)
    lengths = np.frombuffer(views, dtype="<i4")[::4][values.offset : values.offset + len(values)]
    return np.where(values.is_null().to_numpy(zero_copy_only=False), 0, lengths).astype(np.int64)


def _spans(values: pa.Array) -> tuple[Ints, Ints, Ints]:
    """Return for lists where each begins in the elements, its size, and the elements' bytes."""
    kind = values.type
    if pa.types.is_map(kind):
        elements: Ints = decoded_bytes(values.keys) + decoded_bytes(values.items)
    else:
        elements = decoded_bytes(values.values)
    if pa.types.is_fixed_size_list(kind):
        return (
            (np.arange(len(values)) + values.offset) * kind.list_size,
            np.full(len(values), kind.list_size),
            elements,
        )
    offsets: Ints = values.offsets.to_numpy().astype(np.int64)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return offsets, values.sizes.to_numpy().astype(np.int64), elements
    return offsets[:-1], np.diff(offsets), elements


def holds_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow column of this type holds text."""
    kind = decoded_type(kind)
    return any(is_text(kind) for is_text in (pa.types.is_string, pa.types.is_large_string))


def can_label(kind: pa.DataType) -> bool:
    """Return whether values of this Arrow type have a text that can name a class."""
    kind = decoded_type(kind)
    # Intervals are temporal as well, but nothing writes them as text.
    return holds_text(kind) or any(
        is_kind(kind)
        for is_kind in (
            *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null),
            *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration),
            pa.types.is_decimal,
        )
    )


def kind_of(value: object) -> str:
    """Return the kind of a JSON value, in a word or two."""
    names = {bool: "a boolean", int: "a number", float: "a number", list: "a list", str: "text"}
    return "null" if value is None else names.get(type(value), "an object")
