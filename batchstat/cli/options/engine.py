"""Who counts a corpus, and what of it."""

from typing import Annotated

from batchstat.cli.options.base import ENGINE, option

Workers = Annotated[
    int | None,
    option(ENGINE, "Threads or processes that count.", "as many as there are cores", "N"),
]
Engine = Annotated[
    str | None,
    option(
        ENGINE,
        "Who counts: threads or processes of this machine, or dask.",
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
        "Where the counts of parts are kept, so that a run begun again does what is missing; all "
        "workers must reach it.",
        "the cache; with dask, parts in the results folder",
        "DIR",
    ),
]
Shard = Annotated[
    str | None,
    option(
        ENGINE,
        "Count the I-th of N shares of the corpus, 1 ≤ I ≤ N, for batchstat merge.",
        False,
        "I/N",
    ),
]
AllowPartial = Annotated[
    bool,
    option(
        ENGINE,
        "Leave out what cannot be read, and mark the profile as partial.",
        False,
        None,
        "--allow-partial",
    ),
]
