"""`Setup`: what is trained, and how, as far as it decides about time and memory."""

import re
from dataclasses import dataclass

from batchstat.calibration.cost_model import CostModel
from batchstat.errors import OptionError
from batchstat.parameters import check_fields, option

DTYPES = {
    "float32": "4 bytes per number",
    "bfloat16": "2 bytes per number, with the range of float32",
    "float16": "2 bytes per number",
}
ATTENTIONS = {
    "sdpa": "torch's scaled_dot_product_attention",
    "eager": "stores the scores of all pairs of tokens",
    "flash_attention_2": "keeps the samples of a row apart; needs the package flash-attn",
    "flash_attention_3": "keeps the samples of a row apart; needs the package flash-attn-3",
}
OPTIMIZERS = {
    "adamw": "two numbers per weight; fused, as trainers run it",
    "sgd": "none, as without momentum",
}

OF_MODELS = ("dtype", "mixed_precision", "attention", "optimizer", "gradient_checkpointing")
"""What a function or a recorded command decides by itself."""

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_MODEL = "Model"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A model, and how it is trained. Of a function, that is known only as far as `compile`; of a
    command that was recorded, not at all.

    Attributes:
        model: its configuration, the `module:function` that runs a step, or the program that was
            recorded.
        shape: its shape; None for a function and a program.
        dtype: what computes: float32, bfloat16 or float16.
        mixed_precision: whether weights stay in float32 while `dtype` computes.
        attention: implementation of attention, as transformers names it.
        optimizer: adamw, or sgd without momentum.
        gradient_checkpointing: whether activations are computed again in the backward pass.
        compile: whether torch.compile compiles the model for each shape.
        is_recorded: whether the times are those of a recorded run.

    Raises:
        OptionError: an unknown name, or mixed precision of one dtype.
    """

    model: str = option(
        "",
        "Folder with a config.json, a name on the Hugging Face Hub, or module:function.",
        _MODEL,
        "MODEL",
        is_common=True,
    )
    shape: CostModel | None = None
    dtype: str = option(
        "float32",
        "What computes: float32, bfloat16 or float16.",
        _MODEL,
        "NAME",
        values=DTYPES,
        is_common=True,
    )
    mixed_precision: bool = option(
        False,
        "Keep weights in float32 while `dtype` computes, as bf16: true does with such weights.",
        _MODEL,
        flags=("--mixed-precision",),
        is_common=True,
    )
    attention: str = option(
        "sdpa",
        "Implementation of attention: sdpa, eager, flash_attention_2 or flash_attention_3.",
        _MODEL,
        "NAME",
        values=ATTENTIONS,
        is_common=True,
    )
    optimizer: str = option(
        "adamw", "Optimizer: adamw or sgd.", _MODEL, "NAME", values=OPTIMIZERS, is_common=True
    )
    gradient_checkpointing: bool = option(
        False,
        "Compute activations again in the backward pass.",
        _MODEL,
        flags=("--gradient-checkpointing",),
        is_common=True,
    )
    compile: bool = option(
        False,
        "Compile for each shape with torch.compile.",
        _MODEL,
        flags=("--compile",),
        is_common=True,
    )

    is_recorded: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.mixed_precision and self.dtype == "float32":
            raise OptionError("mixed_precision with dtype=float32: set dtype=bfloat16 or float16")

    @property
    def is_function(self) -> bool:
        """Whether the model is a function that runs a step."""
        return not self.is_recorded and _FUNCTION.fullmatch(self.model) is not None

    @property
    def is_described(self) -> bool:
        """Whether it says how the model is trained."""
        return not (self.is_recorded or self.is_function)
