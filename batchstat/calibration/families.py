"""What configurations do not state of a model's memory, by the type of the model."""

from collections.abc import Mapping
from typing import NamedTuple


class Family(NamedTuple):
    """Models built of the same modules in transformers.

    Attributes:
        has_positions: whether embeddings of positions are learned.
        norms: norms of `hidden` width per layer.
        head_norms: whether queries and keys are normalised, each head by itself.
        float32_loss: whether the loss is computed in float32 whatever the weights are.
    """

    has_positions: bool = False
    norms: int = 2
    head_norms: bool = False
    float32_loss: bool = True


FAMILIES: Mapping[str, Family] = {
    "bert": Family(has_positions=True, float32_loss=False),
    "roberta": Family(has_positions=True, float32_loss=False),
    "gpt2": Family(has_positions=True),
    "llama": Family(),
    "mistral": Family(),
    "mixtral": Family(),
    "qwen2": Family(),
    "qwen3": Family(head_norms=True),
    "qwen3_moe": Family(head_norms=True),
    "gemma": Family(),
    "gemma3_text": Family(norms=4, head_norms=True),
}
"""By `model_type`, as of transformers 5.24.0: those whose memory is estimated."""
