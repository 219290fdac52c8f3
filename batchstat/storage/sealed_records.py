"""JSON records that batchstat wrote, checked against declared types and a digest: a file that is
read back may be cut short, damaged, edited, or merged by git. The digest is over values, so a
flipped bit either changes nothing that is used or is an error.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from math import isfinite
from operator import index
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from batchstat.storage.shown import one_line
from batchstat.words import short

_YEARS = range(1971, 9999)  # whose times can be converted to any time zone, and to seconds


class OtherSchemaError(ValueError):
    """A record of another version of batchstat, or of another kind."""

    def __init__(self, actual: object, schema: str) -> None:
        super().__init__(f"has schema {shown(actual)}, but this batchstat reads {schema}")


def fault_of(error: BaseException, kind: str) -> str:
    """Return what is wrong with a file of a `kind`, such as `a profile`, to follow its name."""
    reason = one_line(error)
    return reason if isinstance(error, OtherSchemaError) else f"is not {kind} ({reason})"


def shown(value: object) -> str:
    """Return a value from a file for a message: text without quotes, at most a line long."""
    return short(value).strip("'\"") if isinstance(value, str) else short(value)


def parse(text: str | bytes) -> Any:
    """Parse JSON strictly: UTF-8, no NaN, no duplicate keys in an object. Raises ValueError."""
    try:
        decoded_text = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(
            decoded_text, object_pairs_hook=unique_keys, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object from its pairs. Raise ValueError for a key that appears twice."""
    record = dict(pairs)
    # Of a duplicate key, a dictionary keeps only the last pair.
    if len(record) < len(pairs):
        # Counted at once: an object of 100,000 keys may have its duplicate at the end.
        duplicate, times = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"key {short(duplicate)} appears {times} times")
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def digest_of(value: object) -> str:
    """Return a digest of JSON: tuples are like lists, keys in any order. Raises ValueError."""
    text = json.dumps(plain(value), sort_keys=True, allow_nan=False)
    return f"blake2b:{hashlib.blake2b(text.encode(), digest_size=32).hexdigest()}"


def plain(value: Any) -> Any:
    """Return a value as JSON has it; raise ValueError if JSON cannot represent it."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if value is None or isinstance(value, bool | str | float):
        return value
    # Whole numbers of Python and NumPy.
    try:
        return index(value)
    except TypeError:
        raise ValueError(f"{shown(value)} cannot be represented in JSON") from None


def digest_of_numbers(numbers: npt.NDArray[np.integer], dtype: str = "<i8") -> str:
    """Return a digest of (n,) whole numbers, hashed as `dtype`, whatever their integer type is."""
    digest = hashlib.blake2b(digest_size=32)
    for first in range(0, len(numbers), _AT_ONCE):
        block = np.ascontiguousarray(numbers[first : first + _AT_ONCE], dtype=dtype)
        digest.update(block.data)
    return f"blake2b:{digest.hexdigest()}"


_AT_ONCE = 1 << 20  # numbers that are converted and hashed at once: a limit for the copy in memory


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with a digest of it, by which `unseal` finds out whether it was changed."""
    return {**record, "digest": digest_of(["", record])}


def unseal(record: object, schema: str) -> dict[str, Any]:
    """Return a record that `seal` made. Raises OtherSchemaError, or ValueError if changed."""
    if not isinstance(record, Mapping):
        raise ValueError(f"{shown(record)} is not an object")
    require_schema(record, schema)
    content = {key: value for key, value in record.items() if key != "digest"}
    try:
        intact = record.get("digest") == digest_of(["", content])
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not intact:
        raise ValueError("it was damaged or edited: its digest differs")
    return content


def require_schema(record: object, schema: str) -> None:
    """Raise ValueError for a record without a schema, OtherSchemaError for another schema."""
    if not isinstance(record, Mapping) or "schema" not in record:
        raise ValueError(f"{shown(record)} has no schema")
    if record["schema"] != schema:
        raise OtherSchemaError(record["schema"], schema)


def decoded(annotation: Any, value: object, name: str = "") -> Any:
    """Convert a value as parsed from JSON to the type of an annotation, and check it strictly.
    JSON's objects become dataclasses or dictionaries, and its lists become tuples. Whole numbers
    must not be negative, as no stored number is, and floats must be finite. Raises ValueError:
    another type, a number out of range, or a key that is missing or unknown.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return value
    if origin is Annotated:
        converted = decoded(arguments[0], value, name)
        # Annotations that are not functions are for documents.
        for check in filter(callable, arguments[1:]):
            check(name, converted)
        return converted
    if is_dataclass(annotation):
        return _as_record(annotation, value, name)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        # Of several scalar types, the value's own. If it is none of them, the first one refuses it.
        members = [argument for argument in arguments if argument is not NoneType]
        return decoded(type(value) if type(value) in members else members[0], value, name)
    if origin is tuple:
        items = _require(isinstance(value, list), value, name, "a list")
        # tuple[int, ...] has one type for any number of items, tuple[int, str] one for each item.
        item_types = arguments[:1] * len(items) if arguments[-1] is ... else arguments
        _require(len(items) == len(item_types), value, name, f"a list of {len(item_types)}")
        pairs = enumerate(zip(item_types, items, strict=True))
        return tuple(decoded(item_type, item, f"{name}[{i}]") for i, (item_type, item) in pairs)
    if origin is not None and issubclass(origin, Mapping):
        _, item_type = arguments  # of its keys, which JSON has as text, and values
        json_object = _require(isinstance(value, Mapping), value, name, "an object")
        return {key: decoded(item_type, item, f"{name}.{key}") for key, item in json_object.items()}
    return _as_scalar(annotation, value, name)


def _as_record(record_type: Any, value: object, name: str) -> Any:
    """Return an object of JSON as the dataclass `record_type`, with the types of its fields."""
    declared = {field.name: field for field in fields(record_type)}
    values = _require(isinstance(value, Mapping), value, name, "an object")
    for key in values:
        if key not in declared:
            raise ValueError(f"{_path(name, key)} is unknown")
    for key, field in declared.items():
        if key not in values and field.default is MISSING:
            raise ValueError(f"{_path(name, key)} is missing")
    return record_type(
        **{key: decoded(declared[key].type, item, _path(name, key)) for key, item in values.items()}
    )


def _as_scalar(annotation: Any, value: Any, name: str) -> Any:
    """Return a value of a scalar type. Raises ValueError for another type or range."""
    # Types are compared exactly, since to Python true and false are whole numbers.
    if annotation is int:
        _require(type(value) is int, value, name, "a whole number")
        return _require(0 <= value <= 2**63 - 1, value, name, "between 0 and 2^63 - 1")
    if annotation is float:
        # JSON may write 1.0 as 1.
        is_number = type(value) is int or (type(value) is float and isfinite(value))
        return _require(is_number, value, name, "a finite number")
    expected = {bool: "true or false", str: "text"}[annotation]
    return _require(type(value) is annotation, value, name, expected)


def _require(holds: bool, value: Any, name: str, expected: str) -> Any:
    if not holds:
        raise ValueError(f"{name or 'it'} is {short(value)}: must be {expected}")
    return value


def between(least: int, most: int) -> Callable[[str, float], object]:
    """Return a check for the annotation of a field: it raises ValueError outside of a range."""

    def check(name: str, number: float) -> None:
        _require(least <= number <= most, number, name, f"between {least:,} and {most:,}")

    return check


def _path(name: str, key: str) -> str:
    return f"{name}.{key}" if name else shown(key)


def _check_time(name: str, written: str) -> None:
    """Raise ValueError unless a text is a time with a time zone, in ISO 8601."""
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        time = None
    is_time = time is not None and time.tzinfo is not None and time.year in _YEARS
    _require(is_time, written, name, "a time with its zone, as 2025-01-31T12:00:00+00:00")


Time = Annotated[str, _check_time]  # ISO 8601, with a time zone, so that any two can be compared
