"""The screen of `check`: each limit with its value, and what would help where one is exceeded."""

from collections.abc import Iterator, Sequence
from itertools import starmap

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.gate.outcome import Check, worst
from batchstat.render.checks import verdicts
from batchstat.render.screens.layout import STANDINGS, Line, table
from batchstat.render.text import one_line

_STANDINGS = {"pass": "good", "warn": "warn", "fail": "over", "error": "over"}  # by status


def check_screen(checks: Sequence[Check]) -> RenderableType:
    """Return what `check` prints: each check, then the result of all."""
    parts: list[RenderableType] = []
    for check in checks:
        parts += [Line("check", one_line(check.name))] if len(checks) > 1 else []
        parts += [*_check(check), Text()]
    return Group(*parts, Line("result", verdicts.result(checks), _STANDINGS[worst(checks)]))


def _check(check: Check) -> Iterator[RenderableType]:
    """Yield one check; for each exceeded limit where it is set, and what would help."""
    if check.error is not None:
        yield Line("ERROR", str(check.error), standing=_STANDINGS["error"])
        return
    yield from starmap(Line, verdicts.facts(check).items())
    columns, *rows = verdicts.rows(check)
    limits = table(*columns)
    for *cells, status in rows:
        limits.add_row(*map(Text, cells), Text(status, style=STANDINGS[_STANDINGS[status]]))
    if rows:  # none, where all were on a difference from nothing
        yield from (Text(), limits)
    if changed := verdicts.changed(check):
        yield from (Text(), Line("changed", changed))
    for failure in verdicts.failures(check):
        word = "FAIL" if failure.is_error else "WARN"
        yield Text()
        yield Line(word, f"{failure.name}: {failure.sentence}", _STANDINGS[word.lower()])
        yield from (Line("set in", failure.set_in), Line("remedy", failure.remedy))
