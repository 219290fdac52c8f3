"""The rows of a comparison by their names: strategies, and batches that were made elsewhere."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from batchstat.errors import OptionError
from batchstat.parameters import listed
from batchstat.planning.inputs import PlanInputs, resolve_inputs
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.registry import names_strategy
from batchstat.planning.strategies.spec import NamedRow, RowRequest, StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.recording.given_batches import GivenBatches, NamedBatches
from batchstat.recording.sample_numbers import given_batches
from batchstat.words import short

ParsedRow = StrategySpec | tuple[str, Iterable[Any] | GivenBatches]  # of sample numbers

Row = str | ParsedRow  # the same, where a strategy may be as its user writes it


def parse_row(name: str, row: object) -> ParsedRow:
    """Return a row whose strategy is parsed. Raises OptionError: neither a strategy nor a name and
    batches, or a strategy that is wrong by itself.
    """
    match row:
        case str():
            return StrategySpec.parse(row)
        case StrategySpec() | (str(), _):
            return cast("ParsedRow", row)
    raise OptionError(
        f"{name}={short(row)}", "must be a strategy, such as 'static', or a name and batches"
    )


class NamedRows:
    """The rows of a comparison by their names."""

    def __init__(
        self,
        inputs: PlanInputs,
        settings: Settings,
        rows: Sequence[Row] | None,
        current: Row | None,
    ) -> None:
        """Read the strategies, and the batches of sample numbers. Raises OptionError: a name that a
        strategy has, or settings that change which samples there are; InputError: something else
        than batches of samples of this corpus.
        """
        self.inputs, self.settings = inputs, settings
        # By name: the batches as they were given, and what was read of them.
        self._batches: dict[str, tuple[object, NamedBatches]] = {}
        self.rows = None if rows is None else tuple(map(self._read, listed("strategies", rows)))
        self.current = None if current is None else self._read(current)
        # Sample numbers are of the corpus as it is: nothing may draw, drop or cut before.
        if not (settings.draws_all and settings.overflow == "truncate"):
            self.refuse("sampler, keep_labels and an overflow other than truncate")
        if isinstance(self.current, NamedBatches):
            # Without settings for them, batch size and budget are those of the batches.
            self.settings = self.current.batches.as_current(settings, inputs.samples.lengths)
        # The trainer's collator pads other rows alike. A multiple above 1 is the user's own.
        elif self.current is not None and settings.pad_to_multiple_of == 1:
            strategy = self.current.checked(settings)
            if "pad_to_multiple_of" in strategy.own_parameters:
                multiple = strategy.pad_to_multiple_of
                self.settings = replace(settings, pad_to_multiple_of=multiple)

    def _read(self, row: Row) -> StrategySpec | NamedBatches:
        """Return a row parsed, its batches read as batches of this corpus's samples."""
        parsed = parse_row("strategy", row)
        if isinstance(parsed, StrategySpec):
            return parsed
        name, batches = parsed
        if names_strategy(name):
            raise OptionError(f"{name!r} is a strategy's name", "give your batches another one")
        # A sampler can be iterated only once: the same object is read once.
        if name not in self._batches or self._batches[name][0] is not batches:
            if isinstance(batches, GivenBatches):
                read_batches = batches
            else:
                read_batches = given_batches(
                    name,
                    batches,
                    self.inputs.samples,
                    batch_size=self.settings.batch_size,
                    pad_to_multiple_of=self.settings.pad_to_multiple_of,
                )
            self._batches[name] = batches, NamedBatches(name, read_batches)
        return self._batches[name][1]

    def refuse(self, option: str) -> None:
        """Raise OptionError if there are batches of sample numbers, with which it does not go."""
        if self._batches:
            raise OptionError(
                f"batches of your own ({', '.join(self._batches)}) hold samples of the whole "
                "corpus",
                f"remove {option}",
            )


def requests_of(rows: Iterable[NamedRow], basis: ResolvedSettings) -> list[RowRequest]:
    """Return each row with its settings; a row that is named twice is returned once. Raises
    OptionError: there is no row, or a strategy is wrong by itself.
    """
    requests = [row.request(basis) for row in dict.fromkeys(rows)]
    if not requests:
        raise OptionError("no strategy", "name at least one")
    return requests


def request_of(inputs: PlanInputs, settings: Settings, row: Row) -> RowRequest:
    """Return one row with its settings, decided for these samples. Raises OptionError: a strategy
    or parameter that is wrong by itself.
    """
    rows = NamedRows(inputs, settings, rows=(), current=row)
    assert rows.current is not None
    return inputs.request(rows.current, rows.settings)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainerChange:
    """Other values for some keys of a trainer's configuration."""

    keys: Mapping[str, Any]  # the keys with their values
    line: str  # the same as a line to paste
    strategy: StrategySpec  # the strategy that they make
    settings: Settings
    profile: Profile | None = None  # samples that the trainer then keeps; None for today's

    def spec(self, shared: Settings) -> StrategySpec:
        """Return the strategy as a row; its multiple and `drop_last` become parameters."""
        spec = self.strategy
        if (multiple := self.settings.pad_to_multiple_of) != shared.pad_to_multiple_of:
            spec = spec.with_parameter("pad_to_multiple_of", multiple)
        if self.settings.drop_last != shared.drop_last:
            spec = spec.with_parameter("drop_last", self.settings.drop_last)
        return spec

    def inputs(self, current: PlanInputs) -> PlanInputs:
        """Return the samples, where those of the current setup are known."""
        return current if self.profile is None else resolve_inputs(self.profile)

    def request(self, inputs: PlanInputs) -> RowRequest:
        """Return the strategy with its own settings."""
        return inputs.request(self.strategy, self.settings)

    def makes(self, request: RowRequest, current: PlanInputs) -> bool:
        """Return whether it makes a row's batches: strategy, distribution and lengths."""
        kept_samples = self.inputs(current)
        made = self.request(kept_samples)
        if made.strategy != request.strategy or _distribution(made) != _distribution(request):
            return False
        # The same object needs no comparison of its lengths.
        return kept_samples is current or np.array_equal(
            kept_samples.samples.lengths, current.samples.lengths
        )


def _distribution(request: RowRequest) -> tuple[object, ...]:
    """Return the settings that decide, beside the strategy, which rank computes what."""
    settings = request.settings
    return (
        *(settings.order, settings.distribute, settings.remainder, settings.overflow),
        *(settings.max_length, settings.gradient_accumulation_steps, settings.drop_last),
    )


ChangesOfName = Callable[[RowRequest, Settings, ResolvedSettings], Iterable[TrainerChange]]
"""Returns the changes of the trainer that a current setup names, by it and its settings."""
