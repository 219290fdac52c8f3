"""What goes where: results to standard output, all else to standard error."""

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.errors import InputError, printable, without_commands
from batchstat.render.text import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_OFF_TERMINAL_WIDTH = 100
_LEAST_WIDTH = 80
"""A narrower terminal wraps the lines itself, which leaves numbers whole; folded cells do not."""


def console(*, plain: bool = False) -> "Console":
    """The console of standard output; off a terminal as wide as COLUMNS says, or 100.

    A `plain` one is of a file: without colours, and of that width.
    """
    from rich.console import Console

    if plain:
        return Console(width=_OFF_TERMINAL_WIDTH, height=100, color_system=None, highlight=False)
    if sys.stdout.isatty():
        width = Console().width
    else:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) else _OFF_TERMINAL_WIDTH
    # A height must stand beside the width, or TERM=dumb makes rich ignore it.
    return Console(width=max(width, _LEAST_WIDTH), height=100, highlight=False)


def render(screen: "RenderableType", on: "Console") -> str:
    """A screen as text, without the blanks that rich leaves at the ends of lines."""
    with _standard_output(), on.capture() as captured:
        on.print(screen, crop=False)  # a line to paste is longer than a terminal is wide
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def emit(text: str, encoding: str = "utf-8", *, has_commands: bool = False) -> None:
    """Writes the result; a reader that has gone away, as `head` does, is no error.

    Nothing in it is a command to a CI runner, unless it `has_commands` of its own.

    Raises:
        InputError: standard output cannot be written.
    """
    with _standard_output(), suppress(BrokenPipeError):
        try:
            text = text if has_commands else without_commands(text)
            sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
            sys.stdout.flush()
        except OSError:
            # Whatever Python still flushes at exit must have somewhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"standard output cannot be written: {error.strerror}") from None


def open_closed_streams() -> None:
    """Gives streams that the caller closed a place: or the next file opened would become it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    names = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    for number, (name, mode) in enumerate(names):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def written(files: Collection[str], folder: Path) -> str:
    """The line that says which files a command wrote."""
    names = [name for name in files if not name.startswith("plots/")]
    plots = sum(name.startswith("plots/") for name in files)
    if plots:
        names.append(counted(plots, "plot"))
    return f"wrote {', '.join(names)} to {folder.as_posix()}"


def say(text: str) -> None:
    """A line on standard error, where somebody reads it."""
    with suppress(OSError):
        print(without_commands(printable(text)), file=sys.stderr, flush=True)
