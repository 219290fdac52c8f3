"""Progress of counting over all splits, the work done in this run, and how both are shown."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import timedelta
from operator import add, sub

from batchstat.corpus.files.splits import Split

_SECONDS_BETWEEN_LINES = 10


@dataclass(frozen=True)
class CountedAmount:
    """Amount of data that was read and counted."""

    bytes: int = 0  # bytes on disk
    samples: int = 0
    tokens: int = 0

    def __add__(self, other: "CountedAmount") -> "CountedAmount":
        return CountedAmount(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: "CountedAmount") -> "CountedAmount":
        return CountedAmount(*map(sub, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    bytes: int  # bytes on disk of the splits whose counts are available
    total_bytes: int  # bytes of all splits; 0 if unknown
    work: CountedAmount


class ProgressTracker:
    """Adds up the progress of all splits of a run, which several threads note, and reports it."""

    def __init__(self, splits: Sequence[Split], on_progress: Callable[[Progress], object]) -> None:
        self._splits, self._on_progress = splits, on_progress
        self._numbers = {split: i for i, split in enumerate(splits)}
        # How far each split is, by its number.
        self._amounts: dict[int, CountedAmount] = {}
        self._bytes, self._work = 0, CountedAmount()
        # Nobody knows how long standard input is.
        reads_input = any(split.source.is_standard_input for split in splits)
        self._total = 0 if reads_input else sum(split.bytes for split in splits)
        # Held while progress is reported, too, so that the caller's function runs once at a time.
        self._one_at_a_time = threading.Lock()

    def note(self, split: Split, amount: CountedAmount) -> None:
        """Note the progress of a split."""
        self._set(self._numbers[split], amount)

    def note_done(self, i: int, samples: int, tokens: int, *, was_cached: bool) -> None:
        """Note that split `i` is counted: by this run, or by an earlier one if `was_cached`."""
        self._set(i, CountedAmount(self._splits[i].bytes, samples, tokens), is_work=not was_cached)

    def begin_again(self) -> None:
        """Reset all splits to not counted; work that was done stays work."""
        with self._one_at_a_time:
            self._amounts.clear()
            self._bytes = 0

    def _set(self, i: int, amount: CountedAmount, *, is_work: bool = True) -> None:
        """Set how far split `i` is, and report the progress of the run."""
        with self._one_at_a_time:
            before = self._amounts.get(i, CountedAmount())
            self._amounts[i] = amount
            self._bytes += amount.bytes - before.bytes
            if is_work:
                # A split that is less far than before was begun again: all of it is new work.
                was_begun_again = amount.bytes < before.bytes
                self._work += amount - (CountedAmount() if was_begun_again else before)
            self._on_progress(Progress(self._bytes, self._total, self._work))


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows each `Progress` on standard error, as a bar or as lines."""
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


def _line_printer() -> Callable[[Progress], None]:
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
