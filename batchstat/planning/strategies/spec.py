"""Strategies as users write them: `name` or `name:key=value,key=value`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Protocol, Self

from batchstat.errors import OptionError, unknown
from batchstat.parameters import read_parameters, with_parameter
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.base import NOT_PACKED, Strategy
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.words import short


class NamedRow(Protocol):
    """What a row of a comparison is of: a strategy that is named, or batches with a name."""

    @property
    def text(self) -> str:
        """The name that its user gives it."""

    @property
    def given(self) -> Mapping[str, Any]:
        """The parameters that it sets itself."""

    @property
    def setup(self) -> "NamedRow | None":
        """The setup whose steps it keeps; None where it makes steps of its own."""

    def strategy(self, settings: Mapping[str, Any]) -> Strategy:
        """Return the strategy, with parameters of the settings where it sets none."""

    def request(self, basis: ResolvedSettings) -> "RowRequest":
        """Return it with its settings. Raises OptionError if it does not go with them."""


@dataclass(frozen=True)
class StrategySpec:
    """A strategy and the parameters that are set; settings decide the others."""

    text: str  # the same as its user writes it; the name of its row
    kind: type[Strategy] = field(compare=False, repr=False)  # the strategy that it names
    given: Mapping[str, Any] = field(compare=False, repr=False)  # what it sets, by name

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the strategy that a text names; a `StrategySpec` comes back as it is. Raises
        OptionError: an unknown name or parameter (with the nearest known one), a value of the wrong
        type, a parameter given twice, or one of packing without packing.
        """
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise OptionError(f"strategy={short(text)}", "must be text, such as 'token-budget'")
        name, _, parameters = text.partition(":")
        if name not in STRATEGIES:
            raise unknown("strategy", name, STRATEGIES)
        settable = STRATEGIES[name].settable()
        # One whose framework does not say how its batches reach the ranks may be told here.
        if STRATEGIES[name].distribute is None:
            settable |= {each.name: each for each in fields(Settings) if each.name == "distribute"}
        return cls._make(text, name, read_parameters("strategy", name, parameters, settable))

    @classmethod
    def of(cls, name: str, **given: Any) -> Self:
        """Return a strategy by its name and parameters: `of("static", batch_size=8)` is
        `static:batch_size=8`. Raises OptionError: a parameter of packing without packing.
        """
        text = name
        for key, value in given.items():
            text = with_parameter(text, key, _value_text(value))
        return cls._make(text, name, given)

    @classmethod
    def _make(cls, text: str, name: str, given: Mapping[str, Any]) -> Self:
        """Return the strategy `name` with the parameters `given`. A framework that packs only where
        a parameter asks for it (trl with `packing`) is another strategy without it, `unpacked`.
        """
        kind = STRATEGIES[name]
        # It does not pack where the parameter is not given, `off` or false.
        packs = given.get(kind.packed_by, NOT_PACKED) not in (NOT_PACKED, False)
        if kind.unpacked is not None and not packs:
            # The unpacked strategy does not have the parameter that was off.
            given = {key: value for key, value in given.items() if key != kind.packed_by}
            if packing_only := sorted(set(given) - {each.name for each in fields(kind.unpacked)}):
                option = kind.settable()[kind.packed_by].metadata["option"]
                # The values that turn packing on; a switch names none, and `true` turns it on.
                values = [each for each in option.values if each != NOT_PACKED] or ["true"]
                raise OptionError(
                    f"strategy {text!r}: {packing_only[0]} is of packing only",
                    f"add {kind.packed_by}={' or '.join(values)}",
                )
            kind = kind.unpacked
        return cls(text, kind, given)

    def __str__(self) -> str:
        """Return it as its user writes it."""
        return self.text

    @property
    def name(self) -> str:
        """The strategy's name, without parameters."""
        return self.text.partition(":")[0]

    def with_parameter(self, key: str, value: Any) -> "StrategySpec":
        """Return it with one of its parameters set or replaced."""
        text = with_parameter(self.text, key, _value_text(value))
        return StrategySpec(text, self.kind, {**self.given, key: value})

    @property
    def setup(self) -> NamedRow | None:
        """The setup whose steps `regrouped` keeps; None of any other strategy."""
        if self.kind is not Regrouped:
            return None
        of = self.given.get("of", Regrouped.of)
        return StrategySpec.parse(of) if isinstance(of, str) else of

    def of_setup(self, setup: NamedRow) -> "StrategySpec":
        """Return `regrouped` of a setup; where it names one, it is returned as it is."""
        if "of" in self.given:
            return self
        text = with_parameter(self.text, "of", setup.text)
        return StrategySpec(text, self.kind, {**self.given, "of": setup})

    def strategy(self, settings: Mapping[str, Any]) -> Strategy:
        """Return the strategy with all its parameters. A parameter that is not set is taken from
        `settings` if it has one of that name and it is not one of the strategy's `own_parameters`;
        else the strategy's default applies. A strategy's usual batch size applies unless `settings`
        say that one was given. Raises OptionError: a value out of range, or a missing one.
        """
        names = [each.name for each in fields(self.kind)]
        own, usual_size = self.kind.own_parameters, self.kind.usual_batch_size
        values = {name: settings[name] for name in names if name in settings and name not in own}
        # A `batch_size` that follows from a budget must not replace a usual one, as hf-trainer's 8.
        if usual_size is not None:
            values["batch_size"] = settings.get("given_batch_size") or usual_size
        values |= {key: value for key, value in self.given.items() if key != "distribute"}
        # `regrouped:of=…` gets that setup's own parameters, and its collator's and loader's.
        if (row := self.setup) is not None:
            setup = row.strategy(settings)
            shared = {key: getattr(setup, key) for key in ("pad_to_multiple_of", "drop_last")}
            values |= {"of": row.text, "setup": setup, **shared}
        required = [each.name for each in fields(self.kind) if each.default is MISSING]
        missing = [name for name in required if name not in values]
        if missing:
            raise OptionError(
                f"strategy {self.text!r} needs {missing[0]}", f"write '{self.name}:{missing[0]}=…'"
            )
        return self.kind(**values)

    def request(self, basis: ResolvedSettings) -> "RowRequest":
        """Return the strategy with its settings. Raises as `strategy`."""
        return RowRequest.of(self, self.strategy(vars(basis)), basis)

    def checked(self, settings: Settings) -> Strategy:
        """Return the strategy before any corpus is read, to report its mistakes early; settings
        that a corpus would decide are those of a sample of one token. Raises OptionError.
        """
        return self.strategy(vars(settings.resolve(longest=1, stated_max=None)))


@dataclass(frozen=True)
class RowRequest:
    """A row of a comparison to plan."""

    row: NamedRow  # the strategy as its user names it, or batches with a name
    strategy: Strategy  # the strategy, with all parameters
    settings: ResolvedSettings  # those shared, with the order and the distribution of the strategy

    @classmethod
    def of(cls, row: NamedRow, strategy: Strategy, basis: ResolvedSettings) -> Self:
        """Return a row with the shared settings, in which a strategy's own order, distribution and
        remainder replace these. Raises OptionError if they do not go together.
        """
        values = {key: getattr(strategy, key) for key in ("order", "distribute", "remainder")}
        values["distribute"] = (row.setup or row).given.get("distribute", values["distribute"])
        changed = {key: own for key, own in values.items() if own not in (None, vars(basis)[key])}
        settings = replace(basis, **changed) if changed else basis
        strategy.check(settings)
        return cls(row, strategy, settings)

    @property
    def spec(self) -> str:
        """The name of the row: the strategy as it is written, or the name of batches."""
        return self.row.text

    @property
    def name(self) -> str:
        """The strategy's name, without parameters."""
        return self.spec.partition(":")[0]

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the strategy."""
        return self.strategy.parameters

    @property
    def shared_batch_size(self) -> int | None:
        """The batch size that it or its setup takes from the shared settings; None without."""
        if isinstance(self.strategy, Regrouped) and self.row.setup is not None:
            of_setup = RowRequest(self.row.setup, self.strategy.setup, self.settings)
            return of_setup.shared_batch_size
        return None if self.sets("batch_size") else self.params.get("batch_size")

    def sets(self, key: str) -> bool:
        """Return whether the strategy sets a parameter itself, whatever the shared settings are."""
        # A usual batch size applies unless somebody gives another one.
        is_usual_size = key == "batch_size" and not self.settings.given_batch_size
        return (
            key in self.row.given
            or key in self.strategy.own_parameters
            or (is_usual_size and self.strategy.usual_batch_size is not None)
        )


def _value_text(value: Any) -> str:
    """Return a value as text that `read_parameters` reads; no edges are `auto`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "auto"
    return str(value)
