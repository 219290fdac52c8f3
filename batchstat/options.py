"""Numbers and names that a user sets, checked in one place and named as they are everywhere."""

from collections.abc import Collection
from operator import index

from batchstat.errors import OptionError, unknown

MOST = 2**31 - 1
"""The largest number any setting takes: tokens and samples of one batch fit in 64 bits."""


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
