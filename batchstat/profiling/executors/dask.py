"""A Dask cluster: the user names the scheduler, its workers count."""

import logging
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from batchstat.errors import InputError, OptionError, install_extra
from batchstat.profiling.executors.executor import CountingExecutor
from batchstat.profiling.executors.versions import different_versions, versions
from batchstat.storage.shown import full_address, one_line

_LOGGERS = ("distributed", "tornado", "asyncio")
"""Loggers that Dask writes lost connections to."""
# host:port, with tcp:// or tls:// or without; other schemes, such as ws://, may lack the port.
_ADDRESS = re.compile(r"(?!(tcp|tls)://)[a-z]+://.+|((tcp|tls)://)?[^/]+:[0-9]+")
_AT_ONCE = 2_000
"""Splits submitted to the scheduler: enough for any cluster, few enough to be cancelled."""


def dask(scheduler: str | None, timeout: str = "20s") -> CountingExecutor:
    """Return an executor of the workers of the scheduler at an address, such as tcp://head:8786.

    Raises:
        OptionError: a missing or invalid scheduler address, or Dask is not installed.
    """
    if scheduler is None:
        raise OptionError(
            "executor=dask needs a scheduler",
            "pass --scheduler tcp://HOST:8786, as printed by dask scheduler",
        )
    if not _ADDRESS.fullmatch(scheduler):
        raise OptionError(
            f"scheduler={scheduler}", "must be an address with a port, such as tcp://head:8786"
        )
    try:
        connect: Any = import_module("distributed").Client
    except ImportError:
        raise OptionError("executor=dask: Dask is not installed", install_extra("dask")) from None
    # The client that `start` connected last, for `is_disconnected`; empty before the first start.
    current: list[Any] = []

    @contextmanager
    def start() -> Iterator[Executor]:
        """Connect to the scheduler, and disconnect afterwards."""
        for name in tuple(logging.root.manager.loggerDict):
            if name.partition(".")[0] in _LOGGERS:  # the errors below say what they would log
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            # full_address has the secrets that messages leave out. Not the default client, which
            # Dask code of the caller's own would use.
            client = connect(full_address(scheduler), timeout=timeout, set_as_default=False)
        except Exception as error:  # a connection may raise anything
            raise InputError(
                f"no Dask scheduler at {scheduler}: {one_line(error)}",
                "start one with dask scheduler, and workers with dask worker",
            ) from None
        current[:] = [client]
        try:
            _check_workers(client, scheduler)
            # Dask returns the old result of a pure call that is repeated: a split that is tried
            # again would fail at once.
            executor = client.get_executor(pure=False)
            try:
                yield executor
            finally:
                # After an interrupt, the user should not have to wait for submitted splits; and a
                # scheduler that is lost raises here, too.
                with suppress(Exception):
                    executor.shutdown(wait=False)
        finally:
            with suppress(Exception):  # the scheduler may no longer be there
                client.close(timeout=2)

    def is_disconnected() -> bool:
        return bool(current) and current[0].status not in ("running", "connecting")

    return CountingExecutor(
        f"dask at {scheduler}", start, _AT_ONCE, threads=1, is_disconnected=is_disconnected
    )


def _check_workers(client: Any, scheduler: str) -> None:
    """Raise InputError if a scheduler has no workers, or a worker has other versions than this
    machine.
    """
    try:
        reported: dict[str, dict[str, str]] = client.run(versions)
    except ModuleNotFoundError as error:
        raise InputError(
            f"a worker of {scheduler} is missing module {error.name!r}",
            "install the same batchstat version on every worker",
        ) from None
    except Exception as error:  # a worker or its connection may raise anything
        raise InputError(
            f"the workers of {scheduler} do not report their versions: {one_line(error)}",
            "install the same batchstat version on every worker",
        ) from None
    if not reported:
        raise InputError(
            f"the scheduler at {scheduler} has no workers", "start one with dask worker"
        )
    for worker, its_versions in reported.items():
        # A worker with another batchstat may answer anything.
        if not isinstance(its_versions, dict):
            raise InputError(
                f"worker {worker} does not report its versions", "install the same batchstat there"
            )
        if difference := different_versions(its_versions):
            raise InputError(f"worker {worker} has {difference}", "install the same versions there")
