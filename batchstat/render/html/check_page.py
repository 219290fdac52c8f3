"""The page of checks: each limit with its value, and what would help where one is exceeded."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from batchstat.gate.outcome import Check, worst
from batchstat.render.checks import verdicts
from batchstat.render.html.blocks import Block, Chart, Table, table_of
from batchstat.render.html.page import Page, Section
from batchstat.render.screens.layout import Line
from batchstat.render.text import one_line, with_share

_STANDINGS = {"pass": "", "warn": "over", "fail": "over", "error": "over"}
"""How a page marks a row, by the status of its limit or check."""


def check_page(checks: Sequence[Check], document: dict[str, Any]) -> str:
    """Return the HTML page of checks; of a single one also its lengths."""
    # A limit that is kept is not marked, but a result that passes is.
    standing = _STANDINGS[worst(checks)] or "good"
    result = Line(verdicts.heading(checks), f"{verdicts.result(checks)}.", standing)
    sections = [Section("result", "Result", (result,))]
    if len(checks) > 1:  # one check needs no overview: its section has everything
        rows = tuple(
            (_STANDINGS[each.status], (one_line(each.name), each.status, verdicts.result([each])))
            for each in checks
        )
        overview = Table("Checks", ("check", "outcome", "result"), rows)
        sections = [Section("result", "Result", (result, overview))]
    for i, check in enumerate(checks, start=1):
        sections.append(Section(f"check-{i}", one_line(check.name), tuple(_check(check))))
    other_checks = len(checks) - 1
    # The report of the only check; None with several, or where that one has no answer.
    single_report = None if other_checks else checks[0].report
    if single_report is not None:
        chart = Chart("lengths", "Samples by length; move max_length to see what it truncates")
        sections.append(Section("lengths", "Lengths", (chart, _truncation(single_report))))
    return Page(
        command="check",
        subject=one_line(checks[0].name) + (f" and {other_checks:,} more" if other_checks else ""),
        facts=(),
        sections=tuple(sections),
        document=document,
        profile=None if single_report is None else dict(single_report),
        warnings=tuple(warning for check in checks for warning in check.warnings),
    ).html()


def _check(check: Check) -> Iterator[Block]:
    """Yield a check's corpus, settings and limits; for exceeded ones where, and what helps."""
    if check.error is not None:
        yield Line("no answer", str(check.error))
        return
    yield from starmap(Line, verdicts.facts(check).items())
    columns, *rows = verdicts.rows(check)
    yield Table("Limits", columns, tuple((_STANDINGS[row[-1]], row) for row in rows))
    if changed := verdicts.changed(check):
        yield Line("changed", changed)
    for failure in verdicts.failures(check):
        yield Line(failure.name, f"{failure.sentence}.", standing="over")
        yield Line("set in", failure.set_in)
        yield Line("remedy", failure.remedy)


def _truncation(report: Mapping[str, Any]) -> Table:
    """Return the table of what each `max_length` candidate truncates, from check.json."""
    # The 1 keeps a corpus without tokens from a division by 0.
    samples, tokens = report["lengths"]["count"], max(report["lengths"]["sum"], 1)
    rows = [
        (
            f"{candidate['max_length']:,}",
            *with_share(candidate["samples"], samples),
            *with_share(candidate["tokens"], tokens),
        )
        for candidate in report["truncation"]
    ]
    columns = ("max_length", "truncated samples", "of all", "lost tokens", "of all")
    return table_of(columns, rows, "What each max_length truncates")
