"""Remedies for an exceeded limit: changes of the training, simulated on the same corpus; for a
limit on the corpus alone, samples removed or added.

A remedy never changes the description of the training alone: that would keep the limit and leave
the training as it is.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from batchstat.documents.check import Remedy
from batchstat.errors import BatchstatError
from batchstat.gate.limits import Limit
from batchstat.gate.outcome import Outcome
from batchstat.gate.paths import value_at
from batchstat.gate.quantities import Number
from batchstat.gate.trials import Report, Trial
from batchstat.lengths.stats import LengthStats
from batchstat.profiling.profile import Profile
from batchstat.words import counted

_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999, "max": 1000}


def remove_longest(limit: Limit, profile: Profile) -> tuple[str, Number] | None:
    """Return how many of the longest samples to remove so that a percentile of the lengths is
    within its limit: the change in words, and the percentile of the remaining samples. None where
    the limit is on no percentile, or no removal helps.
    """
    thousandths = _PERCENTILES.get(limit.path.removeprefix("lengths."))
    if thousandths is None:
        return None
    shortest_first = np.argsort(profile.lengths, kind="stable")
    lengths = profile.lengths[shortest_first]

    def percentile_without(n_removed: int) -> int:
        """Return the percentile without so many of the longest samples."""
        return LengthStats.of(lengths[: len(lengths) - n_removed]).percentile(thousandths)

    def is_enough(n_removed: int) -> bool:
        return percentile_without(n_removed) <= limit.threshold

    # The more are removed, the lower the percentile: from some number on, it is enough. Bisection
    # finds the first number from 1 on for which it is, or len(lengths) where none below that is.
    n_removed = bisect_left(range(len(lengths)), True, lo=1, key=is_enough)
    if n_removed == len(lengths):
        return None
    longest_record = int(profile.records[shortest_first[-1]])
    change = f"removing the {n_removed:,} longest samples (the longest is record {longest_record})"
    if n_removed == 1:
        change = f"removing the longest sample, record {longest_record},"
    return change, percentile_without(n_removed)


def add_to_small_classes(limit: Limit, profile: Profile) -> tuple[str, Number] | None:
    """Return how many more samples the small classes need to keep a limit on the class ratio, which
    is the largest class / the smallest: the change in words, and the ratio that results. None if no
    number of samples helps.
    """
    samples_by_class = {
        each.label: each.count for each in profile.classes if each.label is not None
    }
    if limit.threshold < 1:  # no ratio of the largest class to the smallest is below 1
        return None
    largest = max(samples_by_class.values())
    # The fewest samples with which a class is large enough. The limit compares exactly: it decides
    # whether the number that was rounded down is enough, or one more is needed.
    needed = math.floor(largest / limit.threshold)
    while limit.over(largest / max(needed, 1), None) > 0:
        needed += 1
    missing = {label: needed - n for label, n in samples_by_class.items() if n < needed}
    n_missing = sum(missing.values())
    where = f"in the {len(missing):,} small classes"
    if len(missing) == 1:
        where = f"of {next(iter(missing))}"
    new_ratio = largest / min(max(n, needed) for n in samples_by_class.values())
    return f"adding {counted(n_missing, 'sample')} {where}", new_ratio


_MORE_LOST = 0.0005
"""Share of tokens truncated or dropped in addition that is worth mentioning."""
_MORE_COMPUTED = 1.1
"""A largest batch, or all tokens, grown by this factor are worth mentioning."""

Written = Callable[[Trial], tuple[str, str]]
"""Returns a change of the training as its user writes it, and what of the check follows it."""


@dataclass(frozen=True)
class _Tried:
    """A change, how far it leaves the number beyond its limit, and the other limits that it breaks.

    `excess` is 0 or below where the limit is kept.
    """

    trial: Trial
    excess: float
    broken: tuple[Limit, ...]

    @property
    def keeps_all(self) -> bool:
        """Whether it keeps the limit and breaks no other."""
        return self.excess <= 0 and not self.broken

    @property
    def rank(self) -> tuple[bool, int, float]:
        """The smaller, the better: first whether the limit is kept, then how many others break,
        then how far the number is beyond the limit.
        """
        return self.excess > 0, len(self.broken), max(self.excess, 0)


def find_remedy(
    exceeded: Outcome,
    kept: Sequence[Outcome],
    report: Report,
    trials: Iterable[Trial],
    describe: Written,
) -> Remedy | None:
    """Return the first change that keeps a limit without breaking another; else one that keeps it,
    or comes nearest; None if none helps.

    Args:
        exceeded: the exceeded limit, on a number of the strategy.
        kept: the limits that are kept.
        report: the numbers of the simulation.
        trials: the changes to try, the best first; those after the first that keeps all are not
            simulated.
        describe: returns a change as the user writes it.
    """
    best: _Tried | None = None
    for trial in trials:
        broken = tuple(outcome.limit for outcome in kept if _excess_in(trial.report, outcome) > 0)
        tried = _Tried(trial, _excess_in(trial.report, exceeded), broken)
        # A change that comes no nearer to the limit is no remedy.
        if tried.excess < exceeded.over and (best is None or tried.rank < best.rank):
            best = tried
            if best.keeps_all:
                break
    if best is None:
        return None
    # What changes in the training, and what of the check has to match it.
    change, then = describe(best.trial)
    return Remedy(
        change=change,
        then=then,
        settings=best.trial.changes,
        value=value_at(best.trial.report, exceeded.limit.path),
        keeps=best.excess <= 0,
        costs=tuple(_side_effects(exceeded.limit, report, best)),
    )


def _excess_in(report: Report, outcome: Outcome) -> float:
    """Return how far the number in a report is beyond the limit of an outcome. A report of another
    strategy may lack the number: then the limit counts as exceeded without bound.
    """
    try:
        return outcome.limit.over(value_at(report, outcome.limit.path), outcome.before)
    except BatchstatError:
        return math.inf


def corpus_remedy(limit: Limit, profile: Profile) -> Remedy | None:
    """Return the change of the corpus that would keep a limit on a number of the corpus: samples
    removed for an upper limit on lengths, added for one on the class ratio. None for other limits,
    and where no such change helps.
    """
    find_change = add_to_small_classes if limit.path == "class_ratio" else remove_longest
    found = find_change(limit, profile) if limit.bound == "max" else None
    if found is None:
        return None
    change, value = found
    return Remedy(change=change, then="", settings={}, value=value, keeps=True, costs=())


def _side_effects(exceeded: Limit, report: Report, tried: _Tried) -> Iterator[str]:
    """Yield side effects of a change that its user would not expect, in words: more steps, larger
    batches, more lost, other limits that it exceeds.
    """
    old, new = report["strategy"], tried.trial.report["strategy"]
    if new["steps"] != old["steps"]:
        yield f"{new['steps']:,} steps instead of {old['steps']:,}"
    if new["max_batch_tokens"] >= _MORE_COMPUTED * old["max_batch_tokens"]:
        yield (
            f"a largest batch of {new['max_batch_tokens']:,} tokens instead of "
            f"{old['max_batch_tokens']:,}"
        )
    growth = new["total_tokens"] / old["total_tokens"]
    if growth >= _MORE_COMPUTED:
        yield f"{growth:,.1f} times the tokens"
    for kind in ("truncated", "dropped"):
        newly_lost = new[f"{kind}_ratio"] - old[f"{kind}_ratio"]
        # Not where the exceeded limit is on this number: the remedy says it.
        if newly_lost >= _MORE_LOST and not exceeded.path.startswith(f"strategy.{kind}"):
            yield f"{100 * new[f'{kind}_ratio']:.2f}% of the tokens {kind}"
    change = tried.trial.change
    # Attention must keep samples apart that share a row.
    if change is not None and change.row.packs_rows and not change.current.packs_rows:
        yield "varlen attention"
    # With the loss token-sum, the loop multiplies the mean loss of a batch by its token weight.
    if "loss" in tried.trial.changes:
        yield "batch.token_weight in the training loop"
    for limit in tried.broken:
        yield f"{limit.name} exceeded"
