"""Steps regrouped: the samples of every step that a setup makes, in other batches of that step."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from batchstat.lengths.arrays import Floats, Ints, expand_ranges, gather_groups
from batchstat.planning.algorithms.cutting import longest_of_each
from batchstat.planning.algorithms.step_batches import StepRules, better_batches
from batchstat.planning.algorithms.step_cuts import strides
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import in_turns, plan_and_distribute, plan_shares, remakes_last
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.planning.strategies.spec import RowRequest

_ROUNDS = 8  # rounds of units that are regrouped together, where an epoch comes in pieces
_AT_ONCE = 1 << 20  # samples cut together: so many that NumPy computes more than it is called


class _Groups(NamedTuple):
    """Batches of steps."""

    places: Ints  # (n,) step × cells + turn in the step × world_size + rank
    firsts: Ints  # (n,) the first entry of each, in a sequence of entries
    sizes: Ints  # (n,) entries of each


class _Today(NamedTuple):
    """The steps of a setup, before they are regrouped."""

    entries: Ints  # (n_entries,) entries of its plan, batch by batch as they are computed
    groups: _Groups  # its batches, of these
    cells: int  # pairs of turn and rank of each step
    step_offsets: Ints  # (n_steps + 1,) entries of each step
    per_rank: Ints  # (n_steps,) the most batches of any rank
    costs: Floats  # (n_steps,) what the slowest rank computes, in all between meetings
    largest: Ints  # (n_steps,) total tokens of the largest batch


def regrouped_rounds(request: RowRequest, shares: EpochShares) -> Iterator[tuple[BatchPlan, Ints]]:
    """Yield an epoch of `regrouped`, in whole steps: the plan of some of them, each batch a unit,
    and (n_turns, world_size) the unit of each rank, −1 where it has none. They come step by step
    where the order comes in pieces and one plan is distributed in turn; else all at once.
    """
    strategy, settings = request.strategy, request.settings
    assert isinstance(strategy, Regrouped)
    strategy = strategy.for_rows(shares.samples.rows)
    setup = strategy.setup
    is_in_turn = settings.distribute == "batches" and setup.turns is None
    if is_in_turn and shares.is_distributed and not remakes_last(setup, settings):
        (planned,) = plan_shares(setup, shares, settings)
        for one_round in in_turns(planned, settings, BatchPlan.concatenate, _ROUNDS):
            if len(one_round.turns):
                yield regroup(one_round.batches, one_round.turns, strategy, settings)
        return
    plan, units = plan_and_distribute(shares, replace(request, strategy=setup))
    yield regroup(plan, units, strategy, settings)


def regroup(
    plan: BatchPlan, turns: Ints, strategy: Regrouped, settings: ResolvedSettings
) -> tuple[BatchPlan, Ints]:
    """Put the samples of each step into other batches of the step, as many per rank as it has. A
    step stays as it is if the batches found compute no less, unless they fit and today's do not; or
    if it has fewer samples than ranks. With too few samples for its batches, ranks have fewer.
    `plan` has whole steps of the setup, one sample per row and one batch per unit, which ranks have
    in (n_turns, world_size) `turns`, −1 for none. Returns the new batches likewise, as they come.
    """
    world_size, rules = turns.shape[1], strategy.rules(settings)
    today = _steps_of(plan, turns, rules, settings)
    lengths = plan.lengths[today.entries]
    n_samples = np.diff(today.step_offsets)
    steps = np.repeat(np.arange(len(n_samples)), n_samples)
    # Stable, so that equal lengths stay in their sequence.
    order = np.lexsort((-lengths, steps))
    falling = lengths[order]  # along each step
    per_rank = np.minimum(today.per_rank, n_samples // world_size)
    if rules.equal_sizes:  # a step is kept where its batches have another size than their mean
        of_batches = today.groups.places // today.cells
        mean_times = today.groups.sizes * (per_rank * world_size)[of_batches]
        per_rank[of_batches[mean_times != n_samples[of_batches]]] = 0
    is_kept = np.ones(len(per_rank), dtype=np.bool_)
    found: list[_Groups] = []
    # Steps of one kind are cut together; in which company a step is must not change how.
    kinds = np.stack([per_rank, strides(n_samples, per_rank * world_size)])
    # One rank with one batch has nothing to regroup, and no rank without a batch.
    for batches, stride in np.unique(kinds[:, per_rank * world_size > 1], axis=1).T.tolist():
        same = np.flatnonzero((kinds == [[batches], [stride]]).all(axis=0))
        sizes = n_samples[same]
        # Steps of similar sizes together, since they are padded to the largest; and few at a time.
        same = same[np.argsort(sizes, kind="stable")]
        at_once = max(1, _AT_ONCE // int(sizes.max()))
        for part in np.split(same, range(at_once, len(same), at_once)):
            groups, improved = _regroup_steps(part, batches, falling, today, rules)
            is_kept[improved] = False
            found.append(groups)
    kept = np.flatnonzero(is_kept[today.groups.places // today.cells])
    # All entries as they are sorted, then again as they were, for the steps that are kept.
    pool = np.concatenate([today.entries[order], today.entries])
    places, firsts, sizes = (each[kept] for each in today.groups)
    found.append(_Groups(places, firsts + len(order), sizes))
    places, firsts, sizes = (np.concatenate(each) for each in zip(*found, strict=True))
    sequence = np.argsort(places, kind="stable")
    offsets, positions = expand_ranges(firsts[sequence], sizes[sequence])
    units = np.full(len(per_rank) * today.cells, -1, dtype=np.int64)
    units[places[sequence]] = np.arange(len(sequence))
    new_turns = units.reshape(-1, world_size)
    # The last step may have fewer turns than others.
    n_turns = int(np.flatnonzero((new_turns >= 0).any(axis=1))[-1]) + 1
    entries = pool[positions]
    lengths = plan.lengths[entries]
    regrouped = BatchPlan(
        samples=plan.samples[entries],
        lengths=lengths,
        row_offsets=np.arange(len(entries) + 1),
        batch_offsets=offsets,
        unit_offsets=np.arange(len(offsets)),
        widths=rules.widths(longest_of_each(lengths, offsets)),
        starts=None if plan.starts is None else plan.starts[entries],
    )
    return regrouped, new_turns[:n_turns]


def _steps_of(plan: BatchPlan, turns: Ints, rules: StepRules, settings: ResolvedSettings) -> _Today:
    """Return the steps of a setup, as `regroup` takes them."""
    world_size = turns.shape[1]
    # Where the epoch ends within the first step, that has no more turns.
    turns_per_step = min(settings.gradient_accumulation_steps, len(turns))
    n_steps, cells = -(-len(turns) // turns_per_step), turns_per_step * world_size
    places = np.flatnonzero(turns.ravel() >= 0)
    batches = turns.ravel()[places]
    offsets, entries = gather_groups(plan.row_offsets[plan.batch_offsets], batches)
    sizes, widths = np.diff(offsets), plan.widths[batches]
    table = np.zeros(n_steps * cells)
    table[places] = sizes * rules.row_costs(widths)
    table = table.reshape(n_steps, -1, world_size)
    has_batch = np.bincount(places, minlength=n_steps * cells).reshape(table.shape)
    largest = np.zeros(n_steps, dtype=np.int64)
    np.maximum.at(largest, places // cells, sizes * widths)
    return _Today(
        entries=entries,
        groups=_Groups(places, offsets[:-1], sizes),
        cells=cells,
        # The batches before each step, and with these the entries.
        step_offsets=offsets[np.searchsorted(places, np.arange(n_steps + 1) * cells)],
        per_rank=has_batch.sum(axis=1).max(axis=1),
        costs=rules.slowest(table),
        largest=largest,
    )


def _regroup_steps(
    steps: Ints, batches: int, falling: Ints, today: _Today, rules: StepRules
) -> tuple[_Groups, Ints]:
    """Regroup steps of one number of batches per rank; return better batches, and their steps."""
    first, sizes = today.step_offsets[steps], np.diff(today.step_offsets)[steps]
    # A row for each step, filled up with its shortest sample.
    columns = np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    lengths = falling[first[:, None] + columns]
    found, better = better_batches(
        lengths, sizes, today.costs[steps], today.largest[steps], batches, rules
    )
    offsets = found.offsets[better]
    groups = _Groups(
        (steps[better, None] * today.cells + found.places[better]).ravel(),
        (first[better, None] + offsets[:, :-1]).ravel(),
        np.diff(offsets, axis=1).ravel(),
    )
    return groups, steps[better]
