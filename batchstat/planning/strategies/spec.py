"""Strategies as users write them: `name` or `name:key=value,key=value`."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from batchstat.errors import OptionError, unknown
from batchstat.parameters import read_parameters
from batchstat.planning.strategies import STRATEGIES
from batchstat.planning.strategies.base import Strategy


def parse_strategy(spec: str, settings: Mapping[str, Any]) -> Strategy:
    """Return the strategy that `spec` names.

    A parameter that `spec` does not set is taken from `settings` if it has one of that name and it
    is not one of the strategy's `own_parameters`; else the strategy's default applies.

    Raises:
        OptionError: an unknown name or parameter (with the nearest known one), a value of the
            wrong type or out of range, a parameter given twice, or a missing one.
    """
    if not isinstance(spec, str):
        raise OptionError(f"strategy={spec!r}: must be text, such as 'token-budget'")
    name, _, rest = spec.partition(":")
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    known = {field.name: field for field in fields(STRATEGIES[name])}
    own = STRATEGIES[name].own_parameters
    values = {key: settings[key] for key in known if key in settings and key not in own}
    values |= read_parameters("strategy", name, rest, known)
    missing = [k for k, f in known.items() if k not in values and f.default is MISSING]
    if missing:
        raise OptionError(f"strategy {spec!r} needs {missing[0]}: write '{name}:{missing[0]}=…'")
    return STRATEGIES[name](**values)
