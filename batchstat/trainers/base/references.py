"""References in a configuration, as OmegaConf and hydra write them: a value `${table.key}` stands
for that of another key, and `${oc.select:table.key,default}` too, where it is there.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from batchstat.errors import OptionError, short

_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_SELECTED = re.compile(r"\$\{oc\.select: *([\w.]+) *(?:, *([^${}]*))?\}")
_INTERPOLATION = re.compile(r"\$\{[\w.]+(?::[^{}]*)?\}")
_MISSING = object()


class Resolved(NamedTuple):
    """A configuration with the values of other keys in place of references to them.

    Attributes:
        values: its keys with their values.
        referred: keys to which values refer, or into whose tables.
    """

    values: dict[str, Any]
    referred: frozenset[str]


def resolved(content: Mapping[Any, Any]) -> Resolved:
    """Return a configuration without references, also inside of tables and lists.

    What refers to anything else stays as it is: the environment, itself, a key that is not there.
    """
    resolver = _Resolver(content)
    values = {str(key): resolver.value(each, frozenset()) for key, each in content.items()}
    return Resolved(values, frozenset(resolver.referred))


class _Resolver:
    """Values of a configuration, each table and list made once, however often YAML repeats it."""

    def __init__(self, content: Mapping[Any, Any]) -> None:
        """Start with nothing resolved."""
        self.referred: set[str] = set()
        self._content = content
        self._made: dict[int, Any] = {}

    def value(self, value: Any, seen: frozenset[str]) -> Any:
        """Return a value without references.

        Args:
            value: of any type.
            seen: keys whose references led to it.
        """
        if isinstance(value, str):
            return self._text(value, seen)
        if not isinstance(value, dict | list):
            return value
        if id(value) not in self._made:
            # Noted before it is filled: YAML can put a list into itself.
            made: Any = self._made.setdefault(id(value), type(value)())
            if isinstance(value, dict):
                made.update({key: self.value(each, seen) for key, each in value.items()})
            else:
                made.extend(self.value(each, seen) for each in value)
        return self._made[id(value)]

    def _text(self, text: str, seen: frozenset[str]) -> Any:
        found = _REFERENCE.fullmatch(text.strip()) or _SELECTED.fullmatch(text.strip())
        if found is None:
            return text
        key = found[1]
        self.referred.add(key.partition(".")[0])
        value = self._at(key)
        if value is _MISSING and found.re is _SELECTED:
            return _plain(found[2] or "null")
        if value is _MISSING or key in seen:
            return text
        return self.value(value, seen | {key})

    def _at(self, key: str) -> Any:
        """Return the value at `table.key` before it is resolved."""
        value: Any = self._content
        for name in key.split("."):
            if not isinstance(value, Mapping) or name not in value:
                return _MISSING
            value = value[name]
        return value


def _plain(text: str) -> Any:
    """Return a default: a number, true, false, null or a text."""
    try:
        return json.loads(text.lower())
    except ValueError:
        return text.strip()


def check_resolved(where: str, given: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise OptionError for a key that decides and whose value still has a reference."""
    for key in keys:
        for text in _texts(given.get(key)):
            if _INTERPOLATION.search(text):
                raise OptionError(
                    f"{where}: {key} has {short(text)}, which refers to a key that is not in this "
                    "file: replace it by its value"
                )


def _texts(value: Any) -> Iterable[str]:
    """Yield the texts in a value; each table and list is gone through once."""
    left, seen = [value], set()
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict | list) and id(each) not in seen:
            seen.add(id(each))
            left.extend(each.values() if isinstance(each, dict) else each)
