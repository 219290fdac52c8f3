"""How far the counting has come, on standard error: a bar, or a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from batchstat.cli.streams import say
from batchstat.profiling import Progress

OnProgress = Callable[[Progress], None]

_SECONDS_BETWEEN_LINES = 10


@contextmanager
def shown(total_bytes: int) -> Iterator[OnProgress]:
    """What to call with each `Progress` while a corpus of `total_bytes` on disk is counted."""
    if not sys.stderr.isatty():
        yield _lines(total_bytes)
        return
    columns = (
        TextColumn("counting"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%  {task.fields[counted]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total_bytes or None, counted="")

        def update(progress: Progress) -> None:
            bar.update(task, completed=progress.bytes, counted=_counted(progress))

        yield update


def _lines(total_bytes: int) -> OnProgress:
    due = time.monotonic() + _SECONDS_BETWEEN_LINES

    def update(progress: Progress) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _SECONDS_BETWEEN_LINES
            share = f" {progress.bytes / total_bytes:.0%}" if total_bytes else ""
            say(f"counting{share}: {_counted(progress)}")

    return update


def _counted(progress: Progress) -> str:
    return f"{progress.samples:,} samples, {progress.tokens:,} tokens"
