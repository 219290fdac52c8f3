"""Keys of a trainer's configuration: their types, their defaults, and which are known, by the
keys.json in a trainer's folder, which tests/trainers/record_keys.py writes.
"""

import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Self, get_args, get_origin, get_type_hints

from batchstat.errors import OptionError
from batchstat.parameters import MAX_INT
from batchstat.words import short


@dataclass(frozen=True)
class KnownKeys:
    """The keys of a trainer's configuration."""

    package: str
    version: str
    keys: frozenset[str]
    also: frozenset[str]


@dataclass(frozen=True)
class Key:
    """What may stand in a configuration for a key that decides about batches."""

    kind: type[Any]
    default: Any  # its value where the configuration does not have the key
    least: float = 0
    most: float = MAX_INT
    values: tuple[str, ...] = ()  # the texts that are allowed
    refused: str = ""


def key(default: Any, **more: Any) -> Any:
    """Return the field of a key that decides about batches; `more` are attributes of `Key`."""
    return field(default=default, metadata={"key": more})


def refused(remedy: str) -> Any:
    """Return the field of a key of which no value is modelled but null, false and empty ones."""
    return key(None, refused=remedy)


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """A trainer's configuration: each field that is a `key` is one that decides about batches."""

    where: str
    given_keys: frozenset[str]

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Key]:
        """Return the keys that decide about batches, by their names."""
        types = get_type_hints(cls)
        return {
            each.name: Key(_kind_of(types[each.name]), each.default, **each.metadata["key"])
            for each in fields(cls)
            if "key" in each.metadata
        }

    @classmethod
    def keys_file(cls) -> Path:
        """Return the file with the names of all keys that the trainer has, beside the record."""
        return Path(inspect.getfile(cls)).with_name("keys.json")

    @classmethod
    @cache
    def recorded(cls) -> KnownKeys:
        """Return the keys that the trainer has, by a file that only a configuration needs."""
        content = json.loads(cls.keys_file().read_text(encoding="utf-8"))
        keys, also = frozenset(content["keys"]), frozenset(content["also"])
        return KnownKeys(content["package"], content["version"], keys, also)

    @classmethod
    @cache
    def unused(cls) -> frozenset[str]:
        """Return the keys that decide nothing: all that the trainer has, in any version since that
        of the user is not known, without those that decide about batches. TRL takes the keys of
        transformers: its record inherits from theirs, whose keys count too.
        """
        all_keys = set[str]()
        for base in cls.__mro__:
            if issubclass(base, TrainerConfig) and base is not TrainerConfig:
                all_keys |= base.recorded().keys | base.recorded().also
        return frozenset(all_keys - cls.keys().keys())

    @classmethod
    def read(cls, where: str, all_values: Mapping[str, Any]) -> Self:
        """Return the record of a configuration. Raises OptionError for a wrong type or range."""
        values = {
            name: _checked_value(f"{where}: {name}", all_values[name], declared)
            for name, declared in cls.keys().items()
            if name in all_values
        }
        return cls(where=where, given_keys=frozenset(all_values), **values)

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
            if declared.refused and value:  # false, 0, null and empty ones switch nothing on
                raise self.error(f"{name}={short(value)} is not modelled: {declared.refused}")


def _kind_of(annotation: Any) -> type[Any]:
    """Return the type of a value that is not null: int for `int | None`, list for `list[str]`."""
    kind = annotation
    # The arguments of `int | None` are its alternatives; those of `list[str]` are its parts.
    if get_origin(annotation) not in (list, dict):
        kind = next((each for each in get_args(annotation) if each is not NoneType), annotation)
    kind_without_parts: type[Any] = get_origin(kind) or kind
    return kind_without_parts


_NEAR = 0.8
"""An unknown key at least this similar to a key that decides is taken for a misspelling of it. By
difflib's default of 0.6, `data_seed` would be one of `datasets`."""


def check_spelling(where: str, unknown: Sequence[str], keys: Iterable[str]) -> None:
    """Raise OptionError, with all unknown keys, if one is probably a misspelling."""
    # For each unknown key, a list of the key that it is most similar to, if one is similar enough.
    similar = {name: get_close_matches(name, keys, n=1, cutoff=_NEAR) for name in unknown}
    if not any(similar.values()):
        return
    if len(unknown) == 1:
        [name] = unknown
        raise OptionError(f"{where}: unknown key {name!r}", f"did you mean {similar[name][0]!r}?")
    hints = {name: f" (did you mean {found[0]!r}?)" for name, found in similar.items() if found}
    shown = ", ".join(f"{name!r}{hints.get(name, '')}" for name in unknown)
    raise OptionError(f"{where}: unknown keys {shown}", "correct or remove them")


def _checked_value(name: str, value: Any, key: Key) -> Any:
    """Return a value as its key declares it. Raises OptionError for another type or range."""
    if value is None:
        if key.default is None:
            return None
        raise OptionError(f"{name} is null", "remove the key, or give it a value")
    if key.kind is bool:
        return _expect(name, value, isinstance(value, bool), "true or false")
    if key.kind in (int, float):
        if isinstance(value, str) and value in key.values:  # such as "auto"
            return key.default
        return _as_number(name, value, key)
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


def _as_number(name: str, value: Any, key: Key) -> Any:
    """Return a value as a number, an int where the key's kind is int."""
    # A text with a number in it counts, since YAML reads 1e-5 as text; 3.0 counts as 3.
    number = value
    if isinstance(value, str):
        with suppress(ValueError):  # stays a text, which is no number below
            number = float(value)
    # In Python, True and False are integers.
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    number = _expect(name, number, is_number, "a number")
    if key.kind is int:
        whole = math.isfinite(number) and number == int(number)
        number = int(_expect(name, number, whole, "a whole number"))
    in_range = key.least <= number <= key.most
    return _expect(name, number, in_range, f"between {key.least:g} and {key.most:,}")


def _expect(name: str, value: Any, holds: bool, expected: str) -> Any:
    if not holds:
        raise OptionError(f"{name}={short(value)}", f"must be {expected}")
    return value
