"""Log of a run: every attempt to count a split, at level INFO of the logger `batchstat.profile`."""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from batchstat.corpus.splits import Split
from batchstat.errors import counted
from batchstat.profiling.tasks import SplitResult

LOG = logging.getLogger("batchstat.profile")


class RunLog:
    """Log of one run, which begins with the first attempt at a split."""

    def __init__(self, begin: str) -> None:
        """`begin`: the first line."""
        self._begin = begin

    def _write(self, text: str) -> None:
        if self._begin:
            LOG.info(self._begin)
            self._begin = ""
        LOG.info(text)

    def done(self, split: Split, result: SplitResult) -> None:
        """Log a split that is counted."""
        self._write(
            f"{'cached ' if result.was_cached else 'counted'} {split.shown}: "
            f"{counted(result.samples, 'sample')}, {counted(result.tokens, 'token')}, "
            f"{result.seconds:.1f} s, {result.worker}"
        )

    def failed(self, split: Split, tries: int, reason: str, *, is_last: bool = True) -> None:
        """Log an attempt at a split that failed; `is_last` if it will not be tried again."""
        again = "" if is_last else "; will retry"
        self._write(f"FAILED  {split.shown}, try {tries}: {reason}{again}")

    @contextmanager
    def ending(self, done: Collection[SplitResult], failed: Collection[str]) -> Iterator[None]:
        """Log how the run ends, with what is `done` and `failed` by then."""
        try:
            yield
        except BaseException as error:
            if not self._begin:
                self._write(f"ended by {str(error) or type(error).__name__}")
            raise
        self._write(
            f"done: {counted(len(done), 'split')}, "
            f"{counted(sum(result.samples for result in done), 'sample')}, "
            f"{counted(sum(result.tokens for result in done), 'token')}"
            f"{f', {len(failed):,} failed' if failed else ''}"
        )
