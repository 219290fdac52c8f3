"""Checks in words: the parts of a failure and the rows of the table, shared by every output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchstat.corpus.options import CorpusOptions
from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.gate.outcome import Check, Outcome, worst
from batchstat.gate.quantities import exact, nearest_limit, shown_apart
from batchstat.planning.settings import ResolvedSettings
from batchstat.render.device import report_facts
from batchstat.render.screens.layout import corpus_line, read_words
from batchstat.render.screens.simulated import basis_line
from batchstat.render.text import one_line
from batchstat.words import counted, printable

_LABELS = {limit.path: limit.label for limit in NAMED_LIMITS.values()}  # by path in check.json


@dataclass(frozen=True)
class Failure:
    """An exceeded limit, in the parts that every output shows."""

    name: str
    is_error: bool
    sentence: str
    set_in: str
    remedy: str


def failures(check: Check) -> list[Failure]:
    """Return the exceeded limits of a check, warnings included, in words."""
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


def facts(check: Check) -> dict[str, str]:
    """Return what a check is of, by the word before each text; empty without an answer."""
    if check.report is None:
        return {}
    settings = ResolvedSettings(**check.report["basis"])
    basis = f"{one_line(check.strategy, 200)} · {basis_line(settings)}"
    return {"corpus": _corpus_line(check.report), "basis": basis, **report_facts(check.report)}


def _corpus_line(report: Mapping[str, Any]) -> str:
    """Return the line on the corpus of a report: its files, its tokenizer and its size."""
    corpus, tokenizer = report["corpus"], report["tokenizer"]
    options = CorpusOptions(**corpus["options"])
    read = [(each["content"], each["separator"]) for each in corpus["read"]]
    return corpus_line(
        paths=[source["path"] for source in corpus["sources"]],
        tokenizer=tokenizer["name"] if tokenizer else None,
        samples=corpus["samples"],
        tokens=report["lengths"]["sum"],
        unreadable=corpus["unreadable"],
        read=read_words(read, options.content, options.label_column, corpus["label_form"]),
    )


def rows(check: Check) -> list[tuple[str, ...]]:
    """Return the limits as a table with headings; of limits with a base also the difference."""
    has_base = any(outcome.before is not None for outcome in check.outcomes)
    base_columns = ("before", "difference") if has_base else ()
    table = [("limit", "value", "allowed", *base_columns, "outcome")]
    for outcome in check.outcomes:
        base_cells = _base_cells(outcome) if has_base else ()
        cells = (one_line(outcome.limit.name), *_value_cells(outcome), *base_cells)
        table.append((*cells, outcome.status))
    return table


def changed(check: Check) -> str:
    """Return what changed since the base, as in "padding 12.10% → 19.80% since main"."""
    if check.since is None:
        return ""
    numbers: dict[str, str] = {}  # by path, as several limits may be on one number
    is_known = bool(check.since.changes)
    for outcome in check.outcomes:
        path, before = outcome.limit.path, outcome.before
        is_known |= before is not None
        if before is not None and before != outcome.value:
            pair = shown_apart(before, outcome.value, outcome.limit.kind)
            numbers[path] = f"{_LABELS.get(path, one_line(path))} {' → '.join(pair)}"
    if not is_known:
        return ""
    causes = "; ".join(one_line(change, 200) for change in check.since.changes)
    words = ", ".join(numbers.values()) or ("no limited number" if causes else "nothing")
    return f"{words} since {one_line(check.since.base)}" + (f": {causes}" if causes else "")


def result(checks: Sequence[Check]) -> str:
    """Return one sentence about all checks, such as "2 of 5 limits are exceeded"."""
    limits = sum(len(check.outcomes) for check in checks)
    if not limits and all(check.error is None for check in checks):
        return "no limit was checked"
    statuses = [outcome.status for check in checks for outcome in check.outcomes]
    words = []
    if unanswered := sum(check.error is not None for check in checks):
        words.append(f"no answer from {unanswered} of {counted(len(checks), 'check')}")
    failed, warned = statuses.count("fail"), statuses.count("warn")
    for count, ending in ((failed, "exceeded"), (warned, "exceeded, with a warning only")):
        if count:
            verb = "is" if count == 1 else "are"
            subject = "the limit" if limits == 1 else f"{count:,} of {limits:,} limits"
            words.append(f"{subject} {verb} {ending}")
    if words:
        return "; ".join(words)
    return "the limit is kept" if limits == 1 else f"all {limits:,} limits are kept"


def heading(checks: Sequence[Check]) -> str:
    """Return the word for the worst of several checks."""
    return {"pass": "PASS", "warn": "WARN", "fail": "FAIL", "error": "ERROR"}[worst(checks)]


def _sentence(outcome: Outcome) -> str:
    """Return the sentence, as "padding is 41.20%, which is 1.20 pp over the limit of 40.00%"."""
    limit = outcome.limit
    name = _LABELS.get(limit.path, one_line(limit.path))
    # Counts are whole numbers, but `over` is a float.
    over = int(outcome.over) if limit.kind == "count" else outcome.over
    # With as many digits as it takes to see that it is not 0.
    excess, _ = shown_apart(over, 0, limit.kind, difference=True)
    if limit.is_difference:
        assert outcome.before is not None
        before, value = shown_apart(outcome.before, outcome.value, limit.kind)
        verb = "rose" if limit.bound == "max-increase" else "fell"
        _, allowed_change = _change_and_allowed(outcome)
        change = f"{name} {verb} from {before} to {value}"
        return f"{change}, which is {excess} over the limit of {allowed_change}"
    value, threshold = shown_apart(outcome.value, limit.threshold, limit.kind)
    side = "under" if limit.bound == "min" else "over"
    return f"{name} is {value}, which is {excess} {side} the limit of {threshold}"


def _remedy(outcome: Outcome) -> str:
    """Return what would keep the limit: a change with its costs, or the limit kept today."""
    limit, remedy = outcome.limit, outcome.remedy
    if remedy is None:
        kept_limit = f"was meant to change, set the limit to {_kept_limit(outcome)}"
        # Numbers outside `strategy` describe the corpus, which no setting changes.
        if not limit.path.startswith("strategy."):
            return f"none but the corpus: if that {kept_limit}"
        return f"nothing that compare finds keeps it: if the corpus {kept_limit}"
    value, _ = shown_apart(remedy.value, limit.threshold, limit.kind)
    text = f"{printable(remedy.change)} gives {value}"
    if remedy.costs:
        text += f", with {', '.join(one_line(cost) for cost in remedy.costs)}"
    if remedy.then:  # what to do after the change
        text += f"; then {printable(remedy.then)}"
    return text


def _kept_limit(outcome: Outcome) -> str:
    """Return the nearest limit that is kept as things are, as its user writes it."""
    limit, number = outcome.limit, exact(outcome.value)
    if limit.written == "true":  # a switch
        return "false"
    if limit.is_difference:
        assert outcome.before is not None
        number = abs(number - exact(outcome.before))  # in the direction of the limit, if exceeded
    is_least = limit.bound == "min"
    return nearest_limit(number, limit.kind, is_least=is_least, difference=limit.is_difference)


def _value_cells(outcome: Outcome) -> tuple[str, str]:
    """Return the value and what is allowed: "41.20%" and "≤ 40.00%", or "+0.50 pp" of a base."""
    limit = outcome.limit
    if limit.is_difference:
        sign = "+" if limit.bound == "max-increase" else "-"
        assert outcome.before is not None
        value, _ = shown_apart(outcome.value, outcome.before, limit.kind)
        _, allowed_change = _change_and_allowed(outcome)
        return value, f"{sign}{allowed_change}"
    value, threshold = shown_apart(outcome.value, limit.threshold, limit.kind)
    return value, f"{'≥' if limit.bound == 'min' else '≤'} {threshold}"


def _base_cells(outcome: Outcome) -> tuple[str, str]:
    """Return the base's value and the difference, "40.00%" and "+1.20 pp", or empty ones."""
    before, value = outcome.before, outcome.value
    if before is None:
        return "", ""
    sign = "+" if value > before else "-" if value < before else ""
    before_text, _ = shown_apart(before, value, outcome.limit.kind)
    change, _ = _change_and_allowed(outcome)
    return before_text, f"{sign}{change}"


def _change_and_allowed(outcome: Outcome) -> tuple[str, str]:
    """Return how much the value differs, and may, with digits that tell them apart."""
    limit = outcome.limit
    assert outcome.before is not None
    # As exact decimals: with binary floats, 0.065 - 0.06 would be above 0.005.
    change = float(abs(exact(outcome.value) - exact(outcome.before)))
    if limit.kind == "count":
        change = int(change)
    # A limit on the value itself sets no allowed change: there is nothing to tell the change from.
    allowed = limit.threshold if limit.is_difference else change
    return shown_apart(change, allowed, limit.kind, difference=True)
