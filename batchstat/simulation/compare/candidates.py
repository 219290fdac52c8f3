"""The rows of a comparison, and what of them would help: the current setup, the usual strategies
and the arguments of the user's own trainer, on the same epoch; and the first batches of each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from batchstat.calibration.cost_model import CostModel
from batchstat.documents.comparison import ReportWarning
from batchstat.errors import BatchstatError, InputError, OptionError
from batchstat.parameters import MOST_SEED, whole_number
from batchstat.planning.inputs import PlanInputs
from batchstat.planning.plan import BatchPlan
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies.spec import NamedRow, RowRequest, StrategySpec
from batchstat.planning.strategies.static import Static
from batchstat.planning.windows import plan_windows
from batchstat.simulation.compare.changes import Change, Changes, find_changes
from batchstat.simulation.compare.estimate import Drawn, check_share, draw
from batchstat.simulation.compare.named_rows import NamedRows, Row, requests_of
from batchstat.simulation.compare.trainer_change import ChangesOfName, TrainerChange
from batchstat.simulation.device import Device, batch_cost
from batchstat.simulation.results import StrategyResult
from batchstat.simulation.rows import EpochCache, estimated, make_row, make_rows, over_seeds

MOST_BATCHES = 64
"""Number of batches that are kept, in whole steps and at least one of these."""

_MOST_SAMPLES = 20_000
"""Samples that are planned for them; the default `read_ahead` is below that."""


def first_batches(request: RowRequest, shares: EpochShares) -> BatchPlan:
    """Return the first batches of a strategy's plan, of the first rank if each plans its own.

    A strategy that sorts more than 20,000 samples together is given only the first of them.
    """
    strategy, settings = request.strategy, request.settings
    size = min(strategy.window_size or _MOST_SAMPLES, _MOST_SAMPLES)
    share = shares.shares[0]
    begin = share.whole if strategy.is_given else next(share.pieces(size))
    plan = next(plan_windows(strategy, begin, seed=settings.seed, epoch=settings.epoch))
    within = int(np.searchsorted(plan.unit_offsets, MOST_BATCHES, side="right")) - 1
    units = min(max(within, 1), len(plan.unit_offsets) - 1)
    # Concatenating copies, so that the rest of the plan can be freed.
    return BatchPlan.concatenate([plan.first_units(units)])


DEFAULT_STRATEGIES = ("fixed", "static", "bucketed", "token-budget", "packed")
_BY_BATCH_SIZE = "hf-group-by-length"
"""What many who train with a batch size have as an argument of their trainer."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """The rows of a comparison, and what of them would help.

    Attributes:
        basis: the settings that all rows share.
        rows: those that have a batch, the current setup among them.
        empty: warnings for those that have none.
        tried: what could replace the current setup, whether it helps or not.
        changes: what would help.
        epochs: the epochs that were simulated.
        drawn: the part of the corpus that was; None for all of it.
    """

    basis: ResolvedSettings
    rows: tuple[StrategyResult, ...]
    empty: tuple[ReportWarning, ...]
    tried: tuple[Change, ...]
    changes: Changes
    epochs: EpochCache
    drawn: Drawn | None


def simulate_candidates(
    inputs: PlanInputs,
    settings: Settings,
    *,
    strategies: Sequence[Row] | None = None,
    current: Row | None = None,
    trainer: Sequence[TrainerChange] | ChangesOfName = (),
    model: CostModel | None = None,
    device: Device | None = None,
    seeds: int = 1,
    subsample: float | None = None,
    with_batches: bool = False,
) -> Candidates:
    """Simulate the current setup and what could replace it.

    Args:
        inputs: the corpus.
        settings: the settings, as given.
        strategies: the rows, each a strategy, or a name and batches of sample numbers; by default
            those of `default_strategies`.
        current: the current setup; by default the first row of `static`, else the first row.
        trainer: the changes of the user's own trainer, or what returns those of the trainer that
            the current setup names.
        model: the transformer that is trained.
        device: the calibrated device that trains.
        seeds: number of seeds to try.
        subsample: the share of the corpus to simulate.
        with_batches: whether the rows have their first batches, to show them.

    Raises:
        OptionError: a strategy that is wrong by itself.
        InputError: no row has a batch, or the current setup has none.
    """
    check_seeds(settings, seeds)
    rows_of = NamedRows(inputs, settings, strategies, current)
    named, settings = rows_of.current, rows_of.settings
    if callable(trainer):
        trainer = _named_trainer(rows_of, trainer)
    wanted = rows_of.rows
    if wanted is None:
        strategy = named if isinstance(named, StrategySpec) else None
        wanted = default_strategies(settings, strategy, trainer)
    if named is not None:
        wanted = (named, *wanted)
    now = current_row(requests_of(wanted, inputs.resolve(settings)), named)
    basis = inputs.resolve(settings, now)
    requests = requests_of(wanted, basis)
    drawn = None
    # Batches of sample numbers are of the whole corpus.
    if subsample is not None:
        rows_of.refuse("subsample")
        windows = [request.strategy.looks_ahead or 0 for request in requests]
        share = check_share(subsample, settings)
        drawn = draw(inputs.samples, share, basis, max(windows))
    epochs = EpochCache(inputs.samples if drawn is None else drawn.samples)
    rows, empty = make_rows(requests, epochs, batch_cost(model, device), device)
    if seeds > 1:
        rows = over_seeds(rows, epochs.samples, seeds)
    if drawn is not None:
        rows = estimated(rows, drawn)
    if named is not None and rows[0].label != named.text:
        raise InputError(empty[0].message)
    if with_batches:
        rows = [
            replace(row, first_batches=first_batches(row.request, epochs.of(row.request.settings)))
            for row in rows
        ]
    now = current_row([row.request for row in rows], named)
    current_result = next(row for row in rows if row.request is now)
    of_rows = [_as_change(row, current_result, trainer, inputs) for row in rows]
    # What a trainer makes of its own samples is not known of a part of them.
    others = () if drawn else _of_own_samples(trainer, current_result, inputs, model, device)
    tried = (*others, *of_rows)
    return Candidates(
        basis=basis,
        rows=tuple(rows),
        empty=tuple(empty),
        tried=tried,
        changes=find_changes(tried, current_result, basis.tokens_per_batch),
        epochs=epochs,
        drawn=drawn,
    )


def check_seeds(settings: Settings, seeds: int) -> int:
    """Return the number of seeds. Raises OptionError if it is not a positive integer, or the last
    seed is too large.
    """
    if settings.seed + whole_number("seeds", seeds) - 1 > MOST_SEED:
        raise OptionError(f"seed={settings.seed}, seeds={seeds}: the last is above {MOST_SEED:,}")
    return seeds


def default_strategies(
    settings: Settings, current: StrategySpec | None = None, trainer: Sequence[TrainerChange] = ()
) -> tuple[StrategySpec, ...]:
    """Return the strategies that are compared unless some are named: `DEFAULT_STRATEGIES` but for
    that of the current setup, and what arguments of the user's trainer make; where that is not
    known, the Trainer's own length grouping, if there is a batch size.

    Raises:
        OptionError: a current setup that is wrong by itself.
    """
    names, size, without, packs = DEFAULT_STRATEGIES, settings.batch_size, "", False
    basis = settings.resolve(longest=1, stated_max=None)
    if current is not None:
        row = current.request(basis)
        without = "static" if isinstance(row.strategy, Static) else row.name
        size = size or (row.strategy.batch_capacity if row.sets("batch_size") else None)
        basis, packs = settings.resolve(1, None, size), row.strategy.packs_rows
    by_argument = [
        _shortest(each.spec(settings), basis)
        for each in trainer
        if packs or not each.strategy.strategy(vars(basis)).packs_rows
    ]
    # Nothing is known of the trainer: this is the argument that most have.
    if not trainer and size is not None:
        by_argument = [StrategySpec.of(_BY_BATCH_SIZE)]
    own, place = [StrategySpec.of(name) for name in names], names.index("token-budget")
    rows = dict.fromkeys((*own[:place], *by_argument, *own[place:]))
    return tuple(each for each in rows if each.text != without and each != current)


def _shortest(spec: StrategySpec, basis: ResolvedSettings) -> StrategySpec:
    """Return a strategy by its name alone where that means the same."""
    alone, decided = StrategySpec.of(spec.name), vars(basis)
    try:
        return alone if alone.strategy(decided) == spec.strategy(decided) else spec
    except BatchstatError:
        return spec


def current_row(rows: Sequence[RowRequest], current: NamedRow | None) -> RowRequest:
    """Return the current setup: the row that `current` names, else the first of `static`, else the
    first.
    """
    if current is not None:
        return next(row for row in rows if row.row == current)
    return next((row for row in rows if isinstance(row.strategy, Static)), rows[0])


def _named_trainer(rows_of: NamedRows, changes_of: ChangesOfName) -> list[TrainerChange]:
    """Return the changes of the trainer that the current setup names."""
    inputs, settings, current = rows_of.inputs, rows_of.settings, rows_of.current
    rows = [current] if current is not None else rows_of.rows or default_strategies(settings)
    now = current_row(requests_of(rows, inputs.resolve(settings)), current)
    basis = inputs.resolve(settings, now)
    found = list(changes_of(now.row.request(basis), settings, basis))
    if current is None and settings.batch_size is None:
        # The batch size of `static` follows from the budget then, and is nobody's argument.
        return [each for each in found if rows_of.rows is not None]
    return found


def _as_change(
    row: StrategyResult,
    current: StrategyResult,
    trainer: Sequence[TrainerChange],
    inputs: PlanInputs,
) -> Change:
    """Return a row as a change, with the keys of the user's trainer that make it, if any do."""
    for each in trainer:
        if each.makes(row.request, inputs):
            return Change(row=row, current=current, keys=each.keys, line=each.line)
    return Change(row=row, current=current)


def _of_own_samples(
    trainer: Sequence[TrainerChange],
    current: StrategyResult,
    inputs: PlanInputs,
    model: CostModel | None,
    device: Device | None,
) -> Iterator[Change]:
    """Yield changes of samples of their own: the packing that the user's trainer has itself, and
    padding taken out of a data set in which it counts as text.
    """
    if current.packs_rows:
        return
    for each in trainer:
        own = each.inputs(inputs)
        try:
            request = each.request(own)
            lengths, before = own.samples.lengths, inputs.samples.lengths
            is_other = len(lengths) == len(before) and bool((lengths != before).any())
            if not (request.strategy.packs_rows or is_other):
                continue
            # It accumulates as many batches, whose gradients take memory.
            steps = request.settings.gradient_accumulation_steps
            onto = device and device.accumulating(steps)
            shares = make_shares(own.samples, request.settings)
            row = make_row(request, shares, batch_cost(model, onto), onto)
        except BatchstatError:  # this corpus does not go with it
            continue
        yield Change(row=row, current=current, keys=each.keys, line=each.line)
