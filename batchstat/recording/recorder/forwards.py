"""Calls of a model with token ids, and which are trained: those that a gradient comes back to."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .arguments import WholeNumbers, arguments_by_name, enters_graph, forwards_around, ranks_meet
from .devices import Clock
from .forward import Forward, Model
from .loaders import Loaders
from .token_ids import Inside

_MOST_PENDING = 256  # forwards that wait for a gradient: more are those of an evaluation
_MOST_MISSES = 50_000  # calls without token ids, after which something else is taken to be trained
MOST_OUTPUTS = 4  # outputs of a forward that are watched for a gradient, at most


class Forwards:
    """Notes the outermost forward of each model that takes token ids. A gradient that comes back is
    what tells training from evaluation, whatever `training` and `no_grad` say.
    """

    def __init__(self, loaders: Loaders) -> None:
        # Whether calls of modules are not looked at: inside a forward or a backward, whose parts
        # they are, or where nothing is recorded, as before torch is patched. Always False once
        # several threads call: `call` then tells their calls apart, which takes longer.
        self.is_busy = self._is_off = True
        self._busy: set[int] = set()  # the numbers of threads inside a forward or a backward
        self._first_thread, self._has_threads = threading.get_ident(), False
        # By thread, its backwards that run now (one inside another with gradient checkpointing).
        self.backwards: dict[int, int] = {}
        # Ends the command once more, after it was ended as planned; None before.
        self.stop_again: Callable[[], None] | None = None
        self.loaders = loaders
        self.pending: list[Forward] = []  # forwards to which no gradient has come yet
        # [calls, tokens] of forwards that build no graph, since the last batch was written.
        self.unused = [0, 0]
        # Forwards that were trained; calls of modules without token ids since the last backward.
        self.seen = self.misses = 0
        # Of the batch of a Trainer's step, which may compute its loss outside of the model.
        self.labels: Any = None
        # Whether nothing is recorded any more, since something went wrong; whether there were so
        # many misses that nothing is looked at before the next backward.
        self.has_failed = self.is_resting = False
        self.clock = Clock()
        self.pad_token_id: Any = None  # of the tokenizer of a Trainer
        # What is seen inside the model of the last forward, if that is looked into; and the numbers
        # of the threads in which such a forward is running.
        self._inside: Inside | None = None
        self._looked_into: set[int] = set()
        # Classes whose `forward` a loop calls by itself, and what makes it tell of such calls.
        self._seen_kinds: set[type] = set()
        self.see_forward: Any = None
        # Not an attribute of the model, which a script may pickle.
        self._models: weakref.WeakKeyDictionary[Any, Model] = weakref.WeakKeyDictionary()

    def call(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        """Call a module by `original`; note its forward if it has token ids and is in no other."""
        if self.stop_again is not None:
            self.stop_again()
        if self._is_off or _is_compiling() or threading.get_ident() in self._busy:
            return original(module, *args, **kwargs)
        if threading.get_ident() in self._looked_into:
            self._look(module, args, kwargs)
            return original(module, *args, **kwargs)
        # On CUDA, torch computes gradients in threads of its own, in which gradient checkpointing
        # calls modules again. Replicas of DataParallel run in threads inside its forward.
        if self.is_in_backward or "_is_replica" in module.__dict__:
            return self._call_inside(original, module, args, kwargs)
        try:
            model, arguments = self._called(module, args, kwargs)
            numbers, forward = self._begin_forward(model, arguments)
            if model is not module:
                self._look(module, args, kwargs)
        except Exception as error:  # the command must go on as it would without
            self.fail(error)
            return original(module, *args, **kwargs)
        if numbers is None:  # no model with token ids
            # Preparing data may call many modules: the recorder then rests until a backward.
            self.misses += 1
            if self.misses > _MOST_MISSES and not self.seen:
                self.is_resting = True
                self.record(False)
            return original(module, *args, **kwargs)
        looks = model is module and self._inside is not None
        output = self._call_inside(original, module, args, kwargs, looks)
        if forward is None:  # gradients are off: an evaluation, or a reference model
            self.unused[0] += 1
            self.unused[1] += numbers.size
        else:
            self._watch_gradients(forward, module, outputs_with_graph(output))
        return output

    def _call_inside(
        self, original: Any, module: Any, args: Any, kwargs: Any, looks: bool = False
    ) -> Any:
        """Call a module, whose parts are looked at for token ids with `looks`, else not at all."""
        if looks:
            self._looked_into.add(threading.get_ident())
            try:
                return original(module, *args, **kwargs)
            finally:
                self._looked_into.discard(threading.get_ident())
        with self.inside():
            return original(module, *args, **kwargs)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Note that this thread is inside a forward or a backward, as long as the context lasts."""
        thread = threading.get_ident()
        was_inside = thread in self._busy
        self._busy.add(thread)
        self._has_threads |= thread != self._first_thread
        self.is_busy = self._is_off or not self._has_threads
        try:
            yield
        finally:
            if not was_inside:
                self._busy.discard(thread)
            self.is_busy = self._is_off or (was_inside and not self._has_threads)

    def record(self, on: bool) -> None:
        """Look at calls of modules from now on, or at none."""
        self._is_off = self.is_busy = not on

    @property
    def is_in_backward(self) -> bool:
        """Whether this thread computes gradients: it called for them, or is one of torch's own."""
        if threading.get_ident() in self.backwards:
            return True
        task = getattr(_torch()._C, "_current_graph_task_id", None)  # new in torch 2
        return bool(self.backwards) and (task is None or task() != -1)

    def _called(self, module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the module whose forward begins, the one that is called or one around it whose
        `forward` the loop called by itself; and its arguments by name.
        """
        called = module, arguments_by_name(module, args, kwargs)
        for owner, arguments in forwards_around(_torch().nn.Module):
            if type(owner) in self._seen_kinds:  # a part of a forward that was noted
                self._look(module, args, kwargs)
                return module, {}
            if self._numbers_with_ids(owner, arguments) is not None:
                called = owner, arguments
        if called[0] is not module:
            self._seen_kinds.add(type(called[0]))
            self.see_forward(type(called[0]))
        return called

    def _look(self, module: Any, args: Any, kwargs: Any) -> None:
        # A tensor of another library may have no memory or strides.
        with contextlib.suppress(Exception):
            if self._inside is not None:
                self._inside.note(module, args, kwargs)

    def _watch_gradients(self, forward: Forward, module: Any, outputs: list[Any]) -> None:
        """Let a forward wait for a gradient, which comes back to its outputs if it is trained."""
        forward.is_watched = bool(outputs)
        forward.sizes = [tuple(output.shape) for output in outputs if output.shape]
        # Without an output with a graph, a model in training mode may be a frozen teacher.
        if forward.training and not outputs:
            forward.training = any(each.requires_grad for each in module.parameters())
        for tensor in outputs:
            tensor.register_hook(forward.on_gradient)
        self.pending.append(forward)
        del self.pending[:-_MOST_PENDING]  # all but the newest

    def _begin_forward(
        self, module: Any, arguments: dict[str, Any]
    ) -> tuple[WholeNumbers | None, Forward | None]:
        """Return the whole numbers that a module is given, and its forward."""
        # Trainer.compute_loss takes them out where it smooths them or has a loss of its own.
        if self.labels is not None and "labels" not in arguments:
            arguments = {**arguments, "labels": self.labels}
        numbers = self._numbers_with_ids(module, arguments)
        if numbers is None:
            return None, None
        self._inside = None
        # Without gradients it is an evaluation, or the reference model of DPO.
        if not _torch().is_grad_enabled():
            return numbers, None
        model = self.model_of(module)
        self.clock.note_device(numbers)
        # Several threads are not looked into: names tell which arguments are token ids.
        is_new = not self._has_threads and model.inside.begin(numbers.nested)
        self._inside = model.inside if is_new else None
        forward = Forward(model, numbers, self.clock.now(), is_new)
        forward.epochs = self.loaders.epochs
        forward.fetched = self.loaders.take_with_tensors(numbers.tensors)
        forward.has_ids = "inputs_embeds" not in arguments
        has_count = arguments.get("num_items_in_batch") is not None
        forward.is_counted = has_count and model.uses_count
        forward.training = bool(getattr(module, "training", True))
        forward.ranks_meet = ranks_meet(module)
        return numbers, forward

    def model_of(self, module: Any) -> Model:
        """Return what is known of a model; looked for at its first forward."""
        model = self._models.get(module)
        if model is None:
            model = self._models[module] = Model(_torch(), module, self.pad_token_id)
        return model

    def forget(self) -> None:
        """Forget the forwards, and other threads, of the process that this one was forked from."""
        self.pending.clear()
        self._busy &= {threading.get_ident()}
        self._first_thread, self._has_threads = threading.get_ident(), False
        self.unused, self.misses = [0, 0], 0

    def wake(self) -> None:
        """Look at calls of modules again after a backward: training has begun."""
        self.misses = 0
        if self.is_resting and not self.has_failed:
            self.record(True)
        self.is_resting = False

    def fail(self, error: Exception) -> None:
        """Record nothing more, after an error of the recorder: the command goes on without it."""
        if not self.has_failed:  # say it once
            print("batchstat: not recording any more: %r" % error, file=sys.stderr)
        self.has_failed = True
        self.record(False)
        self.pending.clear()

    def take_trained(self) -> list[Forward]:
        """Return the forwards to which a gradient has come since the last call, and forget them."""
        # Those of another thread that is in a backward now are not complete.
        others = self.backwards.keys() - {threading.get_ident()}
        pending = list(self.pending)
        trained = [each for each in pending if each.is_trained and each.thread.ident not in others]
        self.seen += len(trained)
        for forward in trained:  # one by one, since another thread may add some at the same time
            self.pending.remove(forward)
        return trained

    def _numbers_with_ids(self, module: Any, arguments: Mapping[str, Any]) -> WholeNumbers | None:
        """Return the whole numbers among the arguments of a model; None without token ids, or where
        the module is only a part of a model.
        """
        # A loop may call a layer: an embedding; a head or a loss, of what the model computed.
        if isinstance(module, _torch().nn.Embedding) or not enters_graph(arguments):
            return None
        numbers = WholeNumbers(arguments)
        if not numbers.hold_ids:
            return None
        # Without an embedding, rows of whole numbers by another name may be labels or features.
        if "input_ids" not in arguments and not self.model_of(module).takes_ids:
            return None
        nested = numbers.nested
        has_mask_alone = "attention_mask" in nested and "input_ids" not in nested
        # Where a model is given embeddings, as some with pictures are, its mask stands in for ids.
        if "inputs_embeds" in arguments and has_mask_alone:
            nested["input_ids"] = nested["attention_mask"]
            numbers.tensors.append(nested["attention_mask"])
        return numbers


def _torch() -> Any:
    import torch

    return torch


def _is_compiling() -> bool:
    # Before torch 2.1 there is no torch.compiler; `bool()` is False.
    compiler, cuda = getattr(_torch(), "compiler", None), _torch().cuda
    if compiler is not None and getattr(compiler, "is_compiling", bool)():
        return True
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def outputs_with_graph(value: Any) -> list[Any]:
    """Return the first tensors in what a model returned that a gradient may come back to."""
    if hasattr(value, "requires_grad"):  # a tensor
        # A leaf is a parameter or an input that the model hands back: it was not computed.
        return [value] if value.requires_grad and not value.is_leaf else []
    if isinstance(value, (list, tuple)):
        values = list(value)
    else:
        # A mapping, such as ModelOutput of transformers, or the attributes of an object.
        by_name = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
        values = list(by_name.values())
    outputs: list[Any] = []
    for item in values[:8]:  # in a ModelOutput, loss and logits come first
        outputs += outputs_with_graph(item)
        if len(outputs) >= MOST_OUTPUTS:
            break
    return outputs
