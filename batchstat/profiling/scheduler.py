"""Count the splits of a corpus through an executor."""

from collections.abc import Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    as_completed,
)
from dataclasses import replace
from pathlib import Path

from batchstat.corpus.files.splits import Split
from batchstat.corpus.files.streams import Rereadable
from batchstat.errors import BatchstatError, InputError, SourceError
from batchstat.profiling.progress import ProgressTracker
from batchstat.profiling.run_options import RunOptions
from batchstat.profiling.tasks import CountingExecutor, CountTask, LocalContext, SplitResult, Submit
from batchstat.storage.shown import one_line
from batchstat.tokenization.counting.count_check import recounted


class Scheduler:
    """Counts the splits of one run through an executor."""

    def __init__(
        self,
        splits: Sequence[Split],
        task: CountTask,
        executor: CountingExecutor,
        run: RunOptions,
        standard_input: Rereadable | None = None,
    ) -> None:
        self.done: dict[int, SplitResult] = {}
        self.failed: dict[int, str] = {}
        self._splits, self._task, self._executor, self._run = splits, task, executor, run
        self._standard_input = standard_input
        self._progress = ProgressTracker(splits, run.on_progress)

    def count(self) -> None:
        """Count all splits that are neither in `done` nor in `failed`. Raises InputError: a split
        that cannot be read, unless partial profiles are allowed; lost workers; StorageFullError.
        """
        # There is a second round only if a shortcut of counting was wrong.
        while todo := sorted(set(range(len(self._splits))) - self.done.keys() - self.failed.keys()):
            pool = ThreadPoolExecutor(self._task.threads)
            local = LocalContext(pool, self._progress.note, self._standard_input)
            with self._executor.start(replace(self._task, local=local)) as submit:
                self._run_splits(submit, todo)

    def _run_splits(self, submit: Submit, todo: Sequence[int]) -> None:
        """Submit splits and note how each ends, until all have, or all must be counted again."""
        folder = str(Path.cwd())  # a worker may have another current folder
        futures = {submit(replace(self._splits[i], folder=folder)): i for i in todo}
        for future in as_completed(futures):
            try:
                self._note_end(futures[future], future)
            except BatchstatError:
                # Of several errors that end the run, that of the first split in the corpus is
                # raised. The splits before this one were all begun before it.
                for earlier, i in futures.items():
                    if earlier is future:
                        raise
                    self._note_end(i, earlier)
            result = self.done.get(futures[future])
            # If a shortcut of counting was wrong, all splits are counted again without: all agree.
            if result is not None and result.difference and self._task.shortcuts:
                self._run.on_warning(recounted(result.difference))
                self._task = replace(self._task, shortcuts=False)
                self.done.clear()
                self._progress.begin_again()
                return

    def _note_end(self, i: int, future: "Future[SplitResult]") -> None:
        """Note how a split has ended. Raises BatchstatError, or the error of a lost worker."""
        try:
            result = future.result()
        except (BrokenExecutor, CancelledError):
            raise
        except BatchstatError as error:
            # A file that is cut short says nothing of the others: they are counted.
            may_fail = SourceError if not self._run.allow_partial else InputError
            if not isinstance(error, may_fail):
                raise
            self.failed[i] = str(error)
        except Exception as error:
            is_expected = isinstance(error, OSError | MemoryError)
            # Here any other error is a bug; elsewhere it may be the fault of that machine.
            if self._executor.in_process and not is_expected:
                raise
            # one_line, since even str() of an unknown error may raise.
            text = "out of memory" if isinstance(error, MemoryError) else one_line(error)
            error_class = "" if is_expected else f"{type(error).__name__}: "
            shown = self._splits[i].shown
            self.failed[i] = f"{shown} could not be counted: {error_class}{text}"
        else:
            self.done[i] = result
            self._progress.note_done(i, result.samples, result.tokens, was_cached=result.was_cached)
