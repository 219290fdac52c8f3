"""Columns of a chunk as what is counted: texts, pairs, chats, or counts; and their labels."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.chat import ChatError, Message, as_chat
from batchstat.corpus.chunk import Chunk, Column
from batchstat.corpus.faults import Faults, Place
from batchstat.corpus.kinds import can_label, holds_text, kind_of
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError

LONGEST = 10**9
"""Tokens of the longest sample that a column of lengths may state: more is a mistake."""

_MOST_DIGITS = 20

Mask = npt.NDArray[np.bool_]

_LABEL_LISTS = pa.large_list(pa.large_string())


@dataclass(frozen=True, eq=False)
class Texts:
    """(n,) texts, or pairs of them where there is a `second`, as large_string without nulls."""

    first: pa.LargeStringArray
    second: pa.LargeStringArray | None = None

    def ranges(self, most_bytes: int, most: int) -> Iterator[tuple[int, int]]:
        """All of them in turn, as ranges of so many bytes and texts at most, or of one."""
        parts = [self.first] if self.second is None else [self.first, self.second]
        sizes = [pc.binary_length(part).to_numpy(zero_copy_only=False) for part in parts]
        ends = np.cumsum(sum(sizes))
        start = 0
        while start < len(ends):
            before = ends[start - 1] if start else 0
            stop = int(np.searchsorted(ends, before + most_bytes, side="right"))
            stop = min(max(stop, start + 1), start + most)
            yield start, min(stop, len(ends))
            start = stop


@dataclass(frozen=True, eq=False)
class Chats:
    """(n,) chats."""

    messages: list[list[Message]]


@dataclass(frozen=True, eq=False)
class Counted:
    """(n,) tokens of samples that are counted already."""

    lengths: npt.NDArray[np.int64]


Content = Texts | Chats | Counted


class ChunkContent:
    """The values of one chunk, checked; what is wrong with a record is a fault.

    Attributes:
        ok: (size,) records that could be read so far.
    """

    def __init__(self, chunk: Chunk, place: Callable[[int], Place], faults: Faults) -> None:
        """Leaves out what the reader knows to be blank or faulty."""
        self.ok: Mask = np.ones(chunk.size, dtype=bool)
        self.ok[list(chunk.failed | chunk.blank)] = False
        self._chunk, self._place, self._faults = chunk, place, faults

    def text(self, column: str) -> pa.LargeStringArray:
        """(size,) the column as texts, empty where there is none."""
        values = self._chunk.columns[column]
        if isinstance(values, pa.Array):
            if not (holds_text(values.type) or pa.types.is_null(values.type)):
                raise InputError(
                    f"{self._place(0)}: column {column!r} is {values.type} where text is expected"
                )
            for i in _nulls(values):
                self._fail(i, f"{column!r} is null where text is expected")
            return pc.fill_null(values.cast(pa.large_string()), "")
        texts: list[Any] = list(values)
        for i, value in enumerate(texts):
            if not isinstance(value, str):
                self._fail(i, f"{column!r} is {kind_of(value)} where text is expected")
                texts[i] = ""
        return self._as_arrow(texts)

    def chats(self, column: str) -> list[list[Message]]:
        """(size,) the column as chats, empty lists where there is none."""
        chats: list[list[Message]] = []
        for i, value in enumerate(_as_list(self._chunk.columns[column])):
            try:
                chats.append(as_chat(value) if self.ok[i] else [])
            except ChatError as error:
                self._fail(i, f"{column!r}: {error}", "chat")
                chats.append([])
        return chats

    def token_lists(self, column: str) -> npt.NDArray[np.int64]:
        """(size,) how many ids the column's lists hold."""
        values = self._chunk.columns[column]
        if isinstance(values, pa.Array) and _is_list(values.type):
            if not pa.types.is_integer(values.type.value_type):
                raise InputError(
                    f"{self._place(0)}: column {column!r} is {values.type} where lists of token "
                    "ids are expected"
                )
            for i in _nulls(values):
                self._fail(i, f"{column!r} is null where a list of token ids is expected")
            sizes = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
            counts: npt.NDArray[np.int64] = sizes.to_numpy()
            return counts
        found = np.zeros(self._chunk.size, dtype=np.int64)
        for i, value in enumerate(_as_list(values)):
            if isinstance(value, list) and all(type(each) is int for each in value):
                found[i] = len(value)
            else:
                self._fail(i, f"{column!r} is {kind_of(value)} where token ids are expected")
        return found

    def lengths(self, column: str) -> npt.NDArray[np.int64]:
        """(size,) the column's whole numbers from 0 to `LONGEST`."""
        values = self._chunk.columns[column]
        whole = isinstance(values, pa.Array) and pa.types.is_integer(values.type)
        if isinstance(values, pa.Array) and whole and values.null_count == 0:
            return self._in_range(values.to_numpy(), column)
        found = np.zeros(self._chunk.size, dtype=np.int64)
        for i, value in enumerate(_as_list(values)):
            number = int(value) if isinstance(value, str) and _is_number(value) else value
            if type(number) is not int:
                self._fail(i, f"{column!r} is {kind_of(value)} where a whole number is expected")
            elif not 0 <= number <= LONGEST:
                self._fail(i, f"{column!r} is {number}: must be between 0 and {LONGEST:,}")
            else:
                found[i] = number
        return found

    def _in_range(self, numbers: npt.NDArray[np.integer], column: str) -> npt.NDArray[np.int64]:
        outside = (numbers < 0) | (numbers > LONGEST)
        for i in np.flatnonzero(outside).tolist():
            self._fail(i, f"{column!r} is {numbers[i]}: must be between 0 and {LONGEST:,}")
        return np.where(outside, 0, numbers).astype(np.int64)

    def labels(self, column: str) -> pa.Array:
        """(size,) labels as large_string, or as lists of it where one is a list; null is none."""
        values = self._chunk.columns[column]
        if isinstance(values, pa.Array):
            kind = values.type.value_type if _is_list(values.type) else values.type
            if not can_label(kind):
                raise InputError(
                    f"{self._place(0)}: column {column!r} is {values.type} where a label is "
                    "expected: text, a number, a boolean, or a list of them"
                )
            if not _is_list(values.type):
                return values.cast(pa.large_string())
            values = values.cast(_LABEL_LISTS).to_pylist()
        labels = [self._label(i, value, column) for i, value in enumerate(values)]
        if not any(isinstance(label, list) for label in labels):
            return pa.array(labels, pa.large_string())
        lists = [[label] if isinstance(label, str) else label for label in labels]
        return pa.array(lists, _LABEL_LISTS)

    def _label(self, i: int, value: object, column: str) -> str | list[str] | None:
        """A label, or the different ones of a list; None where there is none."""
        try:
            if not isinstance(value, list):
                return None if value is None else _as_label(value)
            return (
                list(dict.fromkeys(_as_label(each) for each in value if each is not None)) or None
            )
        except TypeError:
            self._fail(i, f"label {column!r} is {kind_of(value)}")
        except UnicodeEncodeError:
            self._fail(i, f"label {column!r} holds half a surrogate pair", "not_utf8")
        return None

    def _fail(self, i: int, message: str, reason: str = "wrong_type") -> None:
        if self.ok[i]:
            self.ok[i] = False
            self._faults.add(reason, self._place(i), message)

    def _as_arrow(self, texts: list[str] | list[object]) -> pa.LargeStringArray:
        try:
            return pa.array(texts, pa.large_string())
        except UnicodeEncodeError:
            whole: list[object] = []
            for i, text in enumerate(texts):
                if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
                    self._fail(i, "half a surrogate pair, which is no character", "not_utf8")
                    text = ""
                whole.append(text)
            return pa.array(whole, pa.large_string())


def read_content(
    chunk: Chunk, options: CorpusOptions, place: Callable[[int], Place], faults: Faults
) -> tuple[Content, pa.Array | None, Mask]:
    """What of a chunk is counted, its labels, and (size,) which records could be read.

    Raises:
        InputError: a column of another type; a faulty record where faults end the reading.
    """
    values = ChunkContent(chunk, place, faults)
    column = chunk.content[0]
    content: Content
    if options.content == "messages":
        content = Chats(values.chats(column))
    elif options.content == "tokens":
        content = Counted(values.token_lists(column))
    elif options.content == "length" or chunk.counted:
        content = Counted(values.lengths(column))
    else:
        second = values.text(chunk.content[1]) if len(chunk.content) > 1 else None
        content = Texts(values.text(column), second)
    labels = values.labels(chunk.label) if chunk.label else None
    return content, labels, values.ok


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _is_list(kind: pa.DataType) -> bool:
    return any(
        is_list(kind)
        for is_list in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _nulls(values: pa.Array) -> list[int]:
    positions: list[int] = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
    return positions


def _as_list(values: Column) -> list[Any]:
    listed: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    return listed


def _as_label(value: object) -> str:
    if isinstance(value, list | dict):
        raise TypeError
    label = value if isinstance(value, str) else json.dumps(value)
    label.encode()
    return label
