"""Limits as users set them: by the names of the command line, or by JSON path; and for `init`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from batchstat.documents.parts import Kind
from batchstat.errors import OptionError, unknown
from batchstat.gate.named_limits import BOUNDS, NAMED_LIMITS, Bound
from batchstat.gate.paths import kind_at
from batchstat.gate.quantities import Number, exact, parse_quantity

Level = Literal["error", "warn"]
LEVELS = ("error", "warn", "off")
DEFAULT_CHECK = "default"  # the name of a check that has none of its own

Limits = Sequence[tuple[str, str, str]]
"""The name of each limit, its value as TOML, and the measured value in words."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A bound on one number of a report; inclusive."""

    name: str
    path: str
    bound: Bound
    threshold: Number  # the threshold; ratios in [0, 1]
    kind: Kind
    level: Level
    origin: str
    written: str

    @property
    def is_difference(self) -> bool:
        """Whether it limits the difference from a base."""
        return self.bound in ("max-increase", "max-decrease")

    def over(self, value: Number, before: Number | None) -> float:
        """Return how far a number is beyond the limit: above 0 only if the limit is exceeded."""
        # Fractions: as floats, 0.065 - 0.06 is above 0.005.
        number, threshold = exact(value), exact(self.threshold)
        if self.is_difference:
            assert before is not None
            number -= exact(before)  # the increase since the base
        if self.bound == "min":
            return float(threshold - number)
        if self.bound == "max-decrease":
            number = -number  # a decrease is a negative increase
        return float(number - threshold)


def in_force(limits: Mapping[str, Limit | None], has_base: bool) -> list[Limit]:
    """Return the limits that are not off. With a base and no limit, padding must not rise."""
    if has_base and not limits:
        limits = read_limits({"max-increase": 0}, "a default, which --max-increase changes")
    return [limit for limit in limits.values() if limit is not None]


def read_limits(table: Mapping[str, Any], origin: str) -> dict[str, Limit | None]:
    """Return the limits of a table by bound and path, such as `max strategy.fill`; None for one
    that is off. Keys are names, as `max-padding = "5%"` or a table of limit and level; or paths, as
    `lengths.p99 = {max = 2048, level = "warn"}`. Raises OptionError: what is unknown or invalid.
    """
    limits: dict[str, Limit | None] = {}
    for name, value in _each_limit(table):
        is_named = name in NAMED_LIMITS
        read = _read_named_limit if is_named else _read_limits_on_path
        path, written_thresholds, level = read(name, value)
        for bound, written in written_thresholds.items():
            # A limit by name and one by path with the same key are one: the last one is in force.
            key = f"{bound} {path}"
            limits[key] = None
            if level != "off":
                shown_name = name if is_named else key
                limits[key] = _parse_limit(shown_name, path, bound, written, level, origin)
    return limits


_UnparsedLimits = tuple[str, Mapping[Bound, Any], Literal["error", "warn", "off"]]
"""The path of a number, the thresholds as they are written, by their bounds, and their level."""


def _read_named_limit(name: str, value: Any) -> _UnparsedLimits:
    """Read a named limit, but do not parse its threshold. Raise OptionError for a bad table."""
    named_limit = NAMED_LIMITS[name]
    # Without an example, the limit is a switch, such as equal-steps = true.
    value = _limit_of_switch(name, value) if named_limit.example is None else value
    # `"5%"` is short for `{limit = "5%"}`.
    table = dict(value) if isinstance(value, Mapping) else {"limit": value}
    level = "off" if value == "off" else _checked_level(name, table.pop("level", "error"))
    if level != "off" and set(table) != {"limit"}:
        raise OptionError(f"{name}={value!r}", "write a limit, or {limit = …, level = …}")
    return named_limit.path, {named_limit.bound: table.get("limit")}, level


def _each_limit(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name or path of each limit with its value; `strategy = {fill = …}` is a path."""
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        if name in NAMED_LIMITS or _is_number(name) or not isinstance(value, Mapping):
            yield name, value
            continue
        # A bound never has a table: `lengths = {max = {max = 2048}}` limits a number called max.
        holds_tables = any(isinstance(each, Mapping) for each in value.values())
        if set(value) <= {*BOUNDS, "level"} and not holds_tables:
            yield name, value
        else:
            # The table is no limit, but the next part of a path.
            yield from _each_limit(value, name)


def _limit_of_switch(name: str, value: Any) -> Any:
    """Return the limit of a switch, 0 for true and `off` for false, or the table that has it."""
    if isinstance(value, Mapping):  # a table without `limit` switches it on
        return {**value, "limit": _limit_of_switch(name, value.get("limit", True))}
    if value is True:
        return 0
    if value is False or value == "off":
        return "off"
    raise OptionError(f"{name}={value!r}", "must be true or false")


def _is_number(path: str) -> bool:
    try:
        kind_at(path)
    except OptionError:
        return False
    return True


def _read_limits_on_path(path: str, value: Any) -> _UnparsedLimits:
    """Return the path, its thresholds by their bounds, and their level; `off` has none."""
    try:
        kind_at(path)
    except OptionError:
        # One word alone is rather meant as a name: the message lists names, not paths.
        if "." not in path and "[" not in path:
            raise unknown("limit", path, NAMED_LIMITS) from None
        raise
    if value == "off":
        return path, dict.fromkeys(BOUNDS), "off"
    if not isinstance(value, Mapping) or not set(value) & set(BOUNDS):
        raise OptionError(f"{path}={value!r}", "write bounds, such as {max = 100} or {min = 10}")
    if unknown_keys := set(value) - {*BOUNDS, "level"}:
        raise unknown(f"bound of {path}", sorted(unknown_keys)[0], (*BOUNDS, "level"))
    thresholds = {bound: value[bound] for bound in BOUNDS if bound in value}
    return path, thresholds, _checked_level(path, value.get("level", "error"))


def _checked_level(name: str, level: Any) -> Literal["error", "warn", "off"]:
    if level not in LEVELS:
        raise unknown(f"level of {name}", str(level), LEVELS)
    return cast(Literal["error", "warn", "off"], level)


def _parse_limit(
    name: str, path: str, bound: Bound, value: Any, level: Level, origin: str
) -> Limit:
    """Return a limit; `value` is its threshold as it is written."""
    kind = kind_at(path)
    is_difference = bound in ("max-increase", "max-decrease")
    is_switch = name in NAMED_LIMITS and NAMED_LIMITS[name].example is None
    return Limit(
        name=name,
        path=path,
        bound=bound,
        threshold=parse_quantity(name, value, kind, difference=is_difference),
        kind=kind,
        level=level,
        origin=origin,
        written="true" if is_switch else str(value),  # the value of a switch is 0
    )


def propose_limits(
    report: Mapping[str, Any], *, may_drop: bool = False, has_budget: bool = True
) -> Limits:
    """Return limits that the measured values keep with a margin: half a percentage point; of fill
    five; a tenth for the number of samples and ratios; none for batches over budget.
    """
    numbers, basis = report["strategy"], report["basis"]
    limits = [_limit_above("max-padding", numbers["padding_ratio"])]
    if has_budget:  # fill is a share of the budget
        percent = min(max(math.floor(100 * numbers["fill"] - 5), 0), 100)
        limits.append(("min-fill", f'"{percent}%"', _measured(numbers["fill"])))
    limits.append(_limit_above("max-truncated", numbers["truncated_ratio"]))
    # Only in these cases can samples be dropped.
    if may_drop or basis["overflow"] == "drop" or basis["drop_last"]:
        limits.append(_limit_above("max-dropped", numbers["dropped_ratio"]))
    samples = report["corpus"]["samples"]
    limits.append(("min-samples", str(max(1, samples * 9 // 10)), f"measured {samples:,}"))
    over_budget = numbers["over_budget_batches"]
    if has_budget:
        limits.append(("max-over-budget", str(over_budget), f"measured {over_budget:,}"))
    trained = numbers["trained"]
    weights = trained and trained["token_weight"]  # either may be null
    if weights and weights["spread"] > 1:  # 1: all trained tokens weigh the same
        limits.append(("max-weight-spread", *_a_tenth_above(weights["spread"])))
    if (ratio := report["class_ratio"]) is not None:
        limits.append(("max-class-ratio", *_a_tenth_above(ratio)))
    return limits


def _limit_above(name: str, ratio: float) -> tuple[str, str, str]:
    tenths = min(math.ceil(1000 * ratio + 5), 1000)
    return name, f'"{tenths / 10:.1f}%"', _measured(ratio)


def _a_tenth_above(ratio: float) -> tuple[str, str]:
    return f"{math.ceil(ratio * 11) / 10:.1f}", f"measured {ratio:.2f}"


def _measured(ratio: float) -> str:
    return f"measured {100 * ratio:.2f}%"
