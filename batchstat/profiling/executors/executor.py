"""What counting needs to know of who does it."""

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass


class LostError(Exception):
    """An executor that does nothing more: what it had under way is to be done again by another."""


@dataclass(frozen=True)
class Engine:
    """An executor, and how it is used.

    Attributes:
        name: as messages have it.
        start: begins one, and ends it.
        at_once: how many parts it has under way at most.
        threads: that count in each part.
        shares_memory: whether it runs in this process.
        begins_anew: whether another executor can be had when one is lost.
        is_lost: whether the executor under way is known to do nothing more.
    """

    name: str
    start: Callable[[], AbstractContextManager[Executor]]
    at_once: int
    threads: int
    shares_memory: bool = False
    begins_anew: bool = True
    is_lost: Callable[[], bool] = bool
