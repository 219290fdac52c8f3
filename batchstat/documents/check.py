"""check.json."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasPath, Field

from batchstat.documents.base import Document, File, head, one_of
from batchstat.documents.comparison import Report
from batchstat.parameters import described

SCHEMA = "batchstat.check/4"

_Bound = one_of(("max", "min", "max-increase", "max-decrease"))
_Number = Annotated[int | float, Field(json_schema_extra={"type": "number"})]


def _of_limit(name: str) -> Any:
    """Return the source of a key that the outcome's limit has."""
    return Field(validation_alias=AliasPath("limit", name))


_Status = one_of(("pass", "warn", "fail", "error"))


@described("A change that was tried and helps.")
class Remedy(Document):
    change: str
    """Of the training, as a line to paste; of the corpus in words."""
    then: str
    """What of the check's description follows it; empty where nothing does."""
    settings: dict[str, Any]
    """What it sets, by the names of settings; empty for a change of the corpus."""
    value: _Number
    """The number that the limit is on, with this change."""
    keeps: bool
    """Whether the limit is then kept."""
    costs: list[str]
    """What else comes of it: limits that are then exceeded, tokens lost or computed."""


@described("A limit, and the number that it is held against.")
class HeldLimit(Document):
    name: Annotated[str, _of_limit("name")]
    """As it is called: max-padding, or the bound and the path."""
    path: Annotated[str, _of_limit("path")]
    """The number in the report."""
    bound: Annotated[_Bound, _of_limit("bound")]  # type: ignore[valid-type]
    """Whether the limit is the most, the least, or the most change from the baseline."""
    limit: Annotated[_Number, _of_limit("threshold")]
    """Inclusive; ratios in [0, 1]."""
    value: _Number
    """The number as it is."""
    before: _Number | None
    """As it was in the baseline; null where none is held against it."""
    over: _Number
    """By how much the number is beyond the limit; at most 0 where it is kept."""
    level: Annotated[one_of(("error", "warn")), _of_limit("level")]  # type: ignore[valid-type]
    """What it means to exceed it: error fails the check, warn only says so."""
    status: one_of(("pass", "warn", "fail"))  # type: ignore[valid-type]
    """Whether the limit is kept."""
    set_in: Annotated[str, _of_limit("origin")]
    """Where the limit is set."""
    remedy: Remedy | None
    """What was tried and helps; null where the limit is kept, or nothing helps."""


@described("One check.")
class CheckResult(Document):
    name: str
    """As the configuration calls it; default without a name."""
    status: _Status  # type: ignore[valid-type]
    error: str | None
    """Why there is no answer; null where there is one."""
    strategy: str
    """As it is written."""
    report: Report | None
    """The numbers that limits are held against."""
    limits: Annotated[list[HeldLimit], Field(validation_alias="outcomes")]
    """The limits that were held against the report."""
    warnings: list[str]


@described(
    """Limits held against the numbers of one strategy on each corpus. Keys may be added within this
    schema.
    """
)
class CheckFile(File):
    status: _Status  # type: ignore[valid-type]
    """The worst of the checks'. A warning and a pass exit with 0, fail with 1 unless --warn-only,
    error with 3."""
    checks: list[CheckResult]
    """One per check of the configuration."""


def check_document(checks: Sequence[object], status: str, created: str) -> dict[str, Any]:
    """Return check.json.

    Args:
        checks: each a `batchstat.gate.outcome.Check`.
        status: the worst of them.
        created: when the work began.
    """
    made = {**head(SCHEMA, created), "status": status, "checks": checks}
    return CheckFile.of(made).to_json()
