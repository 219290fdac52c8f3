"""The training steps of a model: of a transformers configuration, or of a user's function."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib import import_module
from inspect import isasyncgen, iscoroutine, isgenerator
from pathlib import Path
from typing import Any

import torch
import transformers

from batchstat.calibration.setup import Setup
from batchstat.calibration.torch_device import Batch, Steps, is_out_of_memory
from batchstat.errors import InputError, OptionError
from batchstat.parameters import whole_number

_AUTO_CLASSES = {
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
}
"""The class of transformers that builds an architecture, by how the name of that ends."""


class ModelSteps(Steps):
    """The steps of a model with random weights."""

    def __init__(self, config: Any, setup: Setup, device: torch.device) -> None:
        """Build the model on a device. Raises InputError if it cannot, or is too large."""
        dtype: torch.dtype = getattr(torch, setup.dtype)
        weight_dtype = torch.float32 if setup.mixed_precision else dtype
        self._model = _model(config, setup.attention, weight_dtype, device)
        self.vocabulary = config.get_text_config().vocab_size
        if setup.gradient_checkpointing:
            # The name since transformers 5.23, then the one before.
            enable = getattr(self._model, "activation_checkpointing_enable", None)
            (enable or self._model.gradient_checkpointing_enable)()
        self.positions = _positions(self._model)
        self._is_compiled = setup.compile
        self._call: Callable[..., Any] = self._model
        if setup.compile:
            # Shapes whose program is kept; the default is 8, fewer than are measured.
            torch._dynamo.config.recompile_limit = 1_000
            # Compile for each shape: by default, torch compiles once more, for all shapes, when it
            # sees a second one, and the first batches would be measured with another program.
            self._call = torch.compile(self._model, dynamic=False)
        self._autocast = nullcontext()
        if setup.mixed_precision:
            self._autocast = torch.autocast(device.type, dtype)
        make_optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
        options: dict[str, Any] = {"lr": 1e-6}  # the model is not to change much
        if setup.optimizer == "adamw":
            make_optimizer = torch.optim.AdamW
            # Where trainers run the fused AdamW, which needs no copy of the weights.
            options["fused"] = device.type in ("cuda", "xpu", "mps", "cpu")
            if weight_dtype is torch.float16:
                options["eps"] = 1e-4  # its default, 1e-8, is 0 here, and steps divide by it
        self._optimizer = make_optimizer(self._model.parameters(), **options)

    def forward_backward(self, batch: Batch) -> None:
        """Compute the gradients of a batch."""
        labels, kind = batch["labels"], type(self._model).__name__
        if kind.endswith("ForSequenceClassification"):  # class 0 for each row
            labels = torch.zeros_like(labels[:, 0])
        elif kind.endswith("ForTokenClassification"):
            # Class 0 for each token, which every head has; -100, no loss, stays.
            labels = labels.clamp(max=0)
        with self._autocast:
            loss = self._call(**{**batch, "labels": labels}).loss
        loss.backward()

    def update(self) -> None:
        """Update the weights, and drop the gradients."""
        self._optimizer.step()
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Drop the gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> Iterable[torch.Tensor] | None:
        """Return weights, buffers and optimizer state; None for a compiled model."""
        if self._is_compiled:  # `TensorMemory` watches operations, which do not run one by one
            return None
        state = (value for each in self._optimizer.state.values() for value in each.values())
        return [*self._model.parameters(), *self._model.buffers(), *filter(torch.is_tensor, state)]

    def gradients(self) -> int:
        """Return the bytes of gradients between a backward pass and the update."""
        gradients = (each.grad for each in self._model.parameters())
        return sum(grad.nbytes for grad in gradients if grad is not None)


class FunctionSteps(Steps):
    """The steps of a user's function."""

    def __init__(self, name: str) -> None:
        """Import `module:function`, from the current folder too. Raises InputError."""
        self._name = name
        module, _, function = name.partition(":")
        sys.path.insert(0, str(Path.cwd()))  # for the import alone
        try:
            with redirect_stdout(sys.stderr):
                self._step = getattr(import_module(module), function)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may raise anything
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"model {name!r} cannot be loaded: {type(error).__name__}: {reason}"
            ) from None
        finally:
            sys.path.pop(0)
        if not callable(self._step):
            raise InputError(f"model {name!r} cannot be called with a batch", "name a function")
        stated = getattr(self._step, "vocabulary", 1_000)
        try:
            # Id 0 may be padding, and is in no batch.
            self.vocabulary = whole_number("vocabulary", stated, min_value=2)
        except OptionError as error:
            raise InputError(f"model {name!r} has {error.problem}", error.remedy) from None

    def forward_backward(self, batch: Batch) -> None:
        """Run a whole step. Raises InputError where a call only makes a generator or coroutine."""
        # What it prints goes to standard error, as progress does: standard output is the result's.
        with redirect_stdout(sys.stderr):
            result = self._step(batch)
        # The call has run nothing yet.
        if isgenerator(result) or iscoroutine(result) or isasyncgen(result):
            if iscoroutine(result):
                result.close()  # else Python warns that it was never awaited
            raise InputError(
                f"model {self._name!r} does nothing when it is called, since it has yield or async",
                "name a plain function that runs a whole step",
            )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from warnings inside the block: the configuration is used as it is."""
    log = transformers.utils.logging
    level_before = log.get_verbosity()
    log.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        log.set_verbosity(level_before)


def _model(config: Any, attention: str, dtype: torch.dtype, device: torch.device) -> Any:
    """Build the model of a configuration with random weights, in training mode."""
    if config.is_encoder_decoder:
        raise InputError(
            f"{config.model_type} has an encoder and a decoder, which one width does not describe",
            "pass a function that runs one step, module:function",
        )
    class_name = _auto_class(config)
    if class_name == "AutoModelForSequenceClassification" and config.pad_token_id is None:
        config.pad_token_id = 0  # by which decoders find the last token of a row
    auto_class = getattr(transformers, class_name)
    try:
        with torch.device(device):
            model = auto_class.from_config(config, dtype=dtype, attn_implementation=attention)
    except Exception as error:  # transformers passes on anything that a class of model raises
        if is_out_of_memory(error):
            raise InputError(
                f"the weights of {config.model_type} do not fit the device",
                "pass --dtype bfloat16, or another --device",
            ) from None
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"transformers cannot build {config.model_type}: {reason}") from None
    return model.train()


def _positions(model: Any) -> int | None:
    """Return the number of positions that a model has embeddings for; None where it has none."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa numbers positions from behind its padding: two of its 514 are for no token.
            padding_positions = 0 if module.padding_idx is None else module.padding_idx + 1
            return int(module.num_embeddings) - padding_positions
    return None


def _auto_class(config: Any) -> str:
    """Return the class of transformers that builds the architecture of a configuration."""
    architecture = (config.architectures or [""])[0]
    for ending, auto_class in _AUTO_CLASSES.items():
        if architecture.endswith(ending):
            return auto_class
    # Such as BertModel, which has no head: the language model of its type.
    for auto_class in ("AutoModelForMaskedLM", "AutoModelForCausalLM"):
        if type(config) in getattr(transformers, auto_class)._model_mapping:
            return auto_class
    raise InputError(
        f"{architecture or config.model_type} is neither a language model nor a classifier of "
        "transformers",
        "pass a function that runs one step, module:function",
    )
