"""Measurement of planned batches as they are distributed: all at once or in groups of steps."""

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchstat.calibration.costs import TOTAL_TOKENS, BatchCost
from batchstat.errors import InputError, NoBatchError
from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.exact import added, product, total
from batchstat.lengths.lost import NOTHING, Lost
from batchstat.lengths.stats import LengthStats, distinct
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.shares import Epoch
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.coverage import Coverage, CoverageMeter, DistinctCounts
from batchstat.simulation.meters.grouping import GroupingMeter
from batchstat.simulation.meters.rank_idle import RankMeter, steps_of

_WIDTH_BITS = 32


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
    """Accumulates the numbers of an epoch whose batches come in rounds, in the order of turns."""

    def __init__(self, request: RowRequest, cost: BatchCost = TOTAL_TOKENS) -> None:
        """Start without batches.

        Args:
            request: the strategy that makes them, with its settings.
            cost: what compute is counted in.
        """
        self._strategy, self._settings = request.strategy, request.settings
        self._budget = request.strategy.budget or request.settings.tokens_per_batch
        self._ranks = RankMeter(request.settings, cost)
        self._memory, self._varying = cost.memory, 0.0
        self._units = CoverageMeter(request.settings.world_size)
        self._grouping = GroupingMeter()
        self._sums: Counter[str] = Counter()
        self._samples = self._planned_units = 0
        self._turns, self._largest_turn = 0, 0
        self._largest = self._reducible = self._most_samples = 0
        self._fewest_samples: int | None = None
        self._planned = DistinctCounts(0, 0)
        self._repeats = False
        self._widths: LengthStats | None = None
        self._shapes = np.empty(0, dtype=np.int64)
        self._steps: list[Ints] = []

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
        first = numbers == self._planned_units + np.arange(batches.n_units)
        self._note_planned(batches, units, first)
        if len(units) == 0:
            self._turns += len(turns)
            return
        distributed = batches.take(units)
        linear = self._ranks.add(turns, batches, self._attention(batches))
        # Only several ranks have a timeline, and millions of steps of one would be kept for
        # nothing.
        if self._settings.world_size > 1:
            self._steps.append(linear)
        self._units.add(batches, turns, numbers)
        self._note_largest(distributed, turns)
        self._note_batches(distributed)
        tokens = self._of_steps(turns, batches.sum_by_unit(batches.tokens))
        entries = self._of_steps(turns, batches.sum_by_unit(batches.entries))
        means = np.asarray(tokens / entries, dtype=np.float64)
        self._grouping.add(
            distributed.entries, distributed.tokens, total(distributed.squares), means, tokens
        )

    def _of_steps(self, turns: Ints, numbers: Ints) -> Ints:
        """Return (n_steps,) sums over all ranks of a number that each unit has."""
        of_ranks = steps_of(turns, numbers, self._settings.gradient_accumulation_steps)
        return added(of_ranks, lambda part: part.sum(axis=1), turns.shape[1])

    def _note_planned(self, batches: BatchTable, units: Ints, first: npt.NDArray[np.bool_]) -> None:
        """Count the units that are new; a repeated unit was counted before."""
        self._repeats = self._repeats or not first.all() or len(units) > batches.n_units
        new = batches if first.all() else batches.take(np.flatnonzero(first))
        self._planned = DistinctCounts(
            self._planned.samples + int(new.samples.sum()),
            self._planned.tokens + total(new.tokens),
        )
        self._planned_units += int(np.count_nonzero(first))

    def _attention(self, batches: BatchTable) -> Ints:
        """Return (n_batches,) the cost of attention."""
        if self._strategy.attends_within_samples:
            return batches.padded_squares
        return product(batches.total_tokens, batches.widths)

    def _note_largest(self, distributed: BatchTable, turns: Ints) -> None:
        """Note in which turn the largest batch comes."""
        place = int(np.argmax(distributed.total_tokens))
        tokens = int(distributed.total_tokens[place])
        if tokens > self._largest:
            unit = int(np.searchsorted(distributed.unit_offsets, place, side="right")) - 1
            self._largest = tokens
            self._largest_turn = (
                self._turns + int(np.flatnonzero(turns.ravel() >= 0)[unit]) // (turns.shape[1])
            )
        self._turns += len(turns)

    def _note_batches(self, distributed: BatchTable) -> None:
        whole, pairs = distributed.total_tokens, self._attention(distributed)
        over_own = self._strategy.exceeds_own_budget(distributed.rows, distributed.widths)
        over = whole > self._budget if over_own is None else over_own
        if self._memory is not None:
            # The weights and the optimizer are the same for all batches: the largest part that
            # varies decides.
            varying = self._memory.per_token * whole + self._memory.per_pair * pairs.astype(float)
            self._varying = max(self._varying, float(varying.max()))
        self._samples += int(distributed.samples.sum())
        self._sums.update(
            rows=int(distributed.rows.sum()),
            batches=len(distributed),
            real_tokens=total(distributed.tokens),
            total_tokens=total(whole),
            squared_tokens=total(pairs),
            real_squared_tokens=total(distributed.squares),
            over_budget_batches=int(np.count_nonzero(over)),
            sum_samples_per_batch=int(distributed.entries.sum()),
        )
        fewest = int(distributed.entries.min())
        self._fewest_samples = min(self._fewest_samples or fewest, fewest)
        self._most_samples = max(self._most_samples, int(distributed.entries.max()))
        own = round_up(distributed.tokens, self._strategy.sample_multiple)
        padded = round_up(own, self._strategy.pad_to_multiple_of)
        # A single sample that is over the budget is so under every strategy, and rules none out.
        alone = (distributed.entries == 1) & (whole == padded)
        # What another measure than tokens keeps small enough is small enough to be recommended.
        reducible = ~alone if over_own is None else ~alone & over_own
        self._reducible = max(self._reducible, int(whole[reducible].max(initial=0)))
        widths = LengthStats.of(distributed.widths)
        self._widths = widths if self._widths is None else self._widths.merge(widths)
        self._shapes = np.union1d(self._shapes, _shapes(distributed))

    def measurement(
        self,
        epoch: Epoch,
        traced: tuple[DistinctCounts, Coverage] | None = None,
        lost_before: Lost = NOTHING,
    ) -> Measurement:
        """Return the numbers of all batches added.

        Args:
            epoch: the samples of the epoch.
            traced: which samples are computed; None if each sample is in one unit, so that the
                distributed units determine it.
            lost_before: what of the corpus was lost before the epoch.

        Raises:
            InputError: there is no batch, or no token: nothing to measure.
        """
        if self._sums["batches"] == 0:
            raise NoBatchError()
        if self._sums["real_tokens"] == 0:
            raise InputError(f"no tokens in {self._samples:,} samples: nothing to batch")
        if traced is None:  # each sample is in one unit
            computed = DistinctCounts(self._samples, self._sums["real_tokens"])
            of_corpus = epoch.lost.dropped_samples + epoch.sample_count
            traced = (self._planned if self._repeats else computed), self._units.coverage(of_corpus)
        unique, coverage = traced
        samples, lost = self._samples + unique.headless, epoch.lost + lost_before
        ranks = self._ranks.counts(len(self._shapes))
        packs_within = self._strategy.attends_within_samples
        # Rows that are laid end to end have no length to be full of.
        row_length = self._strategy.row_length or (
            None if packs_within else self._settings.max_length
        )
        counts = PlanCounts(
            **self._sums,
            tokens_per_batch=self._budget,
            visited_tokens=epoch.tokens + lost.truncated_tokens + lost.dropped_tokens,
            samples=samples,
            steps=ranks.max_steps,
            row_tokens=None if row_length is None else self._sums["rows"] * row_length,
            max_batch_tokens=self._largest,
            largest_step=self._largest_turn // self._settings.gradient_accumulation_steps + 1,
            reducible_peak=self._reducible,
            peak_bytes=None if self._memory is None else self._memory.peak(self._varying),
            distinct_shapes=len(self._shapes),
            truncated_samples=lost.truncated_samples,
            truncated_tokens=lost.truncated_tokens,
            dropped_samples=lost.dropped_samples + epoch.sample_count - unique.samples,
            dropped_tokens=lost.dropped_tokens + epoch.tokens - unique.tokens,
            duplicated_samples=samples - unique.samples,
            duplicated_tokens=self._sums["real_tokens"] - unique.tokens,
            min_samples_per_batch=self._fewest_samples or 0,
            max_samples_per_batch=self._most_samples,
            grouping=self._grouping.grouping,
            ranks=ranks,
            sample_coverage=coverage,
        )
        assert self._widths is not None
        steps = np.concatenate(self._steps) if self._steps else np.empty((0, 0), dtype=np.int64)
        return Measurement(counts, self._widths, steps)


def _shapes(batches: BatchTable) -> Ints:
    """Return (n_shapes,) a number for each distinct pair of rows and width."""
    more = int(batches.widths.max()) + 1
    pairs, _ = distinct(batches.rows.astype(np.int64) * more + batches.widths)
    rows, widths = np.divmod(pairs, more)
    shapes: Ints = (rows << _WIDTH_BITS) + widths
    return shapes
