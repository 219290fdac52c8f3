"""Log of a run: every attempt to count a split, at level INFO of the logger `batchstat.profile`."""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from batchstat.corpus.files.splits import Split
from batchstat.profiling.tasks import SplitResult
from batchstat.words import counted

LOG = logging.getLogger("batchstat.profile")


class RunLog:
    """Log of one run. It begins with the first attempt at a split: a run that ends before that, as
    when the executor cannot be started, logs nothing.
    """

    def __init__(self, first_line: str) -> None:
        """Start with a first line that is not written yet."""
        self._first_line = first_line

    def _write(self, text: str) -> None:
        if self._first_line:
            LOG.info(self._first_line)
            self._first_line = ""
        LOG.info(text)

    def done(self, split: Split, result: SplitResult) -> None:
        """Log a split that is counted."""
        self._write(
            f"{'cached ' if result.was_cached else 'counted'} {split.shown}: "
            f"{counted(result.samples, 'sample')}, {counted(result.tokens, 'token')}, "
            f"{result.seconds:.1f} s, {result.worker}"
        )

    def failed(self, split: Split, tries: int, reason: str, *, is_last: bool = True) -> None:
        """Log that an attempt at a split failed, the `tries`-th; `is_last` if no other follows."""
        retry = "" if is_last else "; will retry"
        self._write(f"FAILED  {split.shown}, try {tries}: {reason}{retry}")

    @contextmanager
    def ending(self, done: Collection[SplitResult], failed: Collection[str]) -> Iterator[None]:
        """Log how the run in this context ends, with the splits that are `done` and `failed` then;
        both are collections that change while it runs.
        """
        try:
            yield
        except BaseException as error:  # an interrupt, too
            if not self._first_line:  # else nothing is logged yet
                self._write(f"ended by {str(error) or type(error).__name__}")
            raise
        samples = counted(sum(result.samples for result in done), "sample")
        tokens = counted(sum(result.tokens for result in done), "token")
        failures = f", {len(failed):,} failed" if failed else ""
        self._write(f"done: {counted(len(done), 'split')}, {samples}, {tokens}{failures}")
