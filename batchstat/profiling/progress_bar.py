"""Progress of counting on standard error: a bar, or a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from batchstat.profiling.progress import Progress

OnProgress = Callable[[Progress], None]

_SECONDS_BETWEEN_LINES = 10


@contextmanager
def shown_progress() -> Iterator[OnProgress]:
    """Yield a function that shows each `Progress` it is called with on standard error."""
    if not sys.stderr.isatty():  # as in a log file
        yield _line_printer()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("counting"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TextColumn("{task.fields[pace]}"),
    )
    began = time.monotonic()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, pace="")

        def update(progress: Progress) -> None:
            pace = _pace(progress, time.monotonic() - began)
            total = progress.total_bytes or None  # 0 if unknown; rich wants None
            bar.update(task, total=total, completed=progress.bytes, pace=pace)

        yield update


def _line_printer() -> OnProgress:
    """Return a function that prints a line for a `Progress`, but at most every few seconds."""
    from rich.filesize import decimal

    began = time.monotonic()
    due = began + _SECONDS_BETWEEN_LINES

    def update(progress: Progress) -> None:
        nonlocal due
        if (now := time.monotonic()) < due:
            return
        due = now + _SECONDS_BETWEEN_LINES
        total = progress.total_bytes
        of_total = f" of {decimal(total)}" if total else ""
        line = f"counting: {decimal(progress.bytes)}{of_total}, {_pace(progress, now - began)}"
        with suppress(OSError):  # standard error may be closed
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    return update


def _pace(progress: Progress, seconds: float) -> str:
    """Return the text that says samples and tokens per second, and the time left at this pace."""
    work, seconds = progress.work, max(seconds, 1e-9)  # a clock may not have moved yet
    pace = f"{work.samples / seconds:,.0f} samples/s, {work.tokens / seconds:,.0f} tokens/s"
    # The size is unknown, or nothing was counted yet.
    if not (progress.total_bytes and work.bytes):
        return pace
    seconds_left = seconds * (progress.total_bytes - progress.bytes) / work.bytes
    return f"{pace}, {timedelta(seconds=round(seconds_left))} left"
