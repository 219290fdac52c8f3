"""`GivenBatches`: batches that were made elsewhere, as a strategy whose plan they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, round_up, sum_groups
from batchstat.parameters import parameter
from batchstat.planning.algorithms.cutting import longest_of_each
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.spec import RowRequest


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenBatches(Strategy):
    """Batches of a sampler, a loader or a run, whatever made them."""

    order: ClassVar[str | None] = "file"
    distribute: ClassVar[str | None] = "batches"
    needs_epoch: ClassVar[bool] = True
    is_given: ClassVar[bool] = True

    places: Ints
    row_offsets: Ints
    batch_offsets: Ints
    widths: Ints | None = None  # (n_batches,) tokens to which rows are padded
    forward_widths: Ints | None = None  # type: ignore[misc]
    forwards: tuple[int, ...] = (1,)  # those of the `SampleRows` of its samples
    turns: Ints | None = None  # type: ignore[misc]
    # An epoch of a recording may have batches that are in no step.
    finished_steps: int | None = parameter(  # type: ignore[misc]
        "Its steps that an optimizer makes.", None, least=0
    )
    attends_within_samples: bool = False
    origin: RowRequest | None = None
    # What takes out padding to more than the longest row of a batch, in words; empty without such.
    repair: str = ""
    apply: str = ""
    # Whether the loss may compare the samples of a batch, so that these have to stay together.
    keeps_batches: bool = False

    @property
    def packs_rows(self) -> bool:  # type: ignore[override]
        """Whether a row holds several samples."""
        return bool((np.diff(self.row_offsets) > 1).any())

    def repeats_samples(self, settings: ResolvedSettings) -> bool:  # noqa: ARG002
        """Return True: two batches may hold the same sample, nobody says that they do not."""
        return True

    @property
    def parameters(self) -> dict[str, Any]:
        """Empty: what made the batches is not known."""
        return {}

    @property
    def batch_capacity(self) -> int:
        """Most rows in a batch."""
        return int(np.diff(self.batch_offsets).max())

    def as_current(self, settings: Settings, lengths: Ints) -> Settings:
        """Return settings with batch size and budget: the user's, or the most of these batches."""
        # `batch_size` counts samples, and the rows of packed batches are not samples.
        batch_size = settings.batch_size or (None if self.packs_rows else self.batch_capacity)
        if settings.max_length is not None:  # longer samples are truncated
            lengths = np.minimum(lengths, settings.max_length)
        plan = self._with_lengths(lengths)
        widths = plan.widths[:, None] if self.forward_widths is None else self.forward_widths
        # (n_batches,) total tokens of the largest forward of each.
        total_tokens = (widths * self.forwards).max(axis=1) * np.diff(plan.batch_offsets)
        budget = settings.tokens_per_batch or int(total_tokens.max())
        return replace(settings, batch_size=batch_size, tokens_per_batch=budget)

    def plan(self, window: Window) -> BatchPlan:
        """Return the batches, with the lengths of the whole epoch in the sequence of the corpus."""
        return self._with_lengths(window.lengths)

    def _with_lengths(self, lengths_of_samples: Ints) -> BatchPlan:
        """Return the batches as a plan."""
        lengths = lengths_of_samples[self.places].astype(np.int64)
        widths = self.widths
        if widths is None:
            row_tokens = sum_groups(lengths, self.row_offsets)
            longest = longest_of_each(row_tokens, self.batch_offsets)
            widths = round_up(longest, self.pad_to_multiple_of)
        return BatchPlan(
            samples=self.places,
            lengths=lengths,
            row_offsets=self.row_offsets,
            batch_offsets=self.batch_offsets,
            unit_offsets=np.arange(len(self.batch_offsets)),  # each batch is a unit of its own
            widths=widths,
        )


@dataclass(frozen=True)
class NamedBatches:
    """Batches under the name of their row in a table, in the form of a `StrategySpec`."""

    text: str
    batches: GivenBatches = field(compare=False)
    given: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    setup: ClassVar[None] = None

    def strategy(self, settings: Mapping[str, Any]) -> GivenBatches:  # noqa: ARG002
        """Return the batches: no setting changes them."""
        return self.batches

    def request(self, basis: ResolvedSettings) -> RowRequest:
        """Return the batches with their settings."""
        return RowRequest.of(self, self.batches, basis)
