"""Remedies for an exceeded limit: changes simulated on the same corpus."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from batchstat.errors import BatchstatError
from batchstat.gate.corpus_changes import adding_samples, leaving_out
from batchstat.gate.limits import Limit
from batchstat.gate.paths import value_at
from batchstat.gate.quantities import Number
from batchstat.gate.setting_changes import Changes, changes_of
from batchstat.planning.settings import Settings
from batchstat.profiling.profile import Profile

Report = Mapping[str, Any]

_MORE_LOST = 0.0005
"""Share of tokens truncated or dropped in addition that is worth mentioning."""
_MORE_COMPUTED = 1.1


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """One change and its effect.

    Attributes:
        change: the change, as the user writes it; in words for a change to the corpus.
        settings: the values it sets, by the names of settings and `strategy`, or of keys of the
            trainer's configuration; empty for a change to the corpus.
        value: the limited number with this change.
        keeps: whether the limit is then met.
        costs: side effects, each in words.
    """

    change: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    value: Number
    keeps: bool
    costs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Failing:
    """An exceeded limit, and the simulation that exceeds it.

    Attributes:
        limit: the limit.
        value: its number.
        before: its number in the baseline, if there is one.
        kept: the limits that are kept, with their numbers in the baseline.
        profile: the corpus.
        strategy: the strategy, as it is written.
        settings: the settings, as given.
        report: the numbers of the simulation.
    """

    limit: Limit
    value: Number
    before: Number | None
    kept: Sequence[tuple[Limit, Number | None]] = ()
    profile: Profile
    strategy: str
    settings: Settings
    report: Report


@dataclass(frozen=True)
class Alternative:
    """A change to try, and what it leads to.

    Attributes:
        changes: the values that it sets.
        profile: the samples that are then batched.
        strategy: the strategy.
        settings: the settings.
        costs: what it needs, each in words.
    """

    changes: Changes
    profile: Profile
    strategy: str
    settings: Settings
    costs: tuple[str, ...] = ()


Simulated = Callable[[Profile, str, Settings], Report]
"""Returns the report of a strategy on some samples, with some settings."""


@dataclass(frozen=True)
class _Tried:
    """A change, how far it is beyond the limit, and the other limits that it breaks."""

    alternative: Alternative
    value: Number
    over: float
    breaks: tuple[Limit, ...]
    report: Report


def find_remedy(
    failing: Failing,
    alternatives: Iterable[Alternative],
    simulated: Simulated,
    written: Callable[[Changes], str],
) -> Remedy | None:
    """Return the first change that keeps a limit without breaking another; else one that keeps it,
    or comes nearest.

    None if none helps. No change is suggested whose batches exceed the budget or the present peak.

    Args:
        failing: the exceeded limit.
        alternatives: the changes to try.
        simulated: returns the report of one.
        written: returns changes as the user writes them.
    """
    limit = failing.limit
    if limit.path.startswith("lengths.") and limit.bound == "max":
        return _of_corpus(leaving_out(limit, failing.profile))
    if limit.path == "class_ratio" and limit.bound == "max":
        return _of_corpus(adding_samples(limit, failing.profile))
    best: _Tried | None = None
    for tried in _all_tried(failing, alternatives, simulated):
        if tried.over <= 0 and not tried.breaks:
            best = tried
            break
        if best is None or _rank(tried) < _rank(best):
            best = tried
    if best is None:
        return None
    return Remedy(
        change=written(best.alternative.changes),
        settings=best.alternative.changes,
        value=best.value,
        keeps=best.over <= 0,
        costs=tuple(_costs(failing, best)),
    )


def _rank(tried: _Tried) -> tuple[bool, int, float]:
    return tried.over > 0, len(tried.breaks), max(tried.over, 0)


def _of_corpus(found: tuple[str, Number] | None) -> Remedy | None:
    return None if found is None else Remedy(change=found[0], value=found[1], keeps=True)


def alternative_settings(failing: Failing) -> Iterator[Alternative]:
    """Yield other settings and strategies, none of which packs several samples per row."""
    profile = failing.profile
    for changes in changes_of(failing.limit, profile, failing.strategy, failing.settings):
        others = {key: value for key, value in changes.items() if key != "strategy"}
        try:
            settings = replace(failing.settings, **others)
        except BatchstatError:
            continue  # mutually exclusive
        strategy = changes.get("strategy", failing.strategy)
        yield Alternative(changes, profile, strategy, settings)


def _all_tried(
    failing: Failing, alternatives: Iterable[Alternative], simulated: Simulated
) -> Iterator[_Tried]:
    """Yield each change that brings the number nearer to its limit without a higher peak."""
    limit, before = failing.limit, failing.before
    now = limit.over(failing.value, before)
    if not limit.path.startswith("strategy."):
        return
    for each in alternatives:
        try:
            report = simulated(each.profile, each.strategy, each.settings)
            value = value_at(report, limit.path)
        except BatchstatError:
            continue  # it leaves no batch
        over = limit.over(value, before)
        if over < now and not _is_larger(report, failing.report):
            breaks = tuple(_broken(failing.kept, report))
            yield _Tried(each, value, over, breaks, report)


def _is_larger(report: Report, now: Report) -> bool:
    """Return whether more batches exceed the budget, or one exceeds it and the present peak."""
    new, old = report["strategy"], now["strategy"]
    peak = max(now["basis"]["tokens_per_batch"], old["max_batch_tokens"])
    more: bool = new["over_budget_batches"] > old["over_budget_batches"]
    return more or new["max_batch_tokens"] > peak


def _broken(kept: Iterable[tuple[Limit, Number | None]], report: Report) -> Iterator[Limit]:
    for limit, before in kept:
        try:
            if limit.over(value_at(report, limit.path), before) > 0:
                yield limit
        except BatchstatError:
            yield limit  # for example, one on a strategy's own parameter


def _costs(failing: Failing, tried: _Tried) -> Iterator[str]:
    """Yield side effects of the change that a user would not expect."""
    yield from tried.alternative.costs
    old, new = failing.report["strategy"], tried.report["strategy"]
    computed = new["total_tokens"] / old["total_tokens"]
    if computed >= _MORE_COMPUTED:
        yield f"computes {computed:,.1f} times the tokens"
    for kind in ("truncated", "dropped"):
        more = new[f"{kind}_ratio"] - old[f"{kind}_ratio"]
        if more >= _MORE_LOST and not failing.limit.path.startswith(f"strategy.{kind}"):
            yield f"{100 * new[f'{kind}_ratio']:.2f}% of the tokens are {kind}"
    if "loss" in tried.alternative.changes:
        yield "needs batch.token_weight in the training loop"
    for limit in tried.breaks:
        yield f"{limit.name} is exceeded"
