"""Executors of this machine: threads and processes."""

import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from batchstat.corpus.files.splits import Split
from batchstat.errors import InputError
from batchstat.profiling.tasks import CountingExecutor, CountTask, SplitResult, Submit
from batchstat.profiling.worker import count_split
from batchstat.storage.shown import one_line
from batchstat.tokenization.threads import limit_threads


def threads(workers: int) -> CountingExecutor:
    """Return threads of this process, which start fastest but share one interpreter."""

    @contextmanager
    def start(task: CountTask) -> Iterator[Submit]:
        assert task.local is not None
        with _closing(ThreadPoolExecutor(workers)) as pool, task.local.ending():
            yield lambda split: pool.submit(count_split, task, split)

    # As many splits at once as workers; they share as many counting threads.
    return CountingExecutor(start, workers, in_process=True)


def processes(workers: int, splits: int) -> CountingExecutor:
    """Return processes of this machine, at most one per split; they end with this process."""
    n_processes = max(1, min(workers, splits))
    threads_each = max(1, workers // n_processes)

    @contextmanager
    def start(task: CountTask) -> Iterator[Submit]:
        try:
            with _written(task) as file, process_pool(n_processes, threads_each) as pool:
                yield lambda split: pool.submit(_count_split, file, split)
        except BrokenExecutor:
            missing = "" if task.in_memory else ", which counts only what is missing"
            raise InputError(
                "a process that counts has died, possibly as memory was full",
                f"run again with fewer --workers{missing}",
            ) from None

    return CountingExecutor(start, threads_each)


@contextmanager
def _written(task: CountTask) -> Iterator[Path]:
    """Yield a file with the task, written once, since a tokenizer may have many megabytes."""
    with ExitStack() as stack:
        try:
            folder = tempfile.TemporaryDirectory(prefix="batchstat-", ignore_cleanup_errors=True)
            file = Path(stack.enter_context(folder), "task")
            file.write_bytes(pickle.dumps(replace(task, local=None)))
        except OSError as error:
            raise InputError(
                f"the tokenizer cannot be stored for the processes: {one_line(error)}",
                "set TMPDIR to a writable folder",
            ) from None
        yield file


def _count_split(file: Path, split: Split) -> SplitResult:
    return count_split(_task_in(file), split)


@cache
def _task_in(file: Path) -> CountTask:
    task: CountTask = pickle.loads(file.read_bytes())  # noqa: S301 - it is what the run wrote
    return task


@contextmanager
def process_pool(n_processes: int, threads_each: int) -> Iterator[Executor]:
    """Yield processes that count. Raises InputError: no main guard; BrokenExecutor: one died."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from batchstat.profiling.executors.spawning import Spawning

    # Python begins a new process by running the user's script again, and sets `_inheriting`
    # meanwhile: without `if __name__ == "__main__"`, it comes here again. Such a process ends at
    # once, with an exit code from which the first process knows what to say.
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
        # The exit code of each process of the broken pool; None for one that runs on.
        until = time.monotonic() + 2
        while (codes := [each.exitcode for each in spawning.started]).count(None):
            if time.monotonic() > until:
                break
            time.sleep(0.01)
        if _NO_GUARD in codes:
            raise InputError(
                "processes run a script again from its beginning",
                'put what it does under if __name__ == "__main__":, or use executor="threads"',
            ) from None
        raise


_NO_GUARD = 94  # exit code without a main guard: that of no signal and no other error


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
