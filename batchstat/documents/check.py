"""check.json."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from batchstat.documents.base import Document, Error, File
from batchstat.documents.comparison import Report
from batchstat.findings import Finding
from batchstat.parameters import described
from batchstat.records import Record, allowed, among, told

_Number = Annotated[int | float, allowed(type="number")]
_Status = Annotated[str, among(("pass", "warn", "fail", "error"))]


@described("A change of the training that keeps a limit.")
class Remedy(Record):
    change: str = told("Of the training, as a line to paste.")
    then: str = told("What of the check's description follows it; empty where nothing does.")
    settings: Mapping[str, Any] = told(
        "What it sets: keys of the trainer's configuration, or current, a strategy."
    )
    value: _Number = told("The number that the limit is on, with this change.")
    costs: tuple[str, ...] = told(
        "What else comes of it: other steps, limits that are then exceeded, tokens lost."
    )


@described("A limit, and the number that it is held against.")
class HeldLimit(Document):
    name: str = told("As it is called: max-padding, or the bound and the path.", of="limit.name")
    path: str = told("The number in the report.", of="limit.path")
    bound: Annotated[str, among(("max", "min", "max-increase", "max-decrease"))] = told(
        "Whether the limit is the most, the least, or the most change from the base.",
        of="limit.bound",
    )
    limit: _Number = told("Inclusive; ratios in [0, 1].", of="limit.threshold")
    value: _Number = told("The number as it is.")
    before: _Number | None = told("As it was in the base; null where it had none.")
    over: _Number = told("By how much the number is beyond the limit; at most 0 where it is kept.")
    level: Annotated[str, among(("error", "warn"))] = told(
        "What it means to exceed it: error fails the check, warn only says so.", of="limit.level"
    )
    status: Annotated[str, among(("pass", "warn", "fail"))] = told("Whether the limit is kept.")
    set_in: str = told("Where the limit is set.", of="limit.origin")
    remedy: Remedy | None = told(
        "What keeps it; null where the limit is kept, or no change that compare finds does."
    )


@described("What changed since the base.")
class Since(Record):
    base: str = told("The revision or file that the check is compared with.")
    changes: tuple[str, ...] = told(
        "In words: what is trained, how it is read, files of the corpus, settings."
    )


@described("One check.")
class CheckResult(Document):
    name: str = told("As the configuration calls it; default without a name.")
    status: _Status
    error: Error | None = told("Why there is no answer; null where there is one.")
    strategy: str = told("As it is written.")
    report: Report | None = told("The numbers that limits are held against.")
    limits: list[HeldLimit] = told("The limits that were held against the report.", of="outcomes")
    since: Since | None = told("What changed since the base; null without one.")
    warnings: list[Finding] = told("What else to know about the numbers.")


@described(
    """Limits held against the numbers of one strategy on each corpus. Keys may be added within this
    schema.
    """
)
class CheckFile(File, number="batchstat.check/7"):
    status: _Status = told(
        "The worst of the checks'. A warning and a pass exit with 0, fail with 1 unless "
        "--warn-only, error with 3."
    )
    checks: list[CheckResult] = told("One per check of the configuration.")


def check_document(checks: Sequence[object], status: str, created: str) -> dict[str, Any]:
    """Return check.json."""
    return CheckFile.written(created, {"status": status, "checks": checks})
