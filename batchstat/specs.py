"""What people write as `name` or `name:key=value,key=value`: strategies, samplers."""

import re
from collections.abc import Mapping
from dataclasses import Field
from typing import Any

from batchstat.errors import OptionError, unknown


def read_parameters(
    kind: str, name: str, text: str, known: Mapping[str, "Field[Any]"]
) -> dict[str, object]:
    """The parameters in `key=value,key=value`, each of the type of its field's default.

    A comma starts a new parameter only where `key=` follows.

    Args:
        kind: what `name` names, as messages say it.
        name: whose parameters.
        text: as it is written; may be empty.
        known: the fields that can be set, by their names.

    Raises:
        OptionError: an unknown parameter (with the nearest known one), one given twice or without
            a value, a value of the wrong kind.
    """
    pairs: dict[str, str] = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"{kind} parameter {part!r} of {name} has no value: write key=value")
        if not known:
            raise OptionError(f"{name} has no parameters, and {part!r} is given: leave it out")
        if key not in known:
            raise unknown(f"parameter of {name}", key, known)
        if key in pairs:
            raise OptionError(f"{kind} parameter {key!r} of {name} is given twice")
        pairs[key] = value
    return {key: _value(known[key], value) for key, value in pairs.items()}


def with_parameter(spec: str, key: str, value: int | str) -> str:
    """`spec` with one of its parameters set or replaced."""
    name, _, rest = spec.partition(":")
    pairs = [part for part in _split(rest) if part.partition("=")[0] != key]
    return f"{name}:{','.join([*pairs, f'{key}={value}'])}"


def _split(rest: str) -> list[str]:
    return re.split(r",(?=\w+=)", rest) if rest else []


def _value(field: "Field[Any]", text: str) -> object:
    if isinstance(field.default, bool):
        if text not in ("true", "false"):
            raise OptionError(f"{field.name}={text!r}: must be true or false")
        return text == "true"
    if isinstance(field.default, str):
        return text
    if field.type in (float, float | None):
        return _number(field.name, text)
    if isinstance(field.default, tuple):
        return () if text == "auto" else tuple(_whole(field.name, part) for part in text.split(","))
    return _whole(field.name, text)


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name}={text!r}: must be a whole number") from None


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{name}={text!r}: must be a number") from None
