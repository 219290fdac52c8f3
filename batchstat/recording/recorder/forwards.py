"""Forwards of a model, and which of them are trained: those that a gradient comes back to.

A forward is one call of a model with token ids, as `model(input_ids=...)`.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
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

_MOST_PENDING = 256
"""Forwards that wait for a gradient: more are those of an evaluation that builds graphs."""
_MOST_MISSES = 50_000
"""Calls of modules without token ids, after which a program is taken to train on something else."""
_LARGEST_COPY = 4096
"""Tokens of a batch, up to which it is copied and read later. A larger one is read at once: copying
it would take longer.
"""
_MOST_OUTPUTS = 4  # outputs of a forward that are watched for a gradient, at most


class Model:
    """What is known of a model. It is looked for once, at the first forward."""

    def __init__(self, torch: Any, module: Any, pad_token_id: Any) -> None:
        """Look for the facts of a model. `pad_token_id` is its tokenizer's, which comes first."""
        inner = unwrapped(module)
        config = getattr(inner, "config", None)
        self.kind = type(inner).__name__  # its class
        self.is_of_rows = False  # whether a row has one output, as of a classifier
        self.module = weakref.ref(module)
        # Whether it has an encoder and a decoder; None where it does not say.
        self.has_decoder = getattr(config, "is_encoder_decoder", None)
        modules = list(module.modules())
        self.inside = Inside(modules)
        embeddings = [each for each in modules if "Embedding" in type(each).__name__]
        self.takes_ids = bool(embeddings)  # whether it has an embedding, and so takes token ids
        # The id that pads, by its tokenizer, its configuration or its embedding; None where none of
        # them says it.
        self.pad_token_id = pad_token_id
        if self.pad_token_id is None:
            self.pad_token_id = getattr(config, "pad_token_id", None)
        # Without a configuration of transformers, as in a loop of plain torch: the first embedding
        # that states one.
        for embedding in embeddings:
            if self.pad_token_id is None and isinstance(embedding, torch.nn.Embedding):
                self.pad_token_id = embedding.padding_idx
        # An adapter of PEFT wraps the model whose forward computes the loss.
        get_base_model = getattr(inner, "get_base_model", None)
        loss_modules = [inner] if get_base_model is None else [inner, get_base_model()]
        # Whether its loss divides by the number of trained tokens that it is given. Some models of
        # transformers are given it and take the mean of their batch all the same.
        self.uses_count = any(map(_uses_count, loss_modules))

    def read(self, arrays: Any, pad_token_id: Any = None) -> list[ReadBatch]:
        """Return what it computes of the arrays among its arguments: a part for each set of ids.

        `pad_token_id`, which was seen in the loop, comes before that of the model.
        """
        used_pad_token_id = self.pad_token_id if pad_token_id is None else pad_token_id
        parts = read_parts(arrays, used_pad_token_id, self.has_decoder, self.inside)
        self.mark(parts)
        return parts

    def mark(self, parts: list[ReadBatch]) -> None:
        """Note in parts whose labels were not seen that they are of rows, if outputs are."""
        for part in parts:
            part.loss = "of rows" if self.is_of_rows and part.loss == "unknown" else part.loss


def _uses_count(module: Any) -> bool:
    """Return whether the forward of a module divides its loss by the `num_items_in_batch` of its
    step: the Trainer of transformers gives it that number of trained tokens.
    """
    # Decorators of transformers wrap it, such as can_return_tuple.
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None:  # compiled, such as by Cython: nothing shows that it does not divide
        return True
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # Models of transformers hand all that they are given to self.loss_function, which divides:
    # `co_names` are the attributes and globals that the code of the forward uses.
    return "num_items_in_batch" in parameters or "loss_function" in code.co_names


class Forward:
    """One call of the model.

    Attributes:
        model: what is known of the model.
        has_ids: whether token ids were among its arguments; with embeddings instead, only the mask
            says where the tokens are.
        is_counted: whether its loss divides by the number of trained tokens of the step.
        began: when it began.
        training: whether the model is in training mode.
        ranks_meet: whether ranks wait for each other in it, or in its backward.
        came_back: whether a gradient has come back to an output.
        is_watched: whether any output was found that a gradient could come back to.
        sizes: of the outputs that are no single number.
        thread: the number of the thread that called it.
        newest_epoch: the number of the newest iterator of a loader.
        arrays: the whole numbers among its arguments, as arrays; None while a device has them.
        fetched: the batch of a loader that it computes; None where its tensors are no loader's.
    """

    def __init__(
        self, model: Model, numbers: WholeNumbers, began: Moment, is_new: bool = False
    ) -> None:
        """Copy the whole numbers of the arguments, or read them, before the loop changes them. Of
        an `is_new` forward it is seen only later which of them are token ids.
        """
        self.model, self.began = model, began
        self.fetched: Fetched | None = None
        self.is_counted = self.came_back = self.is_watched = self.training = False
        self.sizes: list[tuple[int, ...]] = []
        self.ranks_meet = False
        self.has_ids = True
        self.thread, self.newest_epoch = threading.get_ident(), sys.maxsize
        # Copies that a device still makes, and what was read of the arrays: None without.
        self._copies: Copies | None = None
        self._parts: list[ReadBatch] | None = None
        self.arrays: Any = None
        if not numbers.are_here:  # copied while the training goes on
            self._copies = Copies(numbers)
        elif (
            numbers.size > _LARGEST_COPY and not is_new
        ):  # to copy them takes longer than to read them now
            self.arrays = numbers.converted(as_array)
            self._parts = model.read(self.arrays)
        else:  # `read` reads them when the forward is written, together with others
            self.arrays = numbers.converted(copied)

    def on_gradient(self, _gradient: Any) -> None:
        """Note that a gradient has come back; torch calls it as a hook of an output."""
        self.came_back = True

    @property
    def is_trained(self) -> bool:
        """Whether a gradient has come back. Where no output could be watched, as they are hidden in
        an object, whether the model is in training mode.
        """
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
    """Notes the outermost forward of each model that takes token ids.

    A forward is what is computed, whatever loaders prefetched. A gradient that comes back is what
    tells training from evaluation, whatever `training` and `no_grad` say.

    Attributes:
        is_busy: whether calls of modules are not looked at: inside a forward or a backward, whose
            parts they are, or where nothing is recorded. Always False once several threads call:
            `call` then tells their calls apart, which takes longer.
        backwards: for the number of each thread, its backwards that run now (one inside another
            with gradient checkpointing).
        stop_again: ends the command once more, after it was ended as planned; None before.
        pending: forwards to which no gradient has come yet.
        unused: [calls, tokens] of forwards that build no graph, since the last batch was written.
        seen: number of forwards that were trained.
        misses: calls of modules without token ids, since the last backward.
        is_resting: whether there were so many that nothing is looked at before the next backward.
        labels: of the batch of a Trainer's step, which may compute its loss outside of the model;
            None without a Trainer.
        has_failed: whether nothing is recorded any more, since something went wrong.
        clock: of the device that computes.
        loaders: the batches of loaders.
        pad_token_id: of the tokenizer of a Trainer; None without one.
    """

    def __init__(self, loaders: Loaders) -> None:
        """Begin without a forward, off until torch is patched."""
        self.is_busy = self._is_off = True
        self._busy: set[int] = set()  # the numbers of threads inside a forward or a backward
        self._first_thread, self._has_threads = threading.get_ident(), False
        self.backwards: dict[int, int] = {}
        self.stop_again: Callable[[], None] | None = None
        self.loaders = loaders
        self.pending: list[Forward] = []
        self.unused = [0, 0]
        self.seen = self.misses = 0
        self.labels: Any = None
        self.has_failed = self.is_resting = False
        self.clock = Clock()
        self.pad_token_id: Any = None
        # What is seen inside the model of the last forward, if that is looked into; and the number
        # of the thread in which it is running, or 0.
        self._inside: Inside | None = None
        self._looked_into = 0
        # Classes whose `forward` a loop calls by itself, and what makes it tell of such calls.
        self._seen_kinds: set[type] = set()
        self.see_forward: Any = None
        # Not an attribute of the model, which a script may pickle.
        self._models: weakref.WeakKeyDictionary[Any, Model] = weakref.WeakKeyDictionary()

    def call(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        """Call a module that is inside no other forward, and note its forward if it has token ids.

        `original` is torch.nn.Module.__call__, which this stands in for.
        """
        if self.stop_again is not None:
            self.stop_again()
        torch = _torch()
        if self._is_off or _is_compiling(torch) or threading.get_ident() in self._busy:
            return original(module, *args, **kwargs)
        if self._looked_into == threading.get_ident():
            self._look(module, args, kwargs)
            return original(module, *args, **kwargs)
        # On CUDA, torch computes gradients in threads of its own, in which gradient checkpointing
        # calls modules again. Replicas of DataParallel run in threads inside its forward.
        if self.is_in_backward or "_is_replica" in module.__dict__:
            return self._call_inside(original, module, args, kwargs)
        try:
            model, arguments = self._called(torch, module, args, kwargs)
            numbers, forward = self._begin_forward(torch, model, arguments)
            if model is not module:
                self._look(module, args, kwargs)
        except Exception as error:  # the command must go on as it would without
            self.fail(error)
            return original(module, *args, **kwargs)
        if numbers is None:  # no model with token ids
            # Preparing data may call many modules, and each look at one costs time: after many, the
            # recorder rests until a backward wakes it.
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
        """Call a module. The modules that it calls are parts of it, which are looked at for token
        ids with `looks`, and else not at all.
        """
        if looks:
            self._looked_into = threading.get_ident()
            try:
                return original(module, *args, **kwargs)
            finally:
                self._looked_into = 0
        was_inside = self.enter()
        try:
            return original(module, *args, **kwargs)
        finally:
            self.leave(was_inside)

    def enter(self) -> bool:
        """Note that this thread is inside a forward or a backward; return whether it was before."""
        thread = threading.get_ident()
        was_inside = thread in self._busy
        self._busy.add(thread)
        self._has_threads |= thread != self._first_thread
        self.is_busy = self._is_off or not self._has_threads
        return was_inside

    def leave(self, was_inside: bool) -> None:
        """Note that this thread has left it; it may be inside another one."""
        if not was_inside:
            self._busy.discard(threading.get_ident())
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

    def _called(self, torch: Any, module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the module whose forward begins, and its arguments by name: that which is called,
        or one around it, whose `forward` the loop called by itself.
        """
        called = module, arguments_by_name(module, args, kwargs)
        for owner, arguments in forwards_around(torch.nn.Module):
            if type(owner) in self._seen_kinds:  # a part of a forward that was noted
                self._look(module, args, kwargs)
                return module, {}
            if self._numbers_with_ids(torch, owner, arguments) is not None:
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
        self, torch: Any, module: Any, arguments: dict[str, Any]
    ) -> tuple[WholeNumbers | None, Forward | None]:
        """Return the whole numbers that a module is given, and its forward."""
        # Trainer.compute_loss takes the labels out of its inputs where it smooths them or has a
        # loss of its own.
        if self.labels is not None and "labels" not in arguments:
            arguments = {**arguments, "labels": self.labels}
        numbers = self._numbers_with_ids(torch, module, arguments)
        if numbers is None:
            return None, None
        self._inside = None
        # Without gradients it is an evaluation, or the reference model of DPO.
        if not torch.is_grad_enabled():
            return numbers, None
        model = self.model_of(module)
        self.clock.note_device(numbers)
        # Several threads are not looked into: names tell which arguments are token ids.
        is_new = not self._has_threads and model.inside.begin(numbers.nested)
        if is_new:
            self._inside = model.inside
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
        """Forget the forwards of the process that this one was forked from, of whose threads it has
        this one alone.
        """
        self.pending.clear()
        self._busy &= {threading.get_ident()}
        self._first_thread, self._has_threads = threading.get_ident(), False
        self.unused, self.misses = [0, 0], 0

    def wake(self) -> None:
        """Look at calls of modules again after a backward: training has begun, and the calls
        without token ids before it may have prepared data.
        """
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
        trained = [each for each in pending if each.is_trained and each.thread not in others]
        self.seen += len(trained)
        for forward in trained:  # one by one, since another thread may add some at the same time
            self.pending.remove(forward)
        return trained

    def _numbers_with_ids(
        self, torch: Any, module: Any, arguments: Mapping[str, Any]
    ) -> WholeNumbers | None:
        """Return the whole numbers among the arguments of a model, token ids among them; None where
        there are no token ids, or where the module is only a part of a model.
        """
        # A loop may call an embedding by itself: it takes token ids, but is a layer and no model. A
        # head or a loss takes what the model computed.
        if isinstance(module, torch.nn.Embedding) or not enters_graph(arguments):
            return None
        numbers = WholeNumbers(arguments)
        if not numbers.hold_ids:
            return None
        # Rows of whole numbers by another name are token ids only if the module has an embedding
        # for them; else they may be labels or features.
        if "input_ids" not in arguments and not self.model_of(module).takes_ids:
            return None
        nested = numbers.nested
        has_mask_alone = "attention_mask" in nested and "input_ids" not in nested
        # A model that is given embeddings, as some with pictures are: its ids are not known, but
        # its mask has their rows, width and padding, and stands in for them.
        if "inputs_embeds" in arguments and has_mask_alone:
            nested["input_ids"] = nested["attention_mask"]
            numbers.tensors.append(nested["attention_mask"])
        return numbers


def _torch() -> Any:
    import torch

    return torch


def _is_compiling(torch: Any) -> bool:
    """Return whether torch.compile traces a graph, or CUDA captures one: what the recorder does
    must not become a part of it.
    """
    # Before torch 2.1 there is no torch.compiler; `bool()` is False.
    compiler = getattr(torch, "compiler", None)
    if compiler is not None and getattr(compiler, "is_compiling", bool)():
        return True
    cuda = torch.cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def _outputs_with_graph(value: Any) -> list[Any]:
    """Return the tensors in what a model returned that a gradient may come back to, the first
    few.
    """
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
