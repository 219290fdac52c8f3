"""Make slime_rl.json by running slime's own schedule of rollouts on CPU; not part of the tests.

    PYTHONPATH=$SLIME:. python tests/integration/preflight/make_slime_rl.py

It needs what make_slime.py does. The keys and values are those of slime's published scripts for
reinforcement learning, with the shapes of their models; rollouts are ours, and batches and budgets
are smaller. Nothing of slime is copied but its results: for each rank and step, the width and the
tokens of each micro batch.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from make_slime import COMMIT, batch_of, parsed, prepare, schedule
from rollouts import lengths_of_rollouts

SCRIPT: dict[str, Any] = {
    "rollout-batch-size": 8,
    "n-samples-per-prompt": 8,
    "global-batch-size": 64,
    "num-rollout": 3000,
    "apply-chat-template": True,
    "rollout-shuffle": True,
    "balance-data": True,
    "sequence-parallel": True,
    "pipeline-model-parallel-size": 1,
    "use-dynamic-batch-size": True,
    "max-tokens-per-gpu": 400,
    "advantage-estimator": "grpo",
    "lr": 1e-6,
    "lr-decay-style": "constant",
    "actor-num-nodes": 1,
    "actor-num-gpus-per-node": 8,
    "colocate": True,
}
"""What slime's scripts for reinforcement learning pass; all sizes of batches smaller."""

QWEN3_4B = {
    "num-layers": 36,
    "hidden-size": 2560,
    "ffn-hidden-size": 9728,
    "vocab-size": 151936,
    "num-attention-heads": 32,
    "num-query-groups": 8,
    "kv-channels": 128,
}
GLM4_9B = {
    "num-layers": 40,
    "hidden-size": 4096,
    "ffn-hidden-size": 13696,
    "vocab-size": 151552,
    "num-attention-heads": 32,
    "num-query-groups": 2,
}
QWEN3_30B = {
    "num-layers": 48,
    "hidden-size": 2048,
    "ffn-hidden-size": 6144,
    "vocab-size": 151936,
    "num-attention-heads": 32,
    "num-query-groups": 4,
    "kv-channels": 128,
    "num-experts": 128,
    "moe-ffn-hidden-size": 768,
    "moe-router-topk": 8,
    "moe-layer-freq": [1] * 48,
}
MOONLIGHT = {
    "num-layers": 27,
    "hidden-size": 2048,
    "ffn-hidden-size": 11264,
    "vocab-size": 163840,
    "num-attention-heads": 16,
    "kv-channels": 128,
    "multi-latent-attention": True,
    "kv-lora-rank": 512,
    "qk-head-dim": 128,
    "qk-pos-emb-head-dim": 64,
    "v-head-dim": 128,
    "num-experts": 64,
    "moe-ffn-hidden-size": 1408,
    "moe-router-topk": 6,
    "moe-shared-expert-intermediate-size": 2816,
    "moe-layer-freq": [0] + [1] * 26,
}
"""MODEL_ARGS of scripts/models."""

CASES: list[tuple[str, dict[str, Any]]] = [
    ("scripts/run-qwen3-4B.sh", {**QWEN3_4B, "tensor-model-parallel-size": 2}),
    (
        "scripts/run-glm4-9B.sh",
        {**GLM4_9B, "tensor-model-parallel-size": 2, "context-parallel-size": 2}
        | {"max-tokens-per-gpu": 200, "data-pad-size-multiplier": 16},
    ),
    ("scripts/run-qwen3-30B-A3B.sh", {**QWEN3_30B, "tensor-model-parallel-size": 4}),
    (
        "scripts/run-moonlight-16B-A3B.sh",
        {**MOONLIGHT, "tensor-model-parallel-size": 1, "rollout-batch-size": 16}
        | {"num-steps-per-rollout": 4, "global-batch-size": None, "lr-warmup-iters": 5},
    ),
    (
        "scripts/run-moonlight-16B-A3B.sh, with low-rank queries and few dense layers",
        {**MOONLIGHT, "q-lora-rank": 1536, "moe-layer-freq": 3, "tensor-model-parallel-size": 2},
    ),
    (
        "examples/retool/retool_qwen3_4b_rl.sh, without balance-data",
        {**QWEN3_4B, "balance-data": False, "context-parallel-size": 4, "num-rollout": 20}
        | {"max-tokens-per-gpu": 90, "data-pad-size-multiplier": 8, "lr-warmup-fraction": 0.1},
    ),
]


def configuration(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a case."""
    return {key: value for key, value in {**SCRIPT, **values}.items() if value is not None}


def rollouts_of(values: dict[str, Any]) -> list[int]:
    """The lengths of two generations, and of a part of a third."""
    whole = configuration(values)
    of_generation = whole["rollout-batch-size"] * whole["n-samples-per-prompt"]
    return lengths_of_rollouts(2 * of_generation + 5, 700, seed=1)


def sample(length: int) -> SimpleNamespace:
    answer = length - 4
    return SimpleNamespace(tokens=[0] * length, response_length=answer, loss_mask=[1] * answer)


def run(values: dict[str, Any]) -> dict[str, Any]:
    """What slime makes of the rollouts of a case: it trains nothing."""
    from megatron.core import mpu
    from slime.utils.dp_schedule import build_dp_schedule

    args = arguments(values)
    context = args.context_parallel_size
    gpus = args.actor_num_nodes * args.actor_num_gpus_per_node
    ranks = gpus // (args.tensor_model_parallel_size * context)
    sizes = {"dp_size": ranks, "cp_size": context}
    sizes |= {"vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    each = args.rollout_batch_size * args.n_samples_per_prompt
    lengths = rollouts_of(values)
    steps: list[list[Any]] = [[] for _ in range(ranks)]
    for first in range(0, len(lengths) - each + 1, each):
        some = lengths[first : first + each]
        parts, made, counts, _ = build_dp_schedule(
            args,
            sizes,
            some,
            global_batch_size=args.global_batch_size,
            rollout_indices=list(range(each)),
        )
        for rank in range(ranks):
            held = [[some[parts[rank][i]] for i in batch] for batch in made[rank]]
            with (
                patch.object(mpu, "get_context_parallel_world_size", lambda: context),
                patch.object(mpu, "get_context_parallel_rank", lambda: 0),
            ):
                found = [batch_of([sample(length) for length in batch], args) for batch in held]
            batches = iter([width * context, tokens] for width, tokens, _ in found)
            steps[rank] += [[next(batches) for _ in range(count)] for count in counts]
    return {"ranks": ranks, **schedule(args), "batches": steps}


def arguments(values: dict[str, Any]) -> Any:
    """What slime's parser makes of a case, and what Megatron's does of what slime reads."""
    whole = configuration(values)
    args = parsed({key: value for key, value in whole.items() if not isinstance(value, list)})
    defaults = {
        "context_parallel_size": 1,
        "tensor_model_parallel_size": 1,
        "num_experts": None,
        "q_lora_rank": None,
        "moe_layer_freq": 1,
        "lr_warmup_iters": 0,
        "min_lr": 0.0,
        "moe_shared_expert_intermediate_size": None,
        "multi_latent_attention": False,
        "kv_channels": whole["hidden-size"] // whole["num-attention-heads"],
    }
    named = {key.replace("-", "_"): value for key, value in whole.items()}
    shape = {key.replace("-", "_") for model in (QWEN3_30B, MOONLIGHT) for key in model}
    for key in {*defaults, *shape} - {"num_query_groups"}:
        setattr(args, key, named.get(key, defaults.get(key)))
    args.num_query_groups = named.get("num_query_groups", 1)
    steps = args.num_steps_per_rollout
    if steps is not None:
        rollouts = args.rollout_batch_size * args.n_samples_per_prompt
        args.global_batch_size = rollouts // steps
    return args


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    prepare()
    lines = []
    for example, values in CASES:
        case = {"example": example, "values": values, **run(values)}
        lines.append(json.dumps(case, separators=(",", ":")))
    source = json.dumps({"package": f"THUDM/slime@{COMMIT}"})
    text = f'{{"source": {source},\n"cases": [\n' + ",\n".join(lines) + "\n]}\n"
    (Path(__file__).parent / "slime_rl.json").write_text(text)


if __name__ == "__main__":
    main()
