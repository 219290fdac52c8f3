"""A change of the user's own trainer, as a comparison simulates it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchstat.planning.inputs import PlanInputs, resolve_inputs
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.profiling.profile import Profile


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
"""Returns the changes of the trainer that a current setup names as a strategy, of that setup, the
settings as given, and those that are decided.
"""
