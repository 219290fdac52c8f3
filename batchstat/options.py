"""Numbers and names that a user sets, checked in one place and named as they are everywhere."""

import os
from collections.abc import Collection, Mapping
from dataclasses import fields
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.errors import OptionError, short, unknown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST = 2**31 - 1
"""The largest number any setting takes: tokens and samples of one batch fit in 64 bits."""

MOST_RANKS = 10**6
"""Each has a place in every turn: a mistyped number must not fill a machine."""

_NO_BOUNDS: Mapping[str, int] = {}


def whole_number(name: str, value: object, least: int = 1, most: int = MOST) -> int:
    """`value` as an int between `least` and `most`; else an `OptionError` that names both."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise OptionError(f"{name}={short(value)}: must be a whole number") from None
    if not least <= number <= most:
        raise OptionError(f"{name}={short(number)}: must be between {least} and {most:,}")
    return number


def one_of(name: str, value: str, choices: Collection[str]) -> str:
    """`value` if it is one of `choices`; else an `OptionError` with the nearest choice."""
    if value not in choices:
        raise unknown(name, value, choices)
    return value


def named_path(name: str, given: str | os.PathLike[str]) -> Path:
    """`given` as a path; else an `OptionError`: it is empty, which Path takes for this folder."""
    if not os.fspath(given).strip():
        raise OptionError(f"{name} is empty: name a file or folder")
    return Path(given)


def check_fields(
    record: "DataclassInstance",
    least: Mapping[str, int] = _NO_BOUNDS,
    most: Mapping[str, int] = _NO_BOUNDS,
) -> None:
    """Holds a frozen dataclass to its annotations: ints are whole, at least 1 or `least[name]`
    and at most `MOST` or `most[name]`, booleans are booleans; an optional int may be None.

    Raises:
        OptionError: a field that is not, named with its value.
    """
    for field in fields(record):
        value = getattr(record, field.name)
        if field.type is int or (field.type == (int | None) and value is not None):
            bounds = least.get(field.name, 1), most.get(field.name, MOST)
            number = whole_number(field.name, value, *bounds)
            object.__setattr__(record, field.name, number)
        elif field.type is bool and not isinstance(value, bool):
            raise OptionError(f"{field.name}={short(value)}: must be true or false")
