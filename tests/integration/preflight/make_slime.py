"""Make slime.json by running slime itself on CPU; not part of the tests.

    PYTHONPATH=$SLIME:. python tests/integration/preflight/make_slime.py

It needs THUDM/slime at the commit below, with transformers 5.10, ray and megatron-core 0.16. The
keys and values are those of slime's published scripts; data and tokenizer are ours, and batches and
budgets are smaller. Nothing of slime is copied but its results: for each rank and step of the first
epoch, the width, tokens and trained tokens of each micro batch.
"""

import argparse
import ast
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

from verl_corpora import save_answering_tokenizer, save_chats

COMMIT = "624b824a898ab0ec1fcb4d373004c7f3852bf515"
SCRIPT = {
    "rollout-function-path": "slime.rollout.sft_rollout.generate_rollout",
    "input-key": "messages",
    "rollout-shuffle": True,
    "num-epoch": 3,
    "rollout-batch-size": 16,
    "global-batch-size": 16,
    "loss-type": "sft_loss",
    "calculate-per-token-loss": True,
    "disable-compute-advantages-and-returns": True,
    "debug-train-only": True,
    "tensor-model-parallel-size": 1,
    "sequence-parallel": True,
    "pipeline-model-parallel-size": 1,
    "context-parallel-size": 1,
    "use-dynamic-batch-size": True,
    "max-tokens-per-gpu": 300,
    "lr": 1e-5,
    "lr-decay-style": "cosine",
    "min-lr": 1e-6,
    "lr-warmup-fraction": 0.1,
    "actor-num-nodes": 1,
    "actor-num-gpus-per-node": 8,
}
"""What all of slime's SFT scripts pass."""

CASES: list[tuple[str, dict[str, Any]]] = [
    ("scripts/run-qwen3-4B-base-sft.sh", {}),
    (
        "scripts/run-qwen3-235B-A22B-sft.sh",
        {"tensor-model-parallel-size": 4, "expert-model-parallel-size": 32, "actor-num-nodes": 4},
    ),
    (
        "scripts/run-qwen3.5-35B-A3B-sft.sh",
        {"tensor-model-parallel-size": 2, "loss-mask-type": "qwen3_5", "max-tokens-per-gpu": 260},
    ),
    ("examples/retool/retool_qwen3_4b_sft.sh", {"max-tokens-per-gpu": 120, "rollout-seed": 7}),
    (
        "scripts/run-qwen3-4B-base-sft.sh, two steps in a rollout",
        {"rollout-batch-size": 24, "global-batch-size": 12, "actor-num-gpus-per-node": 4}
        | {"rollout-shuffle": False, "loss-mask-type": "qwen3", "data-pad-size-multiplier": 16},
    ),
    (
        "scripts/run-qwen3-4B-base-sft.sh, so many rollouts",
        {"num-epoch": None, "num-rollout": 7, "rollout-batch-size": 20, "global-batch-size": 10}
        | {"actor-num-gpus-per-node": 2, "lr-warmup-fraction": 0.25, "lr-decay-iters": 9},
    ),
]


def configuration(values: dict[str, Any], corpus: Path, tokenizer: Path) -> dict[str, Any]:
    """The arguments of a case."""
    whole = {"hf-checkpoint": str(tokenizer), "prompt-data": str(corpus), **SCRIPT, **values}
    return {key: value for key, value in whole.items() if value is not None}


def parsed(values: dict[str, Any]) -> argparse.Namespace:
    """What slime's own parser makes of arguments, and those of Megatron that slime reads."""
    from slime.utils.arguments import get_slime_extra_args_provider

    parser = argparse.ArgumentParser()
    for name in ("tensor-model-parallel-size", "lr-decay-iters", "lr-warmup-iters"):
        parser.add_argument(f"--{name}", type=int, default=None)
    for name in ("lr", "min-lr", "lr-warmup-fraction"):
        parser.add_argument(f"--{name}", type=float, default=None)
    parser.add_argument("--lr-decay-style")
    get_slime_extra_args_provider()(parser)
    flags = [
        f"--{key}" if value is True else f"--{key}={value}"
        for key, value in values.items()
        if value is not False
    ]
    return parser.parse_known_args(flags)[0]


def run(values: dict[str, Any]) -> dict[str, Any]:
    """What slime makes of arguments: it trains nothing."""
    from slime.rollout import sft_rollout
    from slime.rollout.data_source import RolloutDataSourceWithBuffer
    from slime.utils.dp_schedule import build_dp_schedule

    args = parsed(values)
    gpus = args.actor_num_nodes * args.actor_num_gpus_per_node
    ranks = gpus // args.tensor_model_parallel_size
    source = RolloutDataSourceWithBuffer(args)
    sft_rollout.TOKENIZER = None
    per_epoch = len(source) // args.rollout_batch_size
    sizes = {"dp_size": ranks, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    steps: list[list[Any]] = [[] for _ in range(ranks)]
    for rollout in range(per_epoch):
        samples = sft_rollout.generate_rollout(args, rollout, source)
        samples = [each for one in samples for each in (one if isinstance(one, list) else [one])]
        parts, made, counts, _ = build_dp_schedule(
            args,
            sizes,
            [len(sample.tokens) for sample in samples],
            global_batch_size=args.global_batch_size,
            rollout_indices=[sample.index for sample in samples],
        )
        for rank in range(ranks):
            held = [[samples[parts[rank][i]] for i in batch] for batch in made[rank]]
            batches = iter([batch_of(each, args) for each in held])
            steps[rank] += [[next(batches) for _ in range(count)] for count in counts]
    args.num_rollout = args.num_rollout or per_epoch * args.num_epoch
    return {"ranks": ranks, "samples": len(source), **schedule(args), "batches": steps}


def batch_of(samples: list[Any], args: argparse.Namespace) -> list[Any]:
    """Width of a micro batch, tokens of each sample, and those that carry loss."""
    import torch
    from megatron.core import mpu
    from megatron.core.packed_seq_params import PackedSeqParams

    needed = {"torch": torch, "mpu": mpu, "F": torch.nn.functional, "Callable": Callable}
    needed["slice_with_cp"] = function_of("cp_utils", "slice_with_cp", dict(needed))
    needed["accelerator"] = SimpleNamespace(device=lambda: "cpu")
    get_batch = function_of("data", "get_batch", {**needed, "PackedSeqParams": PackedSeqParams})
    mpu.set_tensor_model_parallel_world_size(args.tensor_model_parallel_size)
    content = {
        "tokens": [torch.tensor(sample.tokens) for sample in samples],
        "loss_masks": [torch.tensor(sample.loss_mask) for sample in samples],
        "total_lengths": [len(sample.tokens) for sample in samples],
        "response_lengths": [sample.response_length for sample in samples],
    }

    class Once:
        def get_next(self, keys: list[str]) -> dict[str, Any]:
            return {key: content.get(key) for key in keys}

    made = get_batch(Once(), list(content), args.data_pad_size_multiplier)
    trained = sum(sum(sample.loss_mask) for sample in samples)
    return [made["tokens"].shape[-1], content["total_lengths"], trained]


def function_of(module: str, name: str, needed: dict[str, Any]) -> Any:
    """One function of slime's Megatron backend, whose modules need a GPU to be imported."""
    import slime

    path = Path(slime.__path__[0]) / "backends" / "megatron_utils" / f"{module}.py"
    tree = ast.parse(path.read_text())
    found = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    head = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module([*head, *found], []), str(path), "exec"), needed)  # noqa: S102
    return needed[name]


def schedule(args: argparse.Namespace) -> dict[str, int]:
    """Steps, and those before the learning rate is all of it."""
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    needed = {"OptimizerParamScheduler": OptimizerParamScheduler}
    build = function_of("model", "get_optimizer_param_scheduler", needed)
    others = {"lr_warmup_init": 0.0, "lr_wsd_decay_iters": None, "lr_wsd_decay_style": "linear"}
    decay = {"start_weight_decay": 0.1, "end_weight_decay": 0.1}
    more = {"weight_decay_incr_style": "constant", "use_checkpoint_opt_param_scheduler": False}
    for key, value in {**others, **decay, **more, "override_opt_param_scheduler": False}.items():
        setattr(args, key, value)
    group: dict[str, Any] = {"lr_mult": 1.0, "wd_mult": 1.0}
    made = build(args, SimpleNamespace(param_groups=[group]))
    warm = 0
    while math.isclose(made.num_steps, warm * args.global_batch_size) and (
        made.num_steps < made.lr_warmup_steps
    ):
        made.step(increment=args.global_batch_size)
        warm += 1
    return {"steps": args.train_iters, "warmup": warm}


def keys() -> list[str]:
    """All of slime's own arguments."""
    from slime.utils.arguments import get_slime_extra_args_provider

    parser = argparse.ArgumentParser(add_help=False)
    get_slime_extra_args_provider()(parser)
    return sorted({flag for action in parser._actions for flag in action.option_strings})


def prepare() -> None:
    """Start Megatron with one process, without the server for generation, which SFT never calls."""
    import torch.distributed as dist
    from megatron.core import mpu

    servers = ModuleType("slime.backends.sglang_utils.arguments")
    for name in ("sglang_parse_args", "validate_args", "add_sglang_arguments"):
        setattr(servers, name, lambda *_: None)
    sys.modules[servers.__name__] = servers
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29633")
    dist.init_process_group("gloo", rank=0, world_size=1)
    mpu.initialize_model_parallel()


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    prepare()
    lines = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = save_answering_tokenizer(folder / "tokenizer")
        corpus = save_chats(folder, all_answered=True)
        for example, values in CASES:
            found = run(configuration(values, corpus, tokenizer))
            case = {"example": example, "values": values, **found}
            lines.append(json.dumps(case, separators=(",", ":")))
    source = {"package": f"THUDM/slime@{COMMIT}"}
    head = f'{{"source": {json.dumps(source)},\n"keys": {json.dumps(keys())},\n'
    text = f'{head}"cases": [\n' + ",\n".join(lines) + "\n]}\n"
    (Path(__file__).parent / "slime.json").write_text(text)


if __name__ == "__main__":
    main()
