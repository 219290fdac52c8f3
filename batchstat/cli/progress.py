"""How far the counting has come, on standard error: a bar, or a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from batchstat.cli.streams import say
from batchstat.profiling import Progress

OnProgress = Callable[[Progress], None]

_SECONDS_BETWEEN_LINES = 10


@contextmanager
def shown() -> Iterator[OnProgress]:
    """What to call with each `Progress` while a corpus is counted."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (
        TextColumn("counting"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TextColumn("{task.fields[rates]}"),
        TimeRemainingColumn(compact=True),
    )
    clock = _Clock()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rates="")

        def update(progress: Progress) -> None:
            rates = _rates(progress, clock.seconds(progress))
            total = progress.total_bytes or None
            bar.update(task, total=total, completed=progress.bytes, rates=rates)

        yield update


def _lines() -> OnProgress:
    clock = _Clock()
    due = time.monotonic() + _SECONDS_BETWEEN_LINES

    def update(progress: Progress) -> None:
        nonlocal due
        seconds = clock.seconds(progress)
        if (now := time.monotonic()) < due:
            return
        due = now + _SECONDS_BETWEEN_LINES
        how_far, left = decimal(progress.bytes), ""
        total = progress.total_bytes
        if total and progress.bytes:
            still = seconds * (total - progress.bytes) / progress.bytes
            how_far, left = f"{how_far} of {decimal(total)}", f", {still:,.0f} s left"
        say(f"counting: {how_far}, {_rates(progress, seconds)}{left}")

    return update


class _Clock:
    """Time since a count began: anew where it begins again."""

    def __init__(self) -> None:
        self._began, self._last = time.monotonic(), 0

    def seconds(self, progress: Progress) -> float:
        now = time.monotonic()
        if progress.bytes < self._last:
            self._began = now
        self._last = progress.bytes
        return now - self._began


def _rates(progress: Progress, seconds: float) -> str:
    samples, tokens = (n / max(seconds, 1e-9) for n in (progress.samples, progress.tokens))
    return f"{samples:,.0f} samples/s, {tokens:,.0f} tokens/s"
