"""Interface between counting and the executors that do it."""

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass


class ExecutorLostError(Exception):
    """An executor that no longer works: its unfinished splits must be counted by another."""


@dataclass(frozen=True)
class CountingExecutor:
    """A way to start an executor of `concurrent.futures`, and how to use it.

    Attributes:
        name: name in messages.
        start: returns a context manager that starts an executor and ends it.
        max_in_flight: most splits that are submitted and not finished.
        threads: threads that count in each split.
        in_process: whether it runs in this process.
        restartable: whether a lost executor can be replaced by a new one.
        is_disconnected: returns whether the current executor is known to have stopped working; by
            default `bool`, which returns False.
    """

    name: str
    start: Callable[[], AbstractContextManager[Executor]]
    max_in_flight: int
    threads: int
    in_process: bool = False
    restartable: bool = True
    is_disconnected: Callable[[], bool] = bool
