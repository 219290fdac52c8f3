"""Output streams: results to standard output, everything else to standard error."""

import os
import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.errors import InputError, message
from batchstat.findings import Finding
from batchstat.hidden_secrets import without_secrets
from batchstat.words import counted, without_commands

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_OFF_TERMINAL_WIDTH = 100  # columns of a screen in a pipe or a file, whose width nothing says
_LEAST_WIDTH = 80  # columns: a narrower terminal wraps lines itself, where rich breaks numbers


class KeptOnInterrupt(SystemExit):
    """Ends an interrupted command that wrote what it had, and has said so."""

    def __init__(self) -> None:
        super().__init__(130)  # as a shell says that SIGINT ended a command: 128 + 2


def console(*, plain: bool = False) -> "Console":
    """Return rich's console for screens on standard output: as wide as the terminal; in a pipe as
    COLUMNS says, else 100. A `plain` one is for a file: without colours, 100 columns wide.
    """
    from rich.console import Console

    if plain:
        return Console(width=_OFF_TERMINAL_WIDTH, height=100, color_system=None, highlight=False)
    if sys.stdout.isatty():
        width = Console().width
    else:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) else _OFF_TERMINAL_WIDTH
    # Without a height beside the width, rich ignores the width under TERM=dumb.
    return Console(width=max(width, _LEAST_WIDTH), height=100, highlight=False)


def render(screen: "RenderableType", target: "Console") -> str:
    """Return a screen as text for a console, without the blanks that rich adds at ends of lines."""
    # rich flushes standard output at the end of a capture, which fails if that cannot be written.
    with _standard_output(), target.capture() as captured:
        target.print(screen, crop=False)  # a line to paste is longer than a terminal is wide
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show(screen: "RenderableType") -> None:
    """Write a screen as the result. Raises as `emit`."""
    emit(render(screen, console()), sys.stdout.encoding)


def emit(text: str, encoding: str = "utf-8", *, has_commands: bool = False) -> None:
    """Write the result; a reader that closes the pipe, as `head` does, is not an error. Lines that
    a CI runner takes for commands, such as `::error::`, are escaped, as users' data may hold them,
    unless it `has_commands` on purpose. Raises InputError: standard output cannot be written.
    """
    with _standard_output(), suppress(BrokenPipeError):
        try:
            text = text if has_commands else without_commands(text)
            sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
            sys.stdout.flush()
        except OSError:
            # Python flushes the stream again at exit, and would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write to standard output: {error.strerror}") from None


def open_closed_streams() -> None:
    """Open the standard streams that the caller closed, as `batchstat … >&-` does, to nowhere. Else
    the next file that is opened would get the number of a closed stream, and hold what is printed.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    names = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    for number, (name, mode) in enumerate(names):
        if getattr(sys, name) is None:  # Python sets a stream to None if it starts with it closed
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def wrote_line(files: Collection[str], folder: Path) -> str:
    """Return the line that lists the files a command wrote: `wrote a.json, 4 plots to DIR`."""
    names = [name for name in files if not name.startswith("plots/")]
    plots = sum(name.startswith("plots/") for name in files)
    if plots:
        names.append(counted(plots, "plot"))
    return f"wrote {', '.join(names)} to {folder.as_posix()}"


def say(text: str) -> None:
    """Print a line to standard error; ignore a closed one."""
    with suppress(OSError):
        print(without_commands(message(text)), file=sys.stderr, flush=True)


def warn(*findings: Finding, prefix: str = "") -> None:
    """Print findings as warnings with their ids, each line begun by `prefix`, such as a check."""
    for finding in findings:
        say(f"warning: {prefix}{finding}")


def say_crashed() -> None:
    """Print the traceback of the handled exception, without secrets, as a bug to report."""
    with suppress(OSError):
        print(without_secrets(traceback.format_exc()), end="", file=sys.stderr)
        print("error: batchstat crashed; this is a bug, please report it", file=sys.stderr)
