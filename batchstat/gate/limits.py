"""Limits as users set them: by the names of the command line, or by JSON path."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from batchstat.documents.parts import Kind
from batchstat.errors import OptionError, unknown
from batchstat.gate.named_limits import BOUNDS, NAMED_LIMITS, Bound
from batchstat.gate.paths import kind_at
from batchstat.gate.quantities import Number, exact, parse_quantity

Level = Literal["error", "warn"]
LEVELS = ("error", "warn", "off")

_NO_INCREASE = "a default, which --max-increase changes"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A bound on one number of a report; inclusive.

    Attributes:
        name: name of the limit: `max-padding`, or `max` and the path.
        path: path of the number in the report.
        bound: whether the number must not be above or below the threshold, or not rise or fall by
            more than that from a baseline.
        threshold: the threshold; ratios in [0, 1].
        kind: the kind of number.
        level: whether exceeding it is an error or a warning.
        origin: where it is set, for messages.
        written: the threshold as it was written.
    """

    name: str
    path: str
    bound: Bound
    threshold: Number
    kind: Kind
    level: Level
    origin: str
    written: str

    @property
    def is_difference(self) -> bool:
        """Whether it limits the difference from a baseline."""
        return self.bound.endswith("crease")  # max-increase or max-decrease

    def over(self, value: Number, before: Number | None) -> float:
        """Return how far a number is beyond the limit: above 0 only if the limit is exceeded.

        Args:
            value: the number now.
            before: the number in the baseline, for a limit on a difference.
        """
        # Fractions: as floats, 0.065 - 0.06 is above 0.005.
        limited, threshold = exact(value), exact(self.threshold)
        if self.is_difference:
            assert before is not None
            limited -= exact(before)
        if self.bound == "min":
            return float(threshold - limited)
        # The difference is now − before: of a decrease, it is below 0.
        return float((-limited if self.bound == "max-decrease" else limited) - threshold)


def in_force(limits: Mapping[str, Limit | None], has_baseline: bool) -> list[Limit]:
    """Return the limits that are not off. With a baseline, there is one more, unless `max-increase`
    is set: padding must not rise.
    """
    if has_baseline:
        limits = read_limits({"max-increase": 0}, _NO_INCREASE) | dict(limits)
    return [limit for limit in limits.values() if limit is not None]


def read_limits(table: Mapping[str, Any], origin: str) -> dict[str, Limit | None]:
    """Return the limits of a table, by bound and path (`max strategy.fill`); None for one that is
    off.

    Of a named limit, the value is the limit, `off`, or a table of limit and level:
    `max-padding = "5%"`. Of a path, it is `off`, or a table of bounds and level:
    `lengths.p99 = {max = 2048, level = "warn"}`.

    Raises:
        OptionError: an unknown limit, number, bound or level, or an invalid limit.
    """
    limits: dict[str, Limit | None] = {}
    for name, value in _flat(table):
        # `thresholds` are not parsed yet: the values as written, by their bounds.
        path, thresholds, level = (
            _by_name(name, value) if name in NAMED_LIMITS else _by_path(name, value)
        )
        for bound, threshold in thresholds.items():
            # A limit by name and one by path with the same key are one: the last one is in force.
            key = f"{bound} {path}"
            known_as = name if name in NAMED_LIMITS else key
            limits[key] = (
                None if level == "off" else _limit(known_as, path, bound, threshold, level, origin)
            )
    return limits


_Unparsed = tuple[str, Mapping[Bound, Any], Literal["error", "warn", "off"]]
"""The path of a number, its limits as they are written, by their bounds, and their level."""


def _by_name(name: str, value: Any) -> _Unparsed:
    """Return a named limit before its threshold is parsed. Raises OptionError for a bad table."""
    named_limit = NAMED_LIMITS[name]
    # Without an example, the limit is a switch, such as equal-steps = true.
    value = _switched(name, value) if named_limit.example is None else value
    spec = dict(value) if isinstance(value, Mapping) else {"limit": value}
    level = "off" if value == "off" else _level(name, spec.pop("level", "error"))
    if level != "off" and set(spec) != {"limit"}:
        raise OptionError(f"{name}={value!r}: write a limit, or {{limit = …, level = …}}")
    return named_limit.path, {named_limit.bound: spec.get("limit")}, level


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and paths with their values. A path may be written as nested tables:
    `strategy = {fill = {min = "90%"}}` yields `strategy.fill` and `{min = "90%"}`.
    """
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        # A table is a limit, or a part of a path that goes on in it.
        is_limit = name in NAMED_LIMITS or _is_number(name) or not isinstance(value, Mapping)
        if not is_limit:
            # Bounds alone are a limit, even on an unknown number: the error then names it. A table
            # is not a bound: `lengths = {max = {max = 2048}}` limits a number that is called max.
            holds_tables = any(isinstance(each, Mapping) for each in value.values())
            is_limit = set(value) <= {*BOUNDS, "level"} and not holds_tables
        if is_limit:
            yield name, value
        else:
            yield from _flat(value, name)


def _switched(name: str, value: Any) -> Any:
    """Return the limit that a switch stands for: 0 for true, `off` for false. Of a table, return it
    with this limit, beside its level.
    """
    if isinstance(value, Mapping):  # `{level = "warn"}` alone is on
        return {**value, "limit": _switched(name, value.get("limit", True))}
    if value is True:
        return 0
    if value is False or value == "off":
        return "off"
    raise OptionError(f"{name}={value!r}: must be true or false")


def _is_number(path: str) -> bool:
    try:
        kind_at(path)
    except OptionError:
        return False
    return True


def _by_path(path: str, value: Any) -> _Unparsed:
    """Return the limits on a number before their thresholds are parsed.

    Raises:
        OptionError: there is no such number, or a bad table.
    """
    try:
        kind_at(path)
    except OptionError:
        # One word alone is rather meant as a name: the message lists names, not paths.
        if "." not in path and "[" not in path:
            raise unknown("limit", path, NAMED_LIMITS) from None
        raise
    if value == "off":  # all bounds, whichever was set elsewhere
        return path, dict.fromkeys(BOUNDS), "off"
    if not isinstance(value, Mapping) or not set(value) & set(BOUNDS):
        raise OptionError(f"{path}={value!r}: write bounds, such as {{max = 100}} or {{min = 10}}")
    if unknown_keys := set(value) - {*BOUNDS, "level"}:
        raise unknown(f"bound of {path}", sorted(unknown_keys)[0], (*BOUNDS, "level"))
    thresholds = {bound: value[bound] for bound in BOUNDS if bound in value}
    return path, thresholds, _level(path, value.get("level", "error"))


def _level(name: str, level: Any) -> Literal["error", "warn", "off"]:
    if level not in LEVELS:
        raise unknown(f"level of {name}", str(level), LEVELS)
    return cast(Literal["error", "warn", "off"], level)


def _limit(name: str, path: str, bound: Bound, value: Any, level: Level, origin: str) -> Limit:
    """Return a limit with its threshold parsed from the value as it is written."""
    kind = kind_at(path)
    difference = bound.endswith("crease")  # max-increase or max-decrease
    return Limit(
        name=name,
        path=path,
        bound=bound,
        threshold=parse_quantity(name, value, kind, difference=difference),
        kind=kind,
        level=level,
        origin=origin,
        # The 0 of a switch was written as true.
        written="true"
        if name in NAMED_LIMITS and NAMED_LIMITS[name].example is None
        else str(value),
    )
