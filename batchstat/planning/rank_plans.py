"""An epoch planned by a strategy, and its units distributed to the ranks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import lcm
from typing import NamedTuple

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups, in_pieces, offsets_from_sizes, round_up
from batchstat.lengths.exact import sums
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.distribution import BALANCED_TURNS, REPEATING, balanced, round_robin
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rng import distribution_rng
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.size_limits import check_room
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.windows import TOGETHER, plan_windows, tabulate_windows


def plan_shares(
    strategy: Strategy, shares: EpochShares, settings: ResolvedSettings
) -> Iterator[Iterator[BatchPlan]]:
    """Yield, for each share of the epoch, the plans of its windows in turn."""
    for share in shares.shares:
        plans = plan_windows(
            strategy, share, seed=settings.seed, epoch=settings.epoch, together=TOGETHER
        )
        yield _rebatched(plans, strategy, settings) if rebatches(strategy, settings) else plans


def tabulate_shares(
    strategy: Strategy, shares: EpochShares, settings: ResolvedSettings
) -> Iterator[Iterator[BatchTable]]:
    """Yield the batches of the same plans, without following single samples."""
    trained_in = trained_to_balance(shares, settings)
    if trained_in is not None or rebatches(strategy, settings):
        for plans in plan_shares(strategy, shares, settings):
            yield (BatchTable.of([plan], trained_in) for plan in plans)
        return
    for share in shares.shares:
        yield tabulate_windows(strategy, share, seed=settings.seed, epoch=settings.epoch)


def trained_to_balance(shares: EpochShares, settings: ResolvedSettings) -> Samples | None:
    """Return the samples if ranks are balanced by their trained tokens."""
    is_balanced = settings.distribute == "balanced" and settings.balance_by == "trained"
    return shares.samples if is_balanced else None


class RankRound(NamedTuple):
    """Some of the units of an epoch, as they are distributed.

    Attributes:
        batches: the batches of the units.
        turns: (n_turns, world_size) the unit of each rank; −1 where it has none.
        numbers: (n_units,) number of each among all units; those of the first turn may be repeated.
    """

    batches: BatchTable
    turns: Ints
    numbers: Ints

    @property
    def units(self) -> Ints:
        """(n_turns, world_size) the number among all units of each rank's; −1 where it has none."""
        return np.where(self.turns < 0, -1, self.numbers[self.turns])


def distribute(
    planned: Iterable[Iterable[BatchTable]],
    shares: EpochShares,
    settings: ResolvedSettings,
    turns: Ints | None = None,
) -> Iterator[RankRound]:
    """Yield the units of all ranks as they are distributed, in whole steps except for the last.

    Args:
        planned: the batches of each share, in pieces.
        shares: the epoch.
        settings: the settings.
        turns: (n_turns, world_size) the unit of each rank, where that is given.
    """
    if turns is not None:
        (tables,) = planned
        every = BatchTable.concatenate(list(tables))
        yield RankRound(every, turns, np.arange(every.n_units))
        return
    if shares.is_distributed:
        (tables,) = planned
        yield from distribute_stream(tables, settings)
        return
    of_ranks = [BatchTable.concatenate(list(tables)) for tables in planned]
    turns = side_by_side([table.n_units for table in of_ranks])
    every = BatchTable.concatenate(of_ranks)
    yield RankRound(every, turns, np.arange(every.n_units))


def distribute_stream(
    planned: Iterable[BatchTable], settings: ResolvedSettings
) -> Iterator[RankRound]:
    """Yield the units of one plan in turn, without holding all of them: whole steps at a time. The
    last turn is filled with units of the first one where the remainder is repeated.
    """
    world_size = settings.world_size
    # A piece divides neither a step nor the turns that are balanced together.
    turns_together = lcm(BALANCED_TURNS, settings.gradient_accumulation_steps)
    units_per_piece = round_up(ROUND_UNITS, world_size * turns_together)
    rng = distribution_rng(settings.seed, settings.epoch)
    seen, first_turn = 0, None
    for batches in in_pieces(
        planned, units_per_piece, lambda part: part.n_units, BatchTable.concatenate, BatchTable.take
    ):
        if first_turn is None:
            first_turn = batches.take(np.arange(min(world_size, batches.n_units)))
        epoch_numbers = np.arange(seen, seen + batches.n_units)
        seen += batches.n_units
        missing = -batches.n_units % world_size  # of the last piece alone
        if missing and settings.remainder in REPEATING:
            again = np.arange(missing) % seen  # with fewer units than ranks, more than once
            batches = BatchTable.concatenate([batches, first_turn.take(again)])
            epoch_numbers = np.concatenate([epoch_numbers, again])
        turns = round_robin(batches.n_units, world_size, settings.remainder)
        if settings.distribute == "balanced":
            costs = batches.total_tokens if batches.trained is None else batches.trained
            turns = balanced(turns, batches.sum_by_unit(costs), rng)
        yield RankRound(batches, turns, epoch_numbers)


ROUND_UNITS = 1 << 16
"""Units that are held at a time, about."""


def rebatches(strategy: Strategy, settings: ResolvedSettings) -> bool:
    """Return whether the last batches of an epoch change so that they divide over the ranks."""
    if strategy.turns is not None:
        return False
    # accelerate fills up batches of one size, which are steps.
    has_size = strategy.batch_capacity is not None and not strategy.varies_steps
    fills = settings.remainder == "fill" and has_size
    return (fills or settings.remainder == "spread") and settings.world_size > 1


def _rebatched(
    plans: Iterator[BatchPlan], strategy: Strategy, settings: ResolvedSettings
) -> Iterator[BatchPlan]:
    windows = list(plans)
    if not windows:
        return
    plan = BatchPlan.concatenate(windows)
    multiple, size = strategy.pad_to_multiple_of, strategy.batch_capacity
    if settings.remainder == "spread" or size is None:
        plan = spread_remainder(plan, settings.world_size, multiple)
    elif strategy.drop_last:
        plan = plan.first_units(len(plan) - len(plan) % settings.world_size)
    else:
        plan = fill_remainder(plan, settings.world_size, size, multiple)
    if strategy.row_length is not None and not strategy.packs_rows:  # the width of every row
        width = round_up(strategy.row_length, multiple)
        plan = replace(plan, widths=np.full(len(plan), width))
    yield plan


def side_by_side(units: Sequence[int]) -> Ints:
    """Return (n_turns, world_size) the unit of each rank, where those of the first come first; −1
    where a rank has none left.

    Args:
        units: number of each rank's.
    """
    turns = np.full((max(units), len(units)), -1)
    first = 0
    for rank, size in enumerate(units):
        turns[:size, rank] = np.arange(first, first + size)
        first += size
    return turns


def spread_remainder(plan: BatchPlan, world_size: int, multiple: int) -> BatchPlan:
    """Return the plan with the rows of the remaining units rebatched, one batch per rank.

    Their sizes differ by at most 1; if there are fewer rows than ranks, the first rows are
    repeated. Source: lhotse's CutSampler, which redistributes the examples of its last batches.

    Args:
        plan: the plan of the whole epoch.
        world_size: number of ranks.
        multiple: widths are rounded up to a multiple of this.
    """
    units = len(plan.unit_offsets) - 1
    rest = units % world_size
    if rest == 0:
        return plan
    kept_batches = plan.unit_offsets[units - rest]
    kept_rows = plan.batch_offsets[kept_batches]
    rows = np.arange(kept_rows, len(plan.row_offsets) - 1)
    if len(rows) < world_size:
        rows = np.resize(rows, world_size)
    least, more = divmod(len(rows), world_size)
    edges = offsets_from_sizes(least + (np.arange(world_size) < more))
    return _with_last(plan, rows, units - rest, edges, multiple)


def fill_remainder(plan: BatchPlan, world_size: int, size: int, multiple: int) -> BatchPlan:
    """Return the plan with its last batch filled up to `size` rows, and with batches added until
    they divide by `world_size`, of the first rows again and again.

    Source: accelerate's BatchSamplerShard with even_batches.

    Args:
        plan: the plan of the whole epoch, each unit of which is a batch.
        world_size: number of ranks.
        size: rows per batch.
        multiple: widths are rounded up to a multiple of this.

    Raises:
        InputError: more rows than fit into memory.
    """
    batches = len(plan)
    last = int(np.diff(plan.batch_offsets)[-1])
    added = -batches % world_size
    needed = (batches + added) * size
    check_room(f"remainder=fill with batch_size={size} makes", needed, "lower batch_size")
    if last == size and added == 0:
        return plan
    n = len(plan.row_offsets) - 1
    more = np.arange(size - last + added * size) % n
    rows = np.concatenate([np.arange(n - last, n), more])
    return _with_last(plan, rows, batches - 1, np.arange(0, len(rows) + 1, size), multiple)


def _with_last(
    plan: BatchPlan, rows: Ints, kept_units: int, edges: Ints, multiple: int
) -> BatchPlan:
    """Return the first units of a plan, followed by batches of some of its rows, a unit each.

    Args:
        plan: the plan.
        rows: (n,) rows of the batches that follow.
        kept_units: number of units that remain as they are.
        edges: (n_batches + 1,) where each of these batches begins among the rows.
        multiple: widths are rounded up to a multiple of this.
    """
    row_offsets, entries = gather_groups(plan.row_offsets, rows)
    tokens = sums(plan.padded_lengths[entries], row_offsets)
    last = BatchPlan(
        samples=plan.samples[entries],
        lengths=plan.lengths[entries],
        row_offsets=row_offsets,
        batch_offsets=edges,
        unit_offsets=np.arange(len(edges)),
        widths=round_up(np.maximum.reduceat(tokens, edges[:-1]), multiple),
        starts=None if plan.starts is None else plan.starts[entries],
        document_multiple=plan.document_multiple,
    )
    return BatchPlan.concatenate([plan.first_units(kept_units), last])
