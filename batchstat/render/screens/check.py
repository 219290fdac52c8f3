"""The screen of `check`."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.gate.outcome import Check, worst
from batchstat.render.checks import verdicts
from batchstat.render.screens.layout import STANDINGS, Line, table
from batchstat.render.text import one_line

_STANDINGS = {"pass": "good", "warn": "warn", "fail": "over", "error": "over"}


def check_screen(checks: Sequence[Check]) -> RenderableType:
    """Return what `check` prints: each corpus with its limits, each failure with its parts, the
    result.
    """
    parts: list[RenderableType] = []
    for check in checks:
        parts += [*_check(check, named=len(checks) > 1), Text()]
    status = worst(checks)
    return Group(*parts, Line("result", verdicts.result(checks), _STANDINGS[status]))


def _check(check: Check, *, named: bool) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if named:
        parts.append(Line("check", one_line(check.name)))
    if check.error is not None:
        return [*parts, Line("ERROR", check.error, _STANDINGS["error"])]
    parts += [Line("corpus", verdicts.title(check)), Line("basis", verdicts.basis(check))]
    parts += [Line(word, text) for word, text in verdicts.device(check).items()]
    columns, *rows = verdicts.rows(check)
    limits = table(*columns)
    for *cells, status in rows:
        limits.add_row(*map(Text, cells), Text(status, style=STANDINGS[_STANDINGS[status]]))
    parts += [Text(), limits]
    for failure in verdicts.failures(check):
        word = "FAIL" if failure.is_error else "WARN"
        parts += [
            Text(),
            Line(word, f"{failure.name}: {failure.sentence}", _STANDINGS[word.lower()]),
            Line("set in", failure.set_in),
            Line("remedy", failure.remedy),
        ]
    return parts
