"""A Dask cluster: the user names the scheduler, its workers count."""

import logging
import pickle
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

from batchstat.corpus.files.splits import Split
from batchstat.errors import InputError, OptionError, install_extra
from batchstat.profiling.tasks import (
    CountingExecutor,
    CountTask,
    SplitResult,
    Submit,
    different_versions,
    versions,
)
from batchstat.profiling.worker import count_split
from batchstat.storage.shown import full_address, one_line

_LOGGERS = ("distributed", "tornado", "asyncio")  # loggers that Dask writes lost connections to
# host:port, with tcp:// or tls:// or without; other schemes, such as ws://, may lack the port.
_ADDRESS = re.compile(r"(?!(tcp|tls)://)[a-z]+://.+|((tcp|tls)://)?[^/]+:[0-9]+")
_RETRIES = 2  # of a failed split; for lost workers Dask's own configuration says it


def dask(scheduler: str | None, timeout: str = "20s") -> CountingExecutor:
    """Return an executor of the workers of a scheduler, as tcp://head:8786. Raises OptionError."""
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

    @contextmanager
    def start(task: CountTask) -> Iterator[Submit]:
        for name in tuple(logging.root.manager.loggerDict):
            if name.partition(".")[0] in _LOGGERS:  # the errors below say what they would log
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            # full_address has the secrets; the default client is for the caller's own Dask code.
            client = connect(full_address(scheduler), timeout=timeout, set_as_default=False)
        except Exception as error:  # a connection may raise anything
            raise InputError(
                f"no Dask scheduler at {scheduler}: {one_line(error)}",
                "start one with dask scheduler, and workers with dask worker",
            ) from None
        missing = "" if task.in_memory else ", which counts only what is missing"
        lost = InputError(f"the Dask scheduler at {scheduler} was lost", f"run again{missing}")
        try:
            _check_workers(client, scheduler)
            with _submitting(client, task, lost) as submit:
                yield submit
        except CancelledError:  # Dask cancels what is submitted when it loses its scheduler
            raise lost from None
        finally:
            with suppress(Exception):  # the scheduler may no longer be there
                client.close(timeout=2)

    return CountingExecutor(start, threads=1)


@contextmanager
def _submitting(client: Any, task: CountTask, lost: InputError) -> Iterator[Submit]:
    """Yield what gives splits to the workers of a scheduler, and raises `lost` without one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a tokenizer may have many megabytes
        # Each worker makes the task once; a result that is lost with a worker is made again.
        there = client.submit(pickle.loads, pickle.dumps(replace(task, local=None)), pure=False)
    # Dask returns the old result of a pure call that is repeated.
    executor = client.get_executor(pure=False, retries=_RETRIES)

    def submit(split: Split) -> "Future[SplitResult]":
        try:
            future: Future[SplitResult] = executor.submit(count_split, there, split)
        except Exception:  # a connection may raise anything
            raise lost from None
        return future

    try:
        yield submit
    finally:
        # After an interrupt, nobody waits for submitted splits; a lost scheduler raises here, too.
        with suppress(Exception):
            executor.shutdown(wait=False)


def _check_workers(client: Any, scheduler: str) -> None:
    """Raise InputError if a scheduler has no workers, or one has other versions."""
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
