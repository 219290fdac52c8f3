"""The task that workers are given, in this process or another, and what they answer for a split."""

import hashlib
import os
import pickle
import platform
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache

from batchstat.corpus.files.splits import Split
from batchstat.corpus.files.streams import Rereadable
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, SourceError
from batchstat.profiling.cache import TASK_ENDING, CountCache, SplitCounts
from batchstat.profiling.executors.versions import versions
from batchstat.profiling.progress import CountedAmount
from batchstat.storage.shown import one_line
from batchstat.tokenization.tokenizer import Tokenizer

MEMORY_BYTES = 128 << 20
"""Limit for the counts of a run that stay in memory until they are merged."""


class MemoryBudget:
    """How much memory counts may still take, shared by the threads of a process."""

    def __init__(self, bytes_: int = MEMORY_BYTES) -> None:
        self._bytes_left, self._one_at_a_time = bytes_, threading.Lock()

    def take(self, bytes_: int) -> bool:
        """Take this much of the budget if that much is left; return whether it was taken."""
        with self._one_at_a_time:
            fits = bytes_ <= self._bytes_left
            self._bytes_left -= bytes_ if fits else 0
            return fits


@dataclass(frozen=True)
class LocalContext:
    """What the splits of a run share within one process.

    Attributes:
        pool: the threads that count.
        on_progress: called with a split and its progress.
        stop: set when nothing waits for the run any more.
        standard_input: standard input with a copy, for the split that reads it; None where it is
            read only once, directly.
        memory: for counts that need not be read again to be merged.
    """

    pool: ThreadPoolExecutor
    on_progress: Callable[[Split, CountedAmount], object]
    stop: threading.Event
    standard_input: Rereadable | None
    memory: MemoryBudget = field(default_factory=MemoryBudget)


@dataclass(frozen=True)
class CountTask:
    """How the splits of a run are counted.

    Attributes:
        options: how they are read.
        tokenizer: tokenizer to count with; None if the corpus needs no counting.
        cache: where counts are stored.
        threads: threads that count in each split.
        recount: whether to count a split even if its counts are already stored.
        in_memory: whether counts are stored only if they do not fit in memory: nobody asked for a
            cache.
        shortcuts: whether texts may be counted by a faster engine or by pieces; otherwise the
            tokenizer itself counts every text.
        versions: versions of the libraries where the run began.
        local: what the splits of this process share; None for a worker elsewhere.
    """

    options: CorpusOptions
    tokenizer: Tokenizer | None
    cache: CountCache
    threads: int
    recount: bool = False
    in_memory: bool = False
    shortcuts: bool = True
    versions: dict[str, str] = field(default_factory=versions)
    local: LocalContext | None = None


@dataclass(frozen=True)
class SplitResult:
    """Result for a split that is counted.

    Attributes:
        key: key under which its counts are stored.
        content: the digests of its bytes in the key: see `key_of`.
        samples: number of samples.
        tokens: tokens in them.
        was_cached: whether the counts were stored by an earlier run.
        seconds: time it took.
        worker: machine and process that counted it.
        difference: why its worker found a shortcut of counting wrong; empty if it did not.
        counts: its counts, where they stay in memory.
    """

    key: str
    content: tuple[str, ...]
    samples: int
    tokens: int
    was_cached: bool
    seconds: float
    worker: str
    difference: str = ""
    counts: SplitCounts | None = None


@dataclass(frozen=True)
class RemoteTask:
    """A task as other processes get it: a file in the cache, written once for all of them, since a
    tokenizer may have many megabytes.

    Attributes:
        cache: the cache.
        digest: SHA-256 of the file. It is sent with each split, so that no worker loads a file that
            somebody else put there.
        name: name of the file.
    """

    cache: CountCache
    digest: str
    name: str

    @classmethod
    @contextmanager
    def sent(cls, task: CountTask) -> "Iterator[RemoteTask]":
        """Write a task into a file in its cache, yield what is sent to workers instead of the task,
        and delete the file afterwards.

        Raises:
            SourceError: it cannot be stored there.
            StorageFullError: there is no space for it.
        """
        # The file has no address of the cache, which may hold a secret: workers get that with each
        # split, as an attribute of what is yielded.
        content = pickle.dumps(replace(task, local=None, cache=CountCache("")))
        digest = hashlib.sha256(content).hexdigest()
        sent = cls(task.cache, digest, f"{digest[:16]}-{secrets.token_hex(4)}{TASK_ENDING}")
        try:
            task.cache.write(sent.name, content)
        except OSError as error:
            raise task.cache.refusal("the counting task", error) from None
        try:
            yield sent
        finally:
            with suppress(OSError):
                (task.cache.folder / sent.name).unlink(missing_ok=True)


@lru_cache(maxsize=2)
def received(sent: RemoteTask) -> CountTask:
    """Return the task that was sent to this worker; it is read once for all of its splits.

    Raises:
        SourceError: the cache cannot be read.
        InputError: the task is damaged.
    """
    try:
        content = (sent.cache.folder / sent.name).read_bytes()
    except Exception as error:  # a remote file system may raise anything
        raise SourceError(
            f"worker {this_worker()} cannot read the task from {sent.cache.address}: "
            f"{one_line(error)}",
            "name a folder with --count-cache that every worker can reach",
        ) from None
    if hashlib.sha256(content).hexdigest() != sent.digest:
        raise InputError(f"{sent.cache.address}: the task {sent.name} is damaged", "run again")
    task: CountTask = pickle.loads(content)  # noqa: S301 - it is what the run sent
    return replace(task, cache=sent.cache)


def this_worker() -> str:
    """Return the name of this machine and process."""
    return f"{platform.node()}:{os.getpid()}"
