"""Forwards of a model, and which of them are trained: those that a gradient comes back to."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Mapping
from typing import Any

from .arguments import WholeNumbers, as_array, by_name, enters_graph, unwrapped
from .devices import Clock, Copies, Moment, copied
from .loaders import Fetched, Loaders
from .read_batches import ReadBatch
from .reading import read_parts

_MOST_PENDING = 256
"""Forwards that wait for a gradient: more are those of an evaluation that builds graphs."""
_MOST_MISSES = 50_000
"""Calls of modules without token ids, after which a program is taken to train on something else."""
_LARGEST_COPY = 4096
"""Tokens of a batch that are copied and read later: those of larger ones are read faster than
copied.
"""
_OUTPUTS = 4
"""Outputs of a forward that are watched for a gradient."""


class Model:
    """What is known of a model, looked for once.

    Attributes:
        kind: its class.
        pad_token_id: what it pads with, as its configuration or its embedding says; None without.
        has_decoder: whether it has an encoder and a decoder; None where it does not say.
        takes_ids: whether a layer of it takes token ids.
        uses_count: whether its loss divides by a number of trained tokens that it is given. Some
            models of transformers are given it and take the mean of their batch all the same.
    """

    def __init__(self, torch: Any, module: Any, pad_token_id: Any) -> None:
        """Look for them; what a tokenizer pads with is that of its model."""
        inner = unwrapped(module)
        config = getattr(inner, "config", None)
        self.kind = type(inner).__name__
        self.has_decoder = getattr(config, "is_encoder_decoder", None)
        embeddings = [each for each in inner.modules() if "Embedding" in type(each).__name__]
        self.takes_ids = bool(embeddings)
        self.pad_token_id = pad_token_id
        if self.pad_token_id is None:
            self.pad_token_id = getattr(config, "pad_token_id", None)
        # Without a configuration of transformers, as in a loop of plain torch.
        for each in embeddings:
            if self.pad_token_id is None and isinstance(each, torch.nn.Embedding):
                self.pad_token_id = each.padding_idx
        # An adapter, such as PEFT's, wraps a model of its own.
        adapted = getattr(inner, "get_base_model", None)
        computing = [inner] if adapted is None else [inner, adapted()]
        self.uses_count = any(map(_uses_count, computing))

    def read(self, arrays: Any, pad_token_id: Any = None) -> list[ReadBatch]:
        """Return what it computes of its arguments; `pad_token_id` is what a loop pads with, where
        the model does not say.
        """
        known = self.pad_token_id if pad_token_id is None else pad_token_id
        return read_parts(arrays, known, self.has_decoder)


def _uses_count(module: Any) -> bool:
    """Return whether a forward hands a number of trained tokens on: by name, or, as models of
    transformers do, with all that it is given to their `loss_function`.
    """
    # Decorators of transformers wrap it, such as can_return_tuple.
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None:
        return True
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return "num_items_in_batch" in named or "loss_function" in code.co_names


class Forward:
    """One call of the model.

    Attributes:
        model: what is known of the model.
        has_ids: whether it was given token ids; else only where there are any.
        is_counted: whether it was given the number of trained tokens of its step.
        began: when.
        training: whether the model says that it is trained.
        came_back: whether a gradient has come back to it.
        is_watched: whether one could be seen.
        arrays: its whole numbers, once they were read.
        fetched: what a loader handed out, if that is what it was given.
    """

    def __init__(self, model: Model, numbers: WholeNumbers, began: Moment) -> None:
        """Copy its whole numbers, or read large ones, before anything changes them."""
        self.model, self.began = model, began
        self.fetched: Fetched | None = None
        self.is_counted = self.came_back = self.is_watched = self.training = False
        self.has_ids = True
        self._copies: Copies | None = None
        self._parts: list[ReadBatch] | None = None
        self.arrays: Any = None
        if not numbers.are_here:
            self._copies = Copies(numbers)
        elif numbers.size > _LARGEST_COPY:
            self.arrays = numbers.converted(as_array)
            self._parts = model.read(self.arrays)
        else:
            self.arrays = numbers.converted(copied)

    def on_gradient(self, _gradient: Any) -> None:
        """Note that one has come back."""
        self.came_back = True

    @property
    def is_trained(self) -> bool:
        """Whether a gradient has come back; where none could be seen, as its outputs are hidden in
        an object, whether its model says so.
        """
        return self.came_back or (self.training and not self.is_watched)

    @property
    def is_here(self) -> bool:
        """Whether nothing of it is on its way."""
        return self._copies is None or self._copies.are_here

    def read(self) -> list[ReadBatch]:
        """Return what it computes: one part for each set of token ids, none without any."""
        if self._copies is not None:
            self.arrays, self._copies = self._copies.arrived(), None
        if self._parts is None:
            self._parts = self.model.read(self.arrays)
        if not self.has_ids:
            for part in self._parts:
                part.ids = None
        return self._parts


class Forwards:
    """Sees the outermost forward of a model that takes token ids.

    A forward is what is computed, whatever loaders prefetched; a gradient that comes back is what
    tells training from evaluation, whatever `training` and `no_grad` say.

    Attributes:
        is_busy: whether one is under way, or a backward, or nothing is recorded: what is called
            then is a part of it, or no concern of anybody.
        pending: those to which no gradient has come yet.
        unused: calls and tokens of those that build no graph, since the last batch was written.
        seen: those that were trained.
        misses: calls of modules that take no token ids, since the last backward.
        is_resting: whether so many were seen that nothing is looked at before the next backward.
        labels: of the batch of a Trainer's step, which may compute its loss outside of the model;
            None without any.
        has_failed: whether nothing is recorded any more, since something went wrong.
        clock: of the device that computes.
        loaders: what loaders hand out.
        pad_token_id: of the tokenizer of a Trainer; None without one.
    """

    def __init__(self, loaders: Loaders) -> None:
        """Begin without any; `is_busy` until everything is installed."""
        self.is_busy = True
        self.loaders = loaders
        self.pending: list[Forward] = []
        self.unused = [0, 0]
        self.seen = self.misses = 0
        self.labels: Any = None
        self.has_failed = self.is_resting = False
        self.clock = Clock()
        self.pad_token_id: Any = None
        # Not an attribute of the model, which a script may pickle.
        self._models: weakref.WeakKeyDictionary[Any, Model] = weakref.WeakKeyDictionary()

    def call(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        """Call a module that nothing else has called, and note what it computes."""
        torch = _torch()
        if _is_compiling(torch):
            return original(module, *args, **kwargs)
        try:
            numbers, forward = self._begun(torch, module, by_name(module, args, kwargs))
        except Exception as error:
            self.fail(error)
            return original(module, *args, **kwargs)
        if numbers is None:
            # Preparing data may call many modules, and each look at one costs time.
            self.misses += 1
            if self.misses > _MOST_MISSES and not self.seen:
                self.is_busy = self.is_resting = True
            return original(module, *args, **kwargs)
        self.is_busy = True
        try:
            output = original(module, *args, **kwargs)
        finally:
            self.is_busy = self.has_failed
        if forward is None:
            self.unused[0] += 1
            self.unused[1] += numbers.size
            return output
        outputs = _with_gradient(output)
        forward.is_watched = bool(outputs)
        if forward.training and not outputs:  # a frozen teacher says that it is trained, too
            forward.training = any(each.requires_grad for each in module.parameters())
        for each in outputs:
            each.register_hook(forward.on_gradient)
        self.pending.append(forward)
        del self.pending[:-_MOST_PENDING]
        return output

    def _begun(
        self, torch: Any, module: Any, arguments: dict[str, Any]
    ) -> tuple[WholeNumbers | None, Forward | None]:
        """Return the token ids that a module is given, and its forward if it may be trained; None
        without any.
        """
        # Trainer.compute_loss takes them out of its inputs where it smooths labels or has a loss of
        # its own.
        if self.labels is not None and "labels" not in arguments:
            arguments = {**arguments, "labels": self.labels}
        numbers = self._batch_of(torch, module, arguments)
        # Without it no gradient can come back: an evaluation, or the reference model of DPO.
        if numbers is None or not torch.is_grad_enabled():
            return numbers, None
        model = self.model_of(module)
        self.clock.see(numbers)
        forward = Forward(model, numbers, self.clock.now())
        forward.fetched = self.loaders.handed_out(numbers.tensors)
        forward.has_ids = "inputs_embeds" not in arguments
        has_count = arguments.get("num_items_in_batch") is not None
        forward.is_counted = has_count and model.uses_count
        forward.training = bool(getattr(module, "training", True))
        return numbers, forward

    def model_of(self, module: Any) -> Model:
        """Return what is known of a model."""
        known = self._models.get(module)
        if known is None:
            known = self._models[module] = Model(_torch(), module, self.pad_token_id)
        return known

    def forget(self) -> None:
        """Forget what was seen in the process that this one was forked from."""
        self.pending.clear()
        self.unused, self.misses = [0, 0], 0

    def wake(self) -> None:
        """Look at forwards again after a backward: what was called before it may have been the
        preparation of data.
        """
        self.misses = 0
        if self.is_resting:
            self.is_busy, self.is_resting = self.has_failed, False

    def fail(self, error: Exception) -> None:
        """Record nothing more: whatever is wrong here, the command goes on as it would without."""
        if not self.has_failed:
            print("batchstat: not recording any more: %r" % error, file=sys.stderr)
        self.has_failed = self.is_busy = True
        self.pending.clear()

    def done(self) -> list[Forward]:
        """Return those to which a gradient has come since the last call, and forget them."""
        done = [each for each in self.pending if each.is_trained]
        if done:
            self.seen += len(done)
            self.pending = [each for each in self.pending if each not in done]
        return done

    def _batch_of(
        self, torch: Any, module: Any, arguments: Mapping[str, Any]
    ) -> WholeNumbers | None:
        """Return the whole numbers of a forward that takes token ids; None for any other module."""
        # Token ids enter it, but it is a layer that a loop calls by itself, and not the model.
        if isinstance(module, torch.nn.Embedding) or not enters_graph(arguments):
            return None
        numbers = WholeNumbers(arguments)
        if not numbers.hold_ids or not (
            "input_ids" in arguments or self.model_of(module).takes_ids
        ):
            return None
        nested = numbers.nested
        if (
            "inputs_embeds" in arguments
            and "attention_mask" in nested
            and "input_ids" not in nested
        ):
            # The ids are not known then, but where there are any.
            nested["input_ids"] = nested["attention_mask"]
            numbers.tensors.append(nested["attention_mask"])
        return numbers


def _torch() -> Any:
    import torch

    return torch


def _is_compiling(torch: Any) -> bool:
    """Return whether a graph is traced, or captured on a device: nothing may be added to it."""
    compiler = getattr(torch, "compiler", None)
    if compiler is not None and getattr(compiler, "is_compiling", bool)():
        return True
    cuda = torch.cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def _with_gradient(value: Any) -> list[Any]:
    """Return outputs that a gradient may come back to."""
    if hasattr(value, "requires_grad"):
        # A leaf is a parameter or an input that the model hands back: it was not computed.
        return [value] if value.requires_grad and not value.is_leaf else []
    if isinstance(value, (list, tuple)):
        values = list(value)
    else:
        # ModelOutput of transformers is a mapping.
        named = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
        values = list(named.values())
    outputs: list[Any] = []
    for each in values[:8]:
        outputs += _with_gradient(each)
        if len(outputs) >= _OUTPUTS:
            break
    return outputs
