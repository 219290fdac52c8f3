"""The recorder of a process: what a model computes becomes batches, and batches become steps."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any

from .arguments import length_of, sign_of
from .forward import Forward
from .forwards import Forwards
from .line_queue import LineQueue
from .loaders import Loaders
from .log import Log
from .optimizers import Optimizers, holds_gradients, makes_tail
from .orders import Orders

_MOST_ASKED = 5  # the first steps, which what applies a verdict passes as they came
_STEPS_WRITTEN_AT_ONCE = 16  # the first steps: a short command leaves them even if it is killed
_MOST_SECONDS = 0.25
"""Later batches wait up to this long. To read many in a row takes half the time that each takes
between the work of training, which fills the caches of the processor.
"""
_MOST_CAUGHT = 8  # how often a command may catch its planned end before its process is ended
_MOST_WITHOUT_STEP = 1000  # batches that a dry run lets a loop compute that never steps
_STEPS_COMPUTED_IN_DRY_RUN = 3
"""Steps that a dry run lets a loop compute, to learn how it hands batches to its model."""


class Stopped(SystemExit):
    """Ends a command as planned, whose `except Exception` lets it through."""


class Recorder:
    """Writes what a process trains on: a batch when its backward has ended; a step when an
    optimizer has stepped after a batch, or when the gradients of its batches were cleared, which
    makes no step. Of its lines `k` is the kind, `s` the number of a step, `t` the times.
    """

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.log = Log(orders.folder, orders.run_id)
        self.loaders = Loaders(keeps_batches=orders.is_dry)
        self.forwards = Forwards(self.loaders)
        self._lock = threading.RLock()  # several threads may train
        self.optimizer_steps = 0  # calls of `step` of any optimizer
        self.optimizers = Optimizers()
        self.is_stepping = False  # whether the `step` of one runs, which may compute batches
        # Steps that ended or were cleared, batches since then, and batches of all steps.
        self.steps = self.batches_in_step = self._batches_in_all = 0
        # Steps that were made; whether gradients were cleared since the last batch.
        self._steps_made, self._is_cleared = 0, False
        self._is_tail_made = False  # as `_makes_tail` returns it
        # Returns the Trainer that trains (a weak reference); None before one trains.
        self.trainer: Any = None
        self.is_step_counted = False  # whether it counts the trained tokens of its step
        # Whether the recorder ended the command, as it was to do; whether the last line is written.
        self.is_planned = self.is_closed = False
        # Whether the process may be ended, as that of a command may, but not one with a notebook;
        # how often the command was ended.
        self.may_exit, self._n_stops = False, 0
        # How the command ended; why a dry run read less than an epoch, or "".
        self.why_ended, self.why_partly = "the command ended", ""
        self._threads: set[threading.Thread] = set()  # those that train
        self._written_at = 0.0  # when the queue was written last, by `perf_counter`
        self.queue = LineQueue(orders, self.log, self.loaders, self.forwards.clock)
        # What cuts batches, and in a dry run checks how; None where nothing is applied.
        self.applier: Any = None

    def begin_trainer(self, facts: dict[str, Any]) -> None:
        """Write the facts of a Trainer that begins, after the batches of any earlier training."""
        self.queue.dry_run = None  # its dry run goes through its own loop
        self.queue.write_arrived(wait=True)
        self.log.write([{"k": "trainer", **facts}])

    @property
    def is_checking(self) -> bool:
        """Whether a dry run computes for the checks: none of that is recorded."""
        return self.applier is not None and self.applier.is_checking

    def refuse(self, why: str) -> None:
        """End a dry run whose batches cannot be seen without training."""
        self.log.note_process("refused", why=why)
        self.stop(why, code=2)

    # --- events of training ----------------------------------------------------------------------
    def backward(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Run `original`, torch.autograd.backward, and note the batch of its gradients."""
        if self.forwards.stop_again is not None:
            self.forwards.stop_again()
        backwards, thread = self.forwards.backwards, threading.get_ident()
        depth = backwards.get(thread, 0)
        backwards[thread] = depth + 1
        steps_before = self.optimizer_steps
        if self.is_checking and self.applier.check is not None and not depth:
            self.applier.check.note_loss(args[0] if args else kwargs["tensors"])
        try:
            with self.forwards.inside():
                return original(*args, **kwargs)
        finally:
            backwards[thread] = depth
            if not depth:  # the outermost one: all gradients have come
                del backwards[thread]
                self.forwards.wake()
                self.safely(self._after_backward, self.optimizer_steps > steps_before)

    def _after_backward(self, has_stepped: bool) -> None:
        self.note_batch(self.forwards.take_trained())
        # Some loops step an optimizer per parameter, in a hook of its gradient.
        if has_stepped and self.batches_in_step:
            self.end_step("in backward")

    def note_optimizer_step(self, optimizer: Any) -> None:
        """Note that an optimizer has stepped: that ends a step if a batch came before it."""
        self.optimizer_steps += 1
        self.is_stepping = False
        self.optimizers.note_step(optimizer)
        if self.forwards.is_in_backward:  # in a hook: when the backward ends, it ends the step
            return
        # A batch of torch.autograd.grad, which computes gradients without a backward, ends here.
        self.note_batch(self.forwards.take_trained())
        # Without a batch this is a second optimizer in one step; but after gradients were cleared,
        # the loop had kept them, as to clip those of each sample.
        if self.batches_in_step or self._is_cleared:
            self.end_step(type(optimizer).__name__)

    def note_zero_grad(self, owner: Any) -> None:
        """Note that a model or an optimizer sets its gradients to zero. That clears batches that no
        optimizer stepped on, and ends a step of a loop that changes its parameters itself.
        """
        self.optimizers.is_one_made |= hasattr(owner, "param_groups")
        # `step` of LBFGS clears gradients between the batches that it computes.
        if not self.batches_in_step or self.forwards.is_in_backward or self.is_stepping:
            return
        if self.is_checking:
            return
        model = self.queue.last_model and self.queue.last_model.module()
        if not self.optimizers.are_known(model):
            self.end_step("zero_grad")
        elif holds_gradients(owner, model):
            self.end_step("zero_grad", cleared=True)

    def safely(self, function: Any, *args: Any, **kwargs: Any) -> None:
        """Call a function of the recorder from inside the command, which must go on if it fails."""
        if self.forwards.stop_again is not None:
            self.forwards.stop_again()
        if self.forwards.has_failed:
            self._note_lost(function)
            return
        n_noted = self.applier and self.applier.n_steps
        try:
            with self._lock:
                function(*args, **kwargs)
        except Exception as error:
            self.forwards.fail(error)
            if self.applier is not None and self.applier.n_steps == n_noted:
                self._note_lost(function)
            if self.orders.is_dry:
                self.stop("the recorder failed", code=1)  # else the dry run would train

    def _note_lost(self, function: Any) -> None:
        # A step that is not recorded any more: other ranks wait after the first ones.
        if self.applier is not None and function == self.note_optimizer_step:
            self.applier.note_lost_step()

    def note_batch(self, forwards: list[Forward]) -> None:
        """Put a batch into the queue: the forwards whose gradients one backward computed."""
        if not forwards:
            return
        if self.is_checking:
            parts = [part for each in forwards for part in each.read()]
            self.applier.check.note_batch(sign_of(parts)[1])
            return
        line: dict[str, Any] = {"k": "batch", "s": self.steps, "model": forwards[0].model.kind}
        # When the batch began and when it ended; a Trainer's dry run computes nothing.
        is_computed = not (self.orders.is_dry and self.trainer is not None)
        moments = [forwards[0].began, self.forwards.clock.now()] if is_computed else []
        if not self._batches_in_all:  # once, with the first batch
            if self.forwards.clock.name:
                line["device"] = self.forwards.clock.name
            trainer = self.trainer and self.trainer()
            handler = getattr(trainer, "callback_handler", None)
            line["epoch_batches"] = length_of(getattr(handler, "train_dataloader", None))
        are_counted = any(forward.is_counted for forward in forwards)
        meet = any(forward.ranks_meet for forward in forwards)
        line.update(_flags(counted=are_counted, step_counted=self.is_step_counted, meet=meet))
        # [calls, tokens] of forwards that build no graph: some ran before this batch.
        if self.forwards.unused[0]:
            line["unused"], self.forwards.unused = self.forwards.unused, [0, 0]
        self.batches_in_step += 1
        self._batches_in_all += 1
        self.queue.last_model = forwards[0].model
        self._threads.add(forwards[0].thread)
        self.queue.add(forwards, moments, line)
        is_loop = self.orders.is_dry and self.trainer is None
        if is_loop and not self._steps_made and self._batches_in_all >= _MOST_WITHOUT_STEP:
            self.why_partly = "its first %d batches took no optimizer step" % self._batches_in_all
            self.stop(self.why_partly)

    def end_step(self, by: str, skipped: bool = False, cleared: bool = False) -> None:
        """Put the end of a step into the queue, and end the command after the steps it was to make.
        `by` is what ended it, such as the class of the optimizer. A `skipped` step left parameters
        as they were, since a gradient was infinite; where gradients were `cleared`, there was none.
        """
        now, n_batches = self.forwards.clock.now(), self.batches_in_step
        # Without a batch, it is the step of those that were cleared.
        number = self.steps if self.batches_in_step else self.steps - 1
        line = {"k": "step", "s": number, "by": by, **_flags(skipped=skipped, cleared=cleared)}
        self.queue.add([], [now], line)  # no forwards, and the moment of the step's end
        # The queue waits for several steps, but for the first ones: a short command may be killed.
        if now.at - self._written_at > _MOST_SECONDS or self.steps < _STEPS_WRITTEN_AT_ONCE:
            # What applies a verdict asks which batch was the last of these steps.
            self.queue.write_arrived(wait=self.applier is not None and self.steps <= _MOST_ASKED)
            self._written_at = now.at
        self.steps, self.batches_in_step = number + 1, 0
        self._steps_made, self._is_cleared = self._steps_made + (not cleared), cleared
        if cleared:
            return
        if self.applier is not None:
            self.applier.note_step(n_batches, self.queue.last)
        # A dry run of a loop without a Trainer has learnt enough: it reads the rest of the epoch.
        made = self._steps_made
        if self.orders.is_dry and self.trainer is None and made == _STEPS_COMPUTED_IN_DRY_RUN:
            self._is_tail_made = makes_tail()
            self.forwards.record(False)  # what a collate function calls is not training
            self.why_partly = self.queue.read_rest(self.applier)
            dry_run, applier = self.queue.dry_run, self.applier
            assert dry_run is not None, "the rest was read in a dry run"
            optimizers, tail = self.optimizers.stepped, self._is_tail_made
            if applier and dry_run.begin_checks(applier, optimizers, self.stop, tail):
                self.forwards.record(True)
            else:
                self.stop("%d steps were computed" % made)
        # As many steps as the user asked for; 0 where the command makes all of its own.
        if self.orders.steps and made >= self.orders.steps:
            self.stop("%d steps were made" % made)

    def forget(self) -> None:
        """Forget the batches of the process that this one was forked from, which writes them."""
        self._lock = threading.RLock()  # another thread may have held it
        self.queue.clear()
        self.forwards.forget()
        self.steps = self.batches_in_step = self.optimizer_steps = self._batches_in_all = 0
        self._steps_made, self._is_cleared, self.is_closed = 0, False, False

    # --- ends ------------------------------------------------------------------------------------
    def stop(self, why: str, code: int = 0) -> None:
        """End the command by raising `Stopped`: a code of 0 says that this was planned. Whatever it
        calls of torch afterwards ends it again, as a bare `except:` of a loop may go on.
        """
        self.forwards.record(True)
        self.why_ended, self.is_planned = why, not code
        self.forwards.stop_again = lambda: self._stop_again(code)
        raise Stopped(code)

    def _stop_again(self, code: int) -> None:
        self._n_stops += 1
        if self.may_exit and self._n_stops > _MOST_CAUGHT:  # such as of `while True: try: …`
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # closed, or None
                    stream.flush()
            os._exit(code)  # which closes the recording
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
        """Write what is left in the queue and the last line; where nothing was trained, why."""
        forwards = self.forwards
        # As in a launcher or a worker of a loader, which have a recorder too.
        if not (self.log.is_open or self.queue):
            if forwards.unused[0] or forwards.pending or forwards.misses:
                waiting = len(forwards.pending)
                self.log.note_process("nothing", unused=forwards.unused, waiting=waiting)
            return
        self.forwards.record(False)
        # Without an optimizer zero_grad ends a step, and none comes after the last one.
        model = self.queue.last_model and self.queue.last_model.module()
        if self.batches_in_step and not self.optimizers.are_known(model):
            step = {"k": "step", "s": self.steps}
            self.queue.add([], [forwards.clock.now()], step)
        self.queue.write_arrived(wait=True)
        if self.log.is_open:
            line: dict[str, Any] = {"k": "end", "why": self.why_ended, "unused": forwards.unused}
            once, tail = self.loaders.n_yielding == 1, self._is_tail_made
            line.update(_flags(planned=self.is_planned, once=once, tail=tail))
            if self.why_partly:
                line["partly"] = self.why_partly
            if len(self._threads) > 1:
                line["threads"] = len(self._threads)
            self.log.write([line])


def _flags(**holds: bool) -> dict[str, int]:
    return {name: 1 for name in holds if holds[name]}
