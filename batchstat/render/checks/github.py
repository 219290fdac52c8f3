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
    errors = list(_limited("error", _found(checks, errors=True)))
    warnings = list(_limited("warning", _found(checks, errors=False)))
    return quiet + "".join(f"{line}\n" for line in (*errors, *warnings))


def _found(checks: Sequence[Check], *, errors: bool) -> Iterator[tuple[str, str]]:
    """Yield titles and messages of annotations."""
    for check in checks:
        name = f"{check.name}: " if len(checks) > 1 else ""
        if check.error is not None and errors:
            yield f"batchstat: {name}no answer", check.error
        for failure in verdicts.failures(check):
            if failure.is_error == errors:
                yield (
                    f"batchstat: {name}{failure.name}",
                    f"{failure.sentence}\nset in: {failure.set_in}\nremedy: {failure.remedy}",
                )


def _limited(level: str, found: Iterator[tuple[str, str]]) -> Iterator[str]:
    annotations = list(found)
    shown = annotations if len(annotations) <= _MOST else annotations[: _MOST - 1]
    for title, message in shown:
        yield f"::{level} title={_property(title)}::{_data(message)}"
    if more := len(annotations) - len(shown):
        yield f"::{level} title=batchstat::and {more} more: see the job's summary"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escaped.replace("##[", "##%5B")  # runners take ##[ for a command, and do not unescape


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
