"""How a corpus is counted: by which executor, with which cache, and what is called meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from batchstat.corpus.files.splits import Split
from batchstat.errors import OptionError
from batchstat.findings import Finding, warn_in_python
from batchstat.parameters import one_of
from batchstat.profiling.cache import CountCache
from batchstat.profiling.executors import NAMES
from batchstat.profiling.executors.local import processes, threads
from batchstat.profiling.progress import Progress
from batchstat.profiling.tasks import CountingExecutor
from batchstat.tokenization.threads import worker_count

PROCESSES_FROM = 256 << 20  # bytes from which processes count a corpus: they take a second to start


@dataclass(frozen=True)
class RunOptions:
    """How a corpus is counted. Raises OptionError: wrong executor, or options it does not take."""

    executor: str = "threads"
    workers: int | None = None  # number of threads or processes; None for one per core
    scheduler: str | None = None
    count_cache: CountCache | None = None  # where the counts of splits are stored
    recount: bool = False
    allow_partial: bool = False
    on_progress: Callable[[Progress], object] = lambda _: None
    on_warning: Callable[[Finding], object] = warn_in_python  # called with each warning

    def __post_init__(self) -> None:
        one_of("executor", self.executor, NAMES)
        worker_count(self.workers)  # raises unless it is a positive number, or None
        if self.executor == "dask":
            # A Dask cluster has the workers that were started with it.
            if self.workers is not None:
                raise OptionError("--workers does not apply to --executor dask", "remove it")
        elif self.scheduler is not None:
            raise OptionError("--scheduler needs --executor dask", "add it, or remove --scheduler")

    def executor_for(self, splits: Sequence[Split]) -> CountingExecutor:
        """Return the executor for splits. Raise OptionError for Dask without a scheduler."""
        if self.executor == "dask":
            from batchstat.profiling.executors.dask import dask

            return dask(self.scheduler)
        workers, name = worker_count(self.workers), self.executor
        # Processes count faster, but a single split or a single worker leaves nothing to share out.
        if name == "auto":
            is_large = len(splits) > 1 and sum(split.bytes for split in splits) >= PROCESSES_FROM
            name = "processes" if is_large and workers > 1 else "threads"
        return threads(workers) if name == "threads" else processes(workers, len(splits))
