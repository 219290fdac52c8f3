"""Calls of a model with token ids, and which are trained: those that a gradient comes back to."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .arguments import (
    WholeNumbers,
    arguments_by_name,
    as_array,
    enters_graph,
    forwards_around,
    ranks_meet,
    unwrapped,
)
from .devices import Clock, Copies, Moment, copied
from .loaders import Fetched, Loaders
from .read_batches import ReadBatch
from .reading import read_parts
from .token_ids import Inside

_MOST_PENDING = 256  # forwards that wait for a gradient: more are those of an evaluation
_MOST_MISSES = 50_000  # calls without token ids, after which something else is taken to be trained
_LARGEST_COPY = 4096  # tokens: a larger batch is read at once, since copying it would take longer
_MOST_OUTPUTS = 4  # outputs of a forward that are watched for a gradient, at most


class Model:
    """What is known of a model. It is looked for once, at the first forward."""

    def __init__(self, torch: Any, module: Any, pad_token_id: Any) -> None:
        """Look for the facts of a model. `pad_token_id` is its tokenizer's, which comes first."""
        inner = unwrapped(module)
        config = getattr(inner, "config", None)
        self.kind = type(inner).__name__
        self.is_of_rows = False  # whether a row has one output, as of a classifier
        self.module = weakref.ref(module)
        # Whether it has an encoder and a decoder; None where it does not say.
        self.has_decoder = getattr(config, "is_encoder_decoder", None)
        modules = list(module.modules())
        self.inside = Inside(modules)
        embeddings = [each for each in modules if "Embedding" in type(each).__name__]
        self.takes_ids = bool(embeddings)
        # The id that pads, by its tokenizer, its configuration, or, as in a loop of plain torch,
        # the first embedding that states one; None where none of them does.
        of_torch = [each for each in embeddings if isinstance(each, torch.nn.Embedding)]
        said = [pad_token_id, getattr(config, "pad_token_id", None)]
        said += [each.padding_idx for each in of_torch]
        self.pad_token_id = next((each for each in said if each is not None), None)
        # An adapter of PEFT wraps the model whose forward computes the loss.
        get_base_model = getattr(inner, "get_base_model", None)
        loss_modules = [inner] if get_base_model is None else [inner, get_base_model()]
        # Some models of transformers are given the number of trained tokens of a step, and take the
        # mean of their batch all the same.
        self.uses_count = any(map(_uses_count, loss_modules))

    def read(self, arrays: Any, pad_token_id: Any = None) -> list[ReadBatch]:
        """Return what it computes of the arrays among its arguments: a part for each set of ids.
        `pad_token_id`, which was seen in the loop, comes before that of the model.
        """
        pad_token_id = self.pad_token_id if pad_token_id is None else pad_token_id
        parts = read_parts(arrays, pad_token_id, self.has_decoder, self.inside)
        self.mark(parts)
        return parts

    def mark(self, parts: list[ReadBatch]) -> None:
        """Note in parts whose labels were not seen that they are of rows, if outputs are."""
        for part in parts:
            part.loss = "of rows" if self.is_of_rows and part.loss == "unknown" else part.loss


def _uses_count(module: Any) -> bool:
    """Return whether a forward divides its loss by `num_items_in_batch`, a Trainer's number."""
    # Decorators of transformers wrap it, such as can_return_tuple.
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None:  # compiled, such as by Cython: nothing shows that it does not divide
        return True
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # Models of transformers hand all that they are given to self.loss_function, which divides:
    # `co_names` are the attributes and globals that the code of the forward uses.
    return "num_items_in_batch" in parameters or "loss_function" in code.co_names


class Forward:
    """One call of the model."""

    # Whether token ids were among its arguments; with embeddings instead, only the mask says where
    # the tokens are.
    has_ids = True
    is_counted = False  # whether its loss divides by the number of trained tokens of the step
    training = False  # whether the model is in training mode
    ranks_meet = False  # whether ranks wait for each other in it, or in its backward
    came_back = False  # whether a gradient has come back to an output
    is_watched = False  # whether any output was found that a gradient could come back to
    sizes: Sequence[tuple[int, ...]] = ()  # of the outputs that are no single number
    newest_epoch = sys.maxsize  # the number of the newest iterator of a loader
    fetched: Fetched | None = None  # the loader's batch that has its very tensors
    arrays: Any = None  # the whole numbers among its arguments; None while a device has them
    _copies: Copies | None = None  # that a device still makes
    _parts: list[ReadBatch] | None = None  # what was read of the arrays

    def __init__(
        self, model: Model, numbers: WholeNumbers, began: Moment, is_new: bool = False
    ) -> None:
        """Copy the arguments, or read them, before the loop changes them. Of an `is_new` forward it
        is seen only later which of them are token ids.
        """
        self.model, self.began = model, began
        self.thread = threading.current_thread()  # its number may be that of a later one
        if not numbers.are_here:  # copied while the training goes on
            self._copies = Copies(numbers)
        elif numbers.size > _LARGEST_COPY and not is_new:
            self.arrays = numbers.converted(as_array)
            self._parts = model.read(self.arrays)
        else:  # `read` reads them when the forward is written, together with others
            self.arrays = numbers.converted(copied)

    def on_gradient(self, _gradient: Any) -> None:
        """Note that a gradient has come back; torch calls it as a hook of an output."""
        self.came_back = True

    @property
    def is_trained(self) -> bool:
        """Whether a gradient has come back."""
        # Where all outputs are hidden in an object, no gradient was watched for.
        return self.came_back or (self.training and not self.is_watched)

    @property
    def is_here(self) -> bool:
        """Whether its numbers have arrived from the device."""
        return self._copies is None or self._copies.are_here

    def read(self) -> list[ReadBatch]:
        """Return what it computes: a part for each set of token ids; empty without token ids."""
        if self._copies is not None:
            self.arrays, self._copies = self._copies.arrived(), None
        if self._parts is None:
            self._parts = self.model.read(self.arrays)
        for part in self._parts:
            # Whether no output is of tokens: its labels may be known to a loss outside alone.
            of_rows = [size[:1] == (part.rows,) and len(size) < 3 for size in self.sizes]
            if of_rows and all(of_rows) and (part.rows, part.width) not in self.sizes:
                self.model.is_of_rows = True
        self.model.mark(self._parts)
        # The mask was read instead of ids: no sample can be recognized by it.
        if not self.has_ids:
            for part in self._parts:
                part.ids = None
        return self._parts


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
        # For the number of each thread, its backwards that run now (one inside another with
        # gradient checkpointing).
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
            self._watch_gradients(forward, module, _outputs_with_graph(output))
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
        forward.newest_epoch = self.loaders.newest_epoch
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
        # A loop may call a layer by itself: an embedding, or a head or a loss, which takes what the
        # model computed.
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
        # A model that is given embeddings, as some with pictures are: its mask stands in for its
        # ids, which are not known.
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


def _outputs_with_graph(value: Any) -> list[Any]:
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
        outputs += _outputs_with_graph(item)
        if len(outputs) >= _MOST_OUTPUTS:
            break
    return outputs
