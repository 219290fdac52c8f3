"""The rows of a comparison on one epoch, and what of them would help."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from batchstat.calibration.cost_model import BatchCost, CostModel
from batchstat.errors import BatchstatError, InputError, OptionError
from batchstat.findings import Finding
from batchstat.parameters import MAX_INT, MOST_SEED, whole_number
from batchstat.planning.inputs import PlanInputs
from batchstat.planning.plan import BatchPlan
from batchstat.planning.regrouping import regrouped_rounds
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies.registry import OWN_STRATEGIES
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.planning.strategies.spec import NamedRow, RowRequest, StrategySpec
from batchstat.planning.strategies.static import Static
from batchstat.planning.windows import plan_windows
from batchstat.recording.given_batches import NamedBatches
from batchstat.simulation.compare.changes import LEAST_SAVED, Change, Changes, find_changes
from batchstat.simulation.compare.estimate import Drawn, check_share, draw
from batchstat.simulation.compare.named_rows import (
    ChangesOfName,
    NamedRows,
    Row,
    TrainerChange,
    requests_of,
)
from batchstat.simulation.device import Device, batch_cost
from batchstat.simulation.results import StrategyResult
from batchstat.simulation.rows import EpochCache, estimated, make_row, make_rows, over_seeds

DEFAULT_STRATEGIES = ("fixed", "static", "bucketed", "token-budget", "packed")
_REGROUPED, _STATIC = StrategySpec.of("regrouped"), StrategySpec.of("static")
MOST_BATCHES = 64  # number of batches that are kept, in whole steps and at least one of these
_MOST_SAMPLES = 20_000  # samples that are planned for them; the default `read_ahead` is below that


def first_batches(request: RowRequest, shares: EpochShares) -> BatchPlan:
    """Return the first batches of a strategy's plan, up to 64 in whole units; where each rank plans
    its own samples, those of the first rank. A strategy that sorts more than 20,000 samples
    together is given only the first of them.
    """
    strategy, settings = request.strategy, request.settings
    window_size = min(strategy.window_size or _MOST_SAMPLES, _MOST_SAMPLES)
    # Batches that were made elsewhere name samples of the whole epoch.
    parts = shares.shares
    if not strategy.is_given:
        # A rank may have no sample, and so no piece.
        parts = tuple(next(share.pieces(window_size), share.whole) for share in parts)
    if isinstance(strategy, Regrouped):
        epoch = parts[0] if shares.is_distributed else shares.epoch
        plan, _ = next(regrouped_rounds(request, replace(shares, epoch=epoch, shares=parts)))
    else:
        samples = parts[0].whole
        plan = next(plan_windows(strategy, samples, seed=settings.seed, epoch=settings.epoch))
    # The last n whose first n units have at most 64 batches; at least one unit, if there is one.
    fitting_units = int(np.searchsorted(plan.unit_offsets, MOST_BATCHES, side="right")) - 1
    n_units = min(max(fitting_units, 1), len(plan.unit_offsets) - 1)
    first = strategy.in_rows(plan.first_units(n_units), shares.samples)
    # Concatenating copies, so that the rest of the plan can be freed.
    return BatchPlan.concatenate([first])


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """The rows of a comparison, and what of them would help."""

    basis: ResolvedSettings  # the settings that all rows share
    rows: tuple[StrategyResult, ...]  # those that have a batch, the current setup among them
    empty: tuple[Finding, ...]  # warnings for those that have none
    tried: tuple[Change, ...]  # what could replace the current setup, whether it helps or not
    changes: Changes  # what would help
    epochs: EpochCache  # the epochs that were simulated
    drawn: Drawn | None  # the part of the corpus that was; None for all of it


def simulate_candidates(
    inputs: PlanInputs,
    settings: Settings,
    *,
    strategies: Sequence[Row] | None = None,
    current: Row | None = None,
    trainer: Sequence[TrainerChange] | ChangesOfName = (),
    takes_sampler: bool = True,
    model: CostModel | None = None,
    device: Device | None = None,
    seeds: int = 1,
    subsample: float | None = None,
    with_batches: bool = False,
) -> Candidates:
    """Simulate the current setup and what could replace it. Raises OptionError: a strategy that is
    wrong by itself; InputError: no row has a batch, or the current setup has none.
    """
    check_seeds(settings, seeds)
    named_rows = NamedRows(inputs, settings, strategies, current)
    named_current, settings = named_rows.current, named_rows.settings
    if callable(trainer):
        trainer = _named_trainer_changes(named_rows, trainer)
    cost = batch_cost(model, device)
    row_names = _of_current(_row_names(named_rows, trainer), named_current, cost)
    # The batch size of the current setup decides the budget of all rows, so it is found first.
    current_request = current_row(requests_of(row_names, inputs.resolve(settings)), named_current)
    basis = inputs.resolve(settings, current_request)
    requests = requests_of(row_names, basis)
    drawn = None
    if subsample is not None:
        # Batches of sample numbers are of the whole corpus.
        named_rows.refuse("subsample")
        windows = [request.strategy.looks_ahead or 0 for request in requests]
        share = check_share(subsample, settings)
        drawn = draw(inputs.samples, share, basis, max(windows))
    epochs = EpochCache(inputs.samples if drawn is None else drawn.samples, model, device)
    rows, no_batch_warnings = make_rows(requests, epochs)
    # Whoever names a strategy also says how its batches reach the ranks.
    if named_rows.rows is None:
        rows = [_balanced(row, current_request, basis, epochs) for row in rows]
    if seeds > 1:
        rows = over_seeds(rows, epochs.samples, seeds)
    if drawn is not None:
        rows = estimated(rows, drawn)
    # A row without a batch is a warning, but not the current setup, the first row if it is named.
    if named_current is not None and rows[0].label != named_current.text:
        raise InputError(no_batch_warnings[0].message)
    if with_batches:
        rows = [
            replace(row, first_batches=first_batches(row.request, epochs.of(row.request.settings)))
            for row in rows
        ]
    # Found once more: the row that is current by default may have no batch, then it is another.
    current_request = current_row([row.request for row in rows], named_current)
    current_result = next(row for row in rows if row.request is current_request)
    tried = [_as_change(row, current_result, trainer, inputs) for row in rows]
    # A trainer's rules of what it cuts and drops are for the whole corpus, not for a part of it.
    if drawn is None:
        tried = [*_changes_without_row(trainer, current_result, inputs, model, device), *tried]
    if not takes_sampler:
        tried = [replace(change, needs_loader=change.keys is None) for change in tried]
    tried = [change.applied() for change in tried]
    # Where no step is taken, nothing is trained that could be faster.
    helping = tried if current_result.counts.steps else []
    return Candidates(
        basis=basis,
        rows=tuple(rows),
        empty=tuple(no_batch_warnings),
        tried=tuple(tried),
        changes=find_changes(helping, current_result, basis.tokens_per_batch),
        epochs=epochs,
        drawn=drawn,
    )


def _row_names(named_rows: NamedRows, trainer: Sequence[TrainerChange]) -> list[NamedRow]:
    """Return the rows, the current setup first if it is named."""
    current, rows = named_rows.current, named_rows.rows
    if rows is None:
        rows = default_strategies(named_rows.settings, current, trainer)
        # Samples of several rows are not packed, nor known to the strategies of frameworks.
        if named_rows.inputs.samples.rows is not None:
            rows = tuple(
                row for row in rows if row.name in OWN_STRATEGIES and not row.kind.packs_rows
            )
    names: list[NamedRow] = [*rows]
    if isinstance(current, NamedBatches):
        is_padded = bool(current.batches.repair)
        if is_padded and _REGROUPED in (named_rows.rows or ()):
            raise OptionError(
                f"regrouped: samples of {current.text} are padded before they are batched",
                "take that out first",
            )
        names = [name for name in names if not (is_padded and name == _REGROUPED)]
    return names if current is None else [current, *names]


def _of_current(
    rows: Sequence[NamedRow], current: NamedRow | None, cost: BatchCost
) -> list[NamedRow]:
    """Return the rows, those of `regrouped` with the current setup and the cost of attention."""
    if current is None:  # as `current_row` finds it among the others
        specs = (row for row in rows if isinstance(row, StrategySpec))
        current = next((spec for spec in specs if issubclass(spec.kind, Static)), _STATIC)
    # Pairs of tokens that attention computes in the time of one token; None if unknown.
    pairs, named = None, []
    if cost.per_pair and cost.per_token:
        pairs = min(max(1, round(cost.per_token / cost.per_pair)), MAX_INT)
    for row in rows:
        if isinstance(row, StrategySpec) and row.kind is Regrouped:
            if pairs is not None and "pairs" not in row.given:
                row = row.with_parameter("pairs", pairs)
            row = row.of_setup(current)
        named.append(row)
    return named


def can_regroup(current: NamedRow | None, settings: Settings) -> bool:
    """Return whether the steps of a setup, by default `static`, have batches to regroup."""
    if settings.world_size == 1 and settings.gradient_accumulation_steps == 1:
        return False  # a step is one batch
    # No length decides it: 1 stands for any.
    basis = settings.resolve(longest=1, stated_max=None)
    try:
        _REGROUPED.of_setup(current or _STATIC).request(basis)
    except OptionError:  # such as one that packs
        return False
    return True


def _balanced(
    row: StrategyResult, current: RowRequest, basis: ResolvedSettings, epochs: EpochCache
) -> StrategyResult:
    """Return a row of batchstat's own with batches of similar cost in each step, where ranks then
    take 5 % less: whoever changes batches can also change which rank gets which.
    """
    request, ranks = row.request, row.counts.ranks
    is_own = request.name in OWN_STRATEGIES and not isinstance(request.strategy, Regrouped)
    is_told = request.settings.distribute != "batches" or "distribute" in request.row.given
    # It saves no more than ranks wait.
    may_help = ranks.world_size > 1 and ranks.idle_compute >= LEAST_SAVED
    if request.row == current.row or not is_own or is_told or not may_help:
        return row
    assert isinstance(request.row, StrategySpec)
    balanced = epochs.row(request.row.with_parameter("distribute", "balanced").request(basis))
    saves = balanced.counts.compute <= (1 - LEAST_SAVED) * row.counts.compute
    return balanced if saves else row


def check_seeds(settings: Settings, seeds: int) -> None:
    """Raise OptionError for no positive number of seeds, or too large a last seed."""
    if settings.seed + whole_number("seeds", seeds) - 1 > MOST_SEED:
        raise OptionError(f"seed={settings.seed}, seeds={seeds}: the last is above {MOST_SEED:,}")


def default_strategies(
    settings: Settings, current: NamedRow | None = None, trainer: Sequence[TrainerChange] = ()
) -> tuple[StrategySpec, ...]:
    """Return the strategies that are compared unless the user names some: `DEFAULT_STRATEGIES`, and
    among them, before token-budget, those that other arguments of the user's own trainer make; and
    `regrouped` where a step has several batches. That of the current setup is left out. Raises
    OptionError: a current setup that is wrong by itself.
    """
    batch_size, current_default, packs_today = settings.batch_size, "", False
    # Only the parameters of strategies are read from it, which no length decides: 1 stands for any.
    basis = settings.resolve(longest=1, stated_max=None)
    if isinstance(current, StrategySpec):
        request = current.request(basis)
        # Every trainer that pads to the longest is static under another name.
        current_default = "static" if isinstance(request.strategy, Static) else request.name
        if request.sets("batch_size"):
            batch_size = batch_size or request.strategy.batch_capacity
        basis = settings.resolve(longest=1, stated_max=None, current_batch_size=batch_size)
        packs_today = request.strategy.packs_rows
    # Packing changes attention, so that it is a row of its own only where rows are packed today.
    trainer_rows = [
        _shortest(change.spec(settings), basis)
        for change in trainer
        if packs_today or not change.strategy.strategy(vars(basis)).packs_rows
    ]
    # Where nothing is known of the trainer, this is the argument that most trainers have.
    if not trainer and batch_size is not None:
        trainer_rows = [StrategySpec.of("hf-group-by-length")]
    defaults = [StrategySpec.of(name) for name in DEFAULT_STRATEGIES]
    index = DEFAULT_STRATEGIES.index("token-budget")
    first, last = defaults[:index], defaults[index:]
    if can_regroup(current, settings):
        first.insert(DEFAULT_STRATEGIES.index("bucketed"), _REGROUPED)
    rows = dict.fromkeys((*first, *trainer_rows, *last))  # each once
    return tuple(row for row in rows if row.text != current_default and row != current)


def _shortest(spec: StrategySpec, basis: ResolvedSettings) -> StrategySpec:
    """Return a strategy by its name alone where it means the same: `trl:packing=none` is `trl`."""
    by_name, decided = StrategySpec.of(spec.name), vars(basis)
    try:
        return by_name if by_name.strategy(decided) == spec.strategy(decided) else spec
    except BatchstatError:  # the name alone lacks a parameter that is needed
        return spec


def current_row(rows: Sequence[RowRequest], current: NamedRow | None) -> RowRequest:
    """Return the row that `current` names, else the first of `static`, else the first."""
    if current is not None:
        return next(row for row in rows if row.row == current)
    return next((row for row in rows if isinstance(row.strategy, Static)), rows[0])


def _named_trainer_changes(named_rows: NamedRows, changes_of: ChangesOfName) -> list[TrainerChange]:
    """Return the changes of the trainer whose name is the current strategy, as hf-trainer."""
    inputs, settings, current = named_rows.inputs, named_rows.settings, named_rows.current
    # The batch size of `static` then follows from the budget: no trainer has it.
    if current is None and settings.batch_size is None and named_rows.rows is None:
        return []
    rows = [current] if current is not None else named_rows.rows or default_strategies(settings)
    request = current_row(requests_of(rows, inputs.resolve(settings)), current)
    basis = inputs.resolve(settings, request)
    return list(changes_of(request.row.request(basis), settings, basis))


def _as_change(
    row: StrategyResult,
    current: StrategyResult,
    trainer: Sequence[TrainerChange],
    inputs: PlanInputs,
) -> Change:
    for change in trainer:
        if change.makes(row.request, inputs):
            return Change(row=row, current=current, keys=change.keys, line=change.line)
    return Change(row=row, current=current)


def _changes_without_row(
    trainer: Sequence[TrainerChange],
    current: StrategyResult,
    inputs: PlanInputs,
    model: CostModel | None,
    device: Device | None,
) -> Iterator[Change]:
    """Simulate changes of the trainer that batch other samples than the rows of the table: its own
    packing, which cuts and drops by its own rules, and padding taken out where it counts as text.
    """
    if current.packs_rows:
        return
    for change in trainer:
        kept_samples = change.inputs(inputs)
        try:
            request = change.request(kept_samples)
            lengths, lengths_now = kept_samples.samples.lengths, inputs.samples.lengths
            # As many samples of other lengths: padding was taken out of them.
            is_unpadded = len(lengths) == len(lengths_now) and bool((lengths != lengths_now).any())
            if not (request.strategy.packs_rows or is_unpadded):
                continue
            # Gradients stay in memory between the batches that are accumulated.
            steps = request.settings.gradient_accumulation_steps
            on_device = device and device.accumulating(steps)
            shares = make_shares(kept_samples.samples, request.settings)
            row = make_row(request, shares, model, on_device)
        except BatchstatError:  # this corpus does not go with the change
            continue
        yield Change(row=row, current=current, keys=change.keys, line=change.line)
