"""`Setup`: what is trained, and how, as far as it decides about time and memory."""

import re
from dataclasses import dataclass
from typing import Any

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
"""Options that a function, or a recorded command, decides by itself: they do not apply to it."""

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # `package.module:function`


def _option(default: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    return option(default, help, "Model", metavar, is_common=True, **more)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A model, and how it is trained. Of a function, only `compile` is known of that; of a recorded
    command, nothing. Raises OptionError: an unknown name, or mixed precision of one dtype.
    """

    model: str = _option(
        "",
        "Folder with a config.json, a name on the Hugging Face Hub, or module:function.",
        "MODEL",
    )
    shape: CostModel | None = None  # its shape; None for a function and a program
    dtype: str = _option(
        "float32", "What computes: float32, bfloat16 or float16.", "NAME", values=DTYPES
    )
    mixed_precision: bool = _option(
        False,
        "Keep weights in float32 while `dtype` computes, as bf16: true does with such weights.",
        flags=("--mixed-precision",),
    )
    attention: str = _option(
        "sdpa",
        "Implementation of attention: sdpa, eager, flash_attention_2 or flash_attention_3.",
        "NAME",
        values=ATTENTIONS,
    )
    optimizer: str = _option("adamw", "Optimizer: adamw or sgd.", "NAME", values=OPTIMIZERS)
    gradient_checkpointing: bool = _option(
        False,
        "Compute activations again in the backward pass.",
        flags=("--gradient-checkpointing",),
    )
    compile: bool = _option(
        False, "Compile for each shape with torch.compile.", flags=("--compile",)
    )

    is_recorded: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.mixed_precision and self.dtype == "float32":
            raise OptionError("mixed_precision with dtype=float32", "set dtype=bfloat16 or float16")

    @property
    def is_function(self) -> bool:
        """Whether the model is a function that runs a step."""
        return not self.is_recorded and _FUNCTION.fullmatch(self.model) is not None

    @property
    def is_described(self) -> bool:
        """Whether `dtype`, `optimizer` and the like say how the model is trained."""
        return not (self.is_recorded or self.is_function)
