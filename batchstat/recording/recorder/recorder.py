"""The recorder of a process: what a model computes becomes batches, and batches become steps."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from typing import Any

from .arguments import Digests
from .devices import Moment
from .forwards import Forward, Forwards
from .lines import part_of
from .loaders import Fetched, Loaders
from .log import Log
from .orders import Orders
from .read_batches import ReadBatch

_AT_ONCE = 16
"""Steps that are written as soon as they end: a command that ends early has left them."""
_LATEST = 0.25
"""Seconds after which a batch is written. To read many one after the other takes half the time of
each between other work, in the caches of the processor."""
_MOST_HELD = 256
"""Batches that are held until they are written."""
_MOST_READ = 100_000
"""Batches that are read in a dry run: a sampler may draw without an end."""
_COMPUTED_IN_DRY_RUN = 3
"""Steps that a loop of the user's own computes before the rest of its epoch is only read."""


# A SystemExit, which a command's `except Exception` lets through.
class Stopped(SystemExit):
    """Ends a command as planned."""


class Recorder:
    """Writes what a process trains on.

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
        self.backwards = self.steps = self.batches = self.optimizers = 0
        self.has_trainer = self.is_step_counted = self.is_planned = self.is_closed = False
        self.why_ended, self.why_partly = "the command ended", ""
        self._last: Fetched | None = None
        self._model: Any = None
        self._explained: list[Fetched] = []
        self._is_apart, self._noted = False, 0
        self._written = 0.0
        # Forwards, when they or a step began and ended, and the line that is written of them.
        self._queue: collections.deque[tuple[list[Forward], list[Moment], dict[str, Any]]]
        self._queue = collections.deque()

    def begin(self, facts: dict[str, Any]) -> None:
        """Write what a Trainer says of itself, after all of the training before."""
        self._write_what_arrived(wait=True)
        self.log.write([{"k": "trainer", **facts}])

    def refuse(self, why: str) -> None:
        """End a dry run of what cannot be seen without training."""
        self.log.note_process("refused", why=why)
        self.stop(why, code=2)

    # --- events of training ----------------------------------------------------------------------
    def backward(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute gradients; what is called within, such as a checkpoint's forward, is a part."""
        was, self.forwards.is_busy = self.forwards.is_busy, True
        self.backwards += 1
        before = self.optimizers
        try:
            return original(*args, **kwargs)
        finally:
            self.backwards -= 1
            self.forwards.is_busy = was or self.forwards.has_failed
            if not self.backwards:
                self.forwards.wake()
                self.safely(self._after_backward, self.optimizers > before)

    def _after_backward(self, has_stepped: bool) -> None:
        self.note(self.forwards.done())
        if has_stepped and self.batches:
            self.end_step("in backward")

    def stepped(self, optimizer: Any) -> None:
        """Note that an optimizer has stepped."""
        self.optimizers += 1
        if self.backwards:  # the step ends with the backward that it is a part of
            return
        self.note(self.forwards.done())  # where gradients came by torch.autograd.grad
        if self.batches:  # else another optimizer, or another group, of the same step
            self.end_step(type(optimizer).__name__)

    def zeroed(self) -> None:
        """Note that gradients are set to zero: without an optimizer, that ends a step."""
        if not self.optimizers and self.batches and not self.backwards:
            self.end_step("zero_grad")

    def safely(self, function: Any, *args: Any) -> None:
        """Call a function of the recorder in the middle of a command, which goes on whatever is
        wrong with it.
        """
        if self.forwards.has_failed:
            return
        try:
            function(*args)
        except Exception as error:
            self.forwards.fail(error)
            if self.orders.is_dry:
                self.stop("the recorder failed", code=1)  # else it would train

    def note(self, forwards: list[Forward]) -> None:
        """Write a batch: the forwards of one backward."""
        if not forwards:
            return
        line: dict[str, Any] = {"k": "batch", "s": self.steps, "model": forwards[0].model.kind}
        moments = []
        # A Trainer's dry run computes nothing, so that its batches have no times.
        if not (self.orders.is_dry and self.has_trainer):
            moments = [forwards[0].began, self.forwards.clock.now()]
        if self.forwards.clock.name and not self._noted:
            line["device"] = self.forwards.clock.name
        if any(each.is_counted for each in forwards):
            line["counted"] = 1
        if self.is_step_counted:
            line["step_counted"] = 1
        if self.forwards.unused[0]:
            line["unused"], self.forwards.unused = self.forwards.unused, [0, 0]
        self.batches += 1
        self._noted += 1
        self._model = forwards[0].model
        self._queue.append((forwards, moments, line))

    def end_step(self, by: str, skipped: bool = False) -> None:
        """Write the end of a step; end the command where it was to make so many."""
        now = self.forwards.clock.now()
        line: dict[str, Any] = {"k": "step", "s": self.steps, "by": by}
        if skipped:
            line["skipped"] = 1
        self._queue.append(([], [now], line))
        is_late = now.at - self._written > _LATEST or len(self._queue) > _MOST_HELD
        if is_late or self.steps < _AT_ONCE:
            self._write_what_arrived()
            self._written = now.at
        self.steps, self.batches = self.steps + 1, 0
        if self.orders.is_dry and not self.has_trainer and self.steps == _COMPUTED_IN_DRY_RUN:
            self.why_partly = self.read_rest()
            self.stop("%d steps were computed" % self.steps)
        if self.orders.steps and self.steps >= self.orders.steps:
            self.stop("%d steps were made" % self.steps)

    # --- what is written -------------------------------------------------------------------------
    def _write_what_arrived(self, wait: bool = False) -> None:
        """Write events in their sequence, as far as their numbers have come from the device."""
        self.log.write(itertools.chain(self._handed(), self._arrived(wait)))

    def _arrived(self, wait: bool) -> Iterator[dict[str, Any]]:
        while self._queue:
            forwards, moments, line = self._queue[0]
            are_here = all(each.is_here for each in forwards)
            if not wait and not (are_here and all(each.is_here for each in moments)):
                return
            self._queue.popleft()
            if forwards:
                read = [(parts, forward) for forward in forwards if (parts := forward.read())]
                if not read:
                    continue
                self._add(line, read)
            self.log.open()
            if moments:
                clock = self.forwards.clock
                line["t"] = [self.log.seconds(clock.seconds(each)) for each in moments]
            yield line

    def _handed(self) -> Iterator[dict[str, Any]]:
        """Yield what a dispatcher handed out: its samples, by numbers and by digests."""
        while self.loaders.handed:
            fetched = self.loaders.handed.pop(0)
            parts = [] if self._model is None else self._model.read(fetched.arrays)
            if parts and fetched.numbers is not None:
                digests = self._digests.of(parts[0])
                yield {"k": "handed", "e": fetched.epoch, "n": fetched.numbers, "d": digests}

    def forget(self) -> None:
        """Forget what a process that was forked has of its parent's, who writes it."""
        self._queue.clear()
        self.forwards.forget()
        self.steps = self.batches = self.optimizers = self._noted = 0
        self.is_closed = False

    def _add(self, line: dict[str, Any], computed: list[tuple[list[ReadBatch], Forward]]) -> None:
        """Add to a line what its forwards compute, and which samples these are."""
        joined = [
            forward.fetched or self.loaders.join(parts[0], self._last)
            for parts, forward in computed
        ]
        known = [each for each in joined if each is not None]
        numbers = [
            fetched and fetched.numbers
            for fetched, (parts, _) in zip(joined, computed)
            for _ in parts
        ]
        if self.orders.is_dry and not self.has_trainer:
            self._learn(computed, known)
        if known:
            self._last = known[-1]
            line["epoch"] = known[-1].epoch
        self._add_parts(line, [part for parts, _ in computed for part in parts], numbers)

    def _add_parts(self, line: dict[str, Any], parts: list[ReadBatch], numbers: list[Any]) -> None:
        """Add what forwards compute, with the numbers of its samples, or digests without these."""
        line["parts"] = [part_of(part) for part in parts]
        if all(each is not None for each in numbers):
            line["numbers"] = numbers
        else:
            line["digests"] = [self._digests.of(part) for part in parts]

    def _learn(self, computed: list[tuple[list[ReadBatch], Forward]], known: list[Fetched]) -> None:
        """Learn how the loop hands a batch of its loader to its model."""
        arguments = [(parts, forward.arrays) for parts, forward in computed]
        for fetched in [*known, *reversed(self.loaders.recent)]:
            if self.loaders.handing.learn(arguments, fetched.arrays):
                self._is_apart = self._is_apart or fetched in self._explained
                self._last, self._model = fetched, computed[0][1].model
                self._explained.append(fetched)
                return

    def _unread(self, fetched: Fetched) -> None:
        """Write a batch that was read and not computed."""
        parts = self.loaders.handing.read(fetched.arrays, self._model)
        if not parts:
            return
        line: dict[str, Any] = {"k": "rest", "epoch": fetched.epoch}
        self._add_parts(line, parts, [fetched.numbers for _ in parts])
        self.log.write([line])

    # --- ends ------------------------------------------------------------------------------------
    def read_rest(self) -> str:
        """Read the rest of the epoch out of the loader, without computing; return what was done."""
        self.forwards.is_busy = True
        self._write_what_arrived(wait=True)
        if self._last is None or not self.loaders.handing.is_known:
            return "how its batches come out of a loader of torch was not seen"
        if self._is_apart:
            return "several backwards compute one batch of its loader"
        most, read = _MOST_READ, self._noted
        if self.orders.steps:  # with as many batches in a step as the computed ones have had
            most = self.orders.steps * self._noted // self.steps
        for fetched in self.loaders.rest(self._last, self._explained):
            if read >= most:
                break
            self._unread(fetched)
            read += 1
        self.log.write(self._handed())
        if read == _MOST_READ:
            return "%d batches were read, and the loader had more" % read
        return ""

    def stop(self, why: str, code: int = 0) -> None:
        """End the command: what was wanted of it is written."""
        self.forwards.is_busy = True
        self.why_ended, self.is_planned = why, not code
        raise Stopped(code)

    def close(self) -> None:
        """Write what is left, and that the process ends, once."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self._close()
        except Exception as error:  # such as a disk that is full
            self.forwards.fail(error)

    def _close(self) -> None:
        forwards = self.forwards
        if not (self.log.is_open or self._queue):
            # Launchers and workers of loaders start this recorder too, and have nothing to say.
            if forwards.unused[0] or forwards.pending or forwards.misses:
                waiting = len(forwards.pending)
                self.log.note_process("nothing", unused=forwards.unused, waiting=waiting)
            return  # nothing was trained in it
        self.forwards.is_busy = True
        # Without an optimizer zero_grad ends a step, and none follows the last one.
        if self.batches and not self.optimizers:
            line: dict[str, Any] = {"k": "step", "s": self.steps}
            self._queue.append(([], [forwards.clock.now()], line))
        self._write_what_arrived(wait=True)
        if self.log.is_open:
            line = {"k": "end", "why": self.why_ended, "unused": self.forwards.unused}
            if self.is_planned:
                line["planned"] = 1
            if self.why_partly:
                line["partly"] = self.why_partly
            self.log.write([line])
