"""Executors of this machine: threads, processes, or one that the caller provides."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

from batchstat.errors import InputError
from batchstat.profiling.executors.executor import CountingExecutor
from batchstat.tokenization.threads import limit_threads


def threads(workers: int) -> CountingExecutor:
    """Return threads of this process, which start fastest but share one interpreter."""
    return CountingExecutor(
        "threads", lambda: _ended(ThreadPoolExecutor(workers)), workers, workers, in_process=True
    )


def processes(workers: int, splits: int) -> CountingExecutor:
    """Return processes of this machine, at most one per split; they end with this process."""
    max_in_flight = max(1, min(workers, splits))
    threads_each = max(1, workers // max_in_flight)

    @contextmanager
    def start() -> Iterator[Executor]:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        from batchstat.profiling.executors.spawning import Spawning

        # A new process runs the script that started it from its beginning, under another name. One
        # that comes here again would start processes of its own: Python raises in each of them.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            os._exit(_UNGUARDED)
        spawning = Spawning()
        pool = ProcessPoolExecutor(
            max_in_flight, spawning, initializer=_begin_process, initargs=(threads_each,)
        )
        try:
            with _ended(pool):
                yield pool
        except BrokenExecutor:
            if any(process.exitcode == _UNGUARDED for process in spawning.started):
                raise InputError(
                    "processes run a script again from its beginning: put what it does under "
                    'if __name__ == "__main__":, or use executor="threads"'
                ) from None
            raise

    return CountingExecutor("processes", start, max_in_flight, threads_each)


_UNGUARDED = 94
"""Exit code of a process whose script has no main guard; of no signal, and of nothing else here."""


@contextmanager
def _ended(pool: Executor) -> Iterator[Executor]:
    """Shut a pool down after use, without waiting for it after an interrupt."""
    finished = False
    try:
        yield pool
        finished = True
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)


def _begin_process(threads: int) -> None:
    """Prepare a new process, which ignores interrupts and ends when its parent process ends."""
    from multiprocessing import parent_process

    # The libraries that count would use all cores in each process.
    limit_threads(threads)
    # The parent process has already shown what transformers says while loading.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def follow() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def wrap_executor(executor: Executor, workers: int | None = None) -> CountingExecutor:
    """Return an executor that the caller owns and shuts down."""
    # concurrent.futures has no public name for it, and other libraries have other ones.
    workers_of_pool = getattr(executor, "_max_workers", None)
    max_in_flight = int(workers_of_pool) if isinstance(workers_of_pool, int) else _MOST_IN_FLIGHT
    return CountingExecutor(
        type(executor).__name__,
        lambda: nullcontext(executor),
        max_in_flight,
        threads=workers or 1,
        in_process=isinstance(executor, ThreadPoolExecutor),
        restartable=False,
    )


_MOST_IN_FLIGHT = 1_000
"""Splits in flight if nothing says how many the executor works on at a time."""
