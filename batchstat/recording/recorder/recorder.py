"""The recorder of a process: what a model computes becomes batches, and batches become steps.

`patches.py` and `trainers.py` call it from inside torch, accelerate and transformers.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from typing import Any

from .arguments import Digests, is_stream
from .devices import Moment
from .forwards import Forward, Forwards
from .lines import part_of
from .loaders import Fetched, Loaders
from .log import Log
from .orders import Orders
from .read_batches import ReadBatch

_STEPS_WRITTEN_AT_ONCE = 16
"""The first steps of a process are written as soon as they end: a short command leaves them even
if it is killed.
"""
_MOST_SECONDS = 0.25
"""Later batches wait up to this long. To read many in a row takes half the time that each takes
between the work of training, which fills the caches of the processor.
"""
_MOST_QUEUED = 256  # batches and ends of steps that may wait, however short the wait is
_MOST_READ = 100_000  # batches that a dry run reads at most: a sampler may draw without an end
_STEPS_COMPUTED_IN_DRY_RUN = 3
"""Steps that a dry run lets a loop compute. From them it learns how the loop hands batches to its
model; the rest of the epoch is only read. A Trainer of transformers computes none.
"""


# A SystemExit, which a command's `except Exception` lets through.
class Stopped(SystemExit):
    """Ends a command as planned."""


class Recorder:
    """Writes what a process trains on.

    In its lines `k` is the kind of the line, `s` the number of a step, `t` the times.
    A batch is written when its backward has ended; a step, when an optimizer has stepped after a
    batch.
    """

    def __init__(self, orders: Orders) -> None:
        """Begin without a batch."""
        self.orders = orders
        self.log = Log(orders.folder, orders.run_id)
        self._digests = Digests(orders.key)
        self.loaders = Loaders(keeps_batches=orders.is_dry)
        self.forwards = Forwards(self.loaders)
        # Backwards that run now (one inside another with gradient checkpointing), and calls of
        # `step` of any optimizer.
        self.backward_depth = self.optimizer_steps = 0
        # Steps that ended, batches since then, and batches of all steps.
        self.steps = self.batches_in_step = self._batches_in_all = 0
        # Returns the Trainer that trains (a weak reference); None before one trains.
        self.trainer: Any = None
        self.is_step_counted = False  # whether it counts the trained tokens of its step
        # Whether the recorder ended the command, as it was to do; whether the last line is written.
        self.is_planned = self.is_closed = False
        # How the command ended; why a dry run read less than an epoch, or "".
        self.why_ended, self.why_partly = "the command ended", ""
        # The loader's batch, and the model, that were computed last.
        self._last_fetched: Fetched | None = None
        self._last_model: Any = None
        # In a dry run: the loader's batches that it saw computed, and whether several backwards
        # compute one of them.
        self._explained: list[Fetched] = []
        self._is_batch_split = False
        self._written_at = 0.0  # when the queue was written last, by `perf_counter`
        # What is to be written: the forwards of a batch (none for the end of a step), the moments
        # at which it began and ended, and its line so far.
        self._queue: collections.deque[tuple[list[Forward], list[Moment], dict[str, Any]]]
        self._queue = collections.deque()

    def begin_trainer(self, facts: dict[str, Any]) -> None:
        """Write the facts of a Trainer that begins, after the batches of any earlier training."""
        self.write_arrived(wait=True)
        self.log.write([{"k": "trainer", **facts}])

    def refuse(self, why: str) -> None:
        """End a dry run whose batches cannot be seen without training."""
        self.log.note_process("refused", why=why)
        self.stop(why, code=2)

    # --- events of training ----------------------------------------------------------------------
    def backward(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Run `original`, torch.autograd.backward, and note the batch whose gradients it computes.

        Forwards within it, which gradient checkpointing computes again, are not counted.
        """
        was_busy, self.forwards.is_busy = self.forwards.is_busy, True
        self.backward_depth += 1
        steps_before = self.optimizer_steps
        try:
            return original(*args, **kwargs)
        finally:
            self.backward_depth -= 1
            self.forwards.is_busy = was_busy or self.forwards.has_failed  # a failure lasts
            if not self.backward_depth:  # the outermost one: all gradients have come
                self.forwards.wake()
                self.safely(self._after_backward, self.optimizer_steps > steps_before)

    def _after_backward(self, has_stepped: bool) -> None:
        self.note_batch(self.forwards.take_trained())
        # Some loops step an optimizer per parameter, in a hook, as soon as its gradient is there.
        if has_stepped and self.batches_in_step:
            self.end_step("in backward")

    def note_optimizer_step(self, optimizer: Any) -> None:
        """Note that an optimizer has stepped: that ends a step if a batch came before it."""
        self.optimizer_steps += 1
        if self.backward_depth:  # in a hook of a backward: when that ends, it ends the step
            return
        # torch.autograd.grad computes gradients without torch.autograd.backward: its batch ends
        # here.
        self.note_batch(self.forwards.take_trained())
        # Without a batch this is a second optimizer, or a second group of parameters, in one step.
        if self.batches_in_step:
            self.end_step(type(optimizer).__name__)

    def note_zero_grad(self) -> None:
        """Note that gradients are set to zero. That ends a step of a loop without an optimizer,
        which changes its parameters itself.
        """
        if not self.optimizer_steps and self.batches_in_step and not self.backward_depth:
            self.end_step("zero_grad")

    def safely(self, function: Any, *args: Any, **kwargs: Any) -> None:
        """Call a function of the recorder from inside the command, which must go on if it fails."""
        if self.forwards.has_failed:
            return
        try:
            function(*args, **kwargs)
        except Exception as error:
            self.forwards.fail(error)
            if self.orders.is_dry:
                self.stop("the recorder failed", code=1)  # else the dry run would train

    def note_batch(self, forwards: list[Forward]) -> None:
        """Put a batch into the queue: the forwards whose gradients one backward computed."""
        if not forwards:
            return
        line: dict[str, Any] = {"k": "batch", "s": self.steps, "model": forwards[0].model.kind}
        # When the batch began and when it ended; a Trainer's dry run computes nothing.
        is_computed = not (self.orders.is_dry and self.trainer is not None)
        moments = [forwards[0].began, self.forwards.clock.now()] if is_computed else []
        if self.forwards.clock.name and not self._batches_in_all:  # once, with the first batch
            line["device"] = self.forwards.clock.name
        if any(forward.is_counted for forward in forwards):
            line["counted"] = 1
        if self.is_step_counted:
            line["step_counted"] = 1
        if any(forward.ranks_meet for forward in forwards):
            line["meet"] = 1
        # [calls, tokens] of forwards that build no graph: some ran before this batch.
        if self.forwards.unused[0]:
            line["unused"], self.forwards.unused = self.forwards.unused, [0, 0]
        self.batches_in_step += 1
        self._batches_in_all += 1
        self._last_model = forwards[0].model
        self._queue.append((forwards, moments, line))

    def end_step(self, by: str, skipped: bool = False) -> None:
        """Put the end of a step into the queue, and end the command after the steps it was to make.

        `by` is what ended it, such as the class of the optimizer. In a `skipped` step parameters
        were left as they were, since a gradient was infinite.
        """
        now = self.forwards.clock.now()
        line: dict[str, Any] = {"k": "step", "s": self.steps, "by": by}
        if skipped:
            line["skipped"] = 1
        self._queue.append(([], [now], line))  # no forwards, and the moment of the step's end
        # The queue waits for several steps, but for the first ones: a short command may be killed.
        is_due = now.at - self._written_at > _MOST_SECONDS or len(self._queue) > _MOST_QUEUED
        if is_due or self.steps < _STEPS_WRITTEN_AT_ONCE:
            self.write_arrived()
            self._written_at = now.at
        self.steps, self.batches_in_step = self.steps + 1, 0
        # A dry run of a loop without a Trainer has learnt enough: it reads the rest of the epoch.
        if self.orders.is_dry and self.trainer is None and self.steps == _STEPS_COMPUTED_IN_DRY_RUN:
            self.why_partly = self.read_rest()
            self.stop("%d steps were computed" % self.steps)
        # As many steps as the user asked for; 0 where the command makes all of its own.
        if self.orders.steps and self.steps >= self.orders.steps:
            self.stop("%d steps were made" % self.steps)

    # --- what is written -------------------------------------------------------------------------
    def write_arrived(self, wait: bool = False) -> None:
        """Write the queue in sequence, up to the first line whose numbers a device still computes;
        all of it with `wait`.
        """
        self.log.write(itertools.chain(self._handed_lines(), self._arrived_lines(wait)))

    def _arrived_lines(self, wait: bool) -> Iterator[dict[str, Any]]:
        """Take lines out of the queue, complete and yield them: up to the first one whose numbers
        or times are still on their way from a device; with `wait`, all of them.
        """
        while self._queue:
            forwards, moments, line = self._queue[0]
            are_here = all(forward.is_here for forward in forwards)
            if not wait and not (are_here and all(moment.is_here for moment in moments)):
                return
            self._queue.popleft()
            if forwards:  # a batch, not the end of a step
                # A forward without parts has rows of whole numbers that cannot be token ids.
                computed = [(parts, forward) for forward in forwards if (parts := forward.read())]
                if not computed:
                    continue
                self._add_samples(line, computed)
            # Before the times below, which are counted from when the file is opened.
            self.log.open()
            if moments:
                clock = self.forwards.clock
                line["t"] = [self.log.seconds(clock.seconds(moment)) for moment in moments]
            yield line

    def _handed_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the samples that accelerate's dispatcher handed out: their numbers and digests."""
        # Only its first rank has the numbers, and each rank computes a part of the batch. The
        # digests tell later which rank computed which sample.
        while self.loaders.handed:
            fetched = self.loaders.handed.pop(0)
            # Read as the model reads them. Before one has computed, they are not written.
            parts = [] if self._last_model is None else self._last_model.read(fetched.arrays)
            if parts and fetched.numbers is not None:  # a stream has no numbers
                digests = self._digests.of(parts[0])
                yield {"k": "handed", "e": fetched.epoch, "n": fetched.numbers, "d": digests}

    def forget(self) -> None:
        """Forget the batches of the process that this one was forked from, which writes them."""
        self._queue.clear()
        self.forwards.forget()
        self.steps = self.batches_in_step = self.optimizer_steps = self._batches_in_all = 0
        self.is_closed = False

    def _add_samples(
        self, line: dict[str, Any], computed: list[tuple[list[ReadBatch], Forward]]
    ) -> None:
        """Add to the line of a batch what its forwards computed, the sample numbers, and the
        epoch.
        """
        all_parts: list[ReadBatch] = []
        # For each part, the sample numbers of its rows; None where they are not known.
        numbers: list[Any] = []
        known: list[Fetched] = []  # the loader's batches that were computed
        for parts, forward in computed:
            fetched = forward.fetched or self.loaders.take_with_ids(parts[0], self._last_fetched)
            if fetched is not None:
                known.append(fetched)
            all_parts += parts
            numbers += [None if fetched is None else fetched.numbers] * len(parts)
        # The other forwards of this backward compute other views of the only loader's batch.
        n_samples = len(known[0].numbers or [0]) if len(known) == 1 else 0
        if n_samples and not any(part.rows % n_samples for part in all_parts):
            numbers = [known[0].numbers] * len(all_parts)
            line["one"] = 1
        if self.orders.is_dry and self.trainer is None:
            self._learn(computed, known)
        if known:
            self._last_fetched = known[-1]
            line["epoch"] = known[-1].epoch
            iterator = known[-1].iterator and known[-1].iterator()
            if is_stream(getattr(iterator, "_dataset", None)):
                line["stream"] = True
        self._add_parts(line, all_parts, numbers)

    def _add_parts(self, line: dict[str, Any], parts: list[ReadBatch], numbers: list[Any]) -> None:
        """Add parts to a line, with their sample numbers; with digests where one is unknown."""
        line["parts"] = [part_of(part) for part in parts]
        if all(numbers_of_part is not None for numbers_of_part in numbers):
            line["numbers"] = numbers
        else:
            line["digests"] = [self._digests.of(part) for part in parts]

    def _learn(self, computed: list[tuple[list[ReadBatch], Forward]], known: list[Fetched]) -> None:
        """In a dry run, learn from a computed batch how the loop hands a loader's batch to its
        model, so that the rest of the epoch can be read without computing it.
        """
        parts_and_arrays = [(parts, forward.arrays) for parts, forward in computed]
        # First a batch that has the same token ids; else, newest first, any recent one of which the
        # model was given a part, such as all tokens but the last.
        for fetched in [*known, *reversed(self.loaders.recent)]:
            if self.loaders.handing.learn(parts_and_arrays, fetched.arrays):
                # Where it was explained before, each of several backwards computes a part of it.
                self._is_batch_split |= fetched in self._explained
                self._explained.append(fetched)
                _, first_forward = computed[0]
                self._last_fetched, self._last_model = fetched, first_forward.model
                return

    def _write_uncomputed(self, fetched: Fetched) -> None:
        """Write a batch that a dry run read out of a loader and did not compute."""
        parts = self.loaders.handing.read(fetched.arrays, self._last_model)
        if not parts:
            return
        line: dict[str, Any] = {"k": "rest", "epoch": fetched.epoch, "one": 1}
        self._add_parts(line, parts, [fetched.numbers for _ in parts])
        self.log.write([line])

    # --- ends ------------------------------------------------------------------------------------
    def read_rest(self) -> str:
        """In a dry run, read the rest of the epoch out of the loader without computing it.

        Returns:
            Why less than the rest was read; empty if all of it was.
        """
        self.forwards.is_busy = True  # what a collate function calls is not training
        self.write_arrived(wait=True)
        if self._last_fetched is None or not self.loaders.handing.is_known:
            return "how the loop makes its batches was not seen"
        if self._is_batch_split:
            return "several backwards compute one batch of its loader"
        most_batches = _MOST_READ
        if self.orders.steps:  # each with as many batches as the computed steps had
            most_batches = self.orders.steps * self._batches_in_all // self.steps
        batches_read = self._batches_in_all  # the batches that were computed count as read
        for fetched in self.loaders.read_uncomputed(self._last_fetched, self._explained):
            if batches_read >= most_batches:
                break
            self._write_uncomputed(fetched)
            batches_read += 1
        self.log.write(self._handed_lines())
        if batches_read == _MOST_READ:
            return "%d batches were read, and the loader had more" % batches_read
        return ""

    def stop(self, why: str, code: int = 0) -> None:
        """End the command by raising `Stopped`: a code of 0 says that this was planned."""
        self.forwards.is_busy = True
        self.why_ended, self.is_planned = why, not code
        raise Stopped(code)

    def close(self) -> None:
        """Write what is left and the last line, once: `atexit` and `os._exit` may both call it."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self._write_end()
        except Exception as error:  # such as a disk that is full
            self.forwards.fail(error)

    def _write_end(self) -> None:
        """Write what is left in the queue and the last line; where nothing was trained, what was
        seen instead, which tells the user why there is no recording.
        """
        forwards = self.forwards
        # Nothing was trained, as in a launcher or a worker of a loader, which have a recorder too.
        if not (self.log.is_open or self._queue):
            if forwards.unused[0] or forwards.pending or forwards.misses:
                waiting = len(forwards.pending)
                self.log.note_process("nothing", unused=forwards.unused, waiting=waiting)
            return
        self.forwards.is_busy = True
        # Without an optimizer zero_grad ends a step, and none comes after the last one.
        if self.batches_in_step and not self.optimizer_steps:
            line: dict[str, Any] = {"k": "step", "s": self.steps}
            self._queue.append(([], [forwards.clock.now()], line))
        self.write_arrived(wait=True)
        if self.log.is_open:
            line = {"k": "end", "why": self.why_ended, "unused": forwards.unused}
            if self.is_planned:
                line["planned"] = 1
            if self.why_partly:
                line["partly"] = self.why_partly
            self.log.write([line])
