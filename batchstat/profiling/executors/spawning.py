"""Processes that count, which an interrupt does not stop while they are started."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any


class CountingProcess(SpawnProcess):
    """A process that an interrupt cannot cut off from its work: it would print a traceback."""

    def start(self) -> None:
        """Start the process and send it what to run; an interrupt meanwhile takes effect after."""
        with _interrupts_held_back():
            super().start()


class Spawning(SpawnContext):
    """Spawns a `CountingProcess` each time: a fork would not copy the threads of libraries."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **more: Any) -> SpawnProcess:  # type: ignore[override] # noqa: N802
        """Make a process; multiprocessing calls this by its name."""
        self.started.append(CountingProcess(*args, **more))
        return self.started[-1]


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold back interrupts that come while this context lasts, and raise the first one after it."""
    # Only the main thread may set handlers, and only there does Python raise interrupts.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held_back: list[signal.Signals] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in handlers.items():
        # Only a handler that is a function can raise. Any other one ignores the signal, or lets it
        # end the process: it stays, as the new process must inherit it.
        if callable(handler):
            signal.signal(number, lambda number, _: held_back.append(signal.Signals(number)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for number in held_back[:1]:
            signal.raise_signal(number)
