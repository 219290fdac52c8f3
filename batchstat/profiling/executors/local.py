"""Executors of this machine: threads, processes, or one that the caller provides."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

from batchstat.errors import InputError
from batchstat.profiling.executors.executor import CountingExecutor
from batchstat.tokenization.threads import limit_threads


def threads(workers: int) -> CountingExecutor:
    """Return threads of this process, which start fastest but share one interpreter."""
    # As many splits at once as workers; they share as many counting threads.
    return CountingExecutor(
        "threads", lambda: _closing(ThreadPoolExecutor(workers)), workers, workers, in_process=True
    )


def processes(workers: int, splits: int) -> CountingExecutor:
    """Return processes of this machine, at most one per split; they end with this process.

    Args:
        workers: processes; with fewer splits, as many threads in fewer processes.
        splits: number of splits.
    """
    # The number of processes is also the number of splits in flight: each counts one at a time.
    n_processes = max(1, min(workers, splits))
    threads_each = max(1, workers // n_processes)

    @contextmanager
    def start() -> Iterator[Executor]:
        """Start the processes, and end them afterwards."""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        from batchstat.profiling.executors.spawning import Spawning

        # Python begins a new process by running the user's script again, with another __name__; it
        # sets `_inheriting` meanwhile. A script without `if __name__ == "__main__"` comes here
        # again in each new process. Such a process ends at once, with an exit code from which the
        # first process knows what to say.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            os._exit(_NO_GUARD)
        spawning = Spawning()
        pool = ProcessPoolExecutor(
            n_processes, spawning, initializer=_begin_process, initargs=(threads_each,)
        )
        try:
            with _closing(pool):
                yield pool
        except BrokenExecutor:
            if _NO_GUARD in _exit_codes(spawning.started):
                raise InputError(
                    "processes run a script again from its beginning",
                    'put what it does under if __name__ == "__main__":, or use executor="threads"',
                ) from None
            raise

    return CountingExecutor("processes", start, n_processes, threads_each)


def _exit_codes(processes: Sequence[Any]) -> list[int | None]:
    """Return the exit code of each process of a broken pool; None for one that does not end soon.

    That one has ended is known before its code is: another thread of the pool waits for it, too,
    and only one of the two is told the code at first.
    """
    until = time.monotonic() + _SECONDS_TO_END
    while (codes := [each.exitcode for each in processes]).count(None):
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return codes


_SECONDS_TO_END = 2
_NO_GUARD = 94
"""Exit code of a process if the user's script has no main guard. No signal and no other error of
batchstat ends a process with this code.
"""


@contextmanager
def _closing(pool: Executor) -> Iterator[Executor]:
    """Shut a pool down after use, without waiting for it after an interrupt."""
    finished = False
    try:
        yield pool
        finished = True
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)


def _begin_process(threads: int) -> None:
    """Prepare a new process: it ignores interrupts, and ends when its parent process ends."""
    from multiprocessing import parent_process

    # The libraries that count would use all cores in each process.
    limit_threads(threads)
    # The parent process has already shown what transformers says while loading.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # Ctrl-C reaches all processes of a terminal: the parent process decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def end_with_parent() -> None:
        assert parent is not None
        parent.join()  # returns when the parent has ended, also if it was killed
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def wrap_executor(executor: Executor, threads_per_split: int | None = None) -> CountingExecutor:
    """Return the way to use an executor that the caller started and shuts down.

    Args:
        executor: any executor of `concurrent.futures`.
        threads_per_split: threads that count the samples of each split, which is a part of a
            corpus and one task of the executor; None for 1.
    """
    # How many splits it counts at a time: concurrent.futures has no public name for the size of a
    # pool, and other libraries have other names.
    pool_size = getattr(executor, "_max_workers", None)
    max_in_flight = int(pool_size) if isinstance(pool_size, int) else _MOST_IN_FLIGHT
    return CountingExecutor(
        name=type(executor).__name__,
        start=lambda: nullcontext(executor),
        max_in_flight=max_in_flight,
        threads=threads_per_split or 1,
        # An executor that is no pool of threads may run splits in other processes or on other
        # machines: then the task must be sent there, and the answers checked.
        in_process=isinstance(executor, ThreadPoolExecutor),
        # If it breaks, only the caller can make a new one.
        restartable=False,
    )


_MOST_IN_FLIGHT = 1_000
"""Splits in flight if nothing says how many the executor works on at a time."""
