"""A JSON file that is one object: a table of pandas, or a message with where its samples are."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from batchstat.corpus.columns import TEXT_NAMES
from batchstat.corpus.formats.json_records import reason_of
from batchstat.corpus.records_path import EACH
from batchstat.errors import InputError
from batchstat.storage.sealed_records import unique_keys
from batchstat.words import short

SizedRecord: TypeAlias = tuple[object, int]  # a record, and how many characters it has
_SHOWN, _DEEPEST = 20, 6
_ONE_SAMPLE = "put it into a list if it is a sample: a file needs one object per sample"


def records_of_object(path: str, text: str) -> Iterator[SizedRecord]:
    """Return the rows of a table that `DataFrame.to_json()` wrote: an object of columns, each an
    object with the values by the numbers of the rows.

    Raises:
        InputError: malformed JSON; lines of JSON; or another object, with the option that reads it.
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
