"""Keys of a trainer's configuration: their types, their defaults, and which are known."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from batchstat.errors import OptionError, short
from batchstat.parameters import MAX_INT


@dataclass(frozen=True)
class Key:
    """A key that decides about batches.

    Attributes:
        default: its value where the configuration does not have it.
        kind: int, float, bool, str, list, dict, or object for any; null is allowed where it is the
            default.
        least: the smallest number that is allowed; -1 where the framework takes that for none.
        most: the largest number that is allowed.
        values: the names that are allowed, if not any text; for a number, those that stand for its
            default.
    """

    default: Any
    kind: type[Any]
    least: float = 0
    values: tuple[str, ...] = ()
    most: float = MAX_INT


_NEAR = 0.8
"""Similarity to a key that decides, from which an unknown one is taken for it, misspelt."""


def unknown_keys(
    where: str, given: Mapping[str, Any], keys: Iterable[str], knows: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the keys of a configuration that have a value and are not known.

    Args:
        where: the configuration, for messages.
        given: its keys.
        keys: those that decide about batches.
        knows: returns whether a key is known.

    Raises:
        OptionError: one that is nearly the name of a key that decides; the message has all unknown
            keys, so that a file can be corrected at once.
    """
    found = tuple(str(name) for name, value in given.items() if value is not None)
    found = tuple(name for name in found if not knows(name))
    near = {name: get_close_matches(name, keys, 1, _NEAR) for name in found}
    if not any(near.values()):
        return found
    if len(found) == 1:
        raise OptionError(f"{where}: unknown key {found[0]!r}: did you mean {near[found[0]][0]!r}?")
    meant = (f"{n!r} (did you mean {near[n][0]!r}?)" if near[n] else repr(n) for n in found)
    raise OptionError(f"{where}: unknown keys {', '.join(meant)}: correct or remove them")


def read_values(where: str, given: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Return the value of each key that decides about batches, given or default.

    Args:
        where: the configuration, for messages.
        given: its keys.
        keys: those that decide.

    Raises:
        OptionError: a value of another type or out of range.
    """
    return {
        name: _typed(f"{where}: {name}", given[name], key) if name in given else key.default
        for name, key in keys.items()
    }


def refuse(
    where: str,
    values: Mapping[str, Any],
    refused: Mapping[str, str],
    only: Mapping[str, Any] | None = None,
) -> None:
    """Raise OptionError for a value whose batches are not modelled.

    Args:
        where: the configuration, for messages.
        values: its keys.
        refused: keys that must have none but false or an empty one, and the remedies.
        only: keys with the one value that is modelled.
    """
    for key, remedy in refused.items():
        if values[key]:
            raise OptionError(f"{where}: {key}={short(values[key])} is not modelled: {remedy}")
    for key, modelled in (only or {}).items():
        if values[key] != modelled:
            shown = str(modelled).lower() if isinstance(modelled, bool) else modelled
            raise OptionError(
                f"{where}: {key}={short(values[key])} is not modelled: only {shown} is"
            )


def _typed(name: str, value: Any, key: Key) -> Any:
    if value is None:
        if key.default is None:
            return None
        raise OptionError(f"{name} is null: remove the key, or give it a value")
    if key.kind is bool:
        return _expect(name, value, isinstance(value, bool), "true or false")
    if key.kind in (int, float):
        if isinstance(value, str) and value in key.values:
            return key.default
        return _number(name, value, key)
    value = _expect(name, value, isinstance(value, key.kind), _WORDS[key.kind])
    if key.values:
        return _expect(name, value, value in key.values, f"one of {', '.join(key.values)}")
    return value


_WORDS: dict[type[Any], str] = {
    str: "text",
    dict: "a table of keys",
    list: "a list",
    object: "anything",
}


def _number(name: str, value: Any, key: Key) -> Any:
    """Return a number. YAML reads 1e-5 as text, and 3.0 may stand for 3."""
    number = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = None
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    number = _expect(name, number if is_number else value, is_number, "a number")
    if key.kind is int:
        whole = math.isfinite(number) and number == int(number)
        number = int(_expect(name, number, whole, "a whole number"))
    in_range = key.least <= number <= key.most
    return _expect(name, number, in_range, f"between {key.least:g} and {key.most:,}")


def _expect(name: str, value: Any, holds: bool, expected: str) -> Any:
    if not holds:
        raise OptionError(f"{name}={short(value)}: must be {expected}")
    return value
