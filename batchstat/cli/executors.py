"""Who counts, and where counts are kept, as a command is told."""

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from batchstat.corpus.parts import Part
from batchstat.errors import InputError, OptionError
from batchstat.parameters import one_of
from batchstat.profiling.cache import PartStore, default_folder
from batchstat.profiling.executors import NAMES
from batchstat.profiling.executors.executor import Engine
from batchstat.profiling.executors.local import processes, threads
from batchstat.profiling.shards import PARTS_FOLDER
from batchstat.tokenization.threads import worker_count

PROCESSES_FROM = 256 << 20
"""Bytes of a corpus from which processes count it: they take a second to begin."""


def check_engine(context: typer.Context) -> None:
    """Raises OptionError: an engine that is none, or options that do not go with it."""
    params = context.params
    name = params["engine"] or "auto"
    one_of("engine", name, NAMES)
    worker_count(params["workers"])
    if name == "dask":
        if params["workers"] is not None:
            raise OptionError("--workers is for this machine, and with dask its workers count")
    elif params["scheduler"] is not None:
        raise OptionError("--scheduler is for --engine dask: add it, or leave it out")


def engine_of(context: typer.Context, parts: Sequence[Part]) -> Engine:
    """Who counts the parts of a corpus."""
    params = context.params
    name, workers = params["engine"] or "auto", params["workers"]
    if name == "dask":
        from batchstat.profiling.executors.dask import dask

        return dask(params["scheduler"])
    count = worker_count(workers)
    if workers is not None:
        # The tokenizers library has threads of its own, and is told so only here.
        os.environ.setdefault("RAYON_NUM_THREADS", str(count))
    if name == "auto":
        large = len(parts) > 1 and sum(part.bytes for part in parts) >= PROCESSES_FROM
        name = "processes" if large and count > 1 else "threads"
    return threads(count) if name == "threads" else processes(count, len(parts))


def parts_of_folder(folder: Path) -> PartStore:
    """Where a results folder keeps the counts of parts.

    Raises:
        InputError: it cannot be written.
    """
    store = PartStore.at(folder / PARTS_FOLDER)
    store.try_writing("pass another folder with -o")
    return store


def store_of(context: typer.Context, folder: Path | None) -> tuple[PartStore | None, bool]:
    """Where the counts of parts are kept, and whether that is the cache; None for a temporary
    folder.

    Raises:
        InputError: it cannot be written.
    """
    params = context.params
    if params["parts"] is not None:
        store = PartStore.at(params["parts"])
        store.try_writing("pass another folder with --parts")
        return store, False
    if params["engine"] == "dask":
        if folder is None:
            raise OptionError("with dask, where are counts to be kept? pass --parts DIR")
        return parts_of_folder(folder), False
    kept = None if params["no_cache"] else default_folder()
    if kept is None:
        return None, False
    cache = PartStore(str(kept))
    try:
        cache.try_writing("")
    except InputError:  # which a cache may be
        return None, False
    return cache, True
