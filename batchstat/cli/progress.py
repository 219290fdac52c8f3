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
def shown(total_bytes: int) -> Iterator[OnProgress]:
    """What to call with each `Progress` while a corpus of `total_bytes` on disk is counted."""
    if not sys.stderr.isatty():
        yield _lines(total_bytes)
        return
    columns = (
        TextColumn("counting"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TextColumn("{task.fields[rates]}"),
        TimeRemainingColumn(compact=True),
    )
    began = time.monotonic()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total_bytes or None, rates="")

        def update(progress: Progress) -> None:
            rates = _rates(progress, time.monotonic() - began)
            bar.update(task, completed=progress.bytes, rates=rates)

        yield update


def _lines(total_bytes: int) -> OnProgress:
    began = time.monotonic()
    due = began + _SECONDS_BETWEEN_LINES

    def update(progress: Progress) -> None:
        nonlocal due
        now = time.monotonic()
        if now < due:
            return
        due = now + _SECONDS_BETWEEN_LINES
        how_far, left = decimal(progress.bytes), ""
        if total_bytes and progress.bytes:
            seconds = (now - began) * (total_bytes - progress.bytes) / progress.bytes
            how_far, left = f"{how_far} of {decimal(total_bytes)}", f", {seconds:,.0f} s left"
        say(f"counting: {how_far}, {_rates(progress, now - began)}{left}")

    return update


def _rates(progress: Progress, seconds: float) -> str:
    samples, tokens = (n / max(seconds, 1e-9) for n in (progress.samples, progress.tokens))
    return f"{samples:,.0f} samples/s, {tokens:,.0f} tokens/s"
