"""Interface between counting and the executors that do it."""

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass


class LostError(Exception):
    """An executor that no longer works: its unfinished parts must be counted by another."""


@dataclass(frozen=True)
class Engine:
    """An executor, and how to use it.

    Attributes:
        name: name in messages.
        start: context manager that starts an executor and ends it.
        at_once: maximum number of parts in flight.
        threads: threads that count in each part.
        shares_memory: whether it runs in this process.
        begins_anew: whether a lost executor can be replaced by a new one.
        is_lost: whether the current executor is known to have stopped working.
    """

    name: str
    start: Callable[[], AbstractContextManager[Executor]]
    at_once: int
    threads: int
    shares_memory: bool = False
    begins_anew: bool = True
    is_lost: Callable[[], bool] = bool
