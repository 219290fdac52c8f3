"""Batching strategies side by side on the same epoch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy.typing as npt

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel, as_model
from batchstat.errors import OptionError
from batchstat.parameters import MOST_SEED, checks_keywords, whole_number
from batchstat.planning.epoch import concatenate_epochs
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.settings import ResolvedSettings, Settings, SettingsOptions
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies import OWN_STRATEGIES
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.spec import request_row
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.bounds import Bounds, min_packed_rows
from batchstat.simulation.compare.candidates import simulate_candidates
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.named_rows import Row, names_recording, request_of
from batchstat.simulation.compare.sweep import sweep
from batchstat.simulation.device import Device, as_device, batch_cost
from batchstat.simulation.meters.measure import measure
from batchstat.simulation.results import Simulation
from batchstat.simulation.rows import make_row
from batchstat.simulation.trainer_changes import Trainer
from batchstat.simulation.warnings import simulation_warnings
from batchstat.storage.addresses import local_path

if TYPE_CHECKING:
    from batchstat.simulation.current import CurrentSetup


@checks_keywords(Settings)
def compare(
    lengths: Profile | npt.ArrayLike | None = None,
    *,
    labels: Iterable[object] | None = None,
    strategies: Sequence[Row] | str | None = None,
    current: Row | Path | None = None,
    trainer: Trainer | None = None,
    model: CostModel | str | None = None,
    seeds: int = 1,
    subsample: float | None = None,
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> Comparison:
    """Compare batching strategies side by side on the same lengths.

    Args:
        lengths: a `Profile`, or (n,) tokens per sample; not beside a recording.
        labels: (n,) the class of each sample, of any type, None for none; a profile has its own.
        strategies: the rows, each `name` or `name:key=value,key=value`; by default those of
            `default_strategies`. A parameter that is not given is taken from the settings. A
            framework's name, such as `fairseq`, is a strategy too, with the order and the
            distribution that belong to it. `("mine", batches)` is a row of your own batches: a
            sampler, or lists of record numbers, as `batchstat.measure` takes them.
        current: the setup that the others are compared to, written as a strategy, or a name and
            batches as in `strategies`; or the folder of a recording, whose samples are then those
            of all rows. Its batch size sets the budget. By default the first row of `static`, else
            the first row.
        trainer: the trainer's own configuration that is the current setup; by default that of the
            trainer that `current` names, with its defaults.
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
        'bucketed'
        >>> round(comparison["bucketed"].counts.padding_ratio, 3)
        0.067

    Raises:
        OptionError: a setting, strategy or parameter that is wrong by itself.
        InputError: no samples, the settings leave none, or a calibration that cannot be used.
    """
    now = _recorded(current, lengths, settings)
    if now is not None:
        lengths, current, trainer = now.samples.profile, now.row, now.trainer
        strategies = strategies if now.strategies is None else now.strategies
    elif lengths is None:
        raise OptionError("no samples: pass a profile or lengths, or a recording as current")
    wanted = Settings(**settings) if now is None else now.settings
    shape = as_model(model)
    device = as_device(
        calibration,
        cost_per_hour,
        shape,
        gradient_accumulation_steps=wanted.gradient_accumulation_steps,
    )
    check_seeds(wanted, seeds)
    inputs = resolve_inputs(lengths, labels, wanted.keep_labels)
    if isinstance(strategies, str):
        strategies = (strategies,)
    found = simulate_candidates(
        inputs,
        wanted,
        strategies=strategies,
        current=str(current) if isinstance(current, Path) else current,
        trainer=None if trainer is None else trainer.changes,
        model=shape,
        device=device,
        seeds=seeds,
        subsample=subsample,
        with_batches=True,
    )
    basis, epochs, changes = found.basis, found.epochs, found.changes
    best = changes.best or changes.current
    shares = epochs.of(basis)
    shown = {row.name for row in found.rows}
    return Comparison(
        created=datetime.now(UTC).isoformat(),
        samples=len(epochs.samples),
        corpus=inputs.corpus,
        tokenizer=inputs.tokenizer,
        basis=basis,
        model=shape,
        seeds=seeds,
        strategies=found.rows,
        not_shown=tuple(name for name in OWN_STRATEGIES if name not in shown),
        changes=changes,
        bounds=_bounds(best.request.strategy, shares, basis),
        sweep=sweep(best.request, basis, epochs.of),
        warnings=(
            *found.empty,
            *simulation_warnings(found.rows, shares.epoch, basis, inputs.stats, device),
        ),
        source=inputs.samples,
        subsample=None if found.drawn is None else found.drawn.facts,
        device=device,
        run=None if trainer is None or trainer.observed is None else trainer.observed.run,
    )


def simulate(
    profile: Profile,
    row: Row,
    settings: Settings,
    device: Device | None = None,
    model: CostModel | None = None,
) -> Simulation:
    """Simulate one strategy on the lengths of a profile.

    Args:
        profile: the corpus.
        row: the strategy, as it is written, or a name and batches.
        settings: the settings, as given.
        device: the calibrated device that trains, if there is one.
        model: the transformer whose compute is estimated, if any.

    Raises:
        OptionError: a strategy or parameter that is wrong by itself.
        InputError: the settings leave no samples.
    """
    inputs = resolve_inputs(profile, keep=settings.keep_labels)
    request = request_of(inputs, settings, row)
    shares = make_shares(inputs.samples, request.settings)
    made = make_row(request, shares, batch_cost(model, device), device)
    warnings = simulation_warnings([made], shares.epoch, request.settings, profile.stats, device)
    return Simulation(request.settings, made, warnings, device)


def _recorded(
    current: Row | Path | None,
    lengths: Profile | npt.ArrayLike | None,
    settings: Mapping[str, Any],
) -> "CurrentSetup | None":
    """Return what was recorded in the folder that `current` names; None where it names
    something else.
    """
    if not (isinstance(current, str | Path) and names_recording(str(current))):
        return None
    # What trainers do to a corpus loads its readers, which most comparisons do not need.
    from batchstat.simulation.current import of_recording, recorded

    if lengths is not None:
        raise OptionError(f"{current}: a recording brings its own samples: leave lengths out")
    return of_recording(recorded(local_path(current)), settings)


def check_seeds(settings: Settings, seeds: int) -> int:
    """Return the number of seeds. Raises OptionError if it is not a positive integer, or the last
    seed is too large.
    """
    if settings.seed + whole_number("seeds", seeds) - 1 > MOST_SEED:
        raise OptionError(f"seed={settings.seed}, seeds={seeds}: the last is above {MOST_SEED:,}")
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
