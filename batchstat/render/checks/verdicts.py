"""Checks in words: the parts of a failure and the rows of the table, shared by every output."""

from collections.abc import Sequence
from dataclasses import dataclass

from batchstat.errors import counted, printable
from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.gate.outcome import Check, Outcome, worst
from batchstat.gate.quantities import Number, exact, shown, shown_apart
from batchstat.planning.settings import ResolvedSettings
from batchstat.render.device import report_facts
from batchstat.render.screens.layout import basis_line, whose
from batchstat.render.text import one_line

_LABELS = {limit.path: limit.label for limit in NAMED_LIMITS.values()}
_MOST_DIGITS = 17


@dataclass(frozen=True)
class Failure:
    """An exceeded limit, in the parts that every output shows.

    Attributes:
        name: name of the limit.
        is_error: whether it is an error; else a warning.
        sentence: the value, the limit, and the difference.
        set_in: where the limit is set.
        remedy: one change and its simulated effect, or that none is known.
    """

    name: str
    is_error: bool
    sentence: str
    set_in: str
    remedy: str


def failures(check: Check) -> list[Failure]:
    """Return the exceeded limits of a check, in words."""
    return [failure(outcome) for outcome in check.failures]


def failure(outcome: Outcome) -> Failure:
    """Return an exceeded limit, in words."""
    return Failure(
        name=one_line(outcome.limit.name),
        is_error=outcome.status == "fail",
        sentence=_sentence(outcome),
        set_in=one_line(outcome.limit.origin, 200),
        remedy=_remedy(outcome),
    )


def title(check: Check) -> str:
    """Return the corpus of a check, or only the check's name if there is no report."""
    if check.report is None:
        return one_line(check.name)
    corpus, tokenizer = check.report["corpus"], check.report["tokenizer"]
    return whose(
        [source["path"] for source in corpus["sources"]],
        tokenizer["name"] if tokenizer else None,
        corpus["samples"],
        check.report["lengths"]["sum"],
        corpus["unreadable"],
    )


def basis(check: Check) -> str:
    """Return the strategy and settings of a check; empty if there is no report."""
    if check.report is None:
        return ""
    settings = ResolvedSettings(**check.report["basis"])
    return f"{one_line(check.strategy, 200)} · {basis_line(settings)}"


def device(check: Check) -> dict[str, str]:
    """Return what is known of the calibrated device and of an epoch on it, each with a word before
    it; empty without one.
    """
    return {} if check.report is None else report_facts(check.report)


def rows(check: Check) -> list[tuple[str, ...]]:
    """Return the limits of a check: name, value, allowed value, with a baseline the value before
    and the difference, then the status. The first row has the column names.
    """
    compared = any(outcome.before is not None for outcome in check.outcomes)
    middle = ("before", "difference") if compared else ()
    cells = [("limit", "value", "allowed", *middle, "outcome")]
    for outcome in check.outcomes:
        value, allowed = _allowed(outcome)
        change = _since_baseline(outcome) if compared else ()
        cells.append((one_line(outcome.limit.name), value, allowed, *change, outcome.status))
    return cells


def result(checks: Sequence[Check]) -> str:
    """Return one sentence about all checks."""
    limits = sum(len(check.outcomes) for check in checks)
    statuses = [outcome.status for check in checks for outcome in check.outcomes]
    words = []
    if unanswered := sum(check.error is not None for check in checks):
        words.append(f"no answer from {unanswered} of {counted(len(checks), 'check')}")
    failed, warned = statuses.count("fail"), statuses.count("warn")
    for count, how in ((failed, "exceeded"), (warned, "exceeded, with a warning only")):
        if count:
            verb = "is" if count == 1 else "are"
            which = "the limit" if limits == 1 else f"{count:,} of {limits:,} limits"
            words.append(f"{which} {verb} {how}")
    if words:
        return "; ".join(words)
    return "the limit is kept" if limits == 1 else f"all {limits:,} limits are kept"


def heading(checks: Sequence[Check]) -> str:
    """Return the word for the worst of several checks."""
    return {"pass": "PASS", "warn": "WARN", "fail": "FAIL", "error": "ERROR"}[worst(checks)]


def _sentence(outcome: Outcome) -> str:
    limit = outcome.limit
    label = _LABELS.get(limit.path, one_line(limit.path))
    over = _points(outcome.over, outcome)
    if limit.is_difference:
        assert outcome.before is not None
        before, value = shown_apart(outcome.before, outcome.value, limit.kind)
        verb = "rose" if limit.bound == "max-increase" else "fell"
        most = _change(outcome)[1]
        return f"{label} {verb} from {before} to {value}, which is {over} over the limit of {most}"
    value, threshold = shown_apart(outcome.value, limit.threshold, limit.kind)
    side = "under" if limit.bound == "min" else "over"
    return f"{label} is {value}, which is {over} {side} the limit of {threshold}"


def _remedy(outcome: Outcome) -> str:
    remedy = outcome.remedy
    if remedy is None:
        if not outcome.limit.path.startswith("strategy."):
            return "none but the corpus: if that was meant to change, set a new limit"
        way = "raises" if outcome.limit.bound == "min" else "lowers"
        why = "if the corpus was meant to change, set a new limit"
        return f"nothing that was tried {way} it: {why}"
    value, _ = shown_apart(remedy.value, outcome.limit.threshold, outcome.limit.kind)
    gives = f"{printable(remedy.change)} gives {value}"
    if remedy.costs:
        gives += f", with {', '.join(one_line(each) for each in remedy.costs)}"
    if remedy.then:
        gives += f"; then {printable(remedy.then)}"
    if outcome.before is not None and remedy.settings:
        gives += ", and rerun batchstat baseline save"
    return gives if remedy.keeps else f"no change that was tried keeps the limit; {gives}"


def _allowed(outcome: Outcome) -> tuple[str, str]:
    limit = outcome.limit
    if limit.is_difference:
        sign = "+" if limit.bound == "max-increase" else "-"
        assert outcome.before is not None
        value = shown_apart(outcome.value, outcome.before, limit.kind)[0]
        return value, f"{sign}{_change(outcome)[1]}"
    value, threshold = shown_apart(outcome.value, limit.threshold, limit.kind)
    return value, f"{'≥' if limit.bound == 'min' else '≤'} {threshold}"


def _since_baseline(outcome: Outcome) -> tuple[str, str]:
    """Return the value before and the difference from it; empty for a limit without a baseline."""
    before, value = outcome.before, outcome.value
    if before is None:
        return "", ""
    sign = "+" if value > before else "-" if value < before else ""
    text, _ = shown_apart(before, value, outcome.limit.kind)
    return text, f"{sign}{_change(outcome)[0]}"


def _change(outcome: Outcome) -> tuple[str, str]:
    """Return the difference from a baseline, and the limit on it, if any."""
    limit = outcome.limit
    assert outcome.before is not None
    change = float(abs(exact(outcome.value) - exact(outcome.before)))
    if limit.kind == "count":
        change = int(change)
    allowed = limit.threshold if limit.is_difference else change
    return shown_apart(change, allowed, limit.kind, difference=True)


def _points(number: Number, outcome: Outcome) -> str:
    """Return a difference, with as many digits as needed to show it is not 0."""
    kind = outcome.limit.kind
    if kind == "count":
        number = int(number)
    for digits in range(2, _MOST_DIGITS):
        text = shown(number, kind, difference=True, digits=digits)
        if number == 0 or any(digit in text for digit in "123456789"):
            break
    return printable(text)
