"""Processes that count, which an interrupt does not stop while they are started."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any


class CountingProcess(SpawnProcess):
    """A new process; one that is cut off from what it is to run prints a traceback of its own."""

    def start(self) -> None:
        """Start it, and hand over what it runs, before an interrupt counts."""
        with _interrupted_afterwards():
            super().start()


class Spawning(SpawnContext):
    """Starts such processes. Not by fork: the libraries that count have threads of their own.

    Attributes:
        started: all that were made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **more: Any) -> SpawnProcess:  # type: ignore[override] # noqa: N802
        """Make a process."""
        self.started.append(CountingProcess(*args, **more))
        return self.started[-1]


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Hold interrupts back that come meanwhile; in other threads than the first none is raised."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[signal.Signals] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in handlers.items():
        if callable(handler):  # one that raises; an ignored signal stays so for the new process
            signal.signal(number, lambda number, _: came.append(signal.Signals(number)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)
