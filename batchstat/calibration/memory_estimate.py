"""The memory of training a transformer, from its shape alone, without a run."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel, load_model, model_configuration, shape_of
from batchstat.calibration.known_models import FAMILIES, known_shape
from batchstat.calibration.measured import Hardware, MemoryFit
from batchstat.calibration.setup import Setup
from batchstat.errors import InputError, OptionError, arguments_named
from batchstat.parameters import whole_number
from batchstat.words import short


@arguments_named()
def estimate_memory(
    model: CostModel | str,
    *,
    dtype: str = "float32",
    mixed_precision: bool = False,
    attention: str = "sdpa",
    optimizer: str = "adamw",
    gradient_checkpointing: bool = False,
    memory: int | None = None,
) -> Calibration:
    """Return the memory of training a transformer as a language model, estimated from its shape.

    At the peak, that is weights, gradients, optimizer state and what the forward pass keeps for the
    backward pass: activations by token and scores of attention by pair of tokens. Source of the
    formula: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models
    (2022); here with what the modules of transformers 5.24.0 keep. Buffers of kernels and of
    communication, fragmentation and the memory of the driver come on top.

    Args:
        model: the transformer's shape, or what `load_model` takes, such as `llama-3-8b`.
        dtype: of weights and computation: float32, bfloat16 or float16.
        mixed_precision: whether weights stay in float32 while `dtype` computes.
        attention: implementation of attention, as transformers names it.
        optimizer: adamw, or sgd without momentum.
        gradient_checkpointing: whether activations are computed again in the backward pass.
        memory: bytes of the device that batches are held to; None for no limit.

    Example:
        >>> model = "hidden=768,layers=12,heads=12,vocabulary=50257,tied=true"
        >>> batchstat.estimate_memory(model, memory=24 * 2**30).tokens_that_fit(1024)
        18984

    Raises:
        OptionError: an unknown name, or a model that cannot be meant.
        InputError: no such model, or its shape lacks what the formula needs.
    """
    if not isinstance(model, str | CostModel):
        raise OptionError(
            f"model={short(model)}", "pass a CostModel, or what load_model takes, such as 'gpt2'"
        )
    setup = Setup(
        model=model if isinstance(model, str) else "model",
        dtype=dtype,
        mixed_precision=mixed_precision,
        attention=attention,
        optimizer=optimizer,
        gradient_checkpointing=gradient_checkpointing,
    )
    if memory is not None:
        whole_number("memory", memory, max_value=2**63 - 1)
    shape = _shape_of_model(model)
    _check_complete(setup, shape)
    setup = replace(setup, shape=shape)
    return Calibration(
        created=datetime.now(UTC).isoformat(),
        setup=setup,
        hardware=Hardware(device="any", name="any device", memory=memory, versions={}),
        points=(),
        time=None,
        memory=memory_of(setup),
        fits=memory,
    )


BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}  # bytes of a number, by dtype
STATE = {"adamw": 2, "sgd": 0}  # numbers that an optimizer keeps of each weight, by its name

_KEPT = {"gelu_new": 5, "gelu_python_tanh": 5, "gelu_accurate": 5, "gelu_python": 4, "gelu_10": 3}
_KEPT |= {"quick_gelu": 3, "gelu_fast": 8, "relu": 1, "tanh": 1, "sigmoid": 1, "linear": 1}
"""Tensors that the backward pass of an activation needs, output included; 2 for those not named.
Activations made of several operations keep what lies between, too."""


def memory_of(setup: Setup) -> MemoryFit:
    """Return the bytes that training takes at the peak, by the model's shape in the setup. The peak
    is at the loss, or in the backward pass of the last layer, whichever takes more: until then the
    forward pass has kept what the backward pass of every layer needs.
    """
    assert setup.shape is not None
    shape, layer = setup.shape, Layer(setup.shape, setup)
    weight_bytes = 4 if setup.mixed_precision else BYTES[setup.dtype]
    # Under mixed precision, autocast keeps a copy of each weight in `dtype`.
    copy_bytes = BYTES[setup.dtype] if setup.mixed_precision else 0
    # A weight and its gradient (2), and what the optimizer keeps of it.
    fixed = shape.parameters * (weight_bytes * (2 + STATE[setup.optimizer]) + copy_bytes)
    # `kept`: bytes per token kept of all layers; `added`: those of one layer's backward pass.
    if setup.gradient_checkpointing:  # only the inputs of layers are kept; one is computed again
        kept, added = shape.layers * layer.input, layer.per_token + layer.gradients
        layers_with_pairs = 1  # whose bytes per pair are in memory
    else:
        kept, added = shape.layers * layer.per_token, layer.gradients
        layers_with_pairs = shape.layers
    # Cross-entropy keeps, per entry of the vocabulary, a log-probability and two gradients.
    in_float32 = setup.mixed_precision or shape.float32_loss
    loss = 3 * (4 if in_float32 else BYTES[setup.dtype]) * (shape.vocabulary or 0)
    return MemoryFit(
        fixed=fixed,
        # `layer.norm` is the last norm, after all layers.
        per_token=kept + layer.norm + max(loss, added),
        # One more, for the gradients of one layer.
        per_pair=(layers_with_pairs + 1) * layer.per_pair + layer.mask,
        least=fixed,
        gradients=0,
        residual=None,
        worst=None,
    )


@dataclass(frozen=True)
class Layer:
    """What the forward pass of a layer keeps for its backward pass."""

    shape: CostModel
    setup: Setup

    @property
    def _number_bytes(self) -> int:
        return BYTES[self.setup.dtype]

    @property
    def _residual(self) -> int:
        return 4 if self.setup.mixed_precision else self._number_bytes

    @property
    def input(self) -> int:
        """Bytes per token of the input of the layer."""
        return self._residual * self.shape.hidden

    @property
    def norm(self) -> int:
        """Bytes per token that a norm keeps: its input, and its output, the input of a matrix."""
        # Gated models have RMSNorm, which computes in float32 and keeps the scaled input.
        scaled = 4 if self.shape.gated else 0
        return self.shape.hidden * (self._number_bytes + self._residual + scaled)

    @property
    def per_token(self) -> int:
        """Bytes per token that the layer keeps: in norms, attention and feed-forward layers."""
        # The masks of two dropouts, a byte for each number.
        dropped = 2 * self.shape.hidden if self.shape.dropout else 0
        norms = self.shape.norms * self.norm
        if self.setup.mixed_precision:
            # Each matrix after a norm keeps a copy of its input in `dtype`. `norm` counts one for
            # each norm: two more for queries, keys and values, one more for a gated layer.
            norms += (3 if self.shape.gated else 2) * self._number_bytes * self.shape.hidden
        # The feed-forward layer: what the activation keeps; if gated, also the factor and product.
        tensors = _KEPT.get(self.shape.activation, 2) + (2 if self.shape.gated else 0)
        numbers = tensors * self.shape.feed_forward_width  # of one expert
        if self.shape.total_experts is not None:  # each expert has an input and output of its own
            numbers += 2 * self.shape.hidden
        feed_forward = self._number_bytes * numbers * self.shape.experts
        # Queries, keys, values and result; all but flash repeat keys and values for all heads.
        width, kv_width = self.shape.attention_width, self.shape.kv_width
        kept_kv_width = kv_width if self.setup.attention.startswith("flash") else width
        attention = self._number_bytes * (2 * width + 2 * kept_kv_width)
        # Norms of the heads of queries and keys keep these in float32 (4) and in `dtype`.
        attention += (4 + self._number_bytes) * (width + kv_width) if self.shape.head_norms else 0
        return norms + attention + feed_forward + dropped

    @property
    def gradients(self) -> int:
        """Bytes per token of the most gradients that the backward pass holds at once."""
        # Those of the output, and of two tensors of the feed-forward layer.
        width = self.shape.feed_forward_width * self.shape.experts  # of all experts of a token
        # Where it is gated, a kept tensor is freed for one of the two, which then adds nothing.
        return self.input + self._number_bytes * width * (1 if self.shape.gated else 2)

    @property
    def per_pair(self) -> int:
        """Bytes per pair of tokens that the layer keeps."""
        if self.setup.attention == "sdpa":  # keeps its mask as numbers
            return self._number_bytes
        if self.setup.attention != "eager":  # flash attention stores no scores
            return 0
        # Probabilities of each head: in `dtype`; under mixed precision or RMSNorm in float32, too.
        in_float32 = self._number_bytes < 4 and (self.setup.mixed_precision or self.shape.gated)
        probabilities = self._number_bytes + (4 if in_float32 else 0)
        # Dropout keeps a mask, a byte each, and its result.
        dropped = 1 + self._number_bytes if self.shape.dropout else 0
        return self.shape.heads * (probabilities + dropped)

    @property
    def mask(self) -> int:
        """Bytes per pair of tokens of the mask that all layers share: booleans or numbers."""
        return {"sdpa": 1, "eager": self._residual}.get(self.setup.attention, 0)


def _shape_of_model(model: CostModel | str) -> CostModel:
    if not isinstance(model, str):
        return model
    # Neither a built-in name nor hidden=768: a configuration.
    if known_shape(model) is None and "=" not in model:
        config = model_configuration(model)
        if config.model_type not in FAMILIES:
            raise InputError(
                f"model {short(model)}: memory is not estimated for model_type "
                f"{config.model_type!r} (only for {', '.join(FAMILIES)})",
                "measure it with batchstat calibrate, or write its shape as hidden=768,layers=12,"
                "heads=12,vocabulary=50257",
            )
        return shape_of(model, config)
    return load_model(model)


def _check_complete(setup: Setup, shape: CostModel) -> None:
    """Raise InputError if the memory of a shape cannot be estimated."""
    lacking = ""  # a key, and of what it gives the memory
    if shape.vocabulary is None:
        lacking, example, purpose = "vocabulary", "50257", "embeddings and loss"
    elif setup.attention == "eager" and shape.heads == 1:  # 1 is the default: nobody stated it
        lacking, example, purpose = "heads", "12", "the scores of eager attention"
    elif shape.experts > 1 and shape.total_experts is None:
        lacking, example, purpose = "total_experts", "8", "the weights of all experts"
    if lacking:
        raise InputError(
            f"{short(setup.model)} has no {lacking}, by which the memory of {purpose} is estimated",
            f"add {lacking}={example}, or measure it with batchstat calibrate",
        )
    if shape.total_experts is not None and setup.mixed_precision:  # its modules keep more
        raise InputError(
            f"{short(setup.model)} is a mixture of experts, whose memory under mixed precision is "
            "not estimated",
            "set mixed_precision=false, or measure it with batchstat calibrate",
        )
