"""Limits held against a report: one predicate on the raw numbers, for every output alike."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from batchstat.errors import InputError
from batchstat.gate.baseline import Baseline
from batchstat.gate.limits import Limit
from batchstat.gate.paths import Schema, value_at
from batchstat.gate.quantities import Number
from batchstat.gate.remedies import Remedy

Status = Literal["pass", "warn", "fail", "error"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One limit, and the number that it is held against.

    Attributes:
        limit: the limit.
        value: the number, as it is now.
        before: as it was in the baseline; None where no baseline is held against it.
        remedy: what would keep the limit; None where it is kept.
    """

    limit: Limit
    value: Number
    before: Number | None = None
    remedy: Remedy | None = None

    @property
    def over(self) -> float:
        """By how much the number is beyond the limit: above 0 only where the limit is exceeded."""
        return self.limit.over(self.value, self.before)

    @property
    def kept(self) -> bool:
        """Whether the number is within the limit, which is inclusive."""
        return self.over <= 0

    @property
    def status(self) -> Status:
        """What becomes of it."""
        if self.kept:
            return "pass"
        return "fail" if self.limit.level == "error" else "warn"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One corpus and one strategy held against their limits.

    Attributes:
        name: as the configuration calls it.
        strategy: as it is written.
        report: the numbers, as in `check.json`; None where there are none.
        outcomes: of each limit.
        warnings: what else to know.
        error: why there is no answer; None where there is one.
    """

    name: str
    strategy: str
    report: Mapping[str, Any] | None
    outcomes: tuple[Outcome, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None

    @property
    def status(self) -> Status:
        """The worst of its outcomes; `error` where there is no answer."""
        if self.error is not None:
            return "error"
        found = {outcome.status for outcome in self.outcomes}
        if "fail" in found:
            return "fail"
        return "warn" if "warn" in found else "pass"

    @property
    def failures(self) -> Sequence[Outcome]:
        """The outcomes of limits that are exceeded, warnings too."""
        return [outcome for outcome in self.outcomes if not outcome.kept]


def worst(checks: Iterable[Check]) -> Status:
    """The worst status of several checks."""
    found = {check.status for check in checks}
    ranked: tuple[Status, ...] = ("error", "fail", "warn")
    return next((status for status in ranked if status in found), "pass")


def judge(
    report: Mapping[str, Any],
    limits: Iterable[Limit],
    schema: Schema,
    baseline: Baseline | None = None,
) -> tuple[Outcome, ...]:
    """Each limit held against its number.

    Raises:
        InputError: a number that the report or the baseline does not have.
    """
    outcomes = []
    for limit in limits:
        try:
            value = value_at(report, limit.path, schema)
        except InputError as error:
            raise InputError(f"{limit.name}: {error}") from None
        before = None
        if baseline is not None:
            before = baseline.numbers.get(limit.path)
        if limit.is_difference and before is None:
            raise InputError(
                f"the baseline has no {limit.path}, for {limit.name}: run batchstat baseline save"
            )
        outcomes.append(Outcome(limit=limit, value=value, before=before))
    return tuple(outcomes)
