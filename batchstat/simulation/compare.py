"""Batching strategies side by side on the same epoch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

import numpy.typing as npt

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel, as_model
from batchstat.errors import InputError, OptionError
from batchstat.parameters import MAX_INT, checks_keywords, whole_number
from batchstat.planning.epoch import concatenate_epochs
from batchstat.planning.inputs import PlanInputs, resolve_inputs
from batchstat.planning.settings import ResolvedSettings, Settings, SettingsOptions
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies import OWN_STRATEGIES
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.spec import parse_strategies, request_row
from batchstat.planning.strategies.static import Static
from batchstat.profiling.profile import Profile
from batchstat.simulation.bounds import Bounds, min_packed_rows
from batchstat.simulation.comparison import Comparison
from batchstat.simulation.device import Device, as_device, batch_cost
from batchstat.simulation.device_warnings import device_warnings
from batchstat.simulation.estimate import check_share, draw
from batchstat.simulation.first_batches import first_batches
from batchstat.simulation.measure import measure
from batchstat.simulation.recommendation import choose, current_row
from batchstat.simulation.results import Simulation
from batchstat.simulation.rows import EpochCache, estimated, make_row, make_rows, over_seeds
from batchstat.simulation.sweep import sweep
from batchstat.simulation.warnings import comparison_warnings

DEFAULT_STRATEGIES = ("fixed", "static", "bucketed", "token-budget", "packed")
_BY_BATCH_SIZE = "hf-group-by-length"
"""The smallest change for many who train with a batch size: an argument of their trainer."""


@checks_keywords(Settings)
def compare(
    lengths: Profile | npt.ArrayLike,
    *,
    labels: Iterable[object] | None = None,
    strategies: Sequence[str] | str | None = None,
    current: str | None = None,
    model: CostModel | str | None = None,
    seeds: int = 1,
    subsample: float | None = None,
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> Comparison:
    """Compare batching strategies side by side on the same lengths.

    Args:
        lengths: a `Profile`, or (n,) tokens per sample.
        labels: (n,) the class of each sample, of any type, None for none; a profile has its own.
        strategies: the rows, each `name` or `name:key=value,key=value`; by default those of
            `default_strategies`. A parameter that is not given is taken from the settings. A
            framework's name, such as `fairseq`, is a strategy too, with the order and the
            distribution that belong to it.
        current: the setup that the others are compared to, written as a strategy; its batch size
            sets the budget. By default the first row of `static`, else the first row.
        model: the transformer whose compute is estimated for each row: its shape, or what
            `load_model` takes, such as `llama-3-8b`.
        seeds: number of seeds to try, counting up from that of the settings; the rows show the
            first.
        subsample: estimate from this share of the corpus, drawn at random: all numbers describe the
            subsample, and each row has an interval for the padding ratio of the whole corpus.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it:
            compute is then time, and each row has its seconds and its peak memory.
        cost_per_hour: of one such device: each row has the cost of an epoch.
        settings: the fields of `batchstat.Settings`, such as `tokens_per_batch=16384`.

    Example:
        >>> comparison = batchstat.compare([5, 90, 12, 100, 7, 8], batch_size=2)
        >>> comparison.best.label
        'token-budget'
        >>> round(comparison["bucketed"].counts.padding_ratio, 3)
        0.067

    Raises:
        OptionError: a setting, strategy or parameter that is wrong by itself.
        InputError: no samples, the settings leave none, or a calibration that cannot be used.
    """
    wanted, shape = Settings(**settings), as_model(model)
    device = as_device(
        calibration,
        cost_per_hour,
        shape,
        gradient_accumulation_steps=wanted.gradient_accumulation_steps,
    )
    check_seeds(wanted, seeds)
    inputs = resolve_inputs(lengths, labels, wanted.keep_labels)
    if strategies is None:
        strategies = default_strategies(wanted, current)
    elif isinstance(strategies, str):
        strategies = (strategies,)
    if current is not None:
        strategies = (current, *strategies)
    basis = resolve_settings(wanted, inputs, strategies, current)
    requests = parse_strategies(strategies, basis)
    drawn = None
    if subsample is not None:
        windows = [request.strategy.looks_ahead or 0 for request in requests]
        drawn = draw(inputs.samples, check_share(subsample, wanted), basis, max(windows))
    epochs = EpochCache(inputs.samples if drawn is None else drawn.samples)
    rows, empty = make_rows(requests, epochs, batch_cost(shape, device), device)
    if seeds > 1:
        rows = over_seeds(rows, epochs.samples, seeds)
    if drawn is not None:
        rows = estimated(rows, drawn)
    if current is not None and rows[0].label != current:
        raise InputError(empty[0].message)
    rows = [
        replace(row, first_batches=first_batches(row.request, epochs.of(row.request.settings)))
        for row in rows
    ]
    choice = choose(rows, basis.tokens_per_batch, current)
    best = choice.best or choice.current
    shares = epochs.of(basis)
    shown = {row.name for row in rows}
    return Comparison(
        created=datetime.now(UTC).isoformat(),
        samples=len(epochs.samples),
        corpus=inputs.corpus,
        tokenizer=inputs.tokenizer,
        basis=basis,
        model=shape,
        seeds=seeds,
        strategies=tuple(rows),
        not_shown=tuple(name for name in OWN_STRATEGIES if name not in shown),
        choice=choice,
        bounds=_bounds(best.request.strategy, shares, basis),
        sweep=sweep(best.request, basis, epochs.of),
        warnings=(
            *empty,
            *comparison_warnings(rows, shares.epoch, basis, inputs.stats),
            *device_warnings(rows, device, basis.widest),
        ),
        source=inputs.samples,
        subsample=None if drawn is None else drawn.facts,
        device=device,
    )


def default_strategies(settings: Settings, current: str | None = None) -> tuple[str, ...]:
    """Return the strategies that are compared unless some are named: `DEFAULT_STRATEGIES` but for
    that of the current setup, and the Trainer's own length grouping where there is a batch size.

    Raises:
        OptionError: a current setup that is wrong by itself.
    """
    names: tuple[str, ...] = DEFAULT_STRATEGIES
    size, without = settings.batch_size, ""
    if current is not None:
        row = request_row(current, settings.resolve(longest=1, stated_max=None))
        without = "static" if isinstance(row.strategy, Static) else row.name
        size = size or (row.strategy.batch_capacity if row.sets("batch_size") else None)
    if size is not None:
        place = names.index("token-budget")
        names = (*names[:place], _BY_BATCH_SIZE, *names[place:])
    return tuple(name for name in names if name != without)


def simulate(
    profile: Profile, spec: str, settings: Settings, device: Device | None = None
) -> Simulation:
    """Simulate one strategy on the lengths of a profile.

    Args:
        profile: the corpus.
        spec: the strategy, as it is written.
        settings: the settings, as given.
        device: the calibrated device that trains, if there is one.

    Raises:
        OptionError: a strategy or parameter that is wrong by itself.
        InputError: the settings leave no samples.
    """
    inputs = resolve_inputs(profile, keep=settings.keep_labels)
    request = request_row(spec, resolve_settings(settings, inputs, [spec]))
    shares = make_shares(inputs.samples, request.settings)
    row = make_row(request, shares, batch_cost(None, device), device)
    warnings = (
        *comparison_warnings([row], shares.epoch, request.settings, profile.stats),
        *device_warnings([row], device, request.settings.widest),
    )
    return Simulation(request.settings, row, warnings, device)


def resolve_settings(
    settings: Settings,
    inputs: PlanInputs,
    strategies: Sequence[str],
    current: str | None = None,
) -> ResolvedSettings:
    """Return the settings of a comparison; the batch size of the current setup sets the budget, and
    its loss the weight of a trained token.

    Raises:
        OptionError: a strategy that is wrong by itself.
    """
    rows = parse_strategies(strategies, inputs.resolve(settings))
    return inputs.resolve(settings, current_row(rows, current))


def check_seeds(settings: Settings, seeds: int) -> int:
    """Return the number of seeds. Raises OptionError if it is not a positive integer, or the last
    seed is too large.
    """
    if settings.seed + whole_number("seeds", seeds) - 1 > MAX_INT:
        raise OptionError(f"seed={settings.seed}, seeds={seeds}: the last is above {MAX_INT:,}")
    return seeds


def _bounds(best: Strategy, shares: EpochShares, basis: ResolvedSettings) -> Bounds:
    """Return what the best row is compared with: the whole epoch sorted, cut by the row's own size
    or budget.
    """
    epoch = shares.epoch
    if not shares.is_distributed:
        epoch = concatenate_epochs([share.whole() for share in shares.shares])
    size, budget = best.batch_capacity, best.budget or basis.tokens_per_batch
    own = f"batch_size={size}" if size is not None else f"tokens_per_batch={budget}"
    name = "token-budget" if size is None else "bucketed"
    spec = f"{name}:{own},read_ahead={epoch.count},drop_last=false"
    alone = replace(basis, world_size=1, max_samples=None)
    whole = replace(shares, epoch=epoch, shares=(epoch,))
    counts = measure(request_row(spec, alone), whole, by_sample=False).counts
    return Bounds(
        batches=max(1, -(-counts.real_tokens // basis.tokens_per_batch)),
        packed_rows=min_packed_rows(epoch.stats, basis.max_length),
        sorted_strategy=name,
        sorted_batches=counts.batches,
        sorted_padding_tokens=counts.padding_tokens,
        sorted_total_tokens=counts.total_tokens,
    )
