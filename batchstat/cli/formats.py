"""Output of checks: formats to standard output and to files."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from batchstat.cli.streams import console, emit, render, say
from batchstat.documents.base import to_text
from batchstat.errors import InputError, OptionError, unknown
from batchstat.gate.outcome import Check, worst
from batchstat.render.screens.check import check_screen
from batchstat.storage.addresses import local_path
from batchstat.storage.results import check_writable, encoded, write_file

FORMATS = ("text", "json", "markdown", "junit", "github", "html")

_MOST_SUMMARY = 1_000_000
"""Bytes: GitHub rejects the whole summary above 1 MiB."""

Destinations = Mapping[str, Path | None]
"""Formats with their files; None for standard output."""


def as_destinations(written: Sequence[str]) -> Destinations:
    """Parse formats written as `name` or `name=file`.

    Raises:
        OptionError: an unknown format, one given twice, or two for standard output.
    """
    found: dict[str, Path | None] = {}
    for each in written:
        name, equals, file = each.partition("=")
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
        if name in found:
            raise OptionError(f"--format {name} is given twice; give it once")
        if equals and not file:
            raise OptionError(f"--format {each} has no file name; write {name} or {name}=FILE")
        found[name] = local_path(file) if equals else None
    named = [path for path in found.values() if path is not None]
    if len(set(named)) < len(named):
        raise OptionError("two formats write to the same file; give each its own")
    shown = [name for name, path in found.items() if path is None]
    if len(shown) > 1:
        raise OptionError(
            f"--format {shown[0]} and {shown[1]} both write to standard output; write one of them "
            f"to a file, as in --format {shown[1]}=FILE"
        )
    return found


def check_destinations(destinations: Destinations) -> None:
    """Raise InputError, before any work is done, if a file's folder is not writable."""
    for path in destinations.values():
        if path is not None:
            check_writable(path.parent)


def write(checks: Sequence[Check], destinations: Destinations, created: str) -> None:
    """Write each format, files first; on GitHub Actions also the job summary.

    Raises:
        InputError: a file or standard output is not writable.
    """
    plain = destinations.get("text") is not None
    formats: Mapping[str, Callable[[], str]] = {
        "text": lambda: _screen(checks, plain=plain),
        "json": lambda: to_text(_document(checks, created)),
        "markdown": lambda: _markdown(checks),
        "junit": lambda: _junit(checks),
        "github": lambda: _annotations(checks),
        "html": lambda: _page(checks, created),
    }
    if "github" in destinations:
        _add_summary(checks)
    for name, path in destinations.items():
        if path is not None:
            write_file(path, encoded(formats[name]()), remedy="name another")
            say(f"wrote {path.as_posix()}")
    for name in (name for name, path in destinations.items() if path is None):
        if name != "text" or any(check.error is None for check in checks):
            encoding = sys.stdout.encoding if name in ("text", "github") else "utf-8"
            emit(formats[name](), encoding, has_commands=name == "github")


def _screen(checks: Sequence[Check], *, plain: bool) -> str:
    return render(check_screen(checks), console(plain=plain))


def _document(checks: Sequence[Check], created: str) -> dict[str, Any]:
    from batchstat.documents.check import check_document

    return check_document(checks, worst(checks), created)


def _markdown(checks: Sequence[Check]) -> str:
    from batchstat.render.checks.markdown import check_markdown

    return check_markdown(checks)


def _junit(checks: Sequence[Check]) -> str:
    from batchstat.render.checks.junit import check_junit

    return check_junit(checks)


def _annotations(checks: Sequence[Check]) -> str:
    from batchstat.render.checks.github import check_annotations

    return check_annotations(checks, _screen(checks, plain=False))


def _page(checks: Sequence[Check], created: str) -> str:
    from batchstat.render.html.check_page import check_page

    return check_page(checks, _document(checks, created))


def _add_summary(checks: Sequence[Check]) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    text = _markdown(checks)
    if len(text.encode("utf-8", "backslashreplace")) > _MOST_SUMMARY:
        heading, _, result, *_ = text.splitlines()
        text = f"{heading}\n\n{result} The table is too long for a summary; see the job's log.\n"
    try:
        with Path(path).open("ab") as file:
            file.write(encoded(text))
    except OSError as error:
        raise InputError(f"cannot write to GITHUB_STEP_SUMMARY={path}: {error}") from None
