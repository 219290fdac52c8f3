"""Checks as GitHub's Markdown."""

import html
import re
from collections.abc import Iterable, Sequence

from batchstat.gate.outcome import Check
from batchstat.render.checks import verdicts
from batchstat.words import printable

_MARKS = re.compile(r"([\\`*_\[\]|~#@])")  # what means something in Markdown, links or mentions


def check_markdown(checks: Sequence[Check]) -> str:
    """Return the Markdown of checks for a pull request: the result, limits, and what would help."""
    result = f"{escaped(verdicts.result(checks))}."
    lines = [f"## batchstat: {verdicts.heading(checks)}", "", result]
    for check in checks:
        lines += ["", f"### {escaped(check.name)}", ""]
        if check.error is not None:
            lines.append(f"**No answer:** {escaped(str(check.error))}")
            continue
        (_, corpus), (_, basis), *device = verdicts.facts(check).items()
        facts = [corpus, basis, *map(": ".join, device)]
        lines += ["<br>\n".join(map(escaped, facts)), ""]
        columns, *rows = verdicts.rows(check)
        # The second line aligns the columns: the names to the left, all others to the right.
        lines += [_row(columns), _row("---:" if i else "---" for i in range(len(columns)))]
        lines += [_row(map(escaped, row)) for row in rows]
        if changed := verdicts.changed(check):
            lines += ["", f"Changed: {escaped(changed)}."]
        if exceeded := verdicts.failures(check):
            lines.append("")
        lines += [
            f"- **{escaped(failure.name)}**: {escaped(failure.sentence)}. Set in "
            f"{escaped(failure.set_in)}. Remedy: {escaped(failure.remedy)}."
            for failure in exceeded
        ]
        if check.warnings:
            lines.append("")
        lines += [f"- warning: {escaped(str(finding))}" for finding in check.warnings]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return text that Markdown and HTML show literally, on one line."""
    return _MARKS.sub(r"\\\1", html.escape(printable(text), quote=False))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
