"""Decode the values of Arrow columns in any encoding, and estimate how much memory that takes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from batchstat.corpus.chat import parsed_text
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.storage.arrow_numbers import as_arrow, as_numpy


def is_any(dtype: pa.DataType, *names: str) -> bool:
    """Return whether `pa.types.is_…` of any of these names is true of a type."""
    return any(getattr(pa.types, f"is_{name}")(dtype) for name in names)


def is_list(dtype: pa.DataType) -> bool:
    """Return whether the values of a type are lists, of any layout."""
    lists = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return is_any(dtype, *lists)


def decoded_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type that a column of type `dtype` has once it is `decoded`."""
    # An extension type may be stored as a dictionary, and this hold views: layer by layer.
    while True:
        if isinstance(dtype, pa.BaseExtensionType):
            dtype = dtype.storage_type
        elif is_any(dtype, "dictionary", "run_end_encoded"):
            dtype = dtype.value_type
        # pyarrow neither measures nor takes views of text (binary_length, take).
        elif pa.types.is_string_view(dtype):
            return pa.large_string()
        elif pa.types.is_binary_view(dtype):
            return pa.large_binary()
        else:
            # List views stay: pyarrow's own cast of them to lists empties the list after a null.
            return dtype


def decoded(values: pa.Array) -> pa.Array:
    """Return the same values without dictionaries, runs, views of text and extension types."""
    dtype = values.type
    if isinstance(dtype, pa.BaseExtensionType):
        return decoded(values.storage)
    # `take` returns null where the index is null.
    if pa.types.is_dictionary(dtype):
        return decoded(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(dtype):
        return decoded(values.values).take(as_arrow(_run_of_each(values)))
    target = decoded_type(dtype)
    return values if target == dtype else values.cast(target)


def as_objects(values: pa.Array) -> list[Any]:
    """Return values as Python objects, with the JSON text that datasets writes in them parsed."""
    parse, objects = _json_parser(values.type), decoded(values).to_pylist()
    return [value if parse is None or value is None else parse(value) for value in objects]


def _json_parser(dtype: pa.DataType) -> Callable[[Any], Any] | None:
    """Return a function that parses all JSON inside a Python value of an Arrow type."""
    if getattr(dtype, "extension_name", "") == "arrow.json":
        return parsed_text
    if is_list(dtype):
        parse_item = _json_parser(dtype.value_type)
        if parse_item is None:
            return None
        return lambda items: [None if item is None else parse_item(item) for item in items]
    if not pa.types.is_struct(dtype):
        return None
    parsers = {field.name: parse for field in dtype if (parse := _json_parser(field.type))}

    def parse_struct(struct: dict[str, Any]) -> dict[str, Any]:
        parsed = dict(struct)  # only the fields with JSON are replaced in this copy
        for name, parse in parsers.items():
            if struct[name] is not None:
                parsed[name] = parse(struct[name])
        return parsed

    return parse_struct if parsers else None


def decoded_bytes(values: pa.Array) -> Ints:
    """Return (n,) bytes of each value once decoded: a small dictionary may stand for gigabytes."""
    dtype = values.type
    if isinstance(dtype, pa.BaseExtensionType):
        return decoded_bytes(values.storage)
    if pa.types.is_dictionary(dtype):
        # The bytes of each entry of the dictionary, and at the end a 0, to which null refers.
        entry_bytes = np.append(decoded_bytes(values.dictionary), 0)
        entry_of_each = as_integers(values.indices, null_as=len(values.dictionary))
        bytes_by_entry: Ints = entry_bytes[entry_of_each]
        return bytes_by_entry
    if pa.types.is_run_end_encoded(dtype):
        bytes_by_run: Ints = decoded_bytes(values.values)[_run_of_each(values)]
        return bytes_by_run
    if is_any(dtype, "string_view", "binary_view"):
        return _view_bytes(values)
    if is_any(dtype, "string", "large_string", "binary", "large_binary"):
        import pyarrow.compute as pc

        return as_integers(pc.binary_length(values), null_as=0)
    # Any other value has a fixed size, to which the bytes of its fields or elements are added.
    own_bytes = np.full(len(values), 16, dtype=np.int64)
    if pa.types.is_struct(dtype):
        # `flatten` returns an array for each field.
        return sum(map(decoded_bytes, values.flatten()), own_bytes)
    if not (pa.types.is_map(dtype) or is_list(dtype)):
        return own_bytes
    if pa.types.is_map(dtype):
        element_bytes: Ints = decoded_bytes(values.keys) + decoded_bytes(values.items)
    else:
        element_bytes = decoded_bytes(values.values)
    # bytes_before[i]: the bytes of all elements before element i, of whatever list.
    bytes_before = offsets_from_sizes(element_bytes)
    begins, ends = _element_ranges(values)
    bytes_of_elements: Ints = bytes_before[ends] - bytes_before[begins]
    return own_bytes + bytes_of_elements


def ranges_within(sizes: Ints, most_bytes: int, most_values: int) -> Iterator[tuple[int, int]]:
    """Divide consecutive values into ranges of at most so many bytes and values, or of one large
    value. Yields start and stop: for sizes [3, 4, 9] and 8 bytes, (0, 2) and (2, 3).
    """
    bytes_before = offsets_from_sizes(sizes)  # (n + 1,) bytes of all values before each
    start = 0
    while start < len(sizes):
        limit = bytes_before[start] + most_bytes
        stop = int(np.searchsorted(bytes_before, limit, side="right")) - 1
        # At least one value, even if it is too large.
        stop = min(max(stop, start + 1), start + most_values)
        yield start, stop
        start = stop


def record_ranges(
    columns: Iterable[pa.Array], records: int, most_bytes: int, most_records: int
) -> Iterator[tuple[int, int]]:
    """Divide records into ranges like `ranges_within`, by their decoded bytes in all `columns`."""
    sizes = sum(map(decoded_bytes, columns), np.zeros(records, dtype=np.int64))
    return ranges_within(sizes, most_bytes, most_records)


def _run_of_each(values: pa.Array) -> Ints:
    # A slice shares the run ends of its whole array: its values are looked up by positions there.
    positions = np.arange(values.offset, values.offset + len(values))
    return np.searchsorted(as_numpy(values.run_ends), positions, side="right").astype(np.int64)


def as_integers(numbers: pa.Array, *, null_as: int) -> Ints:
    """Return (n,) whole numbers as a NumPy array of int64, in which null becomes `null_as`."""
    import pyarrow.compute as pc

    integers = numbers.cast(pa.int64())
    return as_numpy(pc.fill_null(integers, null_as) if integers.null_count else integers)


def _view_bytes(values: pa.Array) -> Ints:
    """Return (n,) bytes of the text that each view refers to."""
    _validity, views, *_texts = values.buffers()
    # Without values, there may be no such buffer.
    if views is None or len(values) == 0:
        return np.zeros(len(values), dtype=np.int64)
    # A view is four 32-bit numbers, of which the first is the length of its text.
    lengths = np.frombuffer(views, dtype="<i4")[::4]
    # A slice shares the buffer of its whole array.
    lengths = lengths[values.offset : values.offset + len(values)]
    return np.where(as_numpy(values.is_null()), 0, lengths).astype(np.int64)


def _element_ranges(values: pa.Array) -> tuple[Ints, Ints]:
    """Return where each list or map has its elements in the array of all elements."""
    dtype = values.type
    # Lists of a fixed size store no offsets; the elements of a slice are those of the whole array.
    if pa.types.is_fixed_size_list(dtype):
        begins: Ints = (np.arange(len(values)) + values.offset) * dtype.list_size
        return begins, begins + dtype.list_size
    offsets: Ints = as_numpy(values.offsets).astype(np.int64)
    # List views may overlap and be in any order, so they store a size beside each offset.
    if is_any(dtype, "list_view", "large_list_view"):
        return offsets, offsets + as_numpy(values.sizes).astype(np.int64)
    # Other lists follow each other: n + 1 offsets, as each list ends where the next one begins.
    return offsets[:-1], offsets[1:]


def holds_text(dtype: pa.DataType) -> bool:
    """Return whether an Arrow column of this type holds text."""
    return is_any(decoded_type(dtype), "string", "large_string")


def kind_of(value: object) -> str:
    """Return what kind a JSON value is, for messages: `a number`, `an object`."""
    names = {bool: "a boolean", int: "a number", float: "a number", list: "a list", str: "text"}
    return "null" if value is None else names.get(type(value), "an object")
