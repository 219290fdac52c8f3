"""Estimated compute of a transformer, from its shape."""

from dataclasses import dataclass, fields
from math import ceil
from typing import Any

from batchstat.calibration.known_models import (
    FAMILIES,
    KNOWN_MODELS,
    WITH_POSITIONS,
    known_shape,
    load_configuration,
    not_loaded,
)
from batchstat.errors import InputError, OptionError, arguments_named, did_you_mean
from batchstat.parameters import MAX_INT, check_fields, described, documented, read_parameters
from batchstat.records import Record, told
from batchstat.words import short


@dataclass(frozen=True, kw_only=True)
class BatchCost:
    """The work of a batch in one unit: tokens, a model's operations or a device's picoseconds."""

    per_step: int = 0
    per_batch: int = 0
    per_token: int = 1
    per_pair: int = 0
    per_shape: int = 0
    memory: "BatchMemory | None" = None  # what a batch takes in memory


TOTAL_TOKENS = BatchCost()  # the work where neither a model nor a device is known: 1 for each token


@dataclass(frozen=True, kw_only=True)
class BatchMemory:
    """The peak memory of training on a batch, in bytes."""

    fixed: int
    per_token: float  # bytes of each token of its rows, padding included
    per_pair: float  # bytes of each pair of tokens, for attention that stores its scores
    least: int

    def peak(self, varying: float) -> int:
        """Return the bytes at the peak, given the bytes of all tokens and pairs together."""
        return max(self.least, self.fixed + ceil(varying))


@documented
@described(
    """The shape of a transformer, and the floating-point operations of its forward pass.

    A row of w tokens costs `linear` × w + `quadratic` × w²: projections, feed-forward layers and
    the output over the vocabulary per token; scores and values of attention per pair of tokens. A
    multiplication and an addition are two operations; causal masks, norms and biases are not
    counted. Training costs three times as much, so ratios are the same. Source: Kaplan et al.,
    Scaling Laws for Neural Language Models (2020), table 1.

    Example:
        >>> model = batchstat.CostModel(hidden=768, layers=12)
        >>> batchstat.compare([5, 90, 12, 100], batch_size=2, model=model).best.label
        'bucketed'

    Raises:
        OptionError: a number below 1 or not whole, more `kv_heads` than `heads`, or more `experts`
            than `total_experts`.
    """
)
class CostModel(Record, kw_only=True):
    hidden: int = told("width of the model.")
    layers: int = told("number of layers.")
    intermediate: int | None = told(
        "width of a feed-forward layer; None for 4 × `hidden`.", default=None
    )
    vocabulary: int | None = told("size of the output; None for no output layer.", default=None)
    heads: int = told("number of attention heads.", default=1)
    kv_heads: int | None = told(
        "heads of keys and values, fewer than `heads` in grouped-query attention.", default=None
    )
    head_dim: int | None = told("width of a head; None for `hidden` / `heads`.", default=None)
    experts: int = told(
        "feed-forward layers that a token passes through, as in a mixture of experts.", default=1
    )
    gated: bool = told(
        "whether a feed-forward layer has three matrices (SwiGLU) instead of two.", default=False
    )
    total_experts: int | None = told(
        "feed-forward layers that there are, of which a token passes through `experts`; None for "
        "as many. This and all that follow count for memory only.",
        default=None,
    )
    tied: bool = told(
        "whether the output over the vocabulary has the weights of the input.", default=False
    )
    positions: int | None = told("learned embeddings of positions; None for none.", default=None)
    norms: int = told("norms of `hidden` width per layer.", default=2)
    head_norms: bool = told(
        "whether the heads of queries and keys are normalised, as in Qwen3.", default=False
    )
    activation: str = told(
        "activation of a feed-forward layer, as transformers names it.", default="gelu"
    )
    dropout: bool = told("whether the model drops activations at random.", default=False)
    float32_loss: bool = told(
        "whether the loss is computed in float32 whatever the weights are.", default=True
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.kv_heads is not None and self.kv_heads > self.heads:
            raise OptionError(f"kv_heads={self.kv_heads}", f"must be at most heads={self.heads}")
        if self.total_experts is not None and self.total_experts < self.experts:
            raise OptionError(
                f"total_experts={self.total_experts}", f"must be at least experts={self.experts}"
            )

    @property
    def attention_width(self) -> int:
        """Width of the queries of all heads."""
        return self.hidden if self.head_dim is None else self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of the keys of all heads, and of the values."""
        return self.attention_width * (self.kv_heads or self.heads) // self.heads

    @property
    def parameters(self) -> int:
        """Weights of matrices (all experts) and embeddings; not biases and norms, below 1 %."""
        attention = 2 * self.hidden * (self.attention_width + self.kv_width)
        matrices = 3 if self.gated else 2  # of a feed-forward layer
        feed_forward = matrices * self.hidden * self.feed_forward_width
        # Rows of `hidden` weights: of the input, of the output unless tied, and of positions.
        embedding_rows = (self.vocabulary or 0) * (1 if self.tied else 2) + (self.positions or 0)
        experts = self.total_experts or self.experts
        return self.layers * (attention + feed_forward * experts) + self.hidden * embedding_rows

    @property
    def feed_forward_width(self) -> int:
        """Width of a feed-forward layer."""
        return self.intermediate or 4 * self.hidden

    @property
    def linear(self) -> int:
        """Operations per token: those of attention and feed-forward layers, and of the output."""
        # Two operations, a multiplication and an addition, for each weight of a matrix.
        projection = 2 * self.hidden * self.attention_width
        # Queries and output, then keys and values, which may have fewer heads.
        attention = 2 * projection + 2 * projection * (self.kv_heads or self.heads) // self.heads
        matrices = 3 if self.gated else 2
        feed_forward = 2 * matrices * self.hidden * self.feed_forward_width * self.experts
        return self.layers * (attention + feed_forward) + 2 * self.hidden * (self.vocabulary or 0)

    @property
    def quadratic(self) -> int:
        """Operations per pair of tokens of a row: two for the score, two for the weighted value."""
        return 4 * self.layers * self.attention_width

    @property
    def cost(self) -> BatchCost:
        """The operations of a batch."""
        return BatchCost(per_token=self.linear, per_pair=self.quadratic)


def as_model(model: CostModel | str | None) -> CostModel | None:
    """Return a `CostModel` or None as it is; a model in any form that `load_model` takes is loaded.
    Raises OptionError: anything else than a CostModel or text, or text that is wrong by itself;
    InputError: no such model, or a configuration that cannot be read.
    """
    if model is None or isinstance(model, CostModel):
        return model
    return load_model(model)


@arguments_named()
def load_model(written: str) -> CostModel:
    """Return the model given by the name of a built-in shape (`gpt2`), by `hidden=768,layers=12`,
    by a config.json or the folder of one, or by a name on the Hugging Face Hub.

    Example:
        >>> batchstat.load_model("gpt2").layers
        12

    Raises:
        OptionError: an unknown or missing key, or a value that is not a number.
        InputError: no such model, or a configuration that cannot be read.
    """
    if not isinstance(written, str):
        raise OptionError(f"model={short(written)}", "must be a CostModel, or the name of a model")
    # For gpt2, the built-in text "hidden=768,layers=12,…"; None for a name that is not built in.
    shape_text = known_shape(written) or written
    if "=" not in shape_text:  # neither a built-in name nor a shape: a configuration
        return shape_of(written, model_configuration(written))
    fields_by_name = {field.name: field for field in fields(CostModel)}
    # "model" is the kind and the name of what has the parameters, for messages.
    parameters: dict[str, Any] = read_parameters("model", "model", shape_text, fields_by_name)
    missing = [key for key in ("hidden", "layers") if key not in parameters]
    if missing:
        raise OptionError(f"model {written!r} has no {missing[0]}", "write hidden=768,layers=12")
    return CostModel(**parameters)


def model_configuration(written: str) -> Any:
    """Load a configuration of transformers for its shape. Raises InputError."""
    owner, _, name = written.lower().rpartition("/")
    # A built-in name may be meant: any similar one; for owner/name on the hub only an equal one.
    candidates = {name} & KNOWN_MODELS.keys() if owner else KNOWN_MODELS
    near = did_you_mean(name, candidates)  # such as "Did you mean gpt2?"
    return load_configuration(written, _ADVICE, unreachable=f"{near} Or {_ADVICE}" if near else "")


def shape_of(written: str, config: Any) -> CostModel:
    """Return the shape that a configuration describes. Raise InputError for a wrong size."""
    text = config.get_text_config()  # of a model with pictures too, its part for text
    activation = _first(text, ("hidden_activation", "hidden_act"))
    # T5 states whether its layers are gated; for other models the activation tells.
    gated = getattr(text, "is_gated_act", activation in _GATED_ACTIVATIONS)
    if not isinstance(gated, bool):
        raise _refusal(written, f"is_gated_act is {short(gated)}: must be true or false")
    sizes: dict[str, Any] = {}
    for field_name, names in _NAMES.items():  # `names`: as families of models name this size
        size = _size(written, text, names, needed=field_name in ("hidden", "layers"))
        sizes |= {} if size is None else {field_name: size}
    try:
        return CostModel(**sizes, gated=gated, **_memory_fields(written, text))
    except OptionError as error:
        raise _refusal(written, str(error)) from None


def _memory_fields(written: str, text: Any) -> dict[str, Any]:
    """Return the fields that count for memory only; none for a type whose memory is not known."""
    family = FAMILIES.get(text.model_type)
    if family is None:
        return {}
    facts: dict[str, Any] = {
        **family,
        "tied": bool(text.tie_word_embeddings),
        "activation": str(_first(text, ("activation_function", "hidden_activation", "hidden_act"))),
        "dropout": any(getattr(text, name, None) for name in _DROPOUT),
    }
    if text.model_type in WITH_POSITIONS:
        facts["positions"] = _size(written, text, ("max_position_embeddings",))
    if getattr(text, "num_experts_per_tok", None) is not None:  # a mixture of experts
        facts["total_experts"] = _size(written, text, ("num_local_experts", "num_experts"))
    return facts


def _first(config: Any, names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := getattr(config, name, None))), None)


def _size(written: str, config: Any, names: tuple[str, ...], *, needed: bool = False) -> int | None:
    """Return the first size that a configuration states under one of the names; None if none."""
    for name in names:
        size = getattr(config, name, None)
        is_int = type(size) is int  # isinstance takes True for an int
        if size is None or (is_int and size == 0 and not needed):
            continue
        if not is_int or not 1 <= size <= MAX_INT:
            raise _refusal(written, f"{name} is {short(size)}: must be a whole number from 1")
        return int(size)
    if needed:
        raise _refusal(written, f"{names[0]} is missing")
    return None


def _refusal(written: str, reason: str) -> InputError:
    return not_loaded(written, reason, _ADVICE)


_ADVICE = "write hidden=768,layers=12, or a name from batchstat explain model"

_NAMES = {
    "hidden": ("hidden_size",),
    "layers": ("num_hidden_layers",),
    # First: a mixture of experts such as Qwen3's states the size of dense layers, too.
    "intermediate": ("moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    "vocabulary": ("vocab_size",),
    "heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "experts": ("num_experts_per_tok",),
}
"""Fields of `CostModel` with their names in configurations; the first that is set applies."""

_GATED_ACTIVATIONS = ("silu", "swish", "gelu_pytorch_tanh")
"""Activations of model families with gated feed-forward layers: LLaMA, Qwen, Gemma."""

_DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop", "attn_pdrop")
"""Names of probabilities of dropout in configurations; some families have none."""
