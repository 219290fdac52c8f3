"""Interface between counting and the executors that do it."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass

from batchstat.corpus.files.splits import Split
from batchstat.profiling.tasks import CountTask, SplitResult

Submit = Callable[[Split], "Future[SplitResult]"]  # gives a split to a worker


@dataclass(frozen=True)
class CountingExecutor:
    """Where splits are counted."""

    start: Callable[[CountTask], AbstractContextManager[Submit]]
    threads: int
    in_process: bool = False
