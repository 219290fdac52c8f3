"""One call of a model with token ids, and what is known of the model."""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from .arguments import WholeNumbers, as_array, unwrapped
from .devices import Copies, Moment, copied
from .loaders import Epochs, Fetched
from .read_batches import ReadBatch
from .reading import read_parts
from .token_ids import Inside

_LARGEST_COPY = 4096  # tokens: a larger batch is read at once, since copying it would take longer


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

    # Whether token ids were among its arguments; with embeddings instead, the mask says where.
    has_ids = True
    is_counted = False  # whether its loss divides by the number of trained tokens of the step
    training = False  # whether the model is in training mode
    ranks_meet = False  # whether ranks wait for each other in it, or in its backward
    came_back = False  # whether a gradient has come back to an output
    is_watched = False  # whether any output was found that a gradient could come back to
    sizes: Sequence[tuple[int, ...]] = ()  # of the outputs that are no single number
    epochs = Epochs(sys.maxsize)  # of the loaders when it began
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
