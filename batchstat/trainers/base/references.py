"""References in a configuration, as OmegaConf and hydra write them: `${table.key}` stands for the
value of that key of the file, and `${oc.select:table.key,default}` for it or, where the file does
not have the key, for the default.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from batchstat.errors import OptionError
from batchstat.words import short

_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
"""Such as `${data.max_length}`: group 1 is the key."""
_SELECTED = re.compile(r"\$\{oc\.select: *([\w.]+) *(?:, *([^${}]*))?\}")
"""Such as `${oc.select:data.max_length,512}`: group 1 is the key, group 2 the default or None."""
_INTERPOLATION = re.compile(r"\$\{[\w.]+(?::[^{}]*)?\}")
"""Any reference, also inside of a text and of another kind: `${oc.env:HOME}/data`."""
_MISSING = object()
"""Stands for the value of a key that a configuration does not have, since null is a value."""


class Resolved(NamedTuple):
    """A configuration with the values of other keys in place of references to them.

    Attributes:
        values: its keys with their values.
        referred: the top-level keys that references name: `data` for `${data.max_length}`.
    """

    values: dict[str, Any]
    referred: frozenset[str]


def resolve_references(content: Mapping[Any, Any]) -> Resolved:
    """Return a configuration with each reference replaced by the value of the key that it names,
    also inside of tables and lists.

    Other references stay as they are: to the environment, to themselves, to a missing key.
    """
    resolver = _Resolver(content)
    values = {str(key): resolver.value(value, frozenset()) for key, value in content.items()}
    return Resolved(values, frozenset(resolver.referred))


class _Resolver:
    """Copies the values of a configuration without references. Each table and list is copied once,
    however often an alias of YAML repeats it.

    Attributes:
        referred: the top-level keys that references named so far.
    """

    def __init__(self, content: Mapping[Any, Any]) -> None:
        """Start with nothing resolved."""
        self.referred: set[str] = set()
        self._content = content
        # Copies of tables and lists without references, by the ids of the originals.
        self._copies: dict[int, Any] = {}

    def value(self, value: Any, seen: frozenset[str]) -> Any:
        """Return a value without references.

        Args:
            value: of any type.
            seen: keys whose references were followed to get here; one that comes again refers to
                itself.
        """
        if isinstance(value, str):
            return self._text(value, seen)
        if not isinstance(value, dict | list):
            return value
        if id(value) not in self._copies:
            # Stored before it is filled: YAML can put a list into itself.
            copy: Any = self._copies.setdefault(id(value), type(value)())
            if isinstance(value, dict):
                copy.update({key: self.value(part, seen) for key, part in value.items()})
            else:
                copy.extend(self.value(part, seen) for part in value)
        return self._copies[id(value)]

    def _text(self, text: str, seen: frozenset[str]) -> Any:
        """Return the value that a text refers to; the text itself if it refers to nothing that the
        file has, or to itself.
        """
        match = _REFERENCE.fullmatch(text.strip()) or _SELECTED.fullmatch(text.strip())
        if match is None:
            return text
        key = match[1]
        self.referred.add(key.partition(".")[0])
        value = self._value_at(key)
        if value is not _MISSING:
            return text if key in seen else self.value(value, seen | {key})
        # Only oc.select has a default, which is null if it is left out.
        return _parse_default(match[2] or "null") if match.re is _SELECTED else text

    def _value_at(self, key: str) -> Any:
        """Return the value at `table.key` as the file has it; `_MISSING` if it has none."""
        value: Any = self._content
        for name in key.split("."):
            if not isinstance(value, Mapping) or name not in value:
                return _MISSING
            value = value[name]
        return value


def _parse_default(text: str) -> Any:
    """Return the default of `oc.select` as YAML would read it: a number, true, false, null or a
    text.
    """
    try:
        return json.loads(text.lower())  # in YAML, True is true, too
    except ValueError:
        return text.strip()


def check_resolved(where: str, values: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise OptionError for a key that decides and whose value still has a reference: one of the
    environment, or to a key that the file does not have.
    """
    for key in keys:
        for text in _texts(values.get(key)):
            if _INTERPOLATION.search(text):
                raise OptionError(
                    f"{where}: {key} has {short(text)}, which refers to a key that is not in this "
                    "file",
                    "replace it by its value",
                )


def _texts(value: Any) -> Iterable[str]:
    """Yield the texts in a value, at any depth.

    Each table and list is gone through once, though YAML may repeat it or put it into itself.
    """
    pending, seen_ids = [value], set()
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict | list) and id(part) not in seen_ids:
            seen_ids.add(id(part))
            pending.extend(part.values() if isinstance(part, dict) else part)
