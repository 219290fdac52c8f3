"""Lengths to a `Comparison`: every strategy planned and measured on the same epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from batchstat.batching import Strategy
from batchstat.batching.cutting import round_up
from batchstat.batching.planning import plan_windows
from batchstat.batching.spec import parse_strategy
from batchstat.errors import InputError, OptionError
from batchstat.metrics import measure
from batchstat.profiling.record import Profile
from batchstat.profiling.stats import LengthStats, log_edges
from batchstat.report import (
    Comparison,
    ReportWarning,
    Simulation,
    StrategyResult,
    Sweep,
    SweepPoint,
)
from batchstat.sampling import Epoch, make_epoch, make_order
from batchstat.settings import Basis, Settings

DEFAULT_STRATEGIES = ("fixed", "static", "bucketed", "token-budget")

_MOST_WINDOWS = 100_000
"""The sweep leaves out a `read_ahead` that would make more windows than this."""

Ints = npt.NDArray[np.integer]


def compare(
    lengths: Profile | npt.ArrayLike,
    *,
    strategies: Sequence[str] = DEFAULT_STRATEGIES,
    **settings: Any,
) -> Comparison:
    """Batching strategies side by side on the same lengths.

    Args:
        lengths: a `Profile`, or (n,) tokens a sample.
        strategies: the rows, each `name` or `name:key=value,key=value`; a parameter that a row
            leaves out is taken from the settings.
        settings: the fields of `batchstat.Settings`, such as `tokens_per_batch=16384`.

    Raises:
        OptionError: a setting, strategy or parameter that is wrong by itself.
        InputError: no sample, or none that is left by these settings.
    """
    given = Settings(**settings)
    if isinstance(lengths, Profile):
        profile, whole, stats = lengths, lengths.lengths, lengths.stats
    else:
        profile, whole = None, _checked(lengths)
        stats = LengthStats.of(whole)
    basis = given.decide(stats.max, profile.stated_max if profile else None)
    parsed = parse_strategies(strategies, basis)
    visits = _visits(whole, profile.records if profile else np.arange(len(whole)), basis)
    rows = tuple(_row(spec, strategy, visits, basis) for spec, strategy in parsed.items())
    best = best_row(rows, basis.tokens_per_batch)
    return Comparison(
        created=datetime.now(UTC).isoformat(),
        samples=len(whole),
        corpus=profile.corpus if profile else None,
        tokenizer=profile.tokenizer if profile else None,
        basis=basis,
        strategies=rows,
        best=best,
        sweep=_sweep(best.spec, parsed[best.spec], visits, basis),
        warnings=tuple(_warnings(rows, visits, basis, stats)),
    )


def simulate(profile: Profile, spec: str, settings: Settings) -> Simulation:
    """One strategy on the lengths of a profile.

    Raises:
        OptionError: a strategy or parameter that is wrong by itself.
        InputError: no sample is left by these settings.
    """
    basis = settings.decide(profile.stats.max, profile.stated_max)
    strategy = parse_strategy(spec, asdict(basis))
    visits = _visits(profile.lengths, profile.records, basis)
    row = _row(spec, strategy, visits, basis)
    return Simulation(basis, row, tuple(_warnings([row], visits, basis, profile.stats)))


def parse_strategies(specs: Sequence[str], basis: Basis) -> dict[str, Strategy]:
    """Strategies by how they are written. Raises OptionError: none, or one that is wrong."""
    if not specs:
        raise OptionError("no strategy: name at least one")
    return {spec: parse_strategy(spec, asdict(basis)) for spec in specs}


def best_row(rows: Sequence[StrategyResult], tokens_per_batch: int) -> StrategyResult:
    """Of the rows with the fewest batches at equal peak (5 % more count as equal), the one with
    the least padding. Padding alone would choose tiny batches.
    """
    peak = max(tokens_per_batch, min(row.counts.max_batch_tokens for row in rows))
    within = [row for row in rows if row.counts.max_batch_tokens <= peak]
    fewest = min(row.counts.batches for row in within)
    close = [row for row in within if row.counts.batches * 20 <= fewest * 21]
    return min(
        close,
        key=lambda row: (row.counts.padding_ratio, row.counts.batches, row.name != "static"),
    )


def _checked(lengths: npt.ArrayLike) -> Ints:
    try:
        array = np.asarray(lengths)
    except ValueError as error:
        raise OptionError(f"lengths are no array: {error}") from None
    if array.size == 0:
        raise InputError("no lengths: compare needs at least one sample")
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise OptionError(
            f"lengths must be whole numbers in one dimension, and are {array.dtype} of shape "
            f"{array.shape}: give tokens a sample, or a Profile"
        )
    bad = np.flatnonzero((array < 0) | (array >= 2**31))
    if len(bad):
        raise OptionError(
            f"lengths[{bad[0]}] is {array[bad[0]]}: must be between 0 and {2**31 - 1:,}"
        )
    return array.astype(np.int64)


def _visits(lengths: Ints, records: Ints, basis: Basis) -> Epoch:
    sequence = make_order(len(lengths), basis.order, seed=basis.seed, epoch=basis.epoch)
    visits = make_epoch(records[sequence], lengths[sequence], basis.max_length, basis.overflow)
    if len(visits.lengths) == 0:
        raise InputError(
            f"overflow=drop leaves no sample: all are longer than max_length={basis.max_length}"
        )
    return visits


def _row(spec: str, strategy: Strategy, visits: Epoch, basis: Basis) -> StrategyResult:
    plans = plan_windows(strategy, visits, seed=basis.seed, epoch=basis.epoch)
    counts, batches = measure(
        plans, visits, tokens_per_batch=_budget(strategy, basis), accumulate=basis.accumulate
    )
    widths = LengthStats.of(batches.widths)
    return StrategyResult(
        name=spec.partition(":")[0],
        spec=spec,
        params=asdict(strategy),
        counts=counts,
        widths=widths.histogram(log_edges(widths.min, widths.max, per_octave=4)),
    )


def _budget(strategy: Strategy, basis: Basis) -> int:
    budget: int = getattr(strategy, "tokens_per_batch", basis.tokens_per_batch)
    return budget


def _sweep(spec: str, best: Strategy, visits: Epoch, basis: Basis) -> Sweep:
    """The best row over rising `read_ahead`; `token-budget` where the best row has none."""
    if best.window_size is None:
        spec = "token-budget"
        best = parse_strategy(spec, asdict(basis))
    points = []
    for size in read_aheads(len(visits.lengths), also=best.window_size):
        strategy = replace(best, read_ahead=size)  # type: ignore[call-arg]
        plans = plan_windows(strategy, visits, seed=basis.seed, epoch=basis.epoch)
        counts, _ = measure(plans, visits, tokens_per_batch=_budget(strategy, basis))
        points.append(
            SweepPoint(
                read_ahead=size,
                batches=counts.batches,
                padding_tokens=counts.padding_tokens,
                total_tokens=counts.total_tokens,
            )
        )
    return Sweep(spec=spec, points=tuple(points))


def read_aheads(n: int, also: int | None = None) -> list[int]:
    """Values of `read_ahead` worth a look for n samples: rising, the last is all of them."""
    steps = {m * 10**e for e in range(2, 10) for m in (1, 2, 5)}
    least = max(100, n // _MOST_WINDOWS)
    return sorted({size for size in steps | {also or n} if least <= size < n} | {n})


def _warnings(
    rows: Sequence[StrategyResult], visits: Epoch, basis: Basis, stats: LengthStats
) -> Iterator[ReportWarning]:
    budget = basis.tokens_per_batch
    long = int(np.count_nonzero(round_up(visits.lengths, basis.pad_to_multiple_of) > budget))
    if long:
        longest = int(visits.lengths.argmax())
        yield ReportWarning(
            "long_samples",
            f"longer than tokens_per_batch={budget:,}: {long:,} of {len(visits.lengths):,} "
            f"samples, the longest is record {visits.samples[longest]} with "
            f"{visits.lengths[longest]:,} tokens: even a batch of one is over the budget",
        )
    over = [
        f"{row.spec} {row.counts.over_budget_batches:,} of {row.counts.batches:,} "
        f"(largest {row.counts.max_batch_tokens:,})"
        for row in rows
        if row.counts.over_budget_batches
    ]
    if over:
        yield ReportWarning("over_budget", f"batches over their budget: {'; '.join(over)}")
    above = [
        f"{row.spec} ({row.counts.max_batch_tokens:,})"
        for row in rows
        if not row.counts.over_budget_batches and row.counts.max_batch_tokens > budget
    ]
    if above:
        yield ReportWarning(
            "unequal_peak",
            f"not at equal peak memory: batches above {budget:,} tokens in {', '.join(above)}",
        )
    width = -(-basis.max_length // basis.pad_to_multiple_of) * basis.pad_to_multiple_of
    fixed = any("batch_size" in row.params for row in rows)
    if fixed and basis.batch_size == 1 and len(visits.lengths) > 1 and budget // width <= 1:
        short = stats.percentile(990)
        yield ReportWarning(
            "batch_of_one",
            f"batch_size is 1, since max_length={basis.max_length:,} leaves room for one sample in "
            f"tokens_per_batch={budget:,}: "
            + (
                f"--max-length {short} would cut 1% of the samples"
                if short < basis.max_length
                else "raise --tokens-per-batch"
            ),
        )
