"""JSON Lines: one object a line."""

import json
from collections.abc import Iterator, Mapping

import pyarrow as pa

from batchstat.corpus.columns import Columns, CorpusOptions, choose_columns
from batchstat.corpus.formats.chunk import Chunk
from batchstat.corpus.lines import read_lines
from batchstat.corpus.sources import OpenSource
from batchstat.errors import InputError

_KINDS = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def read_jsonl(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """The text and label of every object; a blank line is a record without text.

    Raises:
        InputError: malformed JSON, a record that is no object, a missing column, a text that is
            not text, a label that is a list or an object: each with its line.
    """
    columns: Columns | None = None
    for lines in read_lines(opened):
        texts: list[str] = []
        labels: list[str | None] = []
        for number, line in enumerate(lines.texts.to_pylist(), lines.first):
            if not line or line.isspace():
                texts.append("")
                labels.append(None)
                continue
            where = f"{opened.path}, line {number}"
            record = _parse(where, line)
            if columns is None:
                strings = [name for name, value in record.items() if isinstance(value, str)]
                columns = choose_columns(opened.path, list(record), strings, options)
            texts.append(_text(where, record, columns.text))
            labels.append(None if columns.label is None else _label(where, record, columns.label))
        label_array = pa.array(labels, pa.large_string()) if options.label_column else None
        yield Chunk(_as_arrow(lines.first, opened.path, texts), label_array, opened.raw.tell())


def _parse(where: str, line: str) -> Mapping[str, object]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: malformed JSON: {error.msg} at column {error.colno}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{where}: malformed JSON: {error}") from None
    if not isinstance(record, dict):
        raise InputError(f"{where}: {_KINDS[type(record)]} where an object is expected")
    return record


def _text(where: str, record: Mapping[str, object], column: str) -> str:
    value = _field(where, record, column)
    if not isinstance(value, str):
        raise InputError(f"{where}: {column!r} is {_KINDS[type(value)]} where text is expected")
    return value


def _label(where: str, record: Mapping[str, object], column: str) -> str | None:
    value = _field(where, record, column)
    if isinstance(value, list | dict):
        raise InputError(f"{where}: label {column!r} is {_KINDS[type(value)]}: name another column")
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _field(where: str, record: Mapping[str, object], column: str) -> object:
    if column not in record:
        has = ", ".join(list(record)[:20])
        raise InputError(f"{where}: column {column!r} is missing (has: {has})")
    return record[column]


def _as_arrow(first: int, path: str, texts: list[str]) -> pa.LargeStringArray:
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        bad = next(
            i for i, text in enumerate(texts) if any("\ud800" <= c <= "\udfff" for c in text)
        )
        raise InputError(
            f"{path}, line {first + bad}: half a surrogate pair in the text, which is no character"
        ) from None
