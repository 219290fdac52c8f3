"""Options for counting: executor, count cache, shards."""

from typing import Annotated

from batchstat.cli.options.base import ENGINE, option

Workers = Annotated[
    int | None,
    option(ENGINE, "Number of threads or processes.", "number of cores", "N"),
]
Engine = Annotated[
    str | None,
    option(
        ENGINE,
        "Executor: threads, processes or dask.",
        "processes for a large corpus",
        "NAME",
    ),
]
Scheduler = Annotated[
    str | None, option(ENGINE, "Address of the Dask scheduler.", False, "tcp://HOST:PORT")
]
Parts = Annotated[
    str | None,
    option(
        ENGINE,
        "Folder for the counts of parts; a rerun counts only what is missing. All workers must "
        "be able to reach it.",
        "the cache; with dask, parts in the results folder",
        "DIR",
    ),
]
Shard = Annotated[
    str | None,
    option(
        ENGINE,
        "Count shard I of N (1 ≤ I ≤ N) of the corpus, for batchstat merge.",
        False,
        "I/N",
    ),
]
AllowPartial = Annotated[
    bool,
    option(
        ENGINE,
        "Skip parts that cannot be read, and mark the profile as partial.",
        False,
        None,
        "--allow-partial",
    ),
]
