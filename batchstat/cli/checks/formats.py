"""Output of checks: formats to standard output and to files."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchstat.cli.streams import console, emit, render, say
from batchstat.documents.base import to_text
from batchstat.documents.check import check_document
from batchstat.errors import InputError, OptionError, unknown
from batchstat.gate.outcome import Check, worst
from batchstat.render.checks.github import check_annotations
from batchstat.render.checks.markdown import check_markdown
from batchstat.render.screens.check import check_screen
from batchstat.storage.addresses import local_path
from batchstat.storage.results import encoded, write_file

FORMATS = ("text", "json", "markdown", "junit", "github", "html")

_MOST_SUMMARY = 1_000_000  # bytes: GitHub rejects the whole summary above 1 MiB

Destinations = Mapping[str, Path | None]  # formats with their files; None for standard output


def as_destinations(written: Sequence[str]) -> Destinations:
    """Parse formats written as `name` or `name=file`. Raises OptionError."""
    destinations: dict[str, Path | None] = {}
    for text in written:
        name, equals, file = text.partition("=")
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
        if name in destinations:
            raise OptionError(f"--format {name} is given twice", "give it once")
        if equals and not file:
            raise OptionError(f"--format {text} has no file name", f"write {name} or {name}=FILE")
        destinations[name] = local_path(file) if equals else None
    files = [path for path in destinations.values() if path is not None]
    if len(set(files)) < len(files):
        raise OptionError("two formats write to the same file", "give each its own")
    shown = [name for name, path in destinations.items() if path is None]
    if len(shown) > 1:
        raise OptionError(
            f"--format {shown[0]} and {shown[1]} both write to standard output",
            f"write one of them to a file, as in --format {shown[1]}=FILE",
        )
    return destinations


def write(checks: Sequence[Check], destinations: Destinations, created: str) -> None:
    """Write each format where it belongs; `github` adds the job's summary. Raises InputError."""
    plain = destinations.get("text") is not None  # a file with the screen has no colours
    if "github" in destinations:
        _add_summary(checks)
    texts = {name: _formatted(name, checks, created, plain=plain) for name in destinations}
    # Files first, so that a full or closed standard output does not prevent them.
    for name, path in destinations.items():
        if path is not None:
            write_file(path, encoded(texts.pop(name)), remedy="name another")
            say(f"wrote {path.as_posix()}")
    for name, text in texts.items():  # at most one is left, which goes to standard output
        # Where all checks have errors, a screen has nothing to show: standard error has the errors.
        if name == "text" and all(check.error is not None for check in checks):
            continue
        # People read screens in their terminal's encoding; programs read the other formats.
        encoding = sys.stdout.encoding if name in ("text", "github") else "utf-8"
        emit(text, encoding, has_commands=name == "github")


def _formatted(name: str, checks: Sequence[Check], created: str, *, plain: bool) -> str:
    """Return the text of checks in the format with this name."""
    match name:
        case "json":
            return to_text(check_document(checks, worst(checks), created))
        case "markdown":
            return check_markdown(checks)
        case "junit":  # loads an XML library, which no other format needs
            from batchstat.render.checks.junit import check_junit

            return check_junit(checks)
        case "html":
            from batchstat.render.html.check_page import check_page

            return check_page(checks, check_document(checks, worst(checks), created))
    screen = render(check_screen(checks), console(plain=plain))
    return screen if name == "text" else check_annotations(checks, screen)


def _add_summary(checks: Sequence[Check]) -> None:
    """Append the checks as Markdown to the file that GitHub Actions shows as the job's summary."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:  # not on GitHub Actions
        return
    text = check_markdown(checks)
    if len(text.encode("utf-8", "backslashreplace")) > _MOST_SUMMARY:
        heading, _, result, *_ = text.splitlines()  # heading, blank line, result, then the table
        text = f"{heading}\n\n{result} The table is too long for a summary; see the job's log.\n"
    try:
        with Path(path).open("ab") as file:
            file.write(encoded(text))
    except OSError as error:
        raise InputError(f"cannot write to GITHUB_STEP_SUMMARY={path}: {error}") from None
