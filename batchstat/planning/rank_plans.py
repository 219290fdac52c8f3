"""An epoch planned by a strategy, and its units distributed to the ranks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import lcm
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from batchstat.errors import NoBatchError
from batchstat.lengths.arrays import Ints, gather_groups, in_pieces, offsets_from_sizes, round_up
from batchstat.lengths.exact import sums
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.distribution import BALANCED_TURNS, REPEATING, balance_turns, round_robin
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rng import distribution_rng
from batchstat.planning.samples import Samples, check_room
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.spec import RowRequest
from batchstat.planning.windows import TOGETHER, plan_windows, tabulate_windows

ROUND_UNITS = 1 << 16  # about how many units `distribute_stream` holds at a time


def plan_shares(
    strategy: Strategy, shares: EpochShares, settings: ResolvedSettings
) -> Iterator[Iterator[BatchPlan]]:
    """Yield the plans of each share's windows, or one plan if the last batches are made again."""
    strategy = strategy.for_rows(shares.samples.rows)
    for share in shares.shares:
        plans = plan_windows(
            strategy, share, seed=settings.seed, epoch=settings.epoch, together=TOGETHER
        )
        yield _remake_last(plans, strategy, settings) if remakes_last(strategy, settings) else plans


def tabulate_shares(
    strategy: Strategy,
    shares: EpochShares,
    settings: ResolvedSettings,
    plans_kept: list[BatchPlan] | None = None,
) -> Iterator[Iterator[BatchTable]]:
    """Yield, for each share, the batches of the plans of `plan_shares` as tables; the plans are
    added to `plans_kept`, if it is given. Else most strategies count a table from the lengths
    alone, which is faster than a plan that says which sample is where.
    """
    trained_in = trained_to_balance(shares, settings)

    def tabulate(plan: BatchPlan) -> BatchTable:
        plan = strategy.in_rows(plan, shares.samples)
        if plans_kept is not None:
            plans_kept.append(plan)
        return BatchTable.of([plan], trained_in)

    # Only a plan has samples, for their trained tokens or rows, and rows for the last batches.
    is_counted = trained_in is not None or shares.samples.rows is not None
    if plans_kept is not None or is_counted or remakes_last(strategy, settings):
        for plans in plan_shares(strategy, shares, settings):
            yield map(tabulate, plans)
        return
    for share in shares.shares:
        yield tabulate_windows(strategy, share, seed=settings.seed, epoch=settings.epoch)


def trained_to_balance(shares: EpochShares, settings: ResolvedSettings) -> Samples | None:
    """Return the samples if ranks are balanced by their trained tokens; else None."""
    is_balanced = settings.distribute == "balanced" and settings.balance_by == "trained"
    return shares.samples if is_balanced else None


_Units = TypeVar("_Units", BatchPlan, BatchTable)


class RankRound(NamedTuple, Generic[_Units]):
    """A piece of an epoch as it is distributed: some units, and the turns when ranks get them."""

    batches: _Units  # the batches of the units, as a plan or as a table
    turns: Ints  # (n_turns, world_size) unit of each rank, counted in this piece; −1 for none
    numbers: Ints  # (n_units,) number of each in the epoch; those of the first turn may come again

    @property
    def units(self) -> Ints:
        """(n_turns, world_size) the unit of each rank, counted in the epoch; −1 for none."""
        return np.where(self.turns < 0, -1, self.numbers[self.turns])


def distribute(
    planned: Iterable[Iterable[BatchTable]],
    shares: EpochShares,
    settings: ResolvedSettings,
    turns: Ints | None = None,
) -> Iterator[RankRound[BatchTable]]:
    """Yield the units of all ranks as they are distributed, in whole steps except for the last.
    `planned` has the tables of each share; `turns` (n_turns, world_size) is of a recording.
    """
    if shares.is_distributed and turns is None:
        (tables,) = planned
        yield from distribute_stream(tables, settings)
        return
    # A recording says which rank had which unit; else each share is the plan of one rank.
    tables_of_shares = [BatchTable.concatenate(list(tables)) for tables in planned]
    if turns is None:
        turns = side_by_side([table.n_units for table in tables_of_shares])
    batches = BatchTable.concatenate(tables_of_shares)
    yield RankRound(batches, turns, np.arange(batches.n_units))


def distribute_stream(
    planned: Iterable[BatchTable], settings: ResolvedSettings
) -> Iterator[RankRound[BatchTable]]:
    """Yield the units of one plan as they are distributed, in pieces of whole steps."""
    rng = distribution_rng(settings.seed, settings.epoch)
    for one_round in in_turns(planned, settings, BatchTable.concatenate):
        if settings.distribute == "balanced":
            batches = one_round.batches
            # Trained tokens are counted only where ranks are balanced by them.
            costs = batches.total_tokens if batches.trained is None else batches.trained
            balance_turns(one_round.turns, batches.sum_by_unit(costs), rng)
        yield one_round


def in_turns(
    planned: Iterable[_Units],
    settings: ResolvedSettings,
    concatenate: Callable[[Sequence[_Units]], _Units],
    rounds: int = 1,
) -> Iterator[RankRound[_Units]]:
    """Yield the units of one plan in turn, in pieces of whole steps, about `rounds` × `ROUND_UNITS`
    units each; the first turn also fills the last one where the remainder is repeated.
    """
    world_size = settings.world_size
    # A piece ends only where a step ends, and where the turns end that are balanced together.
    turns_together = lcm(BALANCED_TURNS, settings.gradient_accumulation_steps)
    units_per_piece = round_up(rounds * ROUND_UNITS, world_size * turns_together)
    n_seen, first_turn = 0, None
    pieces = in_pieces(
        planned, units_per_piece, lambda part: part.n_units, concatenate, lambda p, i: p.take(i)
    )
    for batches in pieces:
        # Kept, since the last piece may be filled with its units.
        if first_turn is None:
            first_turn = batches.take(np.arange(min(world_size, batches.n_units)))
        epoch_numbers = np.arange(n_seen, n_seen + batches.n_units)
        n_seen += batches.n_units
        # What the last turn lacks: only the last piece has a turn that is not full.
        n_missing = -batches.n_units % world_size
        if n_missing and settings.remainder in REPEATING:
            # With fewer units than ranks, units come more than once.
            first_units = np.arange(n_missing) % n_seen
            batches = concatenate([batches, first_turn.take(first_units)])
            epoch_numbers = np.concatenate([epoch_numbers, first_units])
        turns = round_robin(batches.n_units, world_size, settings.remainder)
        yield RankRound(batches, turns, epoch_numbers)


def plan_and_distribute(shares: EpochShares, request: RowRequest) -> tuple[BatchPlan, Ints]:
    """Return all shares' plan, and (n_turns, world_size) units or −1. Raises NoBatchError."""
    trained_in = trained_to_balance(shares, request.settings)
    plans_of_shares = [list(p) for p in plan_shares(request.strategy, shares, request.settings)]
    tables = [[BatchTable.of(plans, trained_in)] for plans in plans_of_shares]
    rounds = distribute(tables, shares, request.settings, request.strategy.turns)
    # There may be no round, and NumPy refuses to concatenate nothing.
    no_units = np.empty((0, request.settings.world_size), dtype=np.int64)
    units = np.concatenate([no_units, *(one_round.units for one_round in rounds)])
    if not (units >= 0).any():
        raise NoBatchError()
    return BatchPlan.concatenate([plan for plans in plans_of_shares for plan in plans]), units


def remakes_last(strategy: Strategy, settings: ResolvedSettings) -> bool:
    """Return whether an epoch's last batches are made again, filled up or spread, for the ranks."""
    # Recorded batches stay as they were.
    if strategy.turns is not None or settings.world_size == 1:
        return False
    # `fill` is accelerate's, which fills up batches of a fixed size, each of them a unit.
    has_fixed_size = strategy.batch_capacity is not None and not strategy.varies_steps
    return settings.remainder == "spread" or (settings.remainder == "fill" and has_fixed_size)


def _remake_last(
    plans: Iterator[BatchPlan], strategy: Strategy, settings: ResolvedSettings
) -> Iterator[BatchPlan]:
    """Yield one plan of all windows, with the last batches made again; none without windows."""
    windows = list(plans)
    if not windows:
        return
    plan = BatchPlan.concatenate(windows)
    multiple, batch_size = strategy.pad_to_multiple_of, strategy.batch_capacity
    # `remakes_last` allows `fill` only with a batch size: without one, this is `spread`.
    if settings.remainder == "spread" or batch_size is None:
        plan = spread_remainder(plan, settings.world_size, multiple)
    # accelerate with drop_last drops the batches that do not make a turn of all ranks.
    elif strategy.drop_last:
        plan = plan.first_units(len(plan) - len(plan) % settings.world_size)
    else:
        plan = fill_remainder(plan, settings.world_size, batch_size, multiple)
    # The new batches are as wide as their longest row, unless all rows are padded (`fixed`).
    if strategy.row_length is not None and not strategy.packs_rows:
        width = round_up(strategy.row_length, multiple)
        plan = replace(plan, widths=np.full(len(plan), width))
    yield plan


def side_by_side(units: Sequence[int]) -> Ints:
    """Return (n_turns, world_size) units, −1 for none: [2, 1] units give `[[0, 2], [1, −1]]`."""
    has_unit = np.arange(max(units)) < np.array(units)[:, None]  # (world_size, n_turns)
    turns = np.full(has_unit.shape, -1)
    turns[has_unit] = np.arange(sum(units))  # rank by rank
    return turns.T


def spread_remainder(plan: BatchPlan, world_size: int, multiple: int) -> BatchPlan:
    """Return the plan with the rows of the last, incomplete turn in new batches, one per rank,
    whose sizes differ by at most 1: 5 rows on 4 ranks make 2, 1, 1 and 1. Of fewer rows than ranks,
    the first are repeated. Source: lhotse's CutSampler, which redistributes its last batches.
    """
    n_units = len(plan.unit_offsets) - 1
    n_left = n_units % world_size
    if n_left == 0:
        return plan
    kept_batches = plan.unit_offsets[n_units - n_left]
    kept_rows = plan.batch_offsets[kept_batches]
    rows = np.arange(kept_rows, len(plan.row_offsets) - 1)
    if len(rows) < world_size:
        rows = np.resize(rows, world_size)
    rows_each, n_larger = divmod(len(rows), world_size)
    edges = offsets_from_sizes(rows_each + (np.arange(world_size) < n_larger))
    return _with_last(plan, rows, n_units - n_left, edges, multiple)


def fill_remainder(plan: BatchPlan, world_size: int, size: int, multiple: int) -> BatchPlan:
    """Return the plan with its last batch filled up to `size` rows, and batches added until they
    divide by `world_size`, of the epoch's first rows, repeatedly if needed. Source: accelerate's
    BatchSamplerShard with even_batches. Raises InputError: more rows than fit into memory.
    """
    n_batches = len(plan)
    last_size = int(np.diff(plan.batch_offsets)[-1])
    n_added = -n_batches % world_size
    n_needed = (n_batches + n_added) * size
    check_room(f"remainder=fill with batch_size={size} makes", n_needed, "lower batch_size")
    if last_size == size and n_added == 0:
        return plan
    n_rows = len(plan.row_offsets) - 1
    first_rows = np.arange(size - last_size + n_added * size) % n_rows
    rows = np.concatenate([np.arange(n_rows - last_size, n_rows), first_rows])
    return _with_last(plan, rows, n_batches - 1, np.arange(0, len(rows) + 1, size), multiple)


def _with_last(
    plan: BatchPlan, rows: Ints, kept_units: int, edges: Ints, multiple: int
) -> BatchPlan:
    """Return the first units of a plan, then new batches of some of its rows, each a unit."""
    row_offsets, entries = gather_groups(plan.row_offsets, rows)
    # (n,) tokens of each row: those of its entries, with the padding of each.
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
