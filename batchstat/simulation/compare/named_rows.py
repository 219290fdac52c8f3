"""The rows of a comparison by their names: strategies, and batches that were made elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from batchstat.errors import OptionError, short
from batchstat.parameters import listed
from batchstat.planning.inputs import PlanInputs
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.strategies.spec import RowRequest, request_row, with_own_settings
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.sample_numbers import given_batches

Row = str | tuple[str, Iterable[Any] | GivenBatches]
"""A strategy, or a name and batches of sample numbers."""


def check_row(name: str, row: object) -> Row:
    """Return `row`. Raise OptionError if it is neither a strategy nor a name and batches."""
    match row:
        case str() | (str(), _):
            return cast("Row", row)
    raise OptionError(
        f"{name}={short(row)}: must be a strategy, such as 'static', or a name and batches"
    )


class NamedRows:
    """The rows of a comparison by their names.

    Attributes:
        inputs: the corpus.
        settings: the settings, with what the current setup decides of them.
        given: the batches that were made elsewhere, by their names.
        names: the rows; None for those of `default_strategies`.
        current: the current setup; None for the first row of `static`, else the first row.
    """

    def __init__(
        self,
        inputs: PlanInputs,
        settings: Settings,
        rows: Sequence[Row] | None,
        current: Row | None,
    ) -> None:
        """Read the batches of sample numbers.

        Raises:
            OptionError: a name that a strategy has, or settings that change which samples there
                are.
            InputError: something else than batches of samples of this corpus.
        """
        self.inputs, self.settings = inputs, settings
        self.given: dict[str, GivenBatches] = {}
        self.names = None if rows is None else tuple(map(self._name, listed("strategies", rows)))
        self.current = None if current is None else self._name(current)
        if not (settings.draws_all and settings.overflow == "truncate"):
            self.refuse("sampler, keep_labels and an overflow other than truncate")
        if self.current in self.given:
            own = self.given[self.current]
            self.settings = own.as_current(settings, inputs.samples.lengths)
        else:
            self.settings = _padded_as(settings, self.current)

    @property
    def named_current(self) -> str | None:
        """The current setup, where that is a strategy."""
        return None if self.current in self.given else self.current

    def _name(self, row: Row) -> str:
        """Return the name of a row, and read its batches where it has any."""
        row = check_row("strategy", row)
        if isinstance(row, str):
            return row
        name, batches = row
        if name.partition(":")[0] in STRATEGIES:
            raise OptionError(f"{name!r} is a strategy's name: give your batches another one")
        self.given[name] = (
            batches
            if isinstance(batches, GivenBatches)
            else given_batches(
                name,
                batches,
                self.inputs.samples,
                batch_size=self.settings.batch_size,
                pad_to_multiple_of=self.settings.pad_to_multiple_of,
            )
        )
        return name

    def refuse(self, option: str) -> None:
        """Raise OptionError if there are batches of sample numbers, with which it does not go."""
        if self.given:
            raise OptionError(
                f"batches of your own ({', '.join(self.given)}) hold samples of the whole corpus: "
                f"remove {option}"
            )

    def requests(self, names: Sequence[str], basis: ResolvedSettings) -> list[RowRequest]:
        """Return each row once.

        Raises:
            OptionError: none, or a strategy that is wrong by itself.
        """
        if not names:
            raise OptionError("no strategy: name at least one")
        return [self.request(name, basis) for name in dict.fromkeys(names)]

    def request(self, name: str, basis: ResolvedSettings) -> RowRequest:
        """Return a row with its settings. Raises OptionError as `request_row`."""
        if name in self.given:
            return with_own_settings(name, self.given[name], basis)
        return request_row(name, basis)


def request_of(inputs: PlanInputs, settings: Settings, row: Row) -> RowRequest:
    """Return one row with its settings, decided for these samples.

    Raises:
        OptionError: a strategy or parameter that is wrong by itself.
    """
    rows = NamedRows(inputs, settings, (), row)
    assert rows.current is not None
    alone = rows.request(rows.current, inputs.resolve(rows.settings))
    return rows.request(rows.current, inputs.resolve(rows.settings, alone))


def _padded_as(settings: Settings, current: str | None) -> Settings:
    """Return the settings with what the collator of a named trainer pads to a multiple of: it does
    so whatever batches it is given.
    """
    if current is None or settings.pad_to_multiple_of > 1:
        return settings
    strategy = request_row(current, settings.resolve(longest=1, stated_max=None)).strategy
    if "pad_to_multiple_of" not in strategy.own_parameters:
        return settings
    return replace(settings, pad_to_multiple_of=strategy.pad_to_multiple_of)
