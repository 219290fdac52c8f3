"""Read the labels of a chunk, from one column of classes or several of 0 and 1."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.arrow_values import (
    decoded,
    decoded_type,
    holds_text,
    is_any,
    is_list,
    kind_of,
)
from batchstat.corpus.chunk_content import ChunkContent, as_list
from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.lengths.labels import Labels, label_text, list_text
from batchstat.words import short

_LABEL_LISTS = pa.large_list(pa.large_string())
_NUMBERS = ("integer", "floating", "boolean", "decimal")
_TIMES = ("date", "time", "timestamp", "duration")
"""Not intervals, which are temporal as well: nothing writes them as text."""


def read_labels(content: ChunkContent, columns: Sequence[str]) -> pa.Array:
    """Return (size,) labels as large_string, or lists of it if any has a list of texts; null for
    none. Lists of numbers are their `list_text`, as only all lists of a corpus say what they hold:
    see `Labels.resolved`. Raises InputError: another type.
    """
    if len(columns) > 1:
        return _labels_by_column(content, columns)
    column, values = columns[0], content.values(columns[0])
    if isinstance(values, pa.Array):
        label_type = values.type.value_type if is_list(values.type) else values.type
        is_scalar = is_any(decoded_type(label_type), "null", *_NUMBERS, *_TIMES)
        if not (is_scalar or holds_text(label_type)):
            expected = "a label is expected: text, a number, a boolean, or a list of them"
            raise content.wrong_type(column, values, expected)
        if not is_list(values.type):
            return _label_texts(values)
        are_numbers = is_any(label_type, *_NUMBERS)
        values = values.to_pylist() if are_numbers else _label_lists(values)
    # From here on, `values` is a list of Python's. Texts and nulls alone need no conversion.
    if set(map(type, values)) <= {str, type(None)}:
        # Raised for half a surrogate pair in a label: below, `_label` finds the record.
        with suppress(UnicodeEncodeError):
            return _without_empty(pa.array(values, pa.large_string()))
    labels = [_label(content, i, value, column) for i, value in enumerate(values)]
    if not any(isinstance(label, list) for label in labels):
        return pa.array(labels, pa.large_string())
    # Arrow needs one type in a column: a single label becomes a list of one.
    lists = [[label] if isinstance(label, str) else label for label in labels]
    return pa.array(lists, _LABEL_LISTS)


def _labels_by_column(content: ChunkContent, columns: Sequence[str]) -> pa.Array:
    """Return (size,) lists of the columns that have 1 in a record; null where all have 0."""
    classes: list[list[str]] = [[] for _ in range(content.size)]
    for column in columns:
        for i, value in enumerate(as_list(content.values(column))):
            text = None if isinstance(value, list | dict) else label_text(value)
            if text in ("1", "true"):
                classes[i].append(column)
            elif text not in ("0", "false", None) or isinstance(value, list | dict):
                content.reject(
                    i,
                    f"label {column!r} is {short(value)} where 0 or 1 is expected, as of each "
                    "of several label columns: name one column of classes",
                )
    return pa.array([each or None for each in classes], _LABEL_LISTS)


def _label(content: ChunkContent, i: int, value: object, column: str) -> str | list[str] | None:
    """Return the label of record `i` as text, or the distinct labels of a list."""
    try:
        if not isinstance(value, list):
            return _class_name(value)
        if (numbers := list_text(value)) is not None:
            return numbers
        # A dictionary has no duplicates, and keeps the order of the list.
        distinct = dict.fromkeys(map(_class_name, value))
        return [label for label in distinct if label is not None] or None
    except TypeError:  # an object, or a list in the list
        content.reject(i, f"label {column!r} is {kind_of(value)}")
    except UnicodeEncodeError:
        content.reject(i, f"label {column!r} contains half a surrogate pair", reason="not_utf8")
    return None


def _label_texts(values: pa.Array) -> pa.Array:
    """Return (n,) labels as large_string, written as `label_text` writes them; null stays null."""
    if not pa.types.is_floating(values.type):
        return _without_empty(values.cast(pa.large_string()))
    # Arrow writes 1e+15 where `label_text`, for files of JSON, writes 1000000000000000: one class
    # would have two names. Each distinct number is converted once.
    numbers = values.to_numpy(zero_copy_only=False)
    distinct, index_of_distinct = np.unique(numbers, return_inverse=True)
    texts = pa.array([label_text(number) for number in distinct], pa.large_string())
    return pc.if_else(values.is_null(), None, texts.take(pa.array(index_of_distinct)))


def _without_empty(labels: pa.LargeStringArray) -> pa.LargeStringArray:
    return pc.if_else(pc.equal(labels, ""), None, labels)


def _label_lists(values: pa.Array) -> list[list[str | None] | None]:
    """Return the texts of labels in lists, as Python's lists; None for a record without a list."""
    texts = _label_texts(decoded(pc.list_flatten(values))).to_pylist()
    # The texts of all lists follow each other in `texts`; a null list has none of them.
    lists: list[list[str | None] | None] = []
    first = 0
    for size in pc.list_value_length(values).to_pylist():
        lists.append(None if size is None else texts[first : first + size])
        first += size or 0
    return lists


def _class_name(value: object) -> str | None:
    """Return a value as the name of a class. Raises TypeError or UnicodeEncodeError."""
    if not isinstance(value, str | bool | int | float | np.generic | None):
        raise TypeError
    label = label_text(value)
    if label is not None:
        label.encode()  # raises for half a surrogate pair, as UTF-8 has no bytes for it
    return label


def as_labels(values: pa.Array) -> Labels:
    """Return the labels of samples in an Arrow array."""
    sizes = None
    # Lists: a sample may have several labels.
    if pa.types.is_large_list(values.type):
        # A sample without a label still takes one entry, for the code that means "no label".
        unlabelled = pa.array([[None]], pa.large_list(pa.large_string()))[0]
        values = pc.coalesce(values, unlabelled)
        sizes = pc.list_value_length(values).to_numpy(zero_copy_only=False)
        values = pc.list_flatten(values)
    # A dictionary numbers the texts in the order in which they occur first; −1 is "no label".
    encoded = values.cast(pa.large_string()).dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    offsets = None if sizes is None else offsets_from_sizes(sizes)
    return Labels(codes, tuple(encoded.dictionary.to_pylist()), offsets)
