"""Checks as GitHub Actions workflow commands: annotations of exceeded limits and findings."""

import secrets
from collections.abc import Iterator, Sequence

from batchstat.gate.outcome import Check
from batchstat.render.checks import verdicts

_MOST = 10  # annotations per level that GitHub shows for one step; it silently drops the rest


def check_annotations(checks: Sequence[Check], screen: str) -> str:
    """Return what `check` prints in a GitHub Actions job: the screen, then an annotation for each
    exceeded limit, errors before warnings, and for each finding, with its id as the title. The
    screen may hold text of the user's data, so the runner is told to take no command from it.
    Syntax: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    # Only a line with this token ends the pause, and no text in the screen can guess it.
    end_token = secrets.token_hex(16)
    inert_screen = f"::stop-commands::{end_token}\n{screen}::{end_token}::\n"
    lines = (*_annotations("error", checks), *_annotations("warning", checks))
    return inert_screen + "".join(f"{line}\n" for line in lines)


def _annotations(level: str, checks: Sequence[Check]) -> Iterator[str]:
    """Yield the annotations of a level, the last with how many GitHub would not show."""
    messages: list[tuple[str, str]] = []  # title and text of each annotation
    for check in checks:
        prefix = f"{check.name}: " if len(checks) > 1 else ""
        if check.error is not None and level == "error":
            messages.append((f"{prefix}no answer", str(check.error)))
        for failure in verdicts.failures(check):
            if failure.is_error == (level == "error"):
                details = f"set in: {failure.set_in}\nremedy: {failure.remedy}"
                messages.append((f"{prefix}{failure.name}", f"{failure.sentence}\n{details}"))
    # After the limits of all checks, which are more important where GitHub drops some.
    for check in checks if level == "warning" else ():
        prefix = f"{check.name}: " if len(checks) > 1 else ""
        messages += [(f"{prefix}{finding.id}", finding.message) for finding in check.warnings]
    shown_messages = messages if len(messages) <= _MOST else messages[: _MOST - 1]
    for title, message in shown_messages:
        # In a title, these two end it.
        escaped_title = _escaped(f"batchstat: {title}").replace(":", "%3A").replace(",", "%2C")
        yield f"::{level} title={escaped_title}::{_escaped(message)}"
    if left_out := len(messages) - len(shown_messages):
        yield f"::{level} title=batchstat::and {left_out} more: see the job's summary"


def _escaped(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escaped.replace("##[", "##%5B")  # runners take ##[ for a command, and do not unescape
