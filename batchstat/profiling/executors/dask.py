"""A Dask cluster: its scheduler is named, its workers do the counting."""

import logging
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from batchstat.errors import InputError, OptionError, install_extra
from batchstat.profiling.executors.executor import Engine
from batchstat.profiling.executors.versions import different_versions, versions
from batchstat.storage.addresses import one_line

_LOGGERS = ("distributed", "tornado", "asyncio")
_ADDRESS = re.compile(r"(?!(tcp|tls)://)[a-z]+://.+|((tcp|tls)://)?[^/]+:[0-9]+")
_AT_ONCE = 2_000
"""Parts that the scheduler is given: enough for any cluster, few enough to be called back."""


def dask(scheduler: str | None, timeout: str = "20s") -> Engine:
    """The workers of the scheduler at an address, such as tcp://head:8786.

    Raises:
        OptionError: no scheduler is named, or none that can be, or Dask is not installed.
    """
    if scheduler is None:
        raise OptionError(
            "engine=dask: which scheduler? pass --scheduler tcp://HOST:8786, as dask scheduler "
            "prints it"
        )
    if not _ADDRESS.fullmatch(scheduler):
        raise OptionError(
            f"scheduler={scheduler}: must be an address with a port, such as tcp://head:8786"
        )
    try:
        connect: Any = import_module("distributed").Client
    except ImportError:
        raise OptionError(f"engine=dask: Dask is not installed: {install_extra('dask')}") from None
    current: list[Any] = []

    @contextmanager
    def start() -> Iterator[Executor]:
        for name in tuple(logging.root.manager.loggerDict):
            if name.partition(".")[0] in _LOGGERS:  # what they would log is said here in a line
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            client = connect(scheduler, timeout=timeout, set_as_default=False)
        except Exception as error:  # whatever a connection raises
            raise InputError(
                f"no Dask scheduler at {scheduler}: {one_line(error)}: start one with dask "
                "scheduler, and workers with dask worker"
            ) from None
        current[:] = [client]
        try:
            _check(client, scheduler)
            executor = client.get_executor(pure=False)
            try:
                yield executor
            finally:
                # Who is interrupted should not have to wait for what was given to the workers.
                with suppress(Exception):
                    executor.shutdown(wait=False)
        finally:
            with suppress(Exception):  # a scheduler that is gone needs no farewell
                client.close(timeout=2)

    def is_lost() -> bool:
        return bool(current) and current[0].status not in ("running", "connecting")

    return Engine(f"dask at {scheduler}", start, _AT_ONCE, threads=1, is_lost=is_lost)


def _check(client: Any, scheduler: str) -> None:
    """Raises InputError: there is no worker, or one with other versions than here."""
    try:
        found: dict[str, dict[str, str]] = client.run(versions)
    except ModuleNotFoundError as error:
        raise InputError(
            f"a worker of {scheduler} has no module {error.name!r}: install batchstat there as here"
        ) from None
    except Exception as error:  # whatever a worker raises, or its connection
        raise InputError(
            f"the workers of {scheduler} do not say their versions: {one_line(error)}: install "
            "batchstat there as here"
        ) from None
    if not found:
        raise InputError(f"the scheduler at {scheduler} has no worker: start one with dask worker")
    for worker, theirs in found.items():
        if not isinstance(theirs, dict):
            raise InputError(f"worker {worker} does not say its versions: install the same there")
        if other := different_versions(theirs):
            raise InputError(f"worker {worker} has {other}: install the same there")
