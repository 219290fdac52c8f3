"""The work of a sample by which slime's balance_data distributes batches over the ranks.

Checked against slime 624b824: `calculate_fwd_flops` of slime/utils/flops_utils.py, which is
`token_work` x length + `pair_work` x length² of a sample; where Megatron derives a size
(kv_channels), as it does.
"""

import json
from collections.abc import Callable, Mapping
from math import gcd
from typing import Any

from batchstat.errors import OptionError, short

_Size = Callable[[str], int]


def work_of_shape(values: Mapping[str, Any], where: str) -> tuple[int, int]:
    """Return the work of a token and of a pair of tokens, without their common factor.

    Raises:
        OptionError: a size of the model is missing, or not readable.
    """

    def size(key: str) -> int:
        if values[key] is None:
            raise OptionError(
                f"{where} has no {key}, and balance_data estimates work by the shape of the model: "
                "add the MODEL_ARGS of its script"
            )
        return int(values[key])

    layers, hidden = size("num_layers"), size("hidden_size")
    attention, pair = _attention(values, size, hidden)
    token = layers * (attention + 2 * hidden * hidden)
    token += 6 * hidden * _ffn(values, where, size, layers) + 2 * hidden * size("vocab_size")
    common = gcd(token, pair * layers)
    return token // common, pair * layers // common


def _attention(values: Mapping[str, Any], size: _Size, hidden: int) -> tuple[int, int]:
    """Return the projections' work of a token, and the attention's of a pair, in one layer."""
    heads = size("num_attention_heads")
    if not values["multi_latent_attention"]:
        channels = values["kv_channels"] or hidden // heads
        query = 2 * hidden * heads * channels
        return query + 4 * hidden * size("num_query_groups") * channels, 2 * heads * channels
    nope, rope, value = size("qk_head_dim"), size("qk_pos_emb_head_dim"), size("v_head_dim")
    rank, query = size("kv_lora_rank"), 2 * hidden * heads * (nope + rope)
    if (low := values["q_lora_rank"]) is not None:
        query = 2 * low * (hidden + heads * (nope + rope))
    return query + 2 * (rank * (hidden + heads * (nope + value)) + hidden * rope), heads * (
        nope + rope + value
    )


def _ffn(values: Mapping[str, Any], where: str, size: _Size, layers: int) -> int:
    """Return the width of all layers' feed-forward parts that a token passes, together."""
    if values["num_experts"] is None:
        return layers * size("ffn_hidden_size")
    dense = _dense_layers(values["moe_layer_freq"], where, layers)
    width = size("moe_ffn_hidden_size") * size("moe_router_topk")
    width += values["moe_shared_expert_intermediate_size"] or 0
    return (dense * size("ffn_hidden_size") if dense else 0) + (layers - dense) * width


def _dense_layers(frequency: Any, where: str, layers: int) -> int:
    """Return how many layers have no experts."""
    found = frequency
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            found = None
    if isinstance(found, list) and len(found) == layers and set(found) <= {0, 1}:
        return found.count(0)
    if isinstance(found, int) and found > 0:
        return sum(layer % found != 0 for layer in range(layers))
    raise OptionError(
        f"{where}: moe_layer_freq={short(frequency)} is not read: write a number, or a list of 0 "
        f"and 1 for {layers} layers"
    )
