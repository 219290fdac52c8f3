"""Engines of this machine: threads, processes, or an executor that the caller has."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from batchstat.profiling.executors.executor import Engine

THREADS, PROCESSES = "threads", "processes"


def threads(workers: int) -> Engine:
    """Threads of this process: no more work to begin with, and one interpreter for all."""

    def start() -> AbstractContextManager[Executor]:
        return _ended(ThreadPoolExecutor(workers))

    return Engine(THREADS, start, workers, workers, shares_memory=True)


def processes(workers: int, parts: int) -> Engine:
    """Processes of this machine, as many as there are parts for; they end with this one."""
    at_once = max(1, min(workers, parts))
    own = max(1, workers // at_once)

    def start() -> AbstractContextManager[Executor]:
        # Not by fork: the libraries that count have threads of their own.
        spawning = multiprocessing.get_context("spawn")
        return _ended(ProcessPoolExecutor(at_once, spawning, initializer=_begin, initargs=(own,)))

    return Engine(PROCESSES, start, at_once, own)


@contextmanager
def _ended(pool: Executor) -> Iterator[Executor]:
    """A pool that ends with its use; who is interrupted should not have to wait for it."""
    finished = False
    try:
        yield pool
        finished = True
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)


def _begin(threads: int) -> None:
    """In a new process: an interrupt is for the one that began it, whose end is its own."""
    # The tokenizers library would take all cores in each of them.
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    # What transformers has to say as it loads, it said where the run began.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def given_executor(executor: Executor, workers: int | None = None) -> Engine:
    """An executor that the caller has, and keeps."""

    @contextmanager
    def start() -> Iterator[Executor]:
        yield executor

    shares = isinstance(executor, ThreadPoolExecutor)
    own = getattr(executor, "_max_workers", None)
    at_once = int(own) if isinstance(own, int) else _MANY
    name = type(executor).__name__
    return Engine(name, start, at_once, workers or 1, shares_memory=shares, begins_anew=False)


_MANY = 1_000
"""Parts under way where nothing says how many are worked on at a time."""
