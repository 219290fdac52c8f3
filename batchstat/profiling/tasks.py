"""The task that workers are given, in this process or another, and what they answer for a split."""

import platform
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache

from batchstat.corpus.files.splits import Split
from batchstat.corpus.files.streams import Rereadable
from batchstat.corpus.options import CorpusOptions
from batchstat.profiling.cache import CountCache, SplitCounts
from batchstat.profiling.progress import CountedAmount
from batchstat.storage.machine import installed_versions
from batchstat.tokenization.tokenizer import Tokenizer

MEMORY_BYTES = 128 << 20  # limit for the counts of a run that stay in memory until they are merged
_LIBRARIES = ("batchstat", "fastokens", "pyarrow", "tokenizers", "transformers")


@cache
def versions() -> dict[str, str]:
    """Return the versions here of Python and of the libraries that counts depend on."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **installed_versions(_LIBRARIES)}


def different_versions(others: dict[str, str]) -> str:
    """Return versions elsewhere that differ from those here, as text; empty if none does."""
    here = versions()
    names = [name for name in here if others.get(name) != here[name]]
    return ", ".join(
        f"{name} {others.get(name, 'not installed')} (here {here[name]})" for name in names
    )


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
    """What the splits of a run share within one process."""

    pool: ThreadPoolExecutor
    on_progress: Callable[[Split, CountedAmount], object]  # called with a split and its progress
    standard_input: Rereadable | None  # standard input with a copy, for the split that reads it
    stop: threading.Event = field(default_factory=threading.Event)
    memory: MemoryBudget = field(default_factory=MemoryBudget)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """End the threads after this context, also in the middle of a split."""
        try:
            yield
        finally:
            self.stop.set()
            self.pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class CountTask:
    """How the splits of a run are counted."""

    options: CorpusOptions
    tokenizer: Tokenizer | None  # tokenizer to count with; None if the corpus needs no counting
    cache: CountCache
    threads: int
    recount: bool = False
    in_memory: bool = False
    shortcuts: bool = True
    versions: dict[str, str] = field(default_factory=versions)
    local: LocalContext | None = None  # what the splits of this process share


@dataclass(frozen=True)
class SplitResult:
    """Result for a split that is counted."""

    key: str
    samples: int
    tokens: int
    was_cached: bool
    difference: str = ""  # why its worker found a shortcut of counting wrong; empty if it did not
    counts: SplitCounts | None = None


Submit = Callable[[Split], "Future[SplitResult]"]  # gives a split to a worker


@dataclass(frozen=True)
class CountingExecutor:
    """Where splits are counted."""

    start: Callable[[CountTask], AbstractContextManager[Submit]]
    threads: int
    in_process: bool = False
