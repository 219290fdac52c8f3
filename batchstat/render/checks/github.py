"""Checks as GitHub Actions workflow commands: an annotation for each exceeded limit."""

import secrets
from collections.abc import Iterator, Sequence

from batchstat.gate.outcome import Check
from batchstat.render.checks import verdicts

_MOST = 10
"""Annotations per level that GitHub shows for one step; it silently drops the rest."""


def check_annotations(checks: Sequence[Check], screen: str) -> str:
    """Return the screen, with commands in it disabled, and the annotations.

    Syntax: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    # The line that ends the pause is random: no text in the screen can hold it.
    token = secrets.token_hex(16)
    quiet = f"::stop-commands::{token}\n{screen}::{token}::\n"
    lines = (*_annotations("error", checks), *_annotations("warning", checks))
    return quiet + "".join(f"{line}\n" for line in lines)


def _annotations(level: str, checks: Sequence[Check]) -> Iterator[str]:
    """Yield the commands of a level, of too many the first ones and how many are left out."""
    messages: list[tuple[str, str]] = []
    for check in checks:
        name = f"{check.name}: " if len(checks) > 1 else ""
        if check.error is not None and level == "error":
            messages.append((f"{name}no answer", check.error))
        for failure in verdicts.failures(check):
            if failure.is_error == (level == "error"):
                where = f"set in: {failure.set_in}\nremedy: {failure.remedy}"
                messages.append((f"{name}{failure.name}", f"{failure.sentence}\n{where}"))
    shown = messages if len(messages) <= _MOST else messages[: _MOST - 1]
    for title, message in shown:
        yield f"::{level} title={_property(f'batchstat: {title}')}::{_data(message)}"
    if more := len(messages) - len(shown):
        yield f"::{level} title=batchstat::and {more} more: see the job's summary"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escaped.replace("##[", "##%5B")  # runners take ##[ for a command, and do not unescape


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
