"""Remedies for an exceeded limit: changes of the training, simulated on the same corpus.

A remedy never changes the description of the training alone: that would keep the limit and leave
the training as it is.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from batchstat.documents.check import Remedy
from batchstat.errors import BatchstatError
from batchstat.gate.corpus_changes import adding_samples, leaving_out
from batchstat.gate.limits import Limit
from batchstat.gate.outcome import Outcome
from batchstat.gate.paths import value_at
from batchstat.gate.trials import Report, Trial
from batchstat.profiling.profile import Profile

_MORE_LOST = 0.0005
"""Share of tokens truncated or dropped in addition that is worth mentioning."""
_MORE_COMPUTED = 1.1

Written = Callable[[Trial], tuple[str, str]]
"""Returns a change of the training as its user writes it, and what of the check follows it."""


@dataclass(frozen=True)
class _Tried:
    """A change, how far it is beyond the limit, and the other limits that it breaks."""

    trial: Trial
    over: float
    breaks: tuple[Limit, ...]

    @property
    def keeps_all(self) -> bool:
        """Whether it keeps the limit and breaks no other."""
        return self.over <= 0 and not self.breaks

    @property
    def rank(self) -> tuple[bool, int, float]:
        """The smaller, the better."""
        return self.over > 0, len(self.breaks), max(self.over, 0)


def find_remedy(
    exceeded: Outcome,
    kept: Sequence[Outcome],
    report: Report,
    trials: Iterable[Trial],
    written: Written,
) -> Remedy | None:
    """Return the first change that keeps a limit without breaking another; else one that keeps it,
    or comes nearest; None if none helps.

    Args:
        exceeded: the exceeded limit, on a number of the strategy.
        kept: the limits that are kept.
        report: the numbers of the simulation.
        trials: the changes to try, the best first; those after the first that keeps all are not
            simulated.
        written: returns a change as the user writes it.
    """
    best: _Tried | None = None
    for trial in trials:
        over = _over(exceeded, trial.report)
        breaks = tuple(each.limit for each in kept if _over(each, trial.report) > 0)
        tried = _Tried(trial, over, breaks)
        if over < exceeded.over and (best is None or tried.rank < best.rank):
            best = tried
            if best.keeps_all:
                break
    if best is None:
        return None
    change, then = written(best.trial)
    return Remedy(
        change=change,
        then=then,
        settings=best.trial.changes,
        value=value_at(best.trial.report, exceeded.limit.path),
        keeps=best.over <= 0,
        costs=tuple(_costs(exceeded.limit, report, best)),
    )


def _over(outcome: Outcome, report: Report) -> float:
    """Return how far a report is beyond a limit; infinitely where it lacks the number, such as one
    of another strategy's own parameters.
    """
    try:
        return outcome.limit.over(value_at(report, outcome.limit.path), outcome.before)
    except BatchstatError:
        return math.inf


def corpus_remedy(limit: Limit, profile: Profile) -> Remedy | None:
    """Return the change of the corpus that would keep a limit on its own numbers; None if there is
    none.
    """
    found = None
    if limit.path.startswith("lengths.") and limit.bound == "max":
        found = leaving_out(limit, profile)
    if limit.path == "class_ratio" and limit.bound == "max":
        found = adding_samples(limit, profile)
    return None if found is None else Remedy(found[0], "", {}, found[1], True, ())


def _costs(exceeded: Limit, report: Report, tried: _Tried) -> Iterator[str]:
    """Yield side effects of the change that a user would not expect."""
    old, new = report["strategy"], tried.trial.report["strategy"]
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
        if more >= _MORE_LOST and not exceeded.path.startswith(f"strategy.{kind}"):
            yield f"{100 * new[f'{kind}_ratio']:.2f}% of the tokens {kind}"
    change = tried.trial.change
    if change is not None and change.row.packs_rows and not change.current.packs_rows:
        yield "varlen attention"
    if "loss" in tried.trial.changes:
        yield "batch.token_weight in the training loop"
    for limit in tried.breaks:
        yield f"{limit.name} exceeded"
