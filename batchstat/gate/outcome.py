"""Records of a check: the outcome of each limit, and a status, shared by every output."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from batchstat.documents.check import Remedy, Since
from batchstat.errors import BatchstatError
from batchstat.findings import Finding
from batchstat.gate.limits import Limit
from batchstat.gate.quantities import Number
from batchstat.planning.settings import Settings
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.named_rows import ParsedRow
from batchstat.simulation.device import Device

Status = Literal["pass", "warn", "fail", "error"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One limit and the number that it limits."""

    limit: Limit
    value: Number
    before: Number | None = None  # the number in the base
    remedy: Remedy | None = None  # a change that would keep the limit

    @property
    def over(self) -> float:
        """How far the number is beyond the limit: above 0 only if the limit is exceeded."""
        return self.limit.over(self.value, self.before)

    @property
    def kept(self) -> bool:
        """Whether the number is within the limit, which is inclusive."""
        return self.over <= 0

    @property
    def status(self) -> Status:
        """The status of the limit."""
        if self.kept:
            return "pass"
        return "fail" if self.limit.level == "error" else "warn"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One corpus and one strategy compared with their limits."""

    name: str
    strategy: str
    report: Mapping[str, Any] | None  # the numbers, as in `check.json`; None if there are none
    outcomes: tuple[Outcome, ...] = ()  # the outcome of each limit
    since: Since | None = None  # what changed since the base; None without a base
    warnings: tuple[Finding, ...] = ()  # what to know about the numbers
    error: BatchstatError | None = None  # why there is no answer; None if there is one

    @property
    def status(self) -> Status:
        """The worst status of its outcomes; `error` if there is no answer."""
        return worst(self.outcomes) if self.error is None else "error"

    @property
    def failures(self) -> Sequence[Outcome]:
        """The outcomes of exceeded limits, including warnings."""
        return [outcome for outcome in self.outcomes if not outcome.kept]


@dataclass(frozen=True)
class CheckedReport:
    """The numbers that a check compares, and what they were simulated from."""

    profile: Profile
    current: ParsedRow
    settings: Settings
    report: dict[str, Any]  # as in `check.json`
    warnings: tuple[Finding, ...]  # what to know about the numbers
    device: Device | None = None  # the calibrated device that trains; None without one

    @property
    def strategy(self) -> str:
        """The strategy, as it is written, or the name of the batches."""
        return self.current[0] if isinstance(self.current, tuple) else self.current.text


def worst(results: Iterable[Check | Outcome]) -> Status:
    """Return the worst status of several checks, or of several outcomes."""
    statuses = {each.status for each in results}
    ranked: tuple[Status, ...] = ("error", "fail", "warn")
    return next((status for status in ranked if status in statuses), "pass")
