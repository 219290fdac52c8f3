"""Keys of a trainer's configuration: their types, their defaults, and which are known.

A trainer's folder has a keys.json, written by tests/trainers/record_keys.py: the keys that decide
nothing, and those that are fields of its record.
"""

import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Self, get_args, get_origin, get_type_hints

from batchstat.errors import OptionError, short
from batchstat.parameters import MAX_INT

KEYS_FILE = "keys.json"


@dataclass(frozen=True)
class KnownKeys:
    """The keys of a trainer's configuration.

    Attributes:
        package: the trainer, as it is installed.
        version: the version whose keys and whose rules these are.
        keys: the keys that it has.
        also: those of earlier versions, and of the command that starts it.
    """

    package: str
    version: str
    keys: frozenset[str]
    also: frozenset[str]


@cache
def known_keys(file: Path) -> KnownKeys:
    """Return the keys of a file, which is read once, and only where a configuration is."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return KnownKeys(
        package=content["package"],
        version=content["version"],
        keys=frozenset(content["keys"]),
        also=frozenset(content["also"]),
    )


@dataclass(frozen=True)
class Key:
    """What may stand in a configuration for a key that decides about batches.

    Attributes:
        kind: int, float, bool, str, list, dict, or object for any; null is allowed where it is the
            default.
        default: its value where the configuration does not have it.
        least: the smallest number that is allowed; -1 where the trainer takes that for none.
        most: the largest number that is allowed.
        values: the names that are allowed, if not any text; for a number, those that stand for its
            default.
        refused: the remedy, where any value but false or an empty one is not modelled.
        only: the one value that is modelled; None where there are others.
    """

    kind: type[Any]
    default: Any
    least: float = 0
    most: float = MAX_INT
    values: tuple[str, ...] = ()
    refused: str = ""
    only: Any = None


def key(default: Any, **more: Any) -> Any:
    """Return the field of a key that decides about batches; `more` are attributes of `Key`."""
    return field(default=default, metadata={"key": more})


def refused(remedy: str) -> Any:
    """Return the field of a key of which no value is modelled but null, false and empty ones."""
    return key(None, refused=remedy)


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """A trainer's configuration: each field that is a `key` is one that decides about batches.

    Attributes:
        where: the configuration, for messages.
        given: all keys that it has.
    """

    where: str
    given: frozenset[str]

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Key]:
        """Return the keys that decide, by their names."""
        types = get_type_hints(cls)
        return {
            each.name: Key(_kind_of(types[each.name]), each.default, **each.metadata["key"])
            for each in fields(cls)
            if "key" in each.metadata
        }

    @classmethod
    def keys_file(cls) -> Path:
        """Return the file with the names of all keys that the trainer has, beside the record."""
        return Path(inspect.getfile(cls)).with_name(KEYS_FILE)

    @classmethod
    def recorded(cls) -> KnownKeys:
        """Return the keys that the trainer has."""
        return known_keys(cls.keys_file())

    @classmethod
    @cache
    def unused(cls) -> frozenset[str]:
        """Return the keys that decide nothing; where it takes those of another trainer, of any
        version of that, since which one it is installed with is not known.
        """
        recorded = (
            each.recorded()
            for each in cls.__mro__
            if issubclass(each, TrainerConfig) and each is not TrainerConfig
        )
        known = frozenset[str]().union(*(each.keys | each.also for each in recorded))
        return known - cls.keys().keys()

    @classmethod
    def read(cls, where: str, given: Mapping[str, Any]) -> Self:
        """Return the configuration of keys with their values, those that decide nothing too.

        Raises:
            OptionError: a value of another type or out of range.
        """
        values = {
            name: _typed(f"{where}: {name}", given[name], declared)
            for name, declared in cls.keys().items()
            if name in given
        }
        return cls(where=where, given=frozenset(given), **values)

    def error(self, message: str) -> OptionError:
        """Return the error for something that is wrong with it."""
        return OptionError(f"{self.where}: {message}")

    def values(self) -> dict[str, Any]:
        """Return the keys that decide with their values, defaults included."""
        return {name: getattr(self, name) for name in self.keys()}

    def check_modelled(self) -> None:
        """Raise OptionError for a value whose batches are not modelled."""
        for name, value in self.values().items():
            declared = self.keys()[name]
            if declared.refused and value:
                raise OptionError(
                    f"{self.where}: {name}={short(value)} is not modelled: {declared.refused}"
                )
            if (only := declared.only) is not None and value != only:
                shown = str(only).lower() if isinstance(only, bool) else only
                raise OptionError(
                    f"{self.where}: {name}={short(value)} is not modelled: only {shown} is"
                )


def _kind_of(annotation: Any) -> type[Any]:
    """Return the type of a key's values that are not null, without that of their parts."""
    kind = next((each for each in get_args(annotation) if each is not NoneType), annotation)
    kind = annotation if get_origin(annotation) in (list, dict) else kind
    found: type[Any] = get_origin(kind) or kind
    return found


_NEAR = 0.8
"""Similarity to a key that decides, from which an unknown one is taken for it, misspelt."""


def check_spelling(where: str, unknown: Sequence[str], keys: Iterable[str]) -> None:
    """Raise OptionError where an unknown key is nearly the name of one that decides; the message
    has all unknown keys, so that a file can be corrected at once.

    Args:
        where: the configuration, for messages.
        unknown: the keys of it that are not known.
        keys: those that decide about batches.
    """
    near = {name: get_close_matches(name, keys, 1, _NEAR) for name in unknown}
    if not any(near.values()):
        return
    if len(unknown) == 1:
        [name] = unknown
        raise OptionError(f"{where}: unknown key {name!r}: did you mean {near[name][0]!r}?")
    meant = (f"{n!r} (did you mean {near[n][0]!r}?)" if near[n] else repr(n) for n in unknown)
    raise OptionError(f"{where}: unknown keys {', '.join(meant)}: correct or remove them")


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
