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
    template_inputs,
)
from batchstat.corpus.chunk import Chunk, Column
from batchstat.corpus.content import LONGEST, Texts
from batchstat.errors import InputError
from batchstat.lengths.labels import label_text
from batchstat.storage.arrow_numbers import as_numpy

_MOST_DIGITS = 20

_LABEL_LISTS = pa.large_list(pa.large_string())


class ChunkContent:
    """Checked values of one chunk.

    Attributes:
        bad: records that cannot be read, as far as they were checked.
        locate: returns the location of a record, for messages.
    """

    def __init__(self, chunk: Chunk, locate: Callable[[int], Location]) -> None:
        """`locate`: returns the location of a record, for messages."""
        self.bad = dict(chunk.bad)
        self._chunk, self.locate = chunk, locate

    def text(self, column: str) -> pa.LargeStringArray:
        """Return (size,) the column as texts, empty where a record has none."""
        values = self.values(column)
        if isinstance(values, pa.Array):
            if not (holds_text(values.type) or pa.types.is_null(values.type)):
                raise InputError(
                    f"{self.locate(0)}: column {column!r} is {values.type} where text is expected"
                )
            for i in _places_of_nulls(values):
                self.fail(i, f"{column!r} is null where text is expected")
            texts_or_nulls = values.cast(pa.large_string())
            return pc.fill_null(texts_or_nulls, "") if values.null_count else texts_or_nulls
        texts: list[Any] = list(values)
        for i, value in enumerate(texts if set(map(type, texts)) - {str} else ()):
            if not isinstance(value, str):
                self.fail(i, f"{column!r} is {kind_of(value)} where text is expected")
                texts[i] = ""
        return self._as_arrow(texts)

    def holds_lists(self, column: str) -> bool:
        """Return whether a column has lists, or the first of its values that is there is one."""
        values = self.values(column)
        if isinstance(values, pa.Array):
            return is_list(values.type)
        return isinstance(next((each for each in values if each is not None), None), list)

    def chats(self, column: str, written_in: str | None) -> list[list[Message]]:
        """Return (size,) the column as chats, with empty lists where a record has none; see
        `as_chat`.
        """
        chats: list[list[Message]] = []
        for i, value in enumerate(self._objects(column)):
            chats.append([])
            try:
                chat = as_chat(value, written_in) if i not in self.bad else []
            except ChatError as error:
                self.fail(i, f"{column!r}: {error}", "chat")
            else:
                if self._is_short(i, _text_bytes(chat)):
                    chats[i] = chat
        return chats

    def template_inputs(self, *, as_written: bool) -> list[TemplateInputs]:
        """Return (size,) what a template gets beside the messages."""
        size, columns = self._chunk.size, self._chunk.read
        tools = [None] * size if columns.tools is None else self._objects(columns.tools)
        if not as_written:
            return [*map(template_inputs, tools)]
        settings = [{}] * size if columns.settings is None else self._objects(columns.settings)
        return [*map(inputs_as_written, tools, settings)]

    def _objects(self, column: str) -> list[Any]:
        """Return (size,) the values of a column that may be objects."""
        values = self._chunk.columns[column]
        return as_objects(values) if isinstance(values, pa.Array) else values

    def token_lists(self, column: str) -> npt.NDArray[np.int64]:
        """Return (size,) the number of ids in the column's lists."""
        values = self.values(column)
        if isinstance(values, pa.Array) and is_list(values.type):
            ids = decoded_type(values.type.value_type)
            if not (pa.types.is_integer(ids) or pa.types.is_null(ids)):
                raise InputError(
                    f"{self.locate(0)}: column {column!r} is {values.type} where lists of token "
                    "ids are expected"
                )
            self.fail_nulls(values, column, "a list of token ids")
            return filled(pc.list_value_length(values), 0).astype(np.int64, copy=False)
        counts = np.zeros(self._chunk.size, dtype=np.int64)
        for i, value in enumerate(_as_list(values)):
            # Not isinstance: true and false are whole numbers to Python.
            if isinstance(value, list) and all(type(each) is int for each in value):
                counts[i] = len(value)
            elif isinstance(value, list) and None in value:
                self.fail(i, f"{column!r} contains null where a token id is expected")
            else:
                self.fail(i, f"{column!r} is {kind_of(value)} where token ids are expected")
        return counts

    def fail_nulls(self, lists: pa.Array, column: str, expected: str) -> None:
        """Note which records are null, or lists that contain null."""
        for i in _places_of_nulls(lists):
            self.fail(i, f"{column!r} is null where {expected} is expected")
        elements = decoded(pc.list_flatten(lists))
        places_of_nulls = pc.list_parent_indices(lists).filter(elements.is_null())
        for i in pc.unique(places_of_nulls).to_pylist():
            self.fail(i, f"{column!r} contains null where a number is expected")

    def lengths(self, column: str) -> npt.NDArray[np.int64]:
        """Return (size,) the column's whole numbers, from 0 to `LONGEST`."""
        values: Any = self.values(column)
        is_whole = isinstance(values, pa.Array) and pa.types.is_integer(values.type)
        if is_whole and values.null_count == 0:
            numbers = as_numpy(values)
            outside = (numbers < 0) | (numbers > LONGEST)
            for i in np.flatnonzero(outside).tolist():
                self.fail(i, f"{column!r} is {numbers[i]}: must be between 0 and {LONGEST:,}")
            return np.where(outside, 0, numbers).astype(np.int64)
        counts = np.zeros(self._chunk.size, dtype=np.int64)
        for i, number in enumerate(_as_list(values)):
            # In .csv and .tsv files every value is text; int() raises for more than 4,300 digits.
            if isinstance(number, str) and number.isdecimal() and len(number) <= _MOST_DIGITS:
                number = int(number)
            if type(number) is not int:
                self.fail(i, f"{column!r} is {kind_of(number)} where a whole number is expected")
            elif not 0 <= number <= LONGEST:
                self.fail(i, f"{column!r} is {number}: must be between 0 and {LONGEST:,}")
            else:
                counts[i] = number
        return counts

    def labels(self, column: str) -> pa.Array:
        """Return (size,) labels as large_string, or as lists of it if any is a list."""
        values = self.values(column)
        if isinstance(values, pa.Array):
            kind = values.type.value_type if is_list(values.type) else values.type
            if not can_label(kind):
                raise InputError(
                    f"{self.locate(0)}: column {column!r} is {values.type} where a label is "
                    "expected: text, a number, a boolean, or a list of them"
                )
            if not is_list(values.type):
                return _label_texts(values)
            values = _label_lists(values)
        if not set(map(type, values)) - {str, type(None)}:
            # The label with half a surrogate pair is looked for below.
            with suppress(UnicodeEncodeError):
                return pa.array(values, pa.large_string())
        labels = [self._label(i, value, column) for i, value in enumerate(values)]
        if not any(isinstance(label, list) for label in labels):
            return pa.array(labels, pa.large_string())
        lists = [[label] if isinstance(label, str) else label for label in labels]
        return pa.array(lists, _LABEL_LISTS)

    def _label(self, i: int, value: object, column: str) -> str | list[str] | None:
        """Return a label, or the distinct labels of a list; None if there is none."""
        try:
            if not isinstance(value, list):
                return _as_label(value)
            labels = dict.fromkeys(map(_as_label, value))
            return [label for label in labels if label is not None] or None
        except TypeError:
            self.fail(i, f"label {column!r} is {kind_of(value)}")
        except UnicodeEncodeError:
            self.fail(i, f"label {column!r} contains half a surrogate pair", "not_utf8")
        return None

    def values(self, column: str) -> Column:
        """Return (size,) the values of a column, without encodings."""
        values = self._chunk.columns[column]
        return decoded(values) if isinstance(values, pa.Array) else values

    def without_long(self, texts: Texts) -> Texts:
        """Replace texts of more than `MOST_TEXT_BYTES` by empty ones."""
        sizes = texts.sizes()
        if not (sizes > MOST_TEXT_BYTES).any():
            return texts
        short = pa.array([self._is_short(i, int(size)) for i, size in enumerate(sizes)])
        return type(texts)(*(pc.if_else(short, side, "") for side in texts.sides))

    def _is_short(self, i: int, size: int) -> bool:
        if size > MOST_TEXT_BYTES:
            self.fail(i, too_long("text", size), "too_long")
        return size <= MOST_TEXT_BYTES

    def fail(self, i: int, message: str, reason: str = "wrong_type") -> None:
        """Note what is wrong with a record, unless something was before."""
        self.bad.setdefault(i, BadRecord(reason, message))

    def _as_arrow(self, texts: list[str] | list[object]) -> pa.LargeStringArray:
        try:
            return pa.array(texts, pa.large_string())
        except UnicodeEncodeError:
            replaced: list[object] = []
            for i, text in enumerate(texts):
                # JSON can escape one, such as "\ud800", and UTF-8 has no bytes for it.
                if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
                    self.fail(i, "half a surrogate pair, which is not a character", "not_utf8")
                    text = ""
                replaced.append(text)
            return pa.array(replaced, pa.large_string())


def _text_bytes(value: object) -> int:
    """Return the bytes of all texts in a JSON value."""
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    if isinstance(value, dict):
        return sum(map(_text_bytes, value.values()))
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0


def _label_texts(values: pa.Array) -> pa.Array:
    """Return each value's `label_text`, as large_string; null without a label."""
    # Arrow writes 1e+15 where `label_text` writes 1000000000000000: one class would have two names.
    if not pa.types.is_floating(values.type):
        return values.cast(pa.large_string())
    numbers = values.to_numpy(zero_copy_only=False)
    distinct, places = np.unique(numbers, return_inverse=True)
    texts = pa.array([label_text(number) for number in distinct], pa.large_string())
    return pc.if_else(values.is_null(), None, texts.take(pa.array(places)))


def _label_lists(values: pa.Array) -> list[list[str | None] | None]:
    texts = _label_texts(decoded(pc.list_flatten(values))).to_pylist()
    sizes = pc.list_value_length(values).to_pylist()
    ends = np.cumsum([size or 0 for size in sizes]).tolist()
    return [
        None if size is None else texts[end - size : end]
        for size, end in zip(sizes, ends, strict=True)
    ]


def _places_of_nulls(values: pa.Array) -> list[int]:
    positions: list[int] = np.flatnonzero(as_numpy(values.is_null())).tolist()
    return positions


def _as_list(values: Column) -> list[Any]:
    listed: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    return listed


def _as_label(value: object) -> str | None:
    if not isinstance(value, str | bool | int | float | np.generic | None):
        raise TypeError
    label = label_text(value)
    if label is not None:
        # Raises UnicodeEncodeError for half a surrogate pair, as UTF-8 has no bytes for it.
        label.encode()
    return label
