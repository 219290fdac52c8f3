"""Measurement of batches as distributed, at once or in rounds of steps; units as in `rank_idle`."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from batchstat.calibration.cost_model import TOTAL_TOKENS, BatchCost
from batchstat.errors import InputError, NoBatchError
from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.exact import add_exactly, product, total
from batchstat.lengths.max_length import NOTHING, Lost
from batchstat.lengths.stats import LengthStats, distinct
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.shares import Epoch
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.coverage import Coverage, CoverageMeter, DistinctCounts
from batchstat.simulation.meters.grouping import GroupingMeter
from batchstat.simulation.meters.rank_idle import RankMeter, sum_by_step


class Measurement(NamedTuple):
    """Results of a strategy on an epoch."""

    counts: PlanCounts  # all counts
    widths: LengthStats  # statistics of the batches' widths
    meetings: Ints  # (n_meetings, world_size) total tokens of each rank before ranks meet


class EpochMeter:
    """Measures an epoch, round by round in turn, so that it is never whole in memory."""

    def __init__(
        self, request: RowRequest, cost: BatchCost = TOTAL_TOKENS, forwards: tuple[int, ...] = (1,)
    ) -> None:
        """Start without batches; `forwards` are those of the `SampleRows` of its samples."""
        self._forwards = forwards
        self._strategy, self._settings = request.strategy, request.settings
        self._budget = request.strategy.budget or request.settings.tokens_per_batch
        self._ranks = RankMeter(request.settings, cost)
        # The most bytes that depend on the batch; the rest, such as weights, is the same for all.
        self._memory, self._varying_bytes = cost.memory, 0.0
        self._units = CoverageMeter(request.settings.world_size)
        self._grouping = GroupingMeter()
        # Sums over all batches, by the names of fields of `PlanCounts`.
        self._sums: Counter[str] = Counter()
        self._samples = self._planned_units = 0
        # Turns added so far, and the turn of the batch with the most total tokens.
        self._turns, self._largest_turn = 0, 0
        self._most_tokens = self._reducible_peak = self._most_samples = 0
        self._fewest_samples: int | None = None
        # What the plan has, each unit once; and whether a unit was distributed again, in any round.
        self._planned = DistinctCounts(0, 0)
        self._repeats = False
        self._widths: LengthStats | None = None
        self._shapes = np.empty(0, dtype=np.int64)
        self._meetings: list[Ints] = []

    def add(self, batches: BatchTable, turns: Ints, numbers: Ints | None = None) -> None:
        """Add the next round of batches in units, which ranks have in (n_turns, world_size)
        `turns`, −1 for none: whole steps, unless they are the last. `numbers` (n_units,) count
        units of the epoch, from 0 by default; those of the first turn may come again at the end.
        """
        numbers = np.arange(batches.n_units) if numbers is None else numbers
        units = turns[turns >= 0]
        # New units have the next numbers; a unit that comes again has a number from before.
        is_new = numbers == self._planned_units + np.arange(batches.n_units)
        # A unit comes again if an earlier round had it, or ranks get more units than there are.
        self._repeats = self._repeats or not is_new.all() or len(units) > batches.n_units
        new_batches = batches if is_new.all() else batches.take(np.flatnonzero(is_new))
        self._planned = DistinctCounts(
            self._planned.samples + int(new_batches.samples.sum()),
            self._planned.tokens + total(new_batches.tokens),
        )
        self._planned_units += int(np.count_nonzero(is_new))
        # No rank has a unit where `remainder=drop` drops an incomplete turn: nothing is computed.
        if len(units) == 0:
            self._turns += len(turns)
            return
        distributed = batches.take(units)
        tokens_of_ranks = self._ranks.add(turns, batches, self._attended_pairs(batches))
        # Only several ranks have a timeline; of one, it would be millions of steps for nothing.
        if self._settings.world_size > 1:
            self._meetings.append(tokens_of_ranks)
        self._units.add(batches, turns, numbers)
        # In which turn the largest batch of the epoch comes: users look at its step.
        batch = int(np.argmax(distributed.total_tokens))
        if (most_tokens := int(distributed.total_tokens[batch])) > self._most_tokens:
            unit = int(np.searchsorted(distributed.unit_offsets, batch, side="right")) - 1
            # The place of that unit in `turns`; −1, no unit, is left out of `distributed`.
            place = int(np.flatnonzero(turns.ravel() >= 0)[unit])
            self._most_tokens = most_tokens
            self._largest_turn = self._turns + place // turns.shape[1]
        self._turns += len(turns)
        self._note_batches(distributed)
        # (n_steps,) the real tokens and the entries of each step, and their mean length.
        tokens = self._sum_by_step(turns, batches.sum_by_unit(batches.tokens))
        entries = self._sum_by_step(turns, batches.sum_by_unit(batches.entries))
        means = np.asarray(tokens / entries, dtype=np.float64)
        self._grouping.add(
            distributed.entries, distributed.tokens, total(distributed.squares), means, tokens
        )

    def _sum_by_step(self, turns: Ints, numbers: Ints) -> Ints:
        of_ranks = sum_by_step(turns, numbers, self._settings.gradient_accumulation_steps)
        # `add_exactly` keeps sums exact that do not fit 64 bits.
        return add_exactly(of_ranks, lambda part: part.sum(axis=1), turns.shape[1])

    def _attended_pairs(self, batches: BatchTable) -> Ints:
        if self._strategy.attends_within_samples:
            return batches.padded_squares
        # rows × width²
        return product(batches.total_tokens, batches.widths)

    def _note_batches(self, distributed: BatchTable) -> None:
        """Add batches to all sums, minima and maxima; a batch that comes again counts again."""
        totals, pairs = distributed.total_tokens, self._attended_pairs(distributed)
        # None unless the strategy caps something else than total tokens.
        exceeds_own = self._strategy.exceeds_own_budget(distributed.rows, distributed.widths)
        exceeds_budget = totals > self._budget if exceeds_own is None else exceeds_own
        if (memory := self._memory) is not None:
            varying = memory.per_token * totals + memory.per_pair * pairs.astype(float)
            self._varying_bytes = max(self._varying_bytes, float(varying.max()))
        # The batches of a unit are the forwards in turn, which have these rows of each sample.
        samples = distributed.entries // np.resize(self._forwards, len(distributed))
        self._samples += int(distributed.samples.sum())
        self._sums.update(
            rows=int(distributed.rows.sum()),
            batches=len(distributed),
            real_tokens=total(distributed.tokens),
            total_tokens=total(totals),
            squared_tokens=total(pairs),
            real_squared_tokens=total(distributed.squares),
            over_budget_batches=int(np.count_nonzero(exceeds_budget)),
            sum_samples_per_batch=int(samples.sum()),
        )
        fewest = int(samples.min())
        self._fewest_samples = min(self._fewest_samples or fewest, fewest)
        self._most_samples = max(self._most_samples, int(samples.max()))
        # The width of a row of these tokens alone, if they are one sample.
        width_alone = round_up(distributed.tokens, self._strategy.sample_multiple)
        width_alone = round_up(width_alone, self._strategy.pad_to_multiple_of)
        # A batch of one sample without more padding than that is as large under every strategy.
        is_reducible = (distributed.entries > 1) | (totals != width_alone)
        # Where a strategy has a cap of its own, only batches above that are too large to recommend.
        if exceeds_own is not None:
            is_reducible &= exceeds_own
        # `initial` stands for the largest where no batch is reducible.
        self._reducible_peak = max(self._reducible_peak, int(totals[is_reducible].max(initial=0)))
        widths = LengthStats.of(distributed.widths)
        self._widths = widths if self._widths is None else self._widths.merge(widths)
        self._shapes = np.union1d(self._shapes, _shapes(distributed))

    def measurement(
        self,
        epoch: Epoch,
        traced: tuple[DistinctCounts, Coverage] | None = None,
        lost_before: Lost = NOTHING,
    ) -> Measurement:
        """Return the numbers of all batches added; InputError without a batch or a token."""
        if self._sums["batches"] == 0:
            raise NoBatchError()
        if self._sums["real_tokens"] == 0:
            raise InputError(f"no tokens in {self._samples:,} samples: nothing to batch")
        if traced is not None:
            unique, coverage = traced
        else:
            # Without repeats, all that is computed is distinct; with these, all that is planned.
            computed = DistinctCounts(self._samples, self._sums["real_tokens"])
            unique = self._planned if self._repeats else computed
            coverage = self._units.coverage(epoch.lost.dropped_samples + epoch.sample_count)
        # Batches count samples by their first parts: those with only other parts are added.
        samples, lost = self._samples + unique.headless, epoch.lost + lost_before
        ranks = self._ranks.counts(len(self._shapes), self._strategy.finished_steps)
        attends_within = self._strategy.attends_within_samples
        # Samples laid end to end, each attending to itself alone, have no max_length to fill.
        row_length = self._strategy.row_length or (
            None if attends_within else self._settings.max_length
        )
        counts = PlanCounts(
            **self._sums,
            tokens_per_batch=self._budget,
            visited_tokens=epoch.tokens + lost.truncated_tokens + lost.dropped_tokens,
            samples=samples,
            steps=ranks.max_steps,
            row_tokens=None if row_length is None else self._sums["rows"] * row_length,
            max_batch_tokens=self._most_tokens,
            largest_step=self._largest_turn // self._settings.gradient_accumulation_steps + 1,
            reducible_peak=self._reducible_peak,
            peak_bytes=None if self._memory is None else self._memory.peak(self._varying_bytes),
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
        # None of one rank, whose meetings are not kept.
        none = np.empty((0, 0), dtype=np.int64)
        meetings = np.concatenate(self._meetings) if self._meetings else none
        return Measurement(counts, self._widths, meetings)


def _shapes(batches: BatchTable) -> Ints:
    # (n_shapes,) each distinct shape (rows, width) as one number, rows × 2³² + width; first as
    # numbers as small as these widths allow: `distinct` need not sort small numbers.
    factor = int(batches.widths.max()) + 1
    pairs, _ = distinct(batches.rows.astype(np.int64) * factor + batches.widths)
    rows, widths = np.divmod(pairs, factor)
    return (rows << 32) + widths
