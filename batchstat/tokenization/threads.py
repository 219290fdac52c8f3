"""Work on several cores, its results in order."""

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
    """How many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def worker_count(workers: int | None) -> int:
    """As many as asked for; None: one for each core.

    Raises:
        OptionError: not between 1 and 1,000.
    """
    return cores() if workers is None else whole_number("workers", workers, most=1_000)


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    pool: ThreadPoolExecutor | None = None,
) -> Iterator[Result]:
    """The result of each item in its turn, up to `workers` at a time in threads, which may be those
    of a pool.

    An error among the items themselves comes when all items before it have had their turn, as it
    would with one worker. No more items are taken than are worked on, and one more. Closed before
    its end, it leaves threads to finish the item that they are at.
    """
    if workers == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    failure = None
    own = pool is None
    pool = pool or ThreadPoolExecutor(workers)
    try:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
        except InputError as error:
            failure = error
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Not waiting: who is interrupted should not have to, and else nothing is left to do.
        if own:
            pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure
