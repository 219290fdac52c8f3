"""Results of strategies: what each computes, pads and drops, and its steps over time."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from batchstat.documents.spreads import Interval, SeedSpread
from batchstat.documents.trained import TrainedCounts
from batchstat.findings import Finding
from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import Histogram
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rules import SHUFFLED
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.device import Device, OnDevice
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.rank_idle import meetings_per_step, sum_in_groups

if TYPE_CHECKING:
    from batchstat.recording.collated import LoaderFacts

_NOTICED, _SORTED = 0.1, 0.5  # length homogeneity of not quite random, and of sorted batches


class Timeline(NamedTuple):
    """The steps of an epoch in points of equally many steps; the last may have fewer."""

    edges: Ints  # (n_points + 1,) the first step of each point; last, the number of steps
    # (n_points,) total tokens of the slowest rank in a step, the most of the point's steps; where
    # ranks meet often in a step, the sum of the slowest before each meeting.
    slowest: Ints
    mean: npt.NDArray[np.float64]  # (n_points,) mean total tokens per rank and step

    @classmethod
    def of(
        cls, meetings: npt.NDArray[np.integer], most: int, meetings_per_step: int = 1
    ) -> "Timeline":
        """Sum up steps in at most `most` points: 250 steps in at most 100 points give 84 points,
        of 3 steps each, but for the last. `meetings` (n_meetings, world_size) are total tokens of
        each rank before each; the last step may have fewer than `meetings_per_step`.
        """
        slowest_of_steps = sum_in_groups(meetings.max(axis=1), meetings_per_step)
        steps = len(slowest_of_steps)
        per_point = -(-steps // most)  # rounded up
        edges = np.append(np.arange(0, steps, per_point), steps)
        # reduceat joins the steps from each edge up to the next one, and their meetings.
        slowest = np.maximum.reduceat(slowest_of_steps, edges[:-1])
        first_meetings = edges[:-1] * meetings_per_step
        mean = np.add.reduceat(meetings.mean(axis=1), first_meetings) / np.diff(edges)
        return cls(edges, slowest, mean)

    @property
    def steps_per_point(self) -> int:
        """Steps that a point stands for."""
        return int(self.edges[1])


@dataclass(frozen=True, kw_only=True, repr=False)
class StrategyResult:
    """One row of a report: a strategy, and what it does with the corpus."""

    request: RowRequest  # the strategy, and the settings it was planned with
    counts: PlanCounts  # what its plan computes, pads, truncates and drops
    widths: Histogram  # histogram of the batches' widths
    seeds: SeedSpread | None = None  # results under several seeds; None if only one was tried
    interval: Interval | None = None  # of the padding ratio; None for the whole corpus
    trained: TrainedCounts | None = None  # trained tokens and their weights, if known
    # (n_meetings, world_size) total tokens of ranks before they meet (`wait`); None for one rank.
    meetings: "npt.NDArray[np.integer] | None" = field(default=None, compare=False, repr=False)
    # The first batches of its plan; None outside of a comparison.
    first_batches: BatchPlan | None = field(default=None, compare=False, repr=False)
    # Number of samples that both this epoch and the next one drop; None where it drops none, does
    # not draw all of the corpus, or has batches that were made elsewhere.
    dropped_again: int | None = None
    on_device: OnDevice = field(default_factory=OnDevice)  # unknown without a calibrated device
    reading: "LoaderFacts | None" = None  # how a data loader was read; None for a plan

    def __repr__(self) -> str:
        """Return the strategy, its padding and its batches on one line."""
        return (
            f"StrategyResult({self.label!r}, {self.counts.padding_ratio:.1%} padding, "
            f"{self.counts.batches:,} batches, {self.counts.steps:,} steps)"
        )

    @property
    def name(self) -> str:
        """The strategy's name, without parameters."""
        return self.request.name

    @property
    def label(self) -> str:
        """Name of the row: the strategy as the user wrote it."""
        return self.request.spec

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the strategy."""
        return self.request.params

    @property
    def size(self) -> tuple[str, int | None]:
        """The name of its batch size or budget, and its value; None if it has neither."""
        if (budget := self.request.strategy.budget) is not None:
            return "tokens_per_batch", budget
        return "batch_size", self.request.strategy.batch_capacity

    @property
    def packs_rows(self) -> bool:
        """Whether its rows hold several samples, which attention must keep apart."""
        return self.request.strategy.packs_rows

    @property
    def sortedness(self) -> float:
        """Length homogeneity; 0 where no length decides what is trained together in a step."""
        strategy = self.request.strategy
        if isinstance(strategy, Regrouped) and strategy.keeps_random_steps:
            return 0.0
        # None where every batch has one sample, or all samples have the same length.
        return self.counts.grouping.length_homogeneity or 0.0

    @property
    def shuffling(self) -> str:
        """How random its batches are: sorted (by length), none, blocks, partial or full."""
        homogeneity = self.sortedness
        # However samples are shuffled, batches of similar lengths are sorted batches.
        if homogeneity >= _SORTED:
            return "sorted"
        # Some frameworks shuffle in a way of their own, whatever the setting says.
        order = self.request.strategy.shuffles_as or self.request.settings.order
        if order not in SHUFFLED:
            return "none" if order == "file" else "blocks"
        return "partial" if homogeneity >= _NOTICED else "full"

    @property
    def timeline(self) -> Timeline | None:
        """Its steps in at most 100 points; None for one rank."""
        return self.timeline_of(100)

    def timeline_of(self, most: int) -> Timeline | None:
        """Return its steps in at most `most` points; None for one rank."""
        if self.meetings is None:
            return None
        return Timeline.of(self.meetings, most, meetings_per_step(self.request.settings))

    @property
    def distribute(self) -> str:
        """How its batches are distributed across ranks."""
        return self.request.settings.distribute

    @property
    def remainder(self) -> str:
        """What happens to batches that do not divide evenly over ranks."""
        return self.request.settings.remainder


@dataclass(frozen=True)
class Simulation:
    """One strategy on the lengths of a corpus."""

    basis: ResolvedSettings  # its settings
    row: StrategyResult  # its results
    warnings: tuple[Finding, ...]  # warnings about the results
    device: Device | None = None  # the calibrated device that trains; None without one
