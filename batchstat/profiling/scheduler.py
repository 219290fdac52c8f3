"""Run the splits of a corpus through an executor: in order, with retries."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path
from queue import Empty, SimpleQueue

from batchstat.corpus.files.splits import Split
from batchstat.corpus.files.streams import Rereadable
from batchstat.errors import BatchstatError, InputError, SourceError
from batchstat.profiling.executors.executor import CountingExecutor, ExecutorLostError
from batchstat.profiling.progress import ProgressTracker
from batchstat.profiling.run_log import RunLog
from batchstat.profiling.run_options import RunOptions
from batchstat.profiling.tasks import CountTask, LocalContext, RemoteTask, SplitResult
from batchstat.profiling.worker import check_answer, count_split
from batchstat.storage.shown import is_remote, one_line
from batchstat.tokenization.counting.count_check import recounted
from batchstat.words import counted

TRIES = 3
"""Attempts before a split has failed, and losses before an executor is given up."""

_POLL_SECONDS = 1.0
"""How often a wait for results checks whether the executor is still connected."""
_PAUSE_SECONDS = 1.0
"""Pause before splits at a remote address are tried again."""
_SUSPECTS_AFTER = 2
"""Losses of an executor after which suspected splits are counted one at a time."""


class Scheduler:
    """Counts the splits of one run through an executor.

    A split is to do, in flight, to be retried, done, failed, or dropped because the run ends with
    an error at an earlier split. It is a suspect if processes died while it was in flight.

    Attributes:
        done: results of the splits that are counted, by the number of the split.
        failed: reasons for the splits that could not be counted, by the number of the split.
        log: log of its splits.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        task: CountTask,
        executor: CountingExecutor,
        run: RunOptions,
        standard_input: Rereadable | None = None,
    ) -> None:
        """Start with all splits to do.

        Args:
            splits: the splits.
            task: how each is counted.
            executor: where they are counted.
            run: whether failed splits are allowed, and what gets the warnings and the progress.
            standard_input: standard input with a copy, if it may have to be read again.
        """
        self.done: dict[int, SplitResult] = {}
        self.failed: dict[int, str] = {}
        self._splits, self._task, self._executor, self._run = splits, task, executor, run
        self._standard_input = standard_input
        self._progress = ProgressTracker(splits, run.on_progress)
        # Numbers of splits, the lowest first: a heap, as is every sorted list.
        self._todo = list(range(len(splits)))
        # Failed attempts, to be retried when nothing else is left to do.
        self._to_retry: list[int] = []
        self._in_flight: dict[Future[SplitResult], int] = {}
        self._folder = str(Path.cwd())
        # How often each split was tried, and how often the executor was lost.
        self._tries = [0] * len(splits)
        self._losses = 0
        self._suspects: set[int] = set()
        # The number of the first split whose error ends the run, behind all splits if none does.
        self._fatal_split = len(splits)
        self._fatal_error: BatchstatError | None = None
        tokenizer = task.tokenizer.name if task.tokenizer else "already counted"
        self.log = RunLog(
            f"{counted(len(splits), 'split')}, counted by {executor.name}, {tokenizer}"
        )

    def count(self) -> None:
        """Count all splits: each is in `done` or `failed` afterwards.

        Raises:
            InputError: a split that cannot be read with the given options, unless the run allows a
                partial profile; or an executor that cannot be started.
        """
        # Each round starts an executor. A round ends early if the executor is lost, or if all
        # splits must be counted again with another task.
        while self._todo or self._to_retry:
            if not self._todo:
                self._retry_failed()
            try:
                with self._executor.start() as executor, self._task_for_workers() as task:
                    self._run_splits(executor, task)
            except (BrokenExecutor, CancelledError, ExecutorLostError) as loss:
                self._note_lost_executor(loss)
        if self._fatal_error is not None:
            raise self._fatal_error
        assert self.done.keys() | self.failed.keys() == set(range(len(self._splits)))

    @property
    def shortcuts(self) -> bool:
        """Whether the shortcuts of counting were found correct, as far as they were checked."""
        return self._task.shortcuts

    def forget(self, i: int) -> None:
        """Schedule a split for recounting because its counts no longer exist."""
        del self.done[i]
        heappush(self._todo, i)

    @contextmanager
    def _task_for_workers(self) -> Iterator[CountTask | RemoteTask]:
        """Yield the task in the form in which the workers of the executor get it."""
        # Workers elsewhere read it from a file.
        if not self._executor.in_process:
            with RemoteTask.sent(self._task) as sent:
                yield sent
            return
        # Threads share a pool of counting threads, the progress, and a signal to stop.
        stop, pool = threading.Event(), ThreadPoolExecutor(self._task.threads)
        try:
            local = LocalContext(pool, self._progress.note, stop, self._standard_input)
            yield replace(self._task, local=local)
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _run_splits(self, executor: Executor, task: CountTask | RemoteTask) -> None:
        """Submit splits and note how each ends, until none is left to do, or until all must be
        counted again with another task.
        """
        ended: SimpleQueue[Future[SplitResult]] = SimpleQueue()
        while self._todo or self._in_flight:
            # Suspects run one at a time: if a process dies then, its split is known.
            max_in_flight = 1 if self._suspects else self._executor.max_in_flight
            while self._todo and len(self._in_flight) < max_in_flight:
                self._submit(executor, task).add_done_callback(ended.put)
            try:
                future = ended.get(timeout=_POLL_SECONDS)
            except Empty:
                if self._executor.is_disconnected():
                    raise ExecutorLostError(f"{self._executor.name} is lost") from None
                continue
            # A split that was dropped is not in flight, but may still end.
            if future in self._in_flight and not self._note_end(self._in_flight[future], future):
                return  # all splits are counted again, with another task
            if not self._todo and not self._in_flight:
                self._retry_failed()

    def _submit(self, executor: Executor, task: CountTask | RemoteTask) -> "Future[SplitResult]":
        """Submit the next split: a suspected one, if there are any."""
        i = min(self._suspects) if self._suspects else self._todo[0]
        # A worker may have another current folder.
        split = replace(self._splits[i], folder=self._folder)
        try:
            future = executor.submit(count_split, task, split)
        except RuntimeError as error:
            if isinstance(error, BrokenExecutor):
                raise
            # An executor that was shut down raises RuntimeError.
            raise ExecutorLostError(one_line(error)) from None
        # Only a split that was submitted leaves the heap; a suspect may be anywhere in it.
        if self._suspects:
            self._todo = sorted({*self._todo} - {i})
        else:
            heappop(self._todo)
        self._tries[i] += 1
        self._in_flight[future] = i
        return future

    def _retry_failed(self) -> None:
        """Requeue failed splits: at the end of a round, a file or a server may be there again."""
        self._todo, self._to_retry = sorted(self._to_retry), []
        if any(is_remote(self._splits[i].source.path) for i in self._todo):
            time.sleep(_PAUSE_SECONDS)

    def _note_end(self, i: int, future: "Future[SplitResult]") -> bool:
        """Note how the attempt at split `i` ended: it is done, has failed, or ends the run. Return
        whether the run continues with the same task.

        Raises:
            BrokenExecutor, ExecutorLostError: the executor was lost, and the split with it.
        """
        error = None if future.cancelled() else future.exception()
        if isinstance(error, BrokenExecutor):
            raise error
        # Dask cancels what is submitted when the connection to its scheduler is lost.
        if future.cancelled() or isinstance(error, CancelledError):
            raise ExecutorLostError(f"{self._executor.name} is lost")
        del self._in_flight[future]
        self._suspects.discard(i)
        if error is None:
            # An answer that fails its check is noted as a failed attempt.
            try:
                answer = future.result()
                # Another process may run anything: its answer is checked before it is used.
                if not self._executor.in_process:
                    answer = check_answer(answer, self._splits[i], self._task)
                return self._note_done(i, answer)
            except SourceError as answer_error:
                error = answer_error
        # Another attempt may help against a SourceError, but against no other error of batchstat.
        if isinstance(error, BatchstatError) and not isinstance(error, SourceError):
            self._note_permanent_error(i, error)
        else:
            self._note_failed_attempt(i, error)
        return True

    def _note_done(self, i: int, result: SplitResult) -> bool:
        """Note that split `i` is counted. Return whether the run continues with the same task: if
        its worker found a shortcut of counting wrong, all splits are counted again without
        shortcuts, so that all counts agree.
        """
        self.done[i] = result
        self._progress.note_done(i, result.samples, result.tokens, was_cached=result.was_cached)
        self.log.done(self._splits[i], result)
        # No difference, or shortcuts are off already.
        if not result.difference or not self._task.shortcuts:
            return True
        self._run.on_warning(recounted(result.difference))
        self._task = replace(self._task, shortcuts=False)
        for future in self._in_flight:
            future.cancel()
        self._todo = sorted([*self._todo, *self.done, *self._in_flight.values()])
        self.done.clear()
        self._in_flight.clear()
        self._progress.begin_again()
        return False

    def _note_permanent_error(self, i: int, error: BatchstatError) -> None:
        """Note that split `i` cannot be read or stored, which would be so at every attempt: it ends
        the run, unless the run allows a partial profile.
        """
        self.log.failed(self._splits[i], self._tries[i], str(error))
        if self._run.allow_partial and isinstance(error, InputError):
            self.failed[i] = str(error)
        # Of several such errors, that of the first split in the corpus is raised in the end.
        elif i < self._fatal_split:
            self._fatal_split, self._fatal_error = i, error
            self._drop_after_fatal()

    def _drop_after_fatal(self) -> None:
        """Drop all splits from the one on whose error ends the run. Those before it are still
        counted: one of them may have such an error, which is then the first.
        """
        self._todo = sorted(i for i in self._todo if i < self._fatal_split)
        self._to_retry = [i for i in self._to_retry if i < self._fatal_split]
        self._suspects = {i for i in self._suspects if i < self._fatal_split}
        for future, i in list(self._in_flight.items()):
            if i >= self._fatal_split:
                # A running one cannot be cancelled: what it counts is ignored.
                future.cancel()
                del self._in_flight[future]

    def _note_failed_attempt(self, i: int, error: BaseException) -> None:
        """Note that an attempt at split `i` failed, and retry it later if it has tries left. Raise
        the error instead if it is a bug.
        """
        is_expected = isinstance(error, SourceError | OSError | MemoryError)
        # In this process, any other error is a bug; elsewhere it may be the fault of that machine.
        if self._executor.in_process and not is_expected:
            raise error
        split = self._splits[i]
        if isinstance(error, SourceError):
            reason = str(error)
        else:
            # one_line, since even str() of an unknown error may raise.
            text = "out of memory" if isinstance(error, MemoryError) else one_line(error)
            error_class = "" if is_expected else f"{type(error).__name__}: "
            reason = f"{split.shown} could not be counted: {error_class}{text}"
        is_last = self._tries[i] >= TRIES
        self.log.failed(split, self._tries[i], reason, is_last=is_last)
        if is_last:
            self.failed[i] = reason
        # Splits after the one whose error ends the run are not tried again.
        elif i < self._fatal_split:
            self._to_retry.append(i)

    def _note_lost_executor(self, loss: BaseException) -> None:
        """Put the splits that were in flight back among those to do, as the executor was lost.

        If a process died, one of these splits may be the cause: it may need more memory than there
        is. From the second loss on they are suspects, which run one at a time. A split has failed
        if a process dies while this split alone is in flight, at its last try.

        Raises:
            InputError: the executor cannot be started again, or was lost too often.
        """
        self._losses += 1
        process_died = isinstance(loss, BrokenExecutor)
        name = self._executor.name
        if not self._executor.restartable:
            raise InputError(
                f"{name} is broken ({one_line(loss)})",
                "pass a new executor; with the same count_cache only missing splits are counted",
            )
        # Splits that let processes die fail at their last try, so that such losses end. All other
        # losses are limited here.
        if self._losses >= TRIES and not (process_died and self._in_flight):
            raise InputError(f"{name} was lost {self._losses} times: {one_line(loss)}")
        lost_splits = sorted(self._in_flight.values())
        self._in_flight.clear()
        for i in lost_splits:
            split, tries = self._splits[i], self._tries[i]
            # A split that was alone in flight is the cause of the death.
            if process_died and len(lost_splits) == 1 and tries >= TRIES:
                reason = "the worker died unexpectedly (possibly out of memory)"
                self.failed[i] = f"{split.shown} could not be counted: {reason}"
                self.log.failed(split, tries, self.failed[i])
                self._suspects.discard(i)
                self._losses = 0  # they were not the executor's fault
                continue
            self.log.failed(split, tries, one_line(loss), is_last=False)
            heappush(self._todo, i)
            if process_died and self._losses >= _SUSPECTS_AFTER:
                self._suspects.add(i)
        # Some may come after the split whose error ends the run.
        self._drop_after_fatal()
