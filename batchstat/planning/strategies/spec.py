"""Strategies as users write them: `name` or `name:key=value,key=value`."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from batchstat.errors import OptionError, short, unknown
from batchstat.parameters import read_parameters
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.strategies.base import NOT_PACKED, Strategy
from batchstat.planning.strategies.registry import STRATEGIES


@dataclass(frozen=True)
class RowRequest:
    """A strategy to plan with.

    Attributes:
        spec: as the user wrote it.
        strategy: the parsed strategy.
        settings: its settings: the shared ones, with the order and the distribution that belong to
            the strategy.
    """

    spec: str
    strategy: Strategy
    settings: ResolvedSettings

    @property
    def name(self) -> str:
        """The strategy's name, without parameters."""
        return self.spec.partition(":")[0]

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the strategy."""
        return self.strategy.parameters

    def sets(self, key: str) -> bool:
        """Return whether the strategy sets a parameter itself, whatever the shared settings are."""
        usual = key == "batch_size" and not self.settings.given_batch_size
        return (
            f"{key}=" in self.spec
            or key in self.strategy.own_parameters
            or (usual and self.strategy.usual_batch_size is not None)
        )


def parse_strategies(specs: Sequence[str], basis: ResolvedSettings) -> list[RowRequest]:
    """Return each requested strategy once. Raises OptionError for none or an invalid one."""
    if not specs:
        raise OptionError("no strategy: name at least one")
    return [request_row(spec, basis) for spec in dict.fromkeys(specs)]


def request_row(spec: str, basis: ResolvedSettings) -> RowRequest:
    """Return the strategy that `spec` names, with its settings. Raises as `parse_strategy`."""
    return with_own_settings(spec, parse_strategy(spec, vars(basis)), basis)


def with_own_settings(name: str, strategy: Strategy, basis: ResolvedSettings) -> RowRequest:
    """Return a strategy with the settings, and the order and distribution that belong to it."""
    own = {key: getattr(strategy, key) for key in ("order", "distribute", "remainder")}
    changed = {key: value for key, value in own.items() if value not in (None, vars(basis)[key])}
    return RowRequest(name, strategy, replace(basis, **changed) if changed else basis)


def parse_strategy(spec: str, settings: Mapping[str, Any]) -> Strategy:
    """Return the strategy that `spec` names.

    A parameter that `spec` does not set is taken from `settings` if it has one of that name and it
    is not one of the strategy's `own_parameters`; else the strategy's default applies. A strategy's
    usual batch size applies unless `settings` say that one was given.

    Raises:
        OptionError: an unknown name or parameter (with the nearest known one), a value of the
            wrong type or out of range, a parameter given twice, or a missing one.
    """
    if not isinstance(spec, str):
        raise OptionError(f"strategy={short(spec)}: must be text, such as 'token-budget'")
    name, _, rest = spec.partition(":")
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    kind = STRATEGIES[name]
    given = read_parameters("strategy", name, rest, {each.name: each for each in fields(kind)})
    if kind.unpacked is not None and not _packs(kind, given):
        given.pop(kind.packed_by, None)
        _check_unpacked(spec, kind, given)
        kind = kind.unpacked
    known = {field.name: field for field in fields(kind)}
    own, usual = kind.own_parameters, kind.usual_batch_size
    values = {key: settings[key] for key in known if key in settings and key not in own}
    if usual is not None:
        values["batch_size"] = settings.get("given_batch_size") or usual
    values |= given
    missing = [k for k, f in known.items() if k not in values and f.default is MISSING]
    if missing:
        raise OptionError(f"strategy {spec!r} needs {missing[0]}: write '{name}:{missing[0]}=…'")
    return kind(**values)


def _packs(kind: type[Strategy], given: Mapping[str, Any]) -> bool:
    """Return whether the parameters of a framework make it pack."""
    return given.get(kind.packed_by, NOT_PACKED) not in (NOT_PACKED, False)


def _check_unpacked(spec: str, kind: type[Strategy], given: Mapping[str, Any]) -> None:
    """Raise OptionError for a parameter that only packing has."""
    assert kind.unpacked is not None
    other = sorted(set(given) - {each.name for each in fields(kind.unpacked)})
    if other:
        switch = next(each for each in fields(kind) if each.name == kind.packed_by)
        values = [each for each in switch.metadata["option"].values if each != NOT_PACKED]
        raise OptionError(
            f"strategy {spec!r}: {other[0]} is of packing only: add "
            f"{kind.packed_by}={' or '.join(values or ['true'])}"
        )
