"""Interface between counting and the executors that do it."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass

from batchstat.corpus.files.splits import Split
from batchstat.profiling.tasks import CountTask, SplitResult

Submit = Callable[[Split], "Future[SplitResult]"]
"""Gives a split to a worker."""


@dataclass(frozen=True)
class CountingExecutor:
    """Where splits are counted.

    Attributes:
        start: starts the workers for a task, and ends them after its context. If they are lost in
            between, it raises InputError.
        threads: threads that count in each split.
        in_process: whether it runs in this process.
    """

    start: Callable[[CountTask], AbstractContextManager[Submit]]
    threads: int
    in_process: bool = False
