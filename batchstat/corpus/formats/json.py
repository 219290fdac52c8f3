"""JSON: an array of objects, at the top or inside of objects; or a table as pandas writes it."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import TypeAlias

from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecord, Location, too_long
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.columns import TEXT_NAMES
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.formats.json_records import RecordCollector, reason_of
from batchstat.corpus.formats.json_text import JsonText
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.records_path import EACH, expanded, steps_of
from batchstat.errors import InputError
from batchstat.storage.sealed_records import unique_keys
from batchstat.words import short

SizedRecord: TypeAlias = tuple[object, int]  # a record, and how many characters it has
_SHOWN, _DEEPEST = 20, 6
_ONE_SAMPLE = "put it into a list if it is a sample: a file needs one object per sample"


def read_json(
    opened: OpenSource,
    options: CorpusOptions,
    convert: Callable[[object], object] = lambda record: record,
) -> Iterator[Chunk]:
    """Yield the columns of the objects in an array, or where `options.records` says, never entirely
    in memory; or of a table as pandas' `to_json()` writes it. Raises InputError: no array of
    objects, malformed or cut JSON, or not UTF-8.
    """
    collector, text = RecordCollector(opened, options), JsonText(opened)
    if options.records is None and text.mark() == "{":
        records = _records_of_object(opened.path, text.whole())
    else:
        records = _records_at(opened.path, text, options.records)
    # Each round makes a chunk: `_records_of_chunk` takes the rest of it from the same iterator.
    for first in records:
        yield from collector.chunks(map(convert, _records_of_chunk(chain([first], records))))


def _records_of_chunk(records: Iterable[SizedRecord]) -> Iterator[object]:
    """Yield records until they make a chunk; one that is too long becomes a `BadRecord`."""
    chars = 0
    for value, size in records:
        if size > MOST_RECORD_BYTES:
            value = BadRecord("too_long", too_long("record", size))
        yield value
        chars += size + 400  # a parsed object takes memory beside its text
        if chars >= 8 << 20:
            return


def _records_at(path: str, text: JsonText, records: str | None) -> Iterator[SizedRecord]:
    """Yield the records at a path in a file, each with how many characters it has."""
    steps = steps_of(records or EACH)
    # The keys before the first list, and the steps from one of its elements.
    keys, within = steps[: steps.index(EACH)], steps[steps.index(EACH) + 1 :]
    if records is None:
        _open_mark(path, text, "[", "is not a JSON array")
    _enter(path, text, keys)
    elements = _elements(path, text)
    yield from _within(path, elements, within) if within else elements
    # Behind the objects around the list, so that a file that is cut there is noticed.
    for _ in keys:
        while text.mark() == ",":
            if _next_key(path, text) is not None:
                with _located(path, text):
                    text.skip()
        if text.mark() != "}":
            raise InputError(f"{path}: malformed JSON: it ends within an object")
        text.at += 1
    if text.mark():
        raise InputError(f"{path}: something follows the end of the array", "use one per file")


def _within(path: str, elements: Iterable[SizedRecord], steps: list[str]) -> Iterator[SizedRecord]:
    """Yield the records inside of elements. Raise InputError if no element has any."""
    is_empty, found = True, False
    for element, size in elements:
        is_empty = False
        if size > MOST_RECORD_BYTES:
            yield element, size
            continue
        for record in expanded(element, steps):
            yield record, size
            size, found = 0, True  # of an element that holds several, the first one has its size
    if not (found or is_empty):
        inside = "".join(each if each == EACH else f".{each}" for each in steps)
        raise InputError(f"{path}: its elements have nothing at {inside}", "check --records")


def _enter(path: str, text: JsonText, keys: list[str]) -> None:
    """Move to the list, or the object, whose elements are read."""
    for key in keys:
        names: list[str] = []
        _open_mark(path, text, "{", f"has no {key!r}")
        while (name := _next_key(path, text)) not in (key, None):
            names.append(str(name))
            with _located(path, text):
                text.skip()
        if name is None:
            has = ", ".join(names[:20]) or "nothing"
            raise InputError(f"{path}: {key!r} is not there (has: {has})", "check --records")
    _open_mark(path, text, "[{", "is not a list")


def _open_mark(path: str, text: JsonText, marks: str, otherwise: str) -> None:
    mark = text.mark()
    if not mark or mark not in marks:
        kind = {"[": "a list", "{": "an object", '"': "a text", "": "empty"}.get(mark, "a number")
        raise InputError(f"{path} {otherwise}: it is {kind}")


def _next_key(path: str, text: JsonText) -> str | None:
    """Return the next key of an object, and move to its value; None at the end of the object."""
    is_first = text.mark() == "{"
    if not is_first and text.mark() == "}":
        return None
    text.at += 1  # past the brace, or the comma after the last value
    if text.mark() == "}" and is_first:
        return None
    with _located(path, text):
        key, _ = text.value(":")
        text.at += 1
        text.mark()
        return str(key)


def _elements(path: str, text: JsonText) -> Iterator[SizedRecord]:
    """Yield the elements or values here, parsed one at a time, and pass them; long ones as None."""
    end = "]" if text.mark() == "[" else "}"
    is_object, number, after_comma, marks = end == "}", 0, False, f",{end}"
    if not is_object:
        text.at += 1
    while True:
        # After a comma, another element must follow.
        if not is_object and text.mark() == "]" and not after_comma:
            break
        if is_object and _next_key(path, text) is None:
            break
        # Not by `_located`, which for each of many small elements takes as long as parsing it.
        try:
            element, size = text.value(marks)
        except (ValueError, RecursionError) as error:
            raise _malformed(Location(path, number), text, error) from None
        yield element, size
        number += 1
        after_comma = text.mark() == ","
        if after_comma and not is_object:
            text.at += 1
    text.at += 1


@contextmanager
def _located(place: object, text: JsonText) -> Iterator[None]:
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise _malformed(place, text, error) from None


def _malformed(place: object, text: JsonText, error: Exception) -> InputError:
    reason = reason_of(error, "character", text.before)
    return InputError(f"{place}: malformed JSON: {reason}")


def _records_of_object(path: str, text: str) -> Iterator[SizedRecord]:
    """Return the rows of a table that `DataFrame.to_json()` wrote: columns, each an object by rows.
    Raises InputError: malformed JSON, JSON lines, or another object, with its option.
    """
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            raise InputError(
                f"{path} is not one JSON value", "pass --input-format jsonl if it has one per line"
            ) from None
        raise InputError(f"{path}: malformed JSON: {reason_of(error, 'character', 0)}") from None
    columns = list(value.values())
    if not _are_columns(columns):
        names = ", ".join(short(name).strip("'") for name in islice(value, _SHOWN)) or "nothing"
        more = f", … {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
        raise InputError(f"{path} is one JSON object (has: {names}{more})", _remedy(value))
    size = len(text) // max(len(columns[0]), 1)
    return (({name: column[row] for name, column in value.items()}, size) for row in columns[0])


def _are_columns(columns: list[object]) -> bool:
    """Return whether all are objects with the keys 0, 1 and so on, as of a frame's index."""
    first = columns[0] if columns else None
    if not isinstance(first, dict) or not first:
        return False
    rows = first.keys()
    return all(key.isdecimal() for key in rows) and all(
        isinstance(column, dict) and column.keys() == rows for column in columns
    )


def _remedy(value: dict[str, object]) -> str:
    """Return the option that reads the samples of an object, such as its first list of objects."""
    is_sample = any(isinstance(value.get(name), str) for name in TEXT_NAMES)
    if is_sample:
        return _ONE_SAMPLE
    if len(value) > _SHOWN and all(isinstance(item, list) for item in value.values()):
        each = f"'{EACH}' if each list is a sample, or '{EACH}{EACH}' if each of their elements is"
        return f"pass --records {each}"
    if found := _path_of_list(value):
        return f"pass --records {found}"
    objects = [item for item in value.values() if isinstance(item, dict)]
    if len(objects) == len(value) > 1:
        return f"pass --records '{EACH}' if each of them is a sample"
    return _ONE_SAMPLE


def _path_of_list(value: object, depth: int = 0) -> str:
    """Return the path of the first list of objects, texts or lists; empty if there is none."""
    if not isinstance(value, dict) or depth == _DEEPEST:
        return ""
    named: list[tuple[str, object]] = [
        (key, item) for key, item in value.items() if key and not set(key) & set(".[]")
    ]
    for key, item in named:
        if isinstance(item, list) and item and isinstance(item[0], dict | str | list):
            return key
    for key, item in named:
        if below := _path_of_list(item, depth + 1):
            return f"{key}.{below}"
    return ""
