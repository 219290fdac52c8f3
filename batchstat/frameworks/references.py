"""References in a configuration: a value `${table.key}` stands for that of another key, and
`${oc.select:table.key,default}` too, where it is there.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from batchstat.errors import OptionError, short

_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_SELECTED = re.compile(r"\$\{oc\.select: *([\w.]+) *(?:, *([^${}]*))?\}")
_MARK = "${"


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with those of other keys in place of references to them.

    What refers to anything else stays as it is: a table, the environment, itself.
    """
    return {key: _value(key, values) for key in values}


def referred(values: Mapping[str, Any]) -> set[str]:
    """Return the keys to which values refer."""
    return {key for value in values.values() for key in _REFERENCE.findall(str(value))}


def _value(key: str, values: Mapping[str, Any]) -> Any:
    seen = {key}
    value = values[key]
    while found := _reference(value):
        other, default = found
        if other not in values and default is not None:
            return _plain(default)
        if other in seen or other not in values:
            break
        seen.add(other)
        value = values[other]
    return value


def _reference(value: Any) -> tuple[str, str | None] | None:
    """Return the key to which a value refers, and the default where that may be missing."""
    text = value.strip() if isinstance(value, str) else ""
    if found := _REFERENCE.fullmatch(text):
        return found[1], None
    if found := _SELECTED.fullmatch(text):
        return found[1], found[2] or "null"
    return None


def _plain(text: str) -> Any:
    """Return a default: a number, true, false, null or a text."""
    try:
        return json.loads(text.lower())
    except ValueError:
        return text


def check_resolved(where: str, given: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise OptionError for a key that decides and whose value is still a reference."""
    for key in keys:
        value = given.get(key)
        parts = value if isinstance(value, list) else [value]
        if any(isinstance(part, str) and _MARK in part for part in parts):
            raise OptionError(
                f"{where}: {key}={short(value)} refers to what is not in this file: write its value"
            )
