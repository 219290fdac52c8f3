"""Numbers and names that a user sets, checked in one place and named as they are everywhere."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from operator import index
from typing import TYPE_CHECKING

from batchstat.errors import OptionError, unknown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST = 2**31 - 1
"""The largest number any setting takes: tokens and samples of one batch fit in 64 bits."""

_NO_BOUNDS: Mapping[str, int] = {}


def whole_number(name: str, value: object, least: int = 1, most: int = MOST) -> int:
    """`value` as an int between `least` and `most`; else an `OptionError` that names both."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise OptionError(f"{name}={value!r}: must be a whole number") from None
    if not least <= number <= most:
        raise OptionError(f"{name}={number}: must be between {least} and {most:,}")
    return number


def one_of(name: str, value: str, choices: Collection[str]) -> str:
    """`value` if it is one of `choices`; else an `OptionError` with the nearest choice."""
    if value not in choices:
        raise unknown(name, value, choices)
    return value


def check_fields(record: "DataclassInstance", least: Mapping[str, int] = _NO_BOUNDS) -> None:
    """Holds a frozen dataclass to its annotations: ints are whole, at least 1 or `least[name]`
    and not too large, booleans are booleans; an optional int may be None.

    Raises:
        OptionError: a field that is not, named with its value.
    """
    for field in fields(record):
        value = getattr(record, field.name)
        if field.type is int or (field.type == (int | None) and value is not None):
            number = whole_number(field.name, value, least.get(field.name, 1))
            object.__setattr__(record, field.name, number)
        elif field.type is bool and not isinstance(value, bool):
            raise OptionError(f"{field.name}={value!r}: must be true or false")
