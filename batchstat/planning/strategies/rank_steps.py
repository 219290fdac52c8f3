"""`RankSteps`: what strategies share that divide each step's samples over the ranks themselves."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np

from batchstat.errors import OptionError
from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.lengths.exact import sums
from batchstat.parameters import parameter
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.packs_documents import PacksDocuments

RankBatch = list[int]
"""Positions of the samples that are laid end to end in one batch."""


@dataclass(frozen=True, kw_only=True)
class RankSteps(PacksDocuments):
    """A strategy that turns every `samples_per_step` samples into a step of all ranks.

    Each rank gets equally many batches in a step, each a single row of samples laid end to end. In
    the plan, a rank's batches of a step are a unit; the units come rank by rank, so that
    distribution in turn returns each to its rank. `document_multiple` pads samples after that: the
    budget is of their own tokens.
    """

    in_short: ClassVar[str] = "end to end"
    distribute: ClassVar[str | None] = "batches"
    remainder: ClassVar[str | None] = "drop"
    loss: ClassVar[str] = "token-sum"
    varies_steps: ClassVar[bool] = True
    attends_within_samples = True  # variable-length kernels keep samples apart

    tokens_per_batch: int
    samples_per_step: int = parameter("Samples in a step, over all ranks.", 256)
    world_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples_per_step % self.world_size:
            raise OptionError(
                f"samples_per_step={self.samples_per_step} is not a multiple of "
                f"world_size={self.world_size}: each rank needs equally many samples"
            )

    @property
    def window_size(self) -> int:
        """Samples that are divided over the ranks together."""
        return self.samples_per_step

    def plan(self, window: Window) -> BatchPlan:
        """Divide the samples of a step over the ranks. An incomplete window, at the end of the
        epoch, makes no step: its samples are dropped.
        """
        is_whole = len(window.lengths) == self.window_size
        # For each rank its batches of the step, each a list of samples; flattened into arrays
        # below.
        units = list(self.units(window.lengths.tolist())) if is_whole else []
        batches = list(chain.from_iterable(units))
        order = np.array(list(chain.from_iterable(batches)), dtype=np.int64)
        offsets = _offsets(batches)
        lengths = window.lengths[order].astype(np.int64, copy=False)
        return BatchPlan(
            samples=order,
            lengths=lengths,
            row_offsets=offsets,
            batch_offsets=np.arange(len(batches) + 1),
            unit_offsets=_offsets(units),
            widths=round_up(
                sums(round_up(lengths, self.document_multiple), offsets), self.pad_to_multiple_of
            ),
            document_multiple=self.document_multiple,
        )

    @abstractmethod
    def units(self, lengths: Sequence[int]) -> Iterator[Sequence[RankBatch]]:
        """Yield the batches of each rank in turn, of one step after another.

        Args:
            lengths: (window_size,) tokens of the samples.
        """


def _offsets(groups: Sequence[Sequence[object]]) -> Ints:
    """Return (n + 1,) the offsets of groups that are laid end to end: groups of 2 and 3 items begin
    at 0 and 2.
    """
    return offsets_from_sizes(np.array([len(group) for group in groups], dtype=np.int64))
