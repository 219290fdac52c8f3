"""Make verl_ppo.json by running verl's PPO trainers on CPU, a process per rank; not a test.

    python tests/integration/preflight/make_verl_ppo.py

It needs verl 0.9.1 with ray, TransferQueue, torch 2.13, torchdata 0.11, tensordict 0.10 and
megatron-core 0.16. The keys and values are those of verl's published examples, at one commit of
verl-project/verl; rollouts are ours, and batches and budgets are smaller. Nothing of verl is copied
but the names of its keys and its results: for each rank and step, the width and the tokens of each
micro batch.
"""

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from make_verl import COMMIT, warmup, width
from rollouts import lengths_of_rollouts

MOST_RANKS = 8
ACTOR = "actor_rollout_ref.actor"
MEGATRON = f"{ACTOR}.megatron"
N = "actor_rollout_ref.rollout.n"
SMALLER = {
    f"{ACTOR}.use_dynamic_bsz": True,
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
    "data.train_batch_size": 16,
    f"{ACTOR}.ppo_mini_batch_size": 4,
    f"{ACTOR}.ppo_max_token_len_per_gpu": 400,
    "trainer.nnodes": 1,
}
GRPO = {"algorithm.adv_estimator": "grpo", "trainer.balance_batch": True, N: 5}
SP = "fsdp_config.ulysses_sequence_parallel_size"

CASES: list[tuple[str, dict[str, Any], int]] = [
    (
        "grpo_trainer/run_qwen3_4b_fsdp.sh",
        {**GRPO, f"{ACTOR}.ppo_mini_batch_size": 8, "trainer.n_gpus_per_node": 8}
        | {"trainer.critic_warmup": 0, "trainer.total_epochs": 15},
        8,
    ),
    (
        "grpo_trainer/run_qwen3_8b_fsdp.sh",
        {**GRPO, "trainer.n_gpus_per_node": 4, "trainer.total_epochs": 15},
        4,
    ),
    (
        "grpo_trainer/run_qwen3_8b_fsdp.sh, DEVICE=npu",
        {**GRPO, f"{ACTOR}.ppo_mini_batch_size": 16, f"{ACTOR}.{SP}": 4}
        | {"trainer.n_gpus_per_node": 8, "trainer.total_epochs": 15}
        | {f"{ACTOR}.ppo_max_token_len_per_gpu": 90},
        2,
    ),
    (
        "grpo_trainer/run_seed_oss_36b_fsdp.sh",
        {**GRPO, N: 2, f"{ACTOR}.strategy": "fsdp2", "trainer.n_gpus_per_node": 4}
        | {"trainer.critic_warmup": 0, "trainer.total_epochs": 15}
        | {f"{ACTOR}.ppo_mini_batch_size": 2},
        4,
    ),
    (
        "grpo_trainer/run_qwen3_8b_megatron.sh",
        {**GRPO, "model_engine": "megatron", f"{MEGATRON}.tensor_model_parallel_size": 2}
        | {f"{MEGATRON}.pipeline_model_parallel_size": 2, "trainer.n_gpus_per_node": 8}
        | {"trainer.total_epochs": 15},
        2,
    ),
    (
        "grpo_trainer/run_qwen3_8b_megatron.sh, with context parallelism",
        {**GRPO, "model_engine": "megatron", f"{MEGATRON}.tensor_model_parallel_size": 2}
        | {f"{MEGATRON}.context_parallel_size": 2, "trainer.n_gpus_per_node": 4}
        | {f"{ACTOR}.ppo_max_token_len_per_gpu": 210},
        1,
    ),
    (
        "ppo_trainer/run_qwen3_8b_fsdp.sh, two epochs of each generation",
        {"algorithm.adv_estimator": "gae", N: 1, "trainer.critic_warmup": 3}
        | {
            "data.train_batch_size": 48,
            f"{ACTOR}.ppo_mini_batch_size": 12,
            f"{ACTOR}.ppo_epochs": 2,
        }
        | {"critic.ppo_mini_batch_size": 24, "trainer.n_gpus_per_node": 3}
        | {f"{ACTOR}.optim.lr_warmup_steps_ratio": 0.1, "trainer.total_epochs": 15},
        3,
    ),
    (
        "gspo_trainer/run_qwen3_8b_fsdp.sh, padded",
        {**GRPO, N: 16, f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean", f"{ACTOR}.{SP}": 2}
        | {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 2}
        | {f"{ACTOR}.strategy": "fsdp2", "trainer.n_gpus_per_node": 4, "trainer.total_epochs": 10}
        | {f"{ACTOR}.pad_to_length": True, f"{ACTOR}.fsdp_config.pad_to_length_bucket": 64}
        | {"trainer.total_training_steps": 12, f"{ACTOR}.optim.lr_warmup_steps": 2},
        2,
    ),
    (
        "rloo_trainer/run_qwen3_8b_fsdp.sh, trainer.use_v1=False",
        {**GRPO, "algorithm.adv_estimator": "rloo", "trainer.use_v1": False}
        | {"trainer.n_gpus_per_node": 4, "trainer.total_epochs": 15},
        4,
    ),
    (
        "rloo_trainer/run_qwen3_8b_fsdp.sh, not balanced",
        {**GRPO, "algorithm.adv_estimator": "rloo", "trainer.use_v1": False}
        | {"trainer.n_gpus_per_node": 2, "trainer.balance_batch": False}
        | {"data.gen_batch_size": 12, "trainer.total_epochs": 15},
        2,
    ),
]


def configuration(values: dict[str, Any]) -> dict[str, Any]:
    """The keys of a case, by their full names."""
    return {**SMALLER, **values}


def rollouts_of(values: dict[str, Any]) -> list[int]:
    """The lengths of two generations, and of a part of a third."""
    whole = configuration(values)
    prompts = whole.get("data.gen_batch_size", whole["data.train_batch_size"])
    budget = whole[f"{ACTOR}.ppo_max_token_len_per_gpu"]
    return lengths_of_rollouts(2 * prompts * whole[N] + 3, min(budget, 300))


def composed(values: dict[str, Any]) -> Any:
    """What hydra makes of verl's own files."""
    import verl
    from hydra import compose, initialize_config_dir

    folder = Path(verl.__path__[0]) / "trainer" / "config"
    pairs = [
        f"{key}={value}" if key == "model_engine" else f"++{key}={json.dumps(value)}"
        for key, value in configuration(values).items()
    ]
    with initialize_config_dir(str(folder), version_base=None):
        return compose("ppo_trainer", overrides=pairs)


def run(rank: int, folder: Path) -> None:
    """Write what verl makes of each case on one rank: it trains nothing."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29619", VERL_LOGGING_LEVEL="ERROR")
    import torch.distributed as dist
    from verl.utils import seqlen_balancing

    seqlen_balancing.get_device_name = lambda: "cpu"  # verl has no platform for it
    dist.init_process_group("gloo", rank=rank, world_size=MOST_RANKS)
    groups = {ranks: dist.new_group(list(range(ranks))) for ranks in {each[2] for each in CASES}}
    for number, (_, values, ranks) in enumerate(CASES):
        if rank < ranks:
            found = result(values, rank, ranks, groups[ranks])
            (folder / f"{number}-{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def result(values: dict[str, Any], rank: int, ranks: int, group: Any) -> dict[str, Any]:
    """What verl makes of a case on one rank."""
    from verl.trainer.ppo.utils import need_critic

    config = composed(values)
    is_v1 = config.trainer.use_v1
    lengths = rollouts_of(values)
    prompts = config.data.train_batch_size if is_v1 else config.data.gen_batch_size
    each = (prompts or config.data.train_batch_size) * config.actor_rollout_ref.rollout.n
    trainer = bare_trainer(config, ranks)
    trainer.use_critic = need_critic(config)
    schedule = schedule_of(trainer, len(lengths) // config.actor_rollout_ref.rollout.n)
    made = []
    for first in range(0, len(lengths) - each + 1, each):
        some = lengths[first : first + each]
        tokens, facts = (balanced_v1 if is_v1 else balanced_v0)(trainer, some)
        own = tokens[rank * len(tokens) // ranks : (rank + 1) * len(tokens) // ranks]
        made.append(list(steps(config, own, facts, rank, ranks, group)))
    return {**schedule, "batches": made}


def bare_trainer(config: Any, ranks: int) -> Any:
    """A trainer of which nothing has started."""
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    kind = PPOTrainerSync if config.trainer.use_v1 else RayPPOTrainer
    trainer = kind.__new__(kind)
    trainer.config = config
    trainer.trainer_mode, trainer.parameter_sync_step, trainer.global_steps = "sync", 1, 99
    trainer.use_prefix_grouper, trainer.distillation_config = False, None
    trainer.tokenizer = SimpleNamespace(eos_token_id=0)
    trainer.processor = None
    workers = SimpleNamespace(_dispatch_info={"actor": list(range(ranks))})
    trainer.actor_rollout_wg = workers
    return trainer


def schedule_of(trainer: Any, prompts: int) -> dict[str, Any]:
    """Generations that are trained on, and those before the learning rate is all of it."""
    from torch.utils.data import SequentialSampler
    from verl.trainer.ppo import ray_trainer
    from verl.trainer.ppo.v1 import trainer_base

    config = trainer.config
    config.data.dataloader_num_workers = 0
    dataset = list(range(prompts))
    module = trainer_base if config.trainer.use_v1 else ray_trainer
    if config.trainer.use_v1:
        with (
            patch.object(module, "create_rl_dataset", lambda *_, **__: dataset),
            patch.object(module, "create_rl_sampler", lambda *_: SequentialSampler(dataset)),
        ):
            trainer._init_dataloader()
        per_epoch = trainer.steps_per_epoch
    else:
        trainer._create_dataloader(dataset, dataset, list, SequentialSampler(dataset))
        per_epoch = len(trainer.train_dataloader)
    number = min(trainer.total_training_steps, per_epoch * config.trainer.total_epochs)
    trained = sum(config.trainer.critic_warmup <= step for step in range(1, number + 1))
    is_megatron = config.actor_rollout_ref.actor.strategy == "megatron"
    warm = 0 if is_megatron else warmup(config.actor_rollout_ref.actor.optim)
    return {"generations": trained, "warmup": warm}


class _AskedError(Exception):
    """What a worker is asked for."""


def asked(update: Any, batch: Any, workers: Any) -> Any:
    """What the trainer passes to the workers of the actor."""

    def update_actor(given: Any) -> None:
        raise _AskedError(given)

    workers.update_actor = update_actor
    try:
        update(batch)
    except _AskedError as found:
        return found.args[0]
    raise AssertionError("no worker was asked")


def balanced_v1(trainer: Any, lengths: list[int]) -> tuple[list[int], dict[str, Any]]:
    """Lengths in the sequence of all ranks, and how each is told to train."""
    from transfer_queue import KVBatchMeta

    tags = [{"seq_len": length} for length in lengths]
    keys = [str(number) for number in range(len(lengths))]
    batch = trainer._balance_batch(KVBatchMeta(keys=keys, tags=tags, partition_id="train"), {})
    given = asked(lambda batch: trainer._update_actor(batch, {}), batch, trainer.actor_rollout_wg)
    return [lengths[int(key)] for key in given.keys], dict(given.extra_info)


def balanced_v0(trainer: Any, lengths: list[int]) -> tuple[list[int], dict[str, Any]]:
    """The same of the trainer without use_v1."""
    import torch
    from verl import DataProto
    from verl.utils import tensordict_utils as tu

    n, most = len(lengths), max(lengths)
    mask = (torch.arange(most) < torch.tensor(lengths)[:, None]).long()
    batch = DataProto.from_single_dict(
        {
            "input_ids": torch.zeros(n, most, dtype=torch.long),
            "attention_mask": mask,
            "response_mask": mask,
            "position_ids": torch.arange(most).repeat(n, 1),
        }
    )
    if trainer.config.trainer.balance_batch:
        trainer._balance_batch(batch, {})
    given = asked(trainer._update_actor, batch, trainer.actor_rollout_wg)
    names = ("mini_batch_size", "epochs", "seed", "dataloader_kwargs")
    return given["input_ids"].offsets().diff().tolist(), {
        name: tu.get(given, name) for name in names
    }


def steps(
    config: Any, lengths: list[int], facts: dict[str, Any], rank: int, ranks: int, group: Any
) -> Iterator[list[Any]]:
    """The micro batches of each step of one rank: width, and tokens of each rollout."""
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.workers.engine_workers import TrainingWorker

    actor = config.actor_rollout_ref.actor
    found: list[list[Any]] = []
    worker = TrainingWorker.__new__(TrainingWorker)
    worker.engine = SimpleNamespace(
        get_data_parallel_size=lambda: ranks,
        get_data_parallel_rank=lambda: rank,
        get_data_parallel_group=lambda: group,
        is_mp_src_rank_with_outputs=lambda: False,
        train_mode=lambda **_: nullcontext(),
    )
    worker.profiler = SimpleNamespace(step=lambda: None)
    worker.train_batch = lambda data: found.append(micro_batches(actor, data, group))
    ids = torch.nested.as_nested_tensor(
        [torch.zeros(length, dtype=torch.long) for length in lengths], layout=torch.jagged
    )
    names = ("mini_batch_size", "epochs", "seed", "dataloader_kwargs")
    data = tu.get_tensordict({"input_ids": ids}, {name: facts[name] for name in names})
    TrainingWorker.train_mini_batch.__wrapped__(worker, data)
    yield from found


def micro_batches(actor: Any, data: Any, group: Any) -> list[Any]:
    from verl.utils import tensordict_utils as tu
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.engine.utils import prepare_micro_batches

    is_megatron = actor.strategy == "megatron"
    engine = omega_conf_to_dataclass(actor).engine
    sp = engine.context_parallel_size if is_megatron else engine.ulysses_sequence_parallel_size
    tu.assign_non_tensor(
        data,
        use_dynamic_bsz=actor.use_dynamic_bsz,
        max_token_len_per_gpu=actor.ppo_max_token_len_per_gpu,
        sp_size=sp,
    )
    made, _ = prepare_micro_batches(data=data, dp_group=group, same_micro_num_in_dp=True)
    measured = megatron_width if is_megatron else fsdp_width
    return [
        [measured(each["input_ids"], engine), each["input_ids"].offsets().diff().tolist()]
        for each in made
    ]


def fsdp_width(ids: Any, engine: Any) -> int:
    """Tokens after the FSDP engine's padding."""
    return width(ids.values(), engine)


def megatron_width(ids: Any, engine: Any) -> int:
    """Tokens after the Megatron engine's padding, of all context parallel ranks together."""
    from megatron.core import mpu
    from verl.models.mcore.util import preprocess_thd_engine

    tensor, context = engine.tensor_model_parallel_size, engine.context_parallel_size
    with (
        patch.object(mpu, "get_tensor_model_parallel_world_size", lambda: tensor),
        patch.object(mpu, "get_context_parallel_world_size", lambda: context),
        patch.object(mpu, "get_context_parallel_rank", lambda: 0),
    ):
        rows = preprocess_thd_engine(ids)[0]
    return int(rows.shape[1]) * context


def keys() -> list[str]:
    """All keys of verl's PPO configuration, with any engine, its references to other keys resolved
    or not; without the many of profilers."""
    from omegaconf import OmegaConf

    from batchstat.frameworks.setup import Framework

    plain = Framework(title="", version="", keys={}, unused=frozenset(), read=dict, is_nested=True)
    found: set[str] = set()
    for engine in ("dp", "megatron", "veomni", "torchtitan"):
        for resolve in (False, True):
            content = OmegaConf.to_container(composed({"model_engine": engine}), resolve=resolve)
            found |= set(plain.named(content))
    return sorted(key for key in found if "profiler" not in key)


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", RAY_DEDUP_LOGS="0")
    from torch.multiprocessing import get_context

    lines = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        started = [
            get_context("spawn").Process(target=run, args=(rank, folder))
            for rank in range(MOST_RANKS)
        ]
        for each in started:
            each.start()
        for each in started:
            each.join()
        for number, (example, values, ranks) in enumerate(CASES):
            found = [
                json.loads((folder / f"{number}-{rank}.json").read_text()) for rank in range(ranks)
            ]
            batches = [one.pop("batches") for one in found]
            case = {"example": example, "values": values, "ranks": ranks, **found[0]}
            lines.append(json.dumps({**case, "batches": batches}, separators=(",", ":")))
    source = {"package": "verl 0.9.1", "examples": f"verl-project/verl@{COMMIT}"}
    head = f'{{"source": {json.dumps(source)},\n"keys": {json.dumps(keys())},\n'
    text = f'{head}"cases": [\n' + ",\n".join(lines) + "\n]}\n"
    (Path(__file__).parent / "verl_ppo.json").write_text(text)


if __name__ == "__main__":
    main()
