"""Rows of a comparison: strategies planned and measured on the same epoch."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy.typing as npt

from batchstat.errors import InputError, NoBatchError, OptionError
from batchstat.lengths.stats import log_edges
from batchstat.parameters import MAX_INT, whole_number
from batchstat.planning.epoch import concatenate_epochs
from batchstat.planning.inputs import PlanInputs, resolve_inputs
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies import OWN_STRATEGIES
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.spec import (
    RowRequest,
    parse_strategies,
    parse_strategy,
    request_row,
)
from batchstat.planning.strategies.static import Static
from batchstat.profiling.profile import Profile
from batchstat.simulation.bounds import Bounds, min_packed_rows
from batchstat.simulation.comparison import (
    Comparison,
    ReportWarning,
    SeedSpread,
    Simulation,
    StrategyResult,
)
from batchstat.simulation.cost_model import CostModel
from batchstat.simulation.estimate import Drawn, check_share, draw
from batchstat.simulation.measure import measured
from batchstat.simulation.recommendation import choose
from batchstat.simulation.sweep import sweep
from batchstat.simulation.warnings import comparison_warnings

DEFAULT_STRATEGIES = ("fixed", "static", "bucketed", "token-budget", "packed")


def compare(
    lengths: Profile | npt.ArrayLike,
    *,
    labels: Iterable[object] | None = None,
    strategies: Sequence[str] = DEFAULT_STRATEGIES,
    model: CostModel | None = None,
    seeds: int = 1,
    subsample: float | None = None,
    **settings: Any,
) -> Comparison:
    """Compare batching strategies side by side on the same lengths.

    Args:
        lengths: a `Profile`, or (n,) tokens per sample.
        labels: (n,) the class of each sample, of any type, None for none; a profile has its own.
        strategies: the rows, each `name` or `name:key=value,key=value`; a parameter that is not
            given is taken from the settings. A framework's name, such as `fairseq`, is a strategy
            too, with the order and the distribution that belong to it.
        model: the shape of a transformer, to estimate its compute for each row.
        seeds: number of seeds to try, counting up from that of the settings; the rows show the
            first.
        subsample: estimate from this share of the corpus, drawn at random: all numbers describe the
            subsample, and each row has an interval for the padding ratio of the whole corpus.
        settings: the fields of `batchstat.Settings`, such as `tokens_per_batch=16384`.

    Raises:
        OptionError: a setting, strategy or parameter that is wrong by itself.
        InputError: no samples, or the settings leave none.
    """
    wanted = Settings(**settings)
    check_seeds(wanted, seeds)
    given = resolve_inputs(lengths, labels, wanted.keep_labels)
    profile = given.profile
    basis = resolve_settings(wanted, given, strategies)
    parsed = parse_strategies(strategies, basis)
    drawn = None
    if subsample is not None:
        windows = [each.strategy.looks_ahead or 0 for each in parsed]
        drawn = draw(given.samples, check_share(subsample, wanted), basis, max(windows))
    samples = given.samples if drawn is None else drawn.samples
    works = _EpochCache(samples)
    asked, rows, empty = _rows(parsed, works, model)
    if seeds > 1:
        rows = _over_seeds(rows, asked, samples, basis, seeds)
    if drawn is not None:
        rows = _estimated(rows, asked, drawn)
    choice = choose(rows, basis.tokens_per_batch)
    best = choice.best or choice.current
    work = works.of(basis)
    shown = {row.name for row in rows}
    return Comparison(
        created=datetime.now(UTC).isoformat(),
        samples=len(samples),
        corpus=profile.corpus if profile else None,
        tokenizer=profile.tokenizer if profile else None,
        basis=basis,
        model=model,
        seeds=seeds,
        strategies=tuple(rows),
        not_shown=tuple(name for name in OWN_STRATEGIES if name not in shown),
        choice=choice,
        bounds=_bounds(best.request.strategy, work, basis),
        sweep=sweep(best, basis, works.of),
        warnings=(*empty, *comparison_warnings(rows, work.visits, basis, given.stats)),
        subsample=None if drawn is None else drawn.facts,
    )


def simulate(profile: Profile, spec: str, settings: Settings) -> Simulation:
    """Simulate one strategy on the lengths of a profile.

    Raises:
        OptionError: a strategy or parameter that is wrong by itself.
        InputError: the settings leave no samples.
    """
    given = resolve_inputs(profile, keep=settings.keep_labels)
    basis = resolve_settings(settings, given, [spec])
    asked = request_row(spec, basis)
    work = make_shares(given.samples, asked.settings)
    row = make_row(asked, work)
    return Simulation(
        basis, row, tuple(comparison_warnings([row], work.visits, basis, profile.stats))
    )


def resolve_settings(
    settings: Settings, given: PlanInputs, strategies: Sequence[str]
) -> ResolvedSettings:
    """Return the settings of a comparison; the batch size of the current setup sets the budget.

    Raises:
        OptionError: a strategy that is wrong by itself.
    """
    basis = settings.resolve(given.stats.max, given.stated_max)
    rows = parse_strategies(strategies, basis)
    current = next((row for row in rows if isinstance(row.strategy, Static)), rows[0])
    own = current.strategy.batch_capacity if current.sets("batch_size") else None
    return settings.resolve(given.stats.max, given.stated_max, own)


def check_seeds(settings: Settings, seeds: int) -> int:
    """Return the number of seeds. Raises OptionError if it is not a positive integer, or the last
    seed is too large.
    """
    if settings.seed + whole_number("seeds", seeds) - 1 > MAX_INT:
        raise OptionError(f"seed={settings.seed}, seeds={seeds}: the last is above {MAX_INT:,}")
    return seeds


def _rows(
    asked: list[RowRequest], works: "_EpochCache", model: CostModel | None
) -> tuple[list[RowRequest], list[StrategyResult], list[ReportWarning]]:
    """Measure the rows that have a batch; return what they were made from, the results, and
    warnings for rows without a batch.

    Raises:
        InputError: none of them has a batch.
    """
    kept, rows, empty = [], [], []
    for each in asked:
        try:
            rows.append(make_row(each, works.of(each.settings), model))
            kept.append(each)
        except NoBatchError as error:
            if len(asked) == 1:
                raise
            empty.append(ReportWarning("no_batch", f"{each.spec} is not shown: {error}"))
    if not rows:
        raise InputError("; ".join(warning.message for warning in empty))
    return kept, rows, empty


class _EpochCache:
    """The epochs of a corpus, made once per order and way of distributing."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._made: dict[tuple[str, str, str], EpochShares] = {}

    def of(self, basis: ResolvedSettings) -> EpochShares:
        key = (basis.order, basis.distribute, basis.remainder)
        if key not in self._made:
            self._made[key] = make_shares(self.samples, basis)
        return self._made[key]


def make_row(
    asked: RowRequest, work: EpochShares, model: CostModel | None = None
) -> StrategyResult:
    """Measure one row. Raises InputError if there is no batch, or no token."""
    counts, widths, steps = measured(asked.strategy, work, asked.settings, model=model)
    return StrategyResult(
        request=asked,
        counts=counts,
        widths=widths.histogram(log_edges(widths.min, widths.max, per_octave=4)),
        steps=steps if asked.settings.world_size > 1 else None,
    )


def _over_seeds(
    rows: Sequence[StrategyResult],
    asked: Sequence[RowRequest],
    samples: Samples,
    basis: ResolvedSettings,
    seeds: int,
) -> list[StrategyResult]:
    found = [[row.counts] for row in rows]
    for seed in range(basis.seed + 1, basis.seed + seeds):
        works = _EpochCache(samples)
        for of_row, each in zip(found, asked, strict=True):
            other = replace(each.settings, seed=seed)
            counts = measured(each.strategy, works.of(other), other, by_sample=False).counts
            of_row.append(counts)
    return [
        replace(row, seeds=SeedSpread.of(counts)) for row, counts in zip(rows, found, strict=True)
    ]


def _estimated(
    rows: Sequence[StrategyResult], asked: Sequence[RowRequest], drawn: Drawn
) -> list[StrategyResult]:
    works = [_EpochCache(group) for group in drawn.groups]
    found = []
    for row, each in zip(rows, asked, strict=True):
        ratios = [
            measured(each.strategy, work.of(each.settings), each.settings, by_sample=False).counts
            for work in works
        ]
        interval = drawn.interval(row.counts.padding_ratio, [r.padding_ratio for r in ratios])
        found.append(replace(row, interval=interval))
    return found


def _bounds(best: Strategy, work: EpochShares, basis: ResolvedSettings) -> Bounds:
    """Return what the best row is compared with: the whole epoch sorted, cut by the row's own size
    or budget.
    """
    visits = work.visits if work.is_distributed else concatenate_epochs(work.shares)
    size = best.batch_capacity
    spec = "token-budget" if size is None else "bucketed"
    own = {
        "tokens_per_batch": best.budget or basis.tokens_per_batch,
        "batch_size": size,
        "read_ahead": visits.count,
        "max_samples": None,
        "drop_last": False,
    }
    strategy = parse_strategy(spec, asdict(basis) | own)
    whole_epoch = replace(work, shares=(visits,))
    counts, _, _ = measured(strategy, whole_epoch, replace(basis, world_size=1), by_sample=False)
    return Bounds(
        batches=max(1, -(-counts.real_tokens // basis.tokens_per_batch)),
        packed_rows=min_packed_rows(visits.stats, basis.max_length),
        sorted_strategy=spec,
        sorted_batches=counts.batches,
        sorted_padding_tokens=counts.padding_tokens,
        sorted_total_tokens=counts.total_tokens,
    )
