"""The executor and the count cache that a command's options choose."""

import os
from collections.abc import Sequence
from pathlib import Path

from batchstat.cli.records import Counting
from batchstat.corpus.parts import Part
from batchstat.errors import InputError, OptionError
from batchstat.parameters import one_of
from batchstat.profiling.cache import CountCache, default_folder
from batchstat.profiling.executors import NAMES
from batchstat.profiling.executors.executor import CountingExecutor
from batchstat.profiling.executors.local import processes, threads
from batchstat.profiling.shards import PARTS_FOLDER
from batchstat.tokenization.threads import worker_count

PROCESSES_FROM = 256 << 20
"""Bytes of a corpus from which processes count it: they take a second to start."""


def check_engine(options: Counting) -> None:
    """Raise OptionError for an unknown engine, or options that do not apply to it."""
    name = options.executor or "auto"
    one_of("executor", name, NAMES)
    worker_count(options.workers)
    if name == "dask":
        if options.workers is not None:
            raise OptionError("--workers does not apply to --executor dask: remove it")
    elif options.scheduler is not None:
        raise OptionError("--scheduler needs --executor dask: add it, or remove --scheduler")


def engine_of(options: Counting, parts: Sequence[Part]) -> CountingExecutor:
    """Return the executor that counts the parts of a corpus."""
    name, workers = options.executor or "auto", options.workers
    if name == "dask":
        from batchstat.profiling.executors.dask import dask

        return dask(options.scheduler)
    count = worker_count(workers)
    if workers is not None:
        # The tokenizers library has its own threads, which only this variable limits.
        os.environ.setdefault("RAYON_NUM_THREADS", str(count))
    if name == "auto":
        large = len(parts) > 1 and sum(part.bytes for part in parts) >= PROCESSES_FROM
        name = "processes" if large and count > 1 else "threads"
    return threads(count) if name == "threads" else processes(count, len(parts))


def parts_of_folder(folder: Path) -> CountCache:
    """Return the count cache in a results folder.

    Raises:
        InputError: it is not writable.
    """
    store = CountCache.at(folder / PARTS_FOLDER)
    store.try_writing("pass another folder with -o")
    return store


def store_of(options: Counting, folder: Path | None) -> tuple[CountCache | None, bool]:
    """Return where the counts of parts are stored, and whether that is the cache; None for a
    temporary folder.

    Raises:
        InputError: it is not writable.
    """
    if options.count_cache is not None:
        store = CountCache.at(options.count_cache)
        store.try_writing("pass another folder with --count-cache")
        return store, False
    if options.executor == "dask":
        if folder is None:
            raise OptionError("--executor dask needs a folder for counts: pass --count-cache DIR")
        return parts_of_folder(folder), False
    kept = None if options.no_cache else default_folder()
    if kept is None:
        return None, False
    cache = CountCache(str(kept))
    try:
        cache.try_writing("")
    except InputError:  # a cache may be read-only
        return None, False
    return cache, True
