"""The page of checks: each limit with its value, and what would help where one is exceeded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from batchstat.gate.outcome import Check, worst
from batchstat.render.checks import verdicts
from batchstat.render.html.blocks import Block, Chart, Table, Words
from batchstat.render.html.page import Page, Section
from batchstat.render.text import one_line, percent

_STANDINGS = {"pass": "", "warn": "over", "fail": "over", "error": "over"}


def check_page(checks: Sequence[Check], document: dict[str, Any]) -> str:
    """Return the page of checks.

    Args:
        checks: at least one.
        document: check.json.
    """
    standing = _STANDINGS[worst(checks)] or "good"
    result = Words(verdicts.heading(checks), f"{verdicts.result(checks)}.", standing)
    blocks: list[Block] = [result, *([_overview(checks)] if len(checks) > 1 else [])]
    sections = [Section("result", "Result", tuple(blocks))]
    sections += [
        Section(f"check-{i}", one_line(check.name), tuple(_check(check)))
        for i, check in enumerate(checks, start=1)
    ]
    only = checks[0].report if len(checks) == 1 else None
    if only is not None:
        chart = Chart("lengths", "Samples by length; move max_length to see what it truncates")
        sections.append(Section("lengths", "Lengths", (chart, _truncation(only))))
    return Page(
        command="check",
        subject=_subject(checks),
        facts=(),
        sections=tuple(sections),
        document=document,
        file="check.json",
        profile=None if only is None else dict(only),
        warnings=tuple(warning for check in checks for warning in check.warnings),
    ).html()


def _subject(checks: Sequence[Check]) -> str:
    names = one_line(checks[0].name)
    return f"{names} and {len(checks) - 1:,} more" if len(checks) > 1 else names


def _overview(checks: Sequence[Check]) -> Table:
    rows = [
        (_STANDINGS[check.status], (one_line(check.name), check.status, verdicts.result([check])))
        for check in checks
    ]
    return Table("Checks", ("check", "outcome", "result"), tuple(rows))


def _check(check: Check) -> Iterator[Block]:
    if check.error is not None:
        yield Words("no answer", check.error)
        return
    yield from (Words("corpus", verdicts.title(check)), Words("basis", verdicts.basis(check)))
    yield from (Words(word, text) for word, text in verdicts.device(check).items())
    columns, *rows = verdicts.rows(check)
    yield Table("Limits", columns, tuple((_STANDINGS[row[-1]], row) for row in rows))
    for failure in verdicts.failures(check):
        yield Words(failure.name, f"{failure.sentence}.", "over")
        yield Words("set in", failure.set_in)
        yield Words("remedy", failure.remedy)


def _truncation(report: Mapping[str, Any]) -> Table:
    samples, tokens = report["lengths"]["count"], max(report["lengths"]["sum"], 1)
    rows = [
        (
            f"{each['max_length']:,}",
            f"{each['samples']:,}",
            percent(each["samples"] / samples),
            f"{each['tokens']:,}",
            percent(each["tokens"] / tokens),
        )
        for each in report["truncation"]
    ]
    columns = ("max_length", "truncated samples", "of all", "lost tokens", "of all")
    return Table("What each max_length truncates", columns, tuple(("", row) for row in rows))
