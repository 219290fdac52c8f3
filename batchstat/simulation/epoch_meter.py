"""Measurement of planned batches as they are distributed: all at once or in groups of steps."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, NoBatchError
from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.exact import added, product, total
from batchstat.lengths.stats import LengthStats
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.epoch import Epoch
from batchstat.simulation.counts import PlanCounts
from batchstat.simulation.coverage import Coverage, CoverageMeter, DistinctCounts
from batchstat.simulation.grouping import GroupingMeter
from batchstat.simulation.rank_idle import RankMeter, steps_of

_WIDTH_BITS = 32

Traced = Callable[[], tuple[DistinctCounts, Coverage]]


class Measurement(NamedTuple):
    """Results of a strategy on an epoch.

    Attributes:
        counts: all counts.
        widths: statistics of the batches' widths.
        steps: (n_steps, world_size) total tokens of each rank in each step.
    """

    counts: PlanCounts
    widths: LengthStats
    steps: Ints


class EpochMeter:
    """Accumulates the numbers of an epoch whose batches come in groups, in the order of turns."""

    def __init__(
        self,
        world_size: int,
        *,
        tokens_per_batch: int,
        max_length: int | None = None,
        attends_within_samples: bool = False,
        gradient_accumulation_steps: int = 1,
        even: bool = False,
        keep_steps: bool = True,
        pad_to_multiple_of: int = 1,
        cost: tuple[int, int] = (1, 0),
    ) -> None:
        """Start a tally.

        Args:
            world_size: number of ranks.
            tokens_per_batch: the budget for `fill`.
            max_length: length of a row; None if rows have no such length.
            attends_within_samples: whether attention stays within samples.
            gradient_accumulation_steps: turns per step.
            even: whether a rank without a unit runs an empty step.
            keep_steps: whether to store the tokens of each step.
            pad_to_multiple_of: widths are rounded up to a multiple of this.
            cost: compute per token, and per pair of tokens in attention.
        """
        self._budget, self._max_length = tokens_per_batch, max_length
        self._within, self._gradient_accumulation_steps = (
            attends_within_samples,
            gradient_accumulation_steps,
        )
        self._multiple = pad_to_multiple_of
        self._ranks = RankMeter(world_size, gradient_accumulation_steps, even=even, cost=cost)
        self._units, self._grouping = CoverageMeter(world_size), GroupingMeter()
        self._sums: dict[str, int] = dict.fromkeys(_SUMS, 0)
        self._largest = self._reducible = self._most_samples = 0
        self._fewest_samples: int | None = None
        self._planned = DistinctCounts(0, 0)
        self._repeats = False
        self._widths: LengthStats | None = None
        self._shapes = np.empty(0, dtype=np.int64)
        self._steps: list[Ints] | None = [] if keep_steps else None

    def add(self, batches: BatchTable, turns: Ints, numbers: Ints | None = None) -> None:
        """Add the next batches.

        Args:
            batches: the planned batches of the group, in units.
            turns: (n_turns, world_size) the unit of each rank; −1 where it has none; whole steps,
                unless they are the last.
            numbers: (n_units,) number of each unit among all of the epoch; those of the first turn
                may be repeated, after all others. By default, none is.
        """
        numbers = np.arange(batches.n_units) if numbers is None else numbers
        units = turns[turns >= 0]
        first = numbers == self._sums["units"] + np.arange(batches.n_units)
        self._note_planned(batches, units, first)
        if len(units) == 0:
            return
        distributed = batches.take(units)
        attention = _attention(batches, within=self._within)
        linear = self._ranks.add(turns, batches, attention)
        if self._steps is not None:
            self._steps.append(linear)
        self._units.add(batches, turns, numbers)
        self._note_batches(distributed, total(_attention(distributed, within=self._within)))
        tokens = self._of_steps(turns, batches.sum_by_unit(batches.tokens))
        entries = self._of_steps(turns, batches.sum_by_unit(batches.entries))
        means = np.asarray(tokens / entries, dtype=np.float64)
        self._grouping.add(
            distributed.entries, distributed.tokens, total(distributed.squares), means, tokens
        )

    def _of_steps(self, turns: Ints, numbers: Ints) -> Ints:
        """Return (n_steps,) sums over all ranks of a number that each unit has."""
        of_ranks = steps_of(turns, numbers, self._gradient_accumulation_steps)
        return added(of_ranks, lambda part: part.sum(axis=1), turns.shape[1])

    def _note_planned(self, batches: BatchTable, units: Ints, first: npt.NDArray[np.bool_]) -> None:
        """Count the units that are new; a repeated unit was counted before."""
        self._repeats = self._repeats or not first.all() or len(units) > batches.n_units
        new = batches if first.all() else batches.take(np.flatnonzero(first))
        self._planned = DistinctCounts(
            self._planned.samples + int(new.samples.sum()),
            self._planned.tokens + total(new.tokens),
        )
        self._sums["units"] += int(np.count_nonzero(first))

    def _note_batches(self, distributed: BatchTable, attention: int) -> None:
        whole, sums = distributed.total_tokens, self._sums
        sums["batches"] += len(distributed)
        sums["rows"] += int(distributed.rows.sum())
        sums["samples"] += int(distributed.samples.sum())
        sums["real_tokens"] += total(distributed.tokens)
        sums["total_tokens"] += total(whole)
        sums["squared_tokens"] += attention
        sums["real_squared_tokens"] += total(distributed.squares)
        sums["over_budget_batches"] += int(np.count_nonzero(whole > self._budget))
        sums["sum_samples_per_batch"] += int(distributed.entries.sum())
        fewest = int(distributed.entries.min())
        self._fewest_samples = min(self._fewest_samples or fewest, fewest)
        self._most_samples = max(self._most_samples, int(distributed.entries.max()))
        self._largest = max(self._largest, int(whole.max()))
        alone = (distributed.entries == 1) & (whole == round_up(distributed.tokens, self._multiple))
        self._reducible = max(self._reducible, int(whole[~alone].max(initial=0)))
        widths = LengthStats.of(distributed.widths)
        self._widths = widths if self._widths is None else self._widths.merge(widths)
        shapes = np.unique((distributed.rows.astype(np.int64) << _WIDTH_BITS) + distributed.widths)
        self._shapes = np.union1d(self._shapes, shapes)

    def measurement(self, epoch: Epoch, traced: Traced | None = None) -> Measurement:
        """Return the numbers of all batches added.

        Args:
            epoch: the samples of the epoch.
            traced: returns which samples are computed; None if each sample is in one unit, so that
                the distributed units determine it.

        Raises:
            InputError: there is no batch, or no token: nothing to measure.
        """
        sums = self._sums
        if sums["batches"] == 0:
            raise NoBatchError()
        if sums["real_tokens"] == 0:
            raise InputError(f"no tokens in {sums['samples']:,} samples: nothing to batch")
        unique, coverage = self._from_units(epoch) if traced is None else traced()
        samples, ranks = sums["samples"] + unique.headless, self._ranks.counts
        lost = epoch.lost
        counts = PlanCounts(
            tokens_per_batch=self._budget,
            visited_tokens=epoch.tokens + lost.truncated_tokens + lost.dropped_tokens,
            samples=samples,
            rows=sums["rows"],
            batches=sums["batches"],
            steps=ranks.max_steps,
            real_tokens=sums["real_tokens"],
            total_tokens=sums["total_tokens"],
            squared_tokens=sums["squared_tokens"],
            real_squared_tokens=sums["real_squared_tokens"],
            row_tokens=None if self._max_length is None else sums["rows"] * self._max_length,
            max_batch_tokens=self._largest,
            reducible_peak=self._reducible,
            over_budget_batches=sums["over_budget_batches"],
            distinct_shapes=len(self._shapes),
            truncated_samples=lost.truncated_samples,
            truncated_tokens=lost.truncated_tokens,
            dropped_samples=lost.dropped_samples + epoch.sample_count - unique.samples,
            dropped_tokens=lost.dropped_tokens + epoch.tokens - unique.tokens,
            duplicated_samples=samples - unique.samples,
            duplicated_tokens=sums["real_tokens"] - unique.tokens,
            min_samples_per_batch=self._fewest_samples or 0,
            max_samples_per_batch=self._most_samples,
            sum_samples_per_batch=sums["sum_samples_per_batch"],
            grouping=self._grouping.grouping,
            ranks=ranks,
            sample_coverage=coverage,
        )
        assert self._widths is not None
        steps = np.concatenate(self._steps) if self._steps else np.empty((0, 0), dtype=np.int64)
        return Measurement(counts, self._widths, steps)

    def _from_units(self, epoch: Epoch) -> tuple[DistinctCounts, Coverage]:
        """Return which samples are computed if each of them is in one unit."""
        unique = self._planned
        if not self._repeats:
            unique = DistinctCounts(self._sums["samples"], self._sums["real_tokens"])
        return unique, self._units.coverage(epoch.lost.dropped_samples + epoch.sample_count)


_SUMS = (
    *("units", "batches", "rows", "samples", "real_tokens", "total_tokens"),
    *("squared_tokens", "real_squared_tokens", "over_budget_batches", "sum_samples_per_batch"),
)


def _attention(batches: BatchTable, *, within: bool) -> Ints:
    """Return (n_batches,) the cost of attention."""
    return batches.squares if within else product(batches.total_tokens, batches.widths)
