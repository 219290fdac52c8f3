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

from batchstat.corpus.opening import Rereadable
from batchstat.corpus.splits import Split
from batchstat.errors import BatchstatError, InputError, SourceError, counted
from batchstat.profiling.executors.executor import CountingExecutor, ExecutorLostError
from batchstat.profiling.progress import ProgressTracker
from batchstat.profiling.run_log import RunLog
from batchstat.profiling.run_options import RunOptions
from batchstat.profiling.tasks import CountTask, LocalContext, RemoteTask, SplitResult
from batchstat.profiling.worker import check_answer, count_split
from batchstat.storage.shown import is_remote, one_line

TRIES = 3
"""Attempts before a split has failed, and losses before an executor is given up."""

_POLL_SECONDS = 1.0
_PAUSE_SECONDS = 1.0
"""Pause before splits at a remote address are tried again."""
_ALONE_AFTER = 2
"""Losses of an executor after which suspected splits are counted one at a time."""


class Scheduler:
    """Counting of the splits of one run.

    Attributes:
        done: splits that are counted, by their number.
        failed: why the others could not be counted.
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
        """If the run allows a partial profile, it continues where a split cannot be read."""
        self.done: dict[int, SplitResult] = {}
        self.failed: dict[int, str] = {}
        self._splits, self._task, self._executor, self._run = splits, task, executor, run
        self._standard_input = standard_input
        self._progress = ProgressTracker(splits, run.on_progress)
        # A heap, as is every sorted list.
        self._todo = list(range(len(splits)))
        self._again: list[int] = []
        self._flying: dict[Future[SplitResult], int] = {}
        self._folder = str(Path.cwd())
        self._tries = [0] * len(splits)
        self._losses = 0
        self._suspects: set[int] = set()
        self._end = len(splits)
        self._error: BatchstatError | None = None
        tokenizer = task.tokenizer.name if task.tokenizer else "already counted"
        self.log = RunLog(
            f"{counted(len(splits), 'split')}, counted by {executor.name}, {tokenizer}"
        )

    def count(self) -> None:
        """Count all splits, or all before the first that cannot be read with the given options.

        Raises:
            InputError: such a split, or an executor that cannot be started.
        """
        while self._todo or self._again:
            if not self._todo:
                self._try_again()
            try:
                with self._executor.start() as executor, self._task_for_workers() as task:
                    self._work(executor, task)
            except (BrokenExecutor, CancelledError, ExecutorLostError) as loss:
                self._note_loss(loss)
        if self._error is not None:
            raise self._error
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
        """Provide the task in the form that the executor's workers receive."""
        if not self._executor.in_process:
            with RemoteTask.sent(self._task) as sent:
                yield sent
            return
        stop, pool = threading.Event(), ThreadPoolExecutor(self._task.threads)
        try:
            local = LocalContext(pool, self._progress.note, stop, self._standard_input)
            yield replace(self._task, local=local)
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, executor: Executor, task: CountTask | RemoteTask) -> None:
        """Work until nothing is left to do, or everything must be redone with another task."""
        ended: SimpleQueue[Future[SplitResult]] = SimpleQueue()
        while self._todo or self._flying:
            # With suspects one at a time, so that a lost process tells which split it was.
            most = 1 if self._suspects else self._executor.max_in_flight
            while self._todo and len(self._flying) < most:
                self._submit(executor, task).add_done_callback(ended.put)
            try:
                future = ended.get(timeout=_POLL_SECONDS)
            except Empty:
                if self._executor.is_disconnected():
                    raise ExecutorLostError(f"{self._executor.name} is lost") from None
                continue
            # A split that was dropped meanwhile may still end.
            if future in self._flying and not self._note_end(self._flying[future], future):
                return
            if not self._todo and not self._flying:
                self._try_again()

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
        if self._suspects:
            self._todo = sorted({*self._todo} - {i})
        else:
            heappop(self._todo)
        self._tries[i] += 1
        self._flying[future] = i
        return future

    def _try_again(self) -> None:
        """Requeue failed splits at the end, when a file or a server may be available again."""
        self._todo, self._again = sorted(self._again), []
        if any(is_remote(self._splits[i].source.path) for i in self._todo):
            time.sleep(_PAUSE_SECONDS)

    def _note_end(self, i: int, future: "Future[SplitResult]") -> bool:
        """Note how a split ended, and return whether the run continues with the same task."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, BrokenExecutor):
            raise error
        if future.cancelled() or isinstance(error, CancelledError):
            raise ExecutorLostError(f"{self._executor.name} is lost")
        del self._flying[future]
        self._suspects.discard(i)
        if error is None:
            try:
                answer = future.result()
                if not self._executor.in_process:
                    answer = check_answer(answer, self._splits[i], self._task)
                return self._note_done(i, answer)
            except SourceError as answered:
                error = answered
        if isinstance(error, BatchstatError) and not isinstance(error, SourceError):
            self._note_refused(i, error)
        else:
            self._note_failed(i, error)
        return True

    def _note_done(self, i: int, result: SplitResult) -> bool:
        self.done[i] = result
        self._progress.note_done(i, result.samples, result.tokens, was_cached=result.was_cached)
        self.log.done(self._splits[i], result)
        if not result.difference or not self._task.shortcuts:
            return True
        self._run.on_warning(f"{result.difference}: recounting without shortcuts")
        self._task = replace(self._task, shortcuts=False)
        for future in self._flying:
            future.cancel()
        self._todo = sorted([*self._todo, *self.done, *self._flying.values()])
        self.done.clear()
        self._flying.clear()
        self._progress.begin_again()
        return False

    def _note_refused(self, i: int, error: BatchstatError) -> None:
        """Note a split that cannot be read or stored, which will be the same at every attempt."""
        self.log.failed(self._splits[i], self._tries[i], str(error))
        if self._run.allow_partial and isinstance(error, InputError):
            self.failed[i] = str(error)
        # The first one in the order of files is named, whichever ends first.
        elif i < self._end:
            self._end, self._error = i, error
            self._drop_after_end()

    def _drop_after_end(self) -> None:
        """Drop the splits behind the one that ends the run, which has just ended itself."""
        self._todo = sorted(i for i in self._todo if i < self._end)
        self._again = [i for i in self._again if i < self._end]
        self._suspects = {i for i in self._suspects if i < self._end}
        for future, i in list(self._flying.items()):
            if i >= self._end:
                # A running one cannot be cancelled: what it counts is ignored.
                future.cancel()
                del self._flying[future]

    def _note_failed(self, i: int, error: BaseException) -> None:
        """Note a split that may be counted at another attempt. Raises an error that is a bug."""
        is_known = isinstance(error, SourceError | OSError | MemoryError)
        if self._executor.in_process and not is_known:
            raise error  # which no other machine could avoid
        split = self._splits[i]
        if isinstance(error, SourceError):
            reason = str(error)
        else:  # of which even str() may raise
            what = "out of memory" if isinstance(error, MemoryError) else one_line(error)
            kind = "" if is_known else f"{type(error).__name__}: "
            reason = f"{split.shown} could not be counted: {kind}{what}"
        is_last = self._tries[i] >= TRIES
        self.log.failed(split, self._tries[i], reason, is_last=is_last)
        if is_last:
            self.failed[i] = reason
        elif i < self._end:
            self._again.append(i)

    def _note_loss(self, loss: BaseException) -> None:
        """Requeue the splits in flight, one at a time if processes were lost before.

        A split that is in flight every time a process is lost is the cause, for example because it
        needs more memory than there is.

        Raises:
            InputError: an executor is lost again and again.
        """
        self._losses += 1
        broken = isinstance(loss, BrokenExecutor)
        name = self._executor.name
        if not self._executor.restartable:
            raise InputError(
                f"{name} is broken ({one_line(loss)}): pass a new executor; with the same "
                "count_cache only missing splits are counted"
            )
        # With splits in flight this ends by itself: each loss takes one of their tries.
        if not (broken and self._flying) and self._losses >= TRIES:
            raise InputError(f"{name} was lost {self._losses} times: {one_line(loss)}")
        flying = sorted(self._flying.values())
        self._flying.clear()
        for i in flying:
            split, tries = self._splits[i], self._tries[i]
            if broken and len(flying) == 1 and tries >= TRIES:
                reason = "the worker died unexpectedly (possibly out of memory)"
                self.failed[i] = f"{split.shown} could not be counted: {reason}"
                self.log.failed(split, tries, self.failed[i])
                self._suspects.discard(i)
                # The cause is out, so that the executor is not given up for it.
                self._losses = 0
                continue
            self.log.failed(split, tries, one_line(loss), is_last=False)
            heappush(self._todo, i)
            if broken and self._losses >= _ALONE_AFTER:
                self._suspects.add(i)
        self._drop_after_end()
