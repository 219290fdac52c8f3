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
    """Return the number of workers, by default one per core. Raise OptionError above 1,000."""
    return cores() if workers is None else whole_number("workers", workers, max_value=1_000)


def limit_threads(workers: int) -> None:
    """Limit the threads of libraries that count, by variables that they read when they first do."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(workers))
    os.environ.setdefault("FASTOKENS_BPE_THREADS", str(workers))


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    pool: ThreadPoolExecutor | None = None,
) -> Iterator[Result]:
    """Yield `work(item)` for each item, in order, by up to `workers` threads; at most one item more
    is taken ahead. InputError of `items` comes after the results before it.
    """
    if workers == 1:
        yield from map(work, items)
        return
    results: deque[Future[Result]] = deque()
    failure = None

    def items_until_failure() -> Iterator[Item]:
        # An error is kept until the results of all items before it are yielded.
        nonlocal failure
        try:
            yield from items
        except InputError as error:
            failure = error

    is_own_pool = pool is None
    pool = pool or ThreadPoolExecutor(workers)
    try:
        for item in items_until_failure():
            results.append(pool.submit(work, item))
            # One more item than threads is in work, so that a thread that is done finds another.
            if len(results) > workers:
                yield results.popleft().result()
        while results:
            yield results.popleft().result()
    finally:
        # Without waiting: no work is left, or after an interrupt, this call should end at once.
        if is_own_pool:
            pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure
