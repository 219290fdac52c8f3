"""Decode the values of Arrow columns in any encoding, and estimate how much memory that takes."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.storage.arrow_numbers import as_arrow, as_numpy

_OTHER_BYTES = 16
"""Bytes of a value that is neither text nor nested."""


def _is_any(kind: pa.DataType, *names: str) -> bool:
    """Return whether a type is of one of these kinds, by pyarrow's names of them."""
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def is_list(kind: pa.DataType) -> bool:
    """Return whether the values of a type are lists, of any layout."""
    lists = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return _is_any(kind, *lists)


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values that `decoded` returns for a column of this type."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif _is_any(kind, "dictionary", "run_end_encoded"):
            kind = kind.value_type
        # pyarrow neither measures nor takes views of text (binary_length, take).
        elif pa.types.is_string_view(kind):
            return pa.large_string()
        elif pa.types.is_binary_view(kind):
            return pa.large_binary()
        else:
            # List views stay: pyarrow's own cast of them to lists empties the list after a null.
            return kind


def decoded(values: pa.Array) -> pa.Array:
    """Return the same values without dictionaries, runs, views of text or extension types."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(values.storage)
    if pa.types.is_dictionary(kind):
        return decoded(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        return decoded(values.values).take(as_arrow(_run_of_each(values)))
    target = decoded_type(kind)
    return values if target == kind else values.cast(target)


def as_objects(values: pa.Array) -> list[Any]:
    """Return values as Python has them, with JSON parsed, which the datasets library writes where
    the fields of objects differ.
    """
    parse, listed = _json_parser(values.type), decoded(values).to_pylist()
    return listed if parse is None else [None if each is None else parse(each) for each in listed]


def _json_parser(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what parses the JSON in a value of a type; None if there is none in it."""
    if getattr(kind, "extension_name", "") == "arrow.json":
        return _parsed
    if is_list(kind):
        inner = _json_parser(kind.value_type)
        return None if inner is None else lambda value: [each and inner(each) for each in value]
    if not pa.types.is_struct(kind):
        return None
    parsers = {field.name: parse for field in kind if (parse := _json_parser(field.type))}
    if not parsers:
        return None
    return lambda value: (
        value
        | {name: parse(value[name]) for name, parse in parsers.items() if value[name] is not None}
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


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
        # The 0 at the end is of null, for which no value of the dictionary stands.
        sizes = np.append(decoded_bytes(values.dictionary), 0)
        taken: Ints = sizes[filled(values.indices, len(values.dictionary))]
        return taken
    if pa.types.is_run_end_encoded(kind):
        each: Ints = decoded_bytes(values.values)[_run_of_each(values)]
        return each
    if _is_any(kind, "string_view", "binary_view"):
        return _view_bytes(values)
    if _is_any(kind, "string", "large_string", "binary", "large_binary"):
        import pyarrow.compute as pc

        return filled(pc.binary_length(values), 0)
    if pa.types.is_struct(kind):
        return sum((decoded_bytes(each) for each in values.flatten()), _own_bytes(values))
    if pa.types.is_map(kind) or is_list(kind):
        first, counts, element_bytes = _list_spans(values)
        ends = offsets_from_sizes(element_bytes)
        within: Ints = ends[first + counts] - ends[first]
        return _own_bytes(values) + within
    return _own_bytes(values)


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


def _run_of_each(values: pa.Array) -> Ints:
    """Return (n,) the run that each value belongs to."""
    # The run ends of a slice are those of the whole array.
    positions = np.arange(values.offset, values.offset + len(values))
    return np.searchsorted(as_numpy(values.run_ends), positions, side="right").astype(np.int64)


def _own_bytes(values: pa.Array) -> Ints:
    """Return (n,) what a value takes beside its elements and the bytes of its text."""
    return np.full(len(values), _OTHER_BYTES, dtype=np.int64)


def filled(numbers: pa.Array, missing: int) -> Ints:
    """Return (n,) whole numbers, `missing` for nulls."""
    import pyarrow.compute as pc

    whole = numbers.cast(pa.int64())
    return as_numpy(pc.fill_null(whole, missing) if whole.null_count else whole)


def _view_bytes(values: pa.Array) -> Ints:
    """Return (n,) bytes of each value; the first 4 of the 16 bytes of a view are its length."""
    views = values.buffers()[1]
    if views is None or len(values) == 0:
        return np.zeros(len(values), dtype=np.int64)
    lengths = np.frombuffer(views, dtype="<i4")[::4][values.offset : values.offset + len(values)]
    return np.where(as_numpy(values.is_null()), 0, lengths).astype(np.int64)


def _list_spans(values: pa.Array) -> tuple[Ints, Ints, Ints]:
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
    offsets: Ints = as_numpy(values.offsets).astype(np.int64)
    if _is_any(kind, "list_view", "large_list_view"):
        return offsets, as_numpy(values.sizes).astype(np.int64), elements
    return offsets[:-1], np.diff(offsets), elements


def holds_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow column of this type holds text."""
    return _is_any(decoded_type(kind), "string", "large_string")


def can_label(kind: pa.DataType) -> bool:
    """Return whether values of this Arrow type have a text that can name a class."""
    numbers = ("integer", "floating", "boolean", "null", "decimal")
    # Intervals are temporal as well, but nothing writes them as text.
    times = ("date", "time", "timestamp", "duration")
    return holds_text(kind) or _is_any(decoded_type(kind), *numbers, *times)


def kind_of(value: object) -> str:
    """Return the kind of a JSON value, in a word or two."""
    names = {bool: "a boolean", int: "a number", float: "a number", list: "a list", str: "text"}
    return "null" if value is None else names.get(type(value), "an object")
