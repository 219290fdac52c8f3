"""Check the values of a chunk: its content."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.arrow_values import (
    as_integers,
    as_objects,
    decoded,
    decoded_type,
    holds_text,
    is_list,
    kind_of,
)
from batchstat.corpus.bad_records import BLANK, MOST_TEXT_BYTES, BadRecord, Location, too_long
from batchstat.corpus.chat import (
    ChatError,
    Message,
    TemplateInputs,
    as_chat,
    inputs_as_written,
    inputs_from_tools,
)
from batchstat.corpus.chunk import Chunk, Column
from batchstat.corpus.content import LONGEST, Texts, Words
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.storage.arrow_numbers import as_numpy


class ChunkContent:
    """Checked values of a chunk, by column; a wrong one is empty or 0, and its record in `bad`."""

    def __init__(self, chunk: Chunk, locate: Callable[[int], Location]) -> None:
        self.bad = dict(chunk.bad)
        self._chunk, self.locate = chunk, locate

    @property
    def size(self) -> int:
        """Number of records of the chunk."""
        return self._chunk.size

    def texts(self, column: str) -> pa.LargeStringArray:
        """Return (size,) texts, empty for a bad record. Raise InputError for an Arrow type."""
        values = self.values(column)
        if isinstance(values, pa.Array):
            if not (holds_text(values.type) or pa.types.is_null(values.type)):
                hint = _hint(column, next(iter(values.slice(0, 1).to_pylist()), None))
                raise self.wrong_type(column, values, f"text is expected{hint}")
            for i in np.flatnonzero(as_numpy(values.is_null())).tolist():
                self.reject(i, f"{column!r} is null where text is expected")
            texts_or_nulls = values.cast(pa.large_string())
            return pc.fill_null(texts_or_nulls, "") if values.null_count else texts_or_nulls
        texts: list[Any] = list(values)
        # Nearly always all values are texts, which this finds out faster than the loop would.
        if set(map(type, texts)) != {str}:
            for i, value in enumerate(values):
                if not isinstance(value, str):
                    expected = f"{column!r} is {kind_of(value)} where text is expected"
                    self.reject(i, f"{expected}{_hint(column, value)}")
                    texts[i] = ""
        return self._as_arrow(texts, range(len(texts)))

    def holds_lists(self, column: str) -> bool:
        """Return whether a column holds lists, such as chats; of JSON, its first value decides."""
        values = self.values(column)
        if isinstance(values, pa.Array):
            return is_list(values.type)
        first = next((value for value in values if value is not None), None)
        return isinstance(first, list)

    def chats(self, column: str, kept_format: str | None) -> list[list[Message]]:
        """Return (size,) a column as chats, as `as_chat` makes them; empty for a bad record."""
        chats: list[list[Message]] = [[] for _ in range(self._chunk.size)]
        for i, value in enumerate(self._objects(column)):
            if i in self.bad:
                continue
            try:
                chat = as_chat(value, kept_format)
            except ChatError as error:
                self.reject(i, f"{column!r}: {error}", reason="chat")
                continue
            if not self._reject_long(i, _text_bytes(chat)):
                chats[i] = chat
        return chats

    def template_inputs(self, *, as_written: bool) -> list[TemplateInputs]:
        """Return (size,) what the chat template gets beside the messages of each chat."""
        size, columns = self._chunk.size, self._chunk.columns
        tools = [None] * size if columns.tools is None else self._objects(columns.tools)
        if not as_written:
            return [*map(inputs_from_tools, tools)]
        settings = [{}] * size if columns.settings is None else self._objects(columns.settings)
        return [*map(inputs_as_written, tools, settings)]

    def _objects(self, column: str) -> list[Any]:
        values = self._chunk.values[column]
        return as_objects(values) if isinstance(values, pa.Array) else values

    def token_counts(self, column: str) -> Ints:
        """Return (size,) how many token ids each list of a column has; 0 for a bad record."""
        values = self.values(column)
        if isinstance(values, pa.Array) and is_list(values.type):
            id_type = decoded_type(values.type.value_type)
            # Lists that are all empty, or all null, may have elements of the type null.
            if not (pa.types.is_integer(id_type) or pa.types.is_null(id_type)):
                raise self.wrong_type(column, values, "lists of token ids are expected")
            self.reject_nulls(values, column, "a list of token ids")
            return as_integers(pc.list_value_length(values), null_as=0)
        # Lists as parsed from JSON, or an Arrow column without lists, whose records are all bad.
        counts = np.zeros(self._chunk.size, dtype=np.int64)
        for i, value in enumerate(as_list(values)):
            # Not isinstance: true and false are whole numbers to Python.
            if isinstance(value, list) and all(type(token_id) is int for token_id in value):
                counts[i] = len(value)
            elif isinstance(value, list) and None in value:
                self.reject(i, f"{column!r} contains null where a token id is expected")
            else:
                self.reject(i, f"{column!r} is {kind_of(value)} where token ids are expected")
        return counts

    def words(self, column: str) -> Words:
        """Return (size,) the words in each list of a column; none for a bad record."""
        values = self.values(column)
        if isinstance(values, pa.Array) and is_list(values.type):
            word_type = decoded_type(values.type.value_type)
            if not (holds_text(word_type) or pa.types.is_null(word_type)):
                raise self.wrong_type(column, values, "lists of words are expected")
        lists: list[list[str]] = [[] for _ in range(self._chunk.size)]
        for i, value in enumerate(as_list(values)):
            if not isinstance(value, list):
                self.reject(i, f"{column!r} is {kind_of(value)} where a list of words is expected")
            elif not all(isinstance(word, str) for word in value):
                self.reject(i, f"{column!r} has a word that is not text")
            elif not value:
                self.bad.setdefault(i, BLANK)
            elif not self._reject_long(i, _text_bytes(value)) and i not in self.bad:
                lists[i] = value
        sizes = np.array([len(each) for each in lists], dtype=np.int64)
        records = np.repeat(np.arange(len(lists)), sizes).tolist()
        words = self._as_arrow([word for each in lists for word in each], records)
        return Words(words, offsets_from_sizes(sizes))

    def reject_nulls(self, lists: pa.Array, column: str, expected: str) -> None:
        """Mark records as bad whose list is null or contains null, where `expected` should be."""
        for i in np.flatnonzero(as_numpy(lists.is_null())).tolist():
            self.reject(i, f"{column!r} is null where {expected} is expected")
        # The elements of all lists, end to end, and for each element the record that it is of.
        elements = decoded(pc.list_flatten(lists))
        record_of_each = pc.list_parent_indices(lists)
        for i in pc.unique(record_of_each.filter(elements.is_null())).to_pylist():
            self.reject(i, f"{column!r} contains null where a number is expected")

    def whole_numbers(self, column: str) -> Ints:
        """Return (size,) the numbers of a column, from 0 to `LONGEST`; a bad record gets 0."""
        values: Any = self.values(column)
        is_integer_array = isinstance(values, pa.Array) and pa.types.is_integer(values.type)
        # The usual column is checked all at once; any other one value by value, below.
        if is_integer_array and values.null_count == 0:
            numbers = as_numpy(values)
            outside = (numbers < 0) | (numbers > LONGEST)
            for i in np.flatnonzero(outside).tolist():
                self.reject(i, f"{column!r} is {numbers[i]}: must be between 0 and {LONGEST:,}")
            return np.where(outside, 0, numbers).astype(np.int64)
        checked = np.zeros(self._chunk.size, dtype=np.int64)
        for i, number in enumerate(as_list(values)):
            # As in .csv; int() raises for 4,300 digits, and 64-bit numbers have at most 20.
            if isinstance(number, str) and number.isdecimal() and len(number) <= 20:
                number = int(number)
            if type(number) is not int:
                self.reject(i, f"{column!r} is {kind_of(number)} where a whole number is expected")
            elif not 0 <= number <= LONGEST:
                self.reject(i, f"{column!r} is {number}: must be between 0 and {LONGEST:,}")
            else:
                checked[i] = number
        return checked

    def values(self, column: str) -> Column:
        """Return (size,) the values of a column; if it is Arrow's, as `decoded` returns them."""
        values = self._chunk.values[column]
        return decoded(values) if isinstance(values, pa.Array) else values

    def without_long(self, texts: Texts) -> Texts:
        """Replace texts of more than `MOST_TEXT_BYTES` by empty ones, and mark them as bad."""
        sizes = texts.sizes()
        if not (sizes > MOST_TEXT_BYTES).any():
            return texts
        is_long = pa.array([self._reject_long(i, int(size)) for i, size in enumerate(sizes)])
        return type(texts)(*(pc.if_else(is_long, "", side) for side in texts.sides))

    def wrong_type(self, column: str, values: pa.Array, expected: str) -> InputError:
        """Return the error for an Arrow column of a type where, for example, `text is expected`."""
        return InputError(f"{self.locate(0)}: column {column!r} is {values.type} where {expected}")

    def _reject_long(self, i: int, size: int) -> bool:
        if size > MOST_TEXT_BYTES:
            self.reject(i, too_long("text", size), reason="too_long")
        return size > MOST_TEXT_BYTES

    def reject(self, i: int, message: str, reason: str = "wrong_type") -> None:
        """Mark record `i` as bad. If it is bad already, the first reason stays."""
        self.bad.setdefault(i, BadRecord(reason, message))

    def _as_arrow(self, texts: list[str], records: Sequence[int]) -> pa.LargeStringArray:
        """Return texts, each of its record in `records`; half a surrogate pair makes it bad."""
        try:
            return pa.array(texts, pa.large_string())
        except UnicodeEncodeError:
            for at, text in enumerate(texts):
                # JSON can escape one, such as "\ud800", and UTF-8 has no bytes for it.
                if any("\ud800" <= c <= "\udfff" for c in text):
                    message = "half a surrogate pair, which is not a character"
                    self.reject(records[at], message, "not_utf8")
                    texts[at] = ""
            return pa.array(texts, pa.large_string())


def _hint(column: str, value: object) -> str:
    """Return what a user who takes a column for texts may have meant; empty for no idea."""
    if isinstance(value, dict):
        field = next((name for name, item in value.items() if isinstance(item, str)), None)
        return "" if field is None else f": pass --text-column {column}.{field}"
    if isinstance(value, list) and value and isinstance(value[0], str):
        return f": pass --words-column {column} if it has words"
    return ""


def _text_bytes(value: object) -> int:
    """Return how many bytes of UTF-8 all texts inside a JSON value have together, without keys."""
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    if isinstance(value, dict):
        return sum(map(_text_bytes, value.values()))
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0


def as_list(values: Column) -> list[Any]:
    """Return the values of a column as Python's objects."""
    objects: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    return objects
