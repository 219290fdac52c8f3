"""Work on several cores, with results in order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from batchstat.errors import InputError
from batchstat.parameters import whole_number

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def worker_count(workers: int | None) -> int:
    """Return the requested number of workers; if None, one per core.

    Raises:
        OptionError: not between 1 and 1,000.
    """
    return cores() if workers is None else whole_number("workers", workers, max_value=1_000)


def limit_threads(workers: int) -> None:
    """Let each library that counts have so many threads, unless the environment limits them.

    Only these variables do, and only before the libraries count for the first time.
    """
    os.environ.setdefault("RAYON_NUM_THREADS", str(workers))
    os.environ.setdefault("FASTOKENS_BPE_THREADS", str(workers))


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    pool: ThreadPoolExecutor | None = None,
) -> Iterator[Result]:
    """Yield the result of each item in order, computed by up to `workers` threads at a time.

    The threads may be those of a pool. An error raised by the items themselves comes after the
    results of all items before it, as with one worker. At most one item more than those in progress
    is taken. Closed before its end, it leaves threads to finish their current item.
    """
    if workers == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    failure = None

    def until_failure() -> Iterator[Item]:
        nonlocal failure
        try:
            yield from items
        except InputError as error:
            failure = error

    is_own_pool = pool is None
    pool = pool or ThreadPoolExecutor(workers)
    try:
        for item in until_failure():
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Without waiting: after an interrupt it should be immediate, and else nothing is left.
        if is_own_pool:
            pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure
