"""Rows of a table: strategies planned and measured on the same epoch."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy.typing as npt

from batchstat.batching import STRATEGIES, Strategy
from batchstat.batching.presets import preset_spec
from batchstat.batching.spec import parse_strategy
from batchstat.bounds import Bounds, least_rows
from batchstat.costs import CostModel
from batchstat.errors import InputError, NoBatchError, OptionError
from batchstat.options import MOST, whole_number
from batchstat.profiling.record import Profile
from batchstat.profiling.stats import log_edges
from batchstat.report import (
    ENOUGH,
    Comparison,
    ReportWarning,
    SeedSpread,
    Simulation,
    StrategyResult,
)
from batchstat.sampling import Samples
from batchstat.sampling.epoch import together
from batchstat.settings import Basis, Settings
from batchstat.simulation.cautions import cautions
from batchstat.simulation.given import as_given
from batchstat.simulation.sweeping import sweep
from batchstat.simulation.work import Work, make_work, measured

DEFAULT_STRATEGIES = ("fixed", "static", "bucketed", "token-budget", "packed")


def compare(
    lengths: Profile | npt.ArrayLike,
    *,
    labels: Iterable[object] | None = None,
    strategies: Sequence[str] = DEFAULT_STRATEGIES,
    presets: Sequence[str] = (),
    model: CostModel | None = None,
    seeds: int = 1,
    **settings: Any,
) -> Comparison:
    """Batching strategies side by side on the same lengths.

    Args:
        lengths: a `Profile`, or (n,) tokens a sample.
        labels: (n,) the class of each sample, of any type, None for none; a profile has its own.
        strategies: the rows, each `name` or `name:key=value,key=value`; a parameter that a row
            leaves out is taken from the settings.
        presets: names of what people run, such as `fairseq`: more rows.
        model: the shape of a transformer, to estimate what the rows cost it.
        seeds: how many seeds to try, from that of the settings on; the rows are of the first.
        settings: the fields of `batchstat.Settings`, such as `tokens_per_batch=16384`.

    Raises:
        OptionError: a setting, strategy, preset or parameter that is wrong by itself.
        InputError: no sample, or none that is left by these settings.
    """
    wanted = Settings(**settings)
    check_seeds(wanted, seeds)
    given = as_given(lengths, labels, wanted.keep_labels)
    profile = given.profile
    basis = wanted.decide(given.stats.max, given.stated_max)
    parsed = parse_strategies(strategies, basis, presets)
    work = make_work(given.samples, basis)
    parsed, rows, empty = _rows(parsed, work, basis)
    if seeds > 1:
        rows = _over_seeds(rows, parsed, given.samples, basis, seeds)
    best = best_row(rows, basis.tokens_per_batch)
    chosen = parsed[rows.index(best)][1]
    shown = {row.name for row in rows}
    return Comparison(
        created=datetime.now(UTC).isoformat(),
        samples=len(given.samples),
        corpus=profile.corpus if profile else None,
        tokenizer=profile.tokenizer if profile else None,
        basis=basis,
        model=model,
        seeds=seeds,
        strategies=tuple(rows),
        left_out=tuple(name for name in STRATEGIES if name not in shown),
        best=best,
        bounds=_bounds(work, basis),
        sweep=sweep(best, chosen, work, basis),
        warnings=(*empty, *cautions(rows, work.visits, basis, given.stats)),
    )


def simulate(profile: Profile, spec: str, settings: Settings) -> Simulation:
    """One strategy on the lengths of a profile.

    Raises:
        OptionError: a strategy or parameter that is wrong by itself.
        InputError: no sample is left by these settings.
    """
    basis = settings.decide(profile.stats.max, profile.stated_max)
    strategy = parse_strategy(spec, asdict(basis))
    work = make_work(as_given(profile, keep=basis.keep_labels).samples, basis)
    row = make_row(Written(spec, None), strategy, work, basis)
    return Simulation(basis, row, tuple(cautions([row], work.visits, basis, profile.stats)))


def check_seeds(settings: Settings, seeds: int) -> int:
    """How many seeds. Raises OptionError: not a whole number above 0, or the last is too large."""
    if settings.seed + whole_number("seeds", seeds) - 1 > MOST:
        raise OptionError(f"seed={settings.seed}, seeds={seeds}: the last is above {MOST:,}")
    return seeds


class Written(NamedTuple):
    """How a row is asked for: a strategy, and the preset that it comes from."""

    spec: str
    preset: str | None


def parse_strategies(
    specs: Sequence[str], basis: Basis, presets: Sequence[str] = ()
) -> list[tuple[Written, Strategy]]:
    """The strategies of a table, each once. Raises OptionError: none, or one that is wrong."""
    written = [Written(spec, None) for spec in specs]
    written += [Written(preset_spec(name, basis.max_length), name) for name in presets]
    if not written:
        raise OptionError("no strategy: name at least one")
    return [(each, parse_strategy(each.spec, asdict(basis))) for each in dict.fromkeys(written)]


def best_row(rows: Sequence[StrategyResult], tokens_per_batch: int) -> StrategyResult:
    """Of the rows with the fewest batches at equal peak (5 % more count as equal), the one with
    the least padding. Padding alone would choose tiny batches; what loses more of the corpus than
    another row, by over half a point, has fewer batches for that.
    """
    least = min(row.counts.lost_ratio for row in rows)
    rows = [row for row in rows if row.counts.lost_ratio <= least + ENOUGH]
    peak = max(tokens_per_batch, min(row.counts.max_batch_tokens for row in rows))
    within = [row for row in rows if row.counts.max_batch_tokens <= peak]
    fewest = min(row.counts.batches for row in within)
    close = [row for row in within if row.counts.batches * 20 <= fewest * 21]
    return min(
        close,
        key=lambda row: (row.counts.padding_ratio, row.counts.batches, row.name != "static"),
    )


def _rows(
    parsed: list[tuple[Written, Strategy]], work: Work, basis: Basis
) -> tuple[list[tuple[Written, Strategy]], list[StrategyResult], list[ReportWarning]]:
    """Those rows that have a batch, with what they come from; and which have none.

    Raises:
        InputError: none of them has.
    """
    kept, rows, empty = [], [], []
    for written, strategy in parsed:
        try:
            rows.append(make_row(written, strategy, work, basis))
            kept.append((written, strategy))
        except NoBatchError as error:
            if len(parsed) == 1:
                raise
            label = written.preset or written.spec
            empty.append(ReportWarning("no_batch", f"{label} has no row: {error}"))
    if not rows:
        raise InputError("; ".join(warning.message for warning in empty))
    return kept, rows, empty


def make_row(written: Written, strategy: Strategy, work: Work, basis: Basis) -> StrategyResult:
    """One row. Raises InputError: no batch is left, or no token."""
    counts, widths, steps = measured(strategy, work, basis)
    return StrategyResult(
        name=written.spec.partition(":")[0],
        spec=written.spec,
        preset=written.preset,
        params=asdict(strategy),
        counts=counts,
        widths=widths.histogram(log_edges(widths.min, widths.max, per_octave=4)),
        steps=steps if basis.world_size > 1 else None,
    )


def _over_seeds(
    rows: Sequence[StrategyResult],
    parsed: Sequence[tuple[Written, Strategy]],
    samples: Samples,
    basis: Basis,
    seeds: int,
) -> list[StrategyResult]:
    found = [[row.counts] for row in rows]
    for seed in range(basis.seed + 1, basis.seed + seeds):
        other = replace(basis, seed=seed)
        work = make_work(samples, other)
        for of_row, (_, strategy) in zip(found, parsed, strict=True):
            of_row.append(measured(strategy, work, other, by_sample=False).counts)
    return [
        replace(row, seeds=SeedSpread.of(counts)) for row, counts in zip(rows, found, strict=True)
    ]


def _bounds(work: Work, basis: Basis) -> Bounds:
    visits = work.visits if work.is_dealt else together(work.shares)
    whole = {"read_ahead": len(visits.lengths), "max_samples": None, "drop_last": False}
    strategy = parse_strategy("token-budget", asdict(basis) | whole)
    whole_epoch = replace(work, shares=(visits,))
    counts, _, _ = measured(strategy, whole_epoch, replace(basis, world_size=1), by_sample=False)
    return Bounds(
        batches=max(1, -(-counts.real_tokens // basis.tokens_per_batch)),
        packed_rows=least_rows(visits.lengths, basis.max_length),
        sorted_batches=counts.batches,
        sorted_padding_tokens=counts.padding_tokens,
        sorted_total_tokens=counts.total_tokens,
    )
