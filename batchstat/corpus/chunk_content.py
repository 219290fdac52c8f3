"""Check the values of a chunk: its content, and its labels."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.arrow_values import (
    as_objects,
    can_label,
    decoded,
    decoded_type,
    filled,
    holds_text,
    is_list,
    kind_of,
)
from batchstat.corpus.bad_records import MOST_TEXT_BYTES, BadRecord, Location, too_long
from batchstat.corpus.chat import (
    ChatError,
    Message,
    TemplateInputs,
    as_chat,
    inputs_as_written,
    inputs_from_tools,
)
from batchstat.corpus.chunk import Chunk, Column
from batchstat.corpus.content import LONGEST, Texts
from batchstat.errors import InputError
from batchstat.lengths.labels import label_text
from batchstat.storage.arrow_numbers import as_numpy

_MOST_DIGITS = 20
"""Digits of a text that is parsed as a length: all 64-bit numbers have fewer or as many."""

_LABEL_LISTS = pa.large_list(pa.large_string())


class ChunkContent:
    """Checked values of one chunk.

    Each method reads one column. A record whose value is wrong is added to `bad`, and gets an empty
    or zero value in what the method returns.

    Attributes:
        bad: by their index in the chunk, records that cannot be read, as far as columns were read.
        locate: function that returns the location of a record by its index, for messages.
    """

    def __init__(self, chunk: Chunk, locate: Callable[[int], Location]) -> None:
        """Start with the bad records that the reader of the file found."""
        self.bad = dict(chunk.bad)
        self._chunk, self.locate = chunk, locate

    def text(self, column: str) -> pa.LargeStringArray:
        """Return (size,) a column as texts; a record without a text is bad, and has an empty one.

        Raises:
            InputError: an Arrow column of another type than text.
        """
        values = self.values(column)
        if isinstance(values, pa.Array):
            # The type is that of all values: no record of the file would be good.
            if not (holds_text(values.type) or pa.types.is_null(values.type)):
                raise InputError(
                    f"{self.locate(0)}: column {column!r} is {values.type} where text is expected"
                )
            for i in _positions_of_nulls(values):
                self.reject(i, f"{column!r} is null where text is expected")
            texts_or_nulls = values.cast(pa.large_string())
            return pc.fill_null(texts_or_nulls, "") if values.null_count else texts_or_nulls
        # A list as parsed from JSON, whose values may each be of another type.
        texts: list[Any] = list(values)
        # Values are looked at one by one only if not all of them are texts, which is rare.
        for i, value in enumerate(texts if set(map(type, texts)) != {str} else ()):
            if not isinstance(value, str):
                self.reject(i, f"{column!r} is {kind_of(value)} where text is expected")
                texts[i] = ""
        return self._as_arrow(texts)

    def holds_lists(self, column: str) -> bool:
        """Return whether a column holds lists, such as chats, rather than texts.

        Of a column parsed from JSON, the first value that is not null decides.
        """
        values = self.values(column)
        if isinstance(values, pa.Array):
            return is_list(values.type)
        return isinstance(next((value for value in values if value is not None), None), list)

    def chats(self, column: str, written_in: str | None) -> list[list[Message]]:
        """Return (size,) a column as chats: lists of messages, as `as_chat` makes them.

        A record that is bad, or whose chat cannot be read or is too long, has an empty list.

        Args:
            column: its name.
            written_in: the format of chats that keep their roles; see `as_chat`.
        """
        chats: list[list[Message]] = []
        for i, value in enumerate(self._objects(column)):
            chats.append([])  # stays empty if the record is bad, or was before
            try:
                chat = as_chat(value, written_in) if i not in self.bad else []
            except ChatError as error:
                self.reject(i, f"{column!r}: {error}", reason="chat")
            else:
                # A chat that is too long is marked as bad here.
                if self._is_short(i, _text_bytes(chat)):
                    chats[i] = chat
        return chats

    def template_inputs(self, *, as_written: bool) -> list[TemplateInputs]:
        """Return (size,) what the chat template gets beside the messages of each chat.

        Args:
            as_written: whether all of it is handed on as the file has it, tools and settings; else
                only tools.
        """
        # Without a column of tools or settings, no chat has any.
        size, columns = self._chunk.size, self._chunk.read
        tools = [None] * size if columns.tools is None else self._objects(columns.tools)
        if not as_written:
            return [*map(inputs_from_tools, tools)]
        settings = [{}] * size if columns.settings is None else self._objects(columns.settings)
        return [*map(inputs_as_written, tools, settings)]

    def _objects(self, column: str) -> list[Any]:
        """Return (size,) the values of a column that may be objects."""
        values = self._chunk.columns[column]
        return as_objects(values) if isinstance(values, pa.Array) else values

    def token_lists(self, column: str) -> npt.NDArray[np.int64]:
        """Return (size,) the length of each list of token ids in a column."""
        values = self.values(column)
        if isinstance(values, pa.Array) and is_list(values.type):
            id_type = decoded_type(values.type.value_type)
            # Lists that are all empty, or all null, may have elements of the type null.
            if not (pa.types.is_integer(id_type) or pa.types.is_null(id_type)):
                raise InputError(
                    f"{self.locate(0)}: column {column!r} is {values.type} where lists of token "
                    "ids are expected"
                )
            self.reject_nulls(values, column, "a list of token ids")
            return filled(pc.list_value_length(values), 0).astype(np.int64, copy=False)
        # Lists as parsed from JSON, or an Arrow column without lists, whose records are all bad.
        counts = np.zeros(self._chunk.size, dtype=np.int64)
        for i, value in enumerate(_as_list(values)):
            # Not isinstance: true and false are whole numbers to Python.
            if isinstance(value, list) and all(type(token_id) is int for token_id in value):
                counts[i] = len(value)
            elif isinstance(value, list) and None in value:
                self.reject(i, f"{column!r} contains null where a token id is expected")
            else:
                self.reject(i, f"{column!r} is {kind_of(value)} where token ids are expected")
        return counts

    def reject_nulls(self, lists: pa.Array, column: str, expected: str) -> None:
        """Mark records as bad whose list is null, or contains null.

        `expected` says in the message what should be there instead of null.
        """
        for i in _positions_of_nulls(lists):
            self.reject(i, f"{column!r} is null where {expected} is expected")
        # For each element of all lists, whether it is null, and the record whose list holds it.
        elements = decoded(pc.list_flatten(lists))
        records_with_nulls = pc.list_parent_indices(lists).filter(elements.is_null())
        for i in pc.unique(records_with_nulls).to_pylist():
            self.reject(i, f"{column!r} contains null where a number is expected")

    def lengths(self, column: str) -> npt.NDArray[np.int64]:
        """Return (size,) the whole numbers of a column, which must be from 0 to `LONGEST`.

        A record with anything else is bad, and has the length 0.
        """
        values: Any = self.values(column)
        is_whole = isinstance(values, pa.Array) and pa.types.is_integer(values.type)
        # The usual column is checked as an array; any other one value by value, below.
        if is_whole and values.null_count == 0:
            numbers = as_numpy(values)
            outside = (numbers < 0) | (numbers > LONGEST)
            for i in np.flatnonzero(outside).tolist():
                self.reject(i, f"{column!r} is {numbers[i]}: must be between 0 and {LONGEST:,}")
            return np.where(outside, 0, numbers).astype(np.int64)
        counts = np.zeros(self._chunk.size, dtype=np.int64)
        for i, number in enumerate(_as_list(values)):
            # In .csv and .tsv files every value is text; int() raises for more than 4,300 digits.
            if isinstance(number, str) and number.isdecimal() and len(number) <= _MOST_DIGITS:
                number = int(number)
            if type(number) is not int:
                self.reject(i, f"{column!r} is {kind_of(number)} where a whole number is expected")
            elif not 0 <= number <= LONGEST:
                self.reject(i, f"{column!r} is {number}: must be between 0 and {LONGEST:,}")
            else:
                counts[i] = number
        return counts

    def labels(self, column: str) -> pa.Array:
        """Return (size,) labels as large_string; null for a record without a label.

        If any record has a list of labels, all have lists of large_string.

        Raises:
            InputError: an Arrow column of a type that cannot name a class.
        """
        values = self.values(column)
        if isinstance(values, pa.Array):
            label_type = values.type.value_type if is_list(values.type) else values.type
            if not can_label(label_type):
                raise InputError(
                    f"{self.locate(0)}: column {column!r} is {values.type} where a label is "
                    "expected: text, a number, a boolean, or a list of them"
                )
            if not is_list(values.type):
                return _label_texts(values)
            values = _label_lists(values)
        # Texts and nulls alone need no conversion.
        if not set(map(type, values)) - {str, type(None)}:
            # This fails if a label contains half a surrogate pair: the code below finds the record.
            with suppress(UnicodeEncodeError):
                return pa.array(values, pa.large_string())
        labels = [self._label(i, value, column) for i, value in enumerate(values)]
        if not any(isinstance(label, list) for label in labels):
            return pa.array(labels, pa.large_string())
        # Arrow needs one type in a column: a single label becomes a list of one.
        lists = [[label] if isinstance(label, str) else label for label in labels]
        return pa.array(lists, _LABEL_LISTS)

    def _label(self, i: int, value: object, column: str) -> str | list[str] | None:
        """Return the label of record `i` as text, or the distinct labels of a list.

        Returns None if the record has no label, or a value that cannot be one: then it is bad.
        """
        try:
            if not isinstance(value, list):
                return _as_label(value)
            # Keys of a dictionary: without duplicates, in the order of the list.
            labels = dict.fromkeys(map(_as_label, value))
            return [label for label in labels if label is not None] or None
        except TypeError:
            self.reject(i, f"label {column!r} is {kind_of(value)}")
        except UnicodeEncodeError:
            self.reject(i, f"label {column!r} contains half a surrogate pair", reason="not_utf8")
        return None

    def values(self, column: str) -> Column:
        """Return (size,) the values of a column; if it is Arrow's, as `decoded` returns them."""
        values = self._chunk.columns[column]
        return decoded(values) if isinstance(values, pa.Array) else values

    def without_long(self, texts: Texts) -> Texts:
        """Replace texts of more than `MOST_TEXT_BYTES` by empty ones, and mark them as bad."""
        sizes = texts.sizes()
        if not (sizes > MOST_TEXT_BYTES).any():
            return texts
        is_short = pa.array([self._is_short(i, int(size)) for i, size in enumerate(sizes)])
        return type(texts)(*(pc.if_else(is_short, side, "") for side in texts.sides))

    def _is_short(self, i: int, size: int) -> bool:
        """Return whether the text of record `i`, of `size` bytes, is within the limit; else mark it
        as bad.
        """
        if size > MOST_TEXT_BYTES:
            self.reject(i, too_long("text", size), reason="too_long")
        return size <= MOST_TEXT_BYTES

    def reject(self, i: int, message: str, reason: str = "wrong_type") -> None:
        """Mark record `i` as bad. If it is bad already, the first reason stays."""
        self.bad.setdefault(i, BadRecord(reason, message))

    def _as_arrow(self, texts: list[str] | list[object]) -> pa.LargeStringArray:
        """Return texts as an Arrow array; a record with half a surrogate pair is bad."""
        try:
            return pa.array(texts, pa.large_string())
        except UnicodeEncodeError:
            encodable: list[object] = []
            for i, text in enumerate(texts):
                # JSON can escape one, such as "\ud800", and UTF-8 has no bytes for it.
                if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
                    self.reject(i, "half a surrogate pair, which is not a character", "not_utf8")
                    text = ""
                encodable.append(text)
            return pa.array(encodable, pa.large_string())


def _text_bytes(value: object) -> int:
    """Return how many bytes of UTF-8 all texts inside a JSON value have together, without keys."""
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    if isinstance(value, dict):
        return sum(map(_text_bytes, value.values()))
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0


def _label_texts(values: pa.Array) -> pa.Array:
    """Return (n,) labels as large_string, written as `label_text` writes them; null stays null."""
    if not pa.types.is_floating(values.type):
        return values.cast(pa.large_string())
    # Arrow writes 1e+15 where `label_text`, for files of JSON, writes 1000000000000000: one class
    # would have two names. Each distinct number is converted once.
    numbers = values.to_numpy(zero_copy_only=False)
    distinct, index_of_distinct = np.unique(numbers, return_inverse=True)
    texts = pa.array([label_text(number) for number in distinct], pa.large_string())
    return pc.if_else(values.is_null(), None, texts.take(pa.array(index_of_distinct)))


def _label_lists(values: pa.Array) -> list[list[str | None] | None]:
    """Return the texts of labels in lists, as Python's lists; None for a record without a list."""
    texts = _label_texts(decoded(pc.list_flatten(values))).to_pylist()
    sizes = pc.list_value_length(values).to_pylist()
    # The list of record i ends at ends[i] of all texts; a null list has none of them.
    ends = np.cumsum([size or 0 for size in sizes]).tolist()
    return [
        None if size is None else texts[end - size : end]
        for size, end in zip(sizes, ends, strict=True)
    ]


def _positions_of_nulls(values: pa.Array) -> list[int]:
    positions: list[int] = np.flatnonzero(as_numpy(values.is_null())).tolist()
    return positions


def _as_list(values: Column) -> list[Any]:
    objects: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    return objects


def _as_label(value: object) -> str | None:
    """Return a value as the name of a class; None for a missing one. Raise TypeError for an object
    or a list, UnicodeEncodeError for half a surrogate pair.
    """
    if not isinstance(value, str | bool | int | float | np.generic | None):
        raise TypeError
    label = label_text(value)
    if label is not None:
        label.encode()  # raises for half a surrogate pair, as UTF-8 has no bytes for it
    return label
