"""Remedies for an exceeded limit: changes of the training, simulated on the same corpus.

A remedy never changes the description of the training alone: that would keep the limit and leave
the training as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from batchstat.documents.check import Remedy
from batchstat.errors import BatchstatError
from batchstat.gate.corpus_changes import adding_samples, leaving_out
from batchstat.gate.limits import Limit
from batchstat.gate.paths import value_at
from batchstat.gate.quantities import Number
from batchstat.gate.trials import Report, Trial

_MORE_LOST = 0.0005
"""Share of tokens truncated or dropped in addition that is worth mentioning."""
_MORE_COMPUTED = 1.1


@dataclass(frozen=True, kw_only=True)
class Failing:
    """An exceeded limit, and the report that exceeds it.

    Attributes:
        limit: the limit.
        value: its number.
        before: its number in the baseline, if there is one.
        kept: the limits that are kept, with their numbers in the baseline.
        report: the numbers of the simulation.
    """

    limit: Limit
    value: Number
    before: Number | None
    kept: Sequence[tuple[Limit, Number | None]] = ()
    report: Report


Written = Callable[[Trial], tuple[str, str]]
"""Returns a change of the training as its user writes it, and what of the check follows it."""


@dataclass(frozen=True)
class _Tried:
    """A change, how far it is beyond the limit, and the other limits that it breaks."""

    trial: Trial
    value: Number
    over: float
    breaks: tuple[Limit, ...]

    @property
    def rank(self) -> tuple[bool, int, float]:
        """The smaller, the better."""
        return self.over > 0, len(self.breaks), max(self.over, 0)


def find_remedy(failing: Failing, trials: Iterable[Trial], written: Written) -> Remedy | None:
    """Return the first change that keeps a limit without breaking another; else one that keeps it,
    or comes nearest; None if none helps.

    Args:
        failing: the exceeded limit, on a number of the strategy.
        trials: the changes to try, the best first.
        written: returns a change as the user writes it.
    """
    best: _Tried | None = None
    for tried in _helping(failing, trials):
        if tried.over <= 0 and not tried.breaks:
            best = tried
            break
        if best is None or tried.rank < best.rank:
            best = tried
    if best is None:
        return None
    change, then = written(best.trial)
    return Remedy(
        change=change,
        then=then,
        settings=best.trial.changes,
        value=best.value,
        keeps=best.over <= 0,
        costs=tuple(_costs(failing, best)),
    )


def corpus_remedy(limit: Limit, profile: Any) -> Remedy | None:
    """Return the change of the corpus that would keep a limit on its own numbers; None if there is
    none.
    """
    found = None
    if limit.path.startswith("lengths.") and limit.bound == "max":
        found = leaving_out(limit, profile)
    if limit.path == "class_ratio" and limit.bound == "max":
        found = adding_samples(limit, profile)
    return None if found is None else Remedy(found[0], "", {}, found[1], True, ())


def _helping(failing: Failing, trials: Iterable[Trial]) -> Iterator[_Tried]:
    """Yield each change that brings the number nearer to its limit."""
    limit, before = failing.limit, failing.before
    now = limit.over(failing.value, before)
    for trial in trials:
        try:
            value = value_at(trial.report, limit.path)
        except BatchstatError:
            continue  # for example, a strategy's own parameter
        over = limit.over(value, before)
        if over < now:
            yield _Tried(trial, value, over, tuple(_broken(failing.kept, trial.report)))


def _broken(kept: Iterable[tuple[Limit, Number | None]], report: Report) -> Iterator[Limit]:
    for limit, before in kept:
        try:
            if limit.over(value_at(report, limit.path), before) > 0:
                yield limit
        except BatchstatError:
            yield limit  # for example, one on a strategy's own parameter


def _costs(failing: Failing, tried: _Tried) -> Iterator[str]:
    """Yield side effects of the change that a user would not expect."""
    old, new = failing.report["strategy"], tried.trial.report["strategy"]
    if new["steps"] != old["steps"]:
        yield f"{new['steps']:,} steps instead of {old['steps']:,}"
    if new["max_batch_tokens"] >= _MORE_COMPUTED * old["max_batch_tokens"]:
        yield (
            f"a largest batch of {new['max_batch_tokens']:,} tokens instead of "
            f"{old['max_batch_tokens']:,}"
        )
    computed = new["total_tokens"] / old["total_tokens"]
    if computed >= _MORE_COMPUTED:
        yield f"{computed:,.1f} times the tokens"
    for kind in ("truncated", "dropped"):
        more = new[f"{kind}_ratio"] - old[f"{kind}_ratio"]
        if more >= _MORE_LOST and not failing.limit.path.startswith(f"strategy.{kind}"):
            yield f"{100 * new[f'{kind}_ratio']:.2f}% of the tokens {kind}"
    change = tried.trial.change
    if change is not None and change.row.packs_rows and not change.current.packs_rows:
        yield "varlen attention"
    if "loss" in tried.trial.changes:
        yield "batch.token_weight in the training loop"
    for limit in tried.breaks:
        yield f"{limit.name} exceeded"
