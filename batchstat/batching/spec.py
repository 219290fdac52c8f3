"""Strategies as people write them: `name` or `name:key=value,key=value`."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from batchstat.batching import STRATEGIES, Strategy
from batchstat.errors import OptionError, unknown


def parse_strategy(spec: str, settings: Mapping[str, Any]) -> Strategy:
    """The strategy that `spec` names.

    A parameter that `spec` leaves out is taken from `settings` where that has its name and it is no
    parameter of the strategy's own, else it is the strategy's default. A comma starts a new
    parameter only where `key=` follows.

    Raises:
        OptionError: an unknown name or parameter (with the nearest known one), a value of the
            wrong kind or out of range, a parameter given twice or given nowhere.
    """
    name, _, rest = spec.partition(":")
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    known = {field.name: field for field in fields(STRATEGIES[name])}
    own = STRATEGIES[name].own_parameters
    values = {key: settings[key] for key in known if key in settings and key not in own}
    values |= {key: _value(known[key], text) for key, text in _pairs(name, rest, known).items()}
    missing = [k for k, f in known.items() if k not in values and f.default is MISSING]
    if missing:
        raise OptionError(f"strategy {spec!r} needs {missing[0]}: write '{name}:{missing[0]}=…'")
    return STRATEGIES[name](**values)


def with_parameter(spec: str, key: str, value: int | str) -> str:
    """`spec` with one of its parameters set or replaced."""
    name, _, rest = spec.partition(":")
    pairs = [part for part in _split(rest) if part.partition("=")[0] != key]
    return f"{name}:{','.join([*pairs, f'{key}={value}'])}"


def _split(rest: str) -> list[str]:
    return re.split(r",(?=\w+=)", rest) if rest else []


def _pairs(name: str, rest: str, known: Mapping[str, object]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in _split(rest):
        key, equals, text = part.partition("=")
        if not equals:
            raise OptionError(
                f"strategy parameter {part!r} of {name} has no value: write key=value"
            )
        if key not in known:
            raise unknown(f"parameter of {name}", key, known)
        if key in pairs:
            raise OptionError(f"strategy parameter {key!r} of {name} is given twice")
        pairs[key] = text
    return pairs


def _value(field: "Field[Any]", text: str) -> object:
    if isinstance(field.default, bool):
        if text not in ("true", "false"):
            raise OptionError(f"{field.name}={text!r}: must be true or false")
        return text == "true"
    if isinstance(field.default, str):
        return text
    if isinstance(field.default, tuple):
        return () if text == "auto" else tuple(_whole(field.name, part) for part in text.split(","))
    return _whole(field.name, text)


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name}={text!r}: must be a whole number") from None
