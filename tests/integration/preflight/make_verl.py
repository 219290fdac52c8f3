"""Make verl.json by running verl itself on CPU, one process per rank; not part of the tests.

    python tests/integration/preflight/make_verl.py

It needs verl 0.9.1 with transformers 5.10, torch 2.13, torchdata 0.11 and tensordict 0.10. The keys
and values are those of verl's published examples, at one commit of verl-project/verl; data and
tokenizer are ours, and batches, lengths and budgets are smaller. Nothing of verl is copied but the
names of its keys and its results: for each rank, epoch and step, the width, tokens and trained
tokens of each micro batch.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from verl_corpora import save_answering_tokenizer, save_chats

COMMIT = "1dda039b9c6311889a9c9a26040677e1254814f9"
ENGINES = ("fsdp", "megatron", "veomni", "torchtitan", "automodel")
SMALLER = {
    "data.train_batch_size": 16,
    "data.max_token_len_per_gpu": 420,
    "data.max_length": 400,
}
SP = {"engine.ulysses_sequence_parallel_size": 2, "model.use_remove_padding": True}
WARM = {"optim.lr_warmup_steps_ratio": 0.2, "optim.lr_scheduler_type": "cosine"}

CASES: list[tuple[str, dict[str, Any], int]] = [
    (
        "sft/gsm8k/run_deepseek_coder_6_7b_fsdp.sh",
        {"data.micro_batch_size_per_gpu": 4, "trainer.total_epochs": 4},
        1,
    ),
    (
        "sft/gsm8k/run_gemma_2b_fsdp.sh",
        {"data.micro_batch_size_per_gpu": 4, "trainer.total_epochs": 2},
        2,
    ),
    (
        "sft/gsm8k/run_qwen2_5_0_5b_fsdp.sh",
        {"data.micro_batch_size_per_gpu": 4, "trainer.total_epochs": 1},
        4,
    ),
    (
        "sft/gsm8k/run_qwen2_5_0_5b_fsdp.sh, truncated",
        {"trainer.total_epochs": 1, "data.truncation": "right", "data.max_length": 90}
        | {"data.max_token_len_per_gpu": 99, "data.train_batch_size": 30, **SP},
        3,
    ),
    (
        "sft/gsm8k/run_gemma_7b_fsdp.sh, little room",
        {"data.micro_batch_size_per_gpu": 4, "trainer.total_epochs": 4, "data.max_length": 170}
        | {"data.max_token_len_per_gpu": 180, "data.train_batch_size": 24}
        | {"data.truncation": "left"},
        4,
    ),
    (
        "sft/gsm8k/run_gemma_2b_fsdp.sh, little room",
        {"trainer.total_epochs": 2, "data.max_length": 90, "data.truncation": "right"}
        | {"data.max_token_len_per_gpu": 99},
        2,
    ),
    (
        "sft/gsm8k/run_seed_oss_36b_fsdp.sh",
        {"data.micro_batch_size_per_gpu": 4, "trainer.total_training_steps": 1, **SP},
        2,
    ),
    (
        "sft/multiturn/run_qwen2_5_0_5b_fsdp.sh",
        {"data.micro_batch_size_per_gpu": 4, "trainer.total_training_steps": 1},
        2,
    ),
    (
        "sft/vlm/run_qwen3_vl_2b_fsdp.sh",
        {
            "data.truncation": "error",
            "trainer.total_epochs": 10,
            **WARM,
            "engine.strategy": "fsdp2",
        },
        2,
    ),
    (
        "sft/vlm/run_qwen3_vl_2b_fsdp.sh, some samples",
        {"data.train_max_samples": 44, "+data.shuffle": True, "+data.seed": 7, **WARM}
        | {"engine.pad_to_length": True, "engine.pad_to_length_bucket": 66, **SP}
        | {"trainer.total_epochs": 10, "trainer.total_training_steps": 12},
        4,
    ),
]


def configuration(values: dict[str, Any], corpus: Path, tokenizer: Path) -> dict[str, Any]:
    """The keys of a case, by their full names."""
    whole = {"data.train_files": str(corpus), "model.path": str(tokenizer), **SMALLER, **values}
    return {key.removeprefix("+"): value for key, value in whole.items()}


def composed(overrides: list[str], engine: str = "fsdp") -> Any:
    """What hydra makes of verl's own files."""
    import verl
    from hydra import compose, initialize_config_dir

    folder = Path(verl.__path__[0]) / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        return compose(
            "sft_trainer_engine", overrides=[f"engine={engine}", f"optim={engine}", *overrides]
        )


def run(values: dict[str, Any], rank: int, ranks: int, out: Path) -> None:
    """Write what verl makes of a configuration on one rank: it trains nothing."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29617", VERL_LOGGING_LEVEL="ERROR")
    import torch.distributed as dist
    from transformers import AutoTokenizer
    from verl.trainer.sft_trainer import SFTTrainer
    from verl.utils import seqlen_balancing

    seqlen_balancing.get_device_name = lambda: "cpu"  # verl has no platform for it
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    pairs = [f"++{key}={json.dumps(value)}" for key, value in values.items()]
    trainer = SFTTrainer.__new__(SFTTrainer)
    trainer.config = composed([*pairs, "data.num_workers=0"])
    loaded = AutoTokenizer.from_pretrained(values["model.path"])
    trainer.model_config = SimpleNamespace(tokenizer=loaded, processor=None)
    trainer.engine = SimpleNamespace(
        get_data_parallel_rank=lambda: rank, get_data_parallel_size=lambda: ranks
    )
    trainer.optimizer_config = trainer.config.optim
    trainer.training_client = SimpleNamespace(reset=lambda: None)
    trainer._build_dataset()
    trainer._build_dataloader()
    trainer._init_engine()
    found = {
        "samples": len(trainer.train_dataset),
        "per_epoch": trainer.steps_per_epoch,
        "planned": trainer.total_training_steps,
        "warmup": warmup(trainer.config.optim),
        "epochs": [list(steps(trainer, epoch)) for epoch in (0, 1)],
    }
    out.write_text(json.dumps(found))
    dist.destroy_process_group()


def steps(trainer: Any, epoch: int) -> Iterator[list[Any]]:
    """The micro batches of each step: width, tokens, and those that carry loss."""
    import torch.distributed as dist
    from verl.utils import tensordict_utils as tu
    from verl.workers.engine.utils import prepare_micro_batches

    data, engine = trainer.config.data, trainer.config.engine
    facts = {
        "use_dynamic_bsz": data.use_dynamic_bsz,
        "max_token_len_per_gpu": data.max_token_len_per_gpu,
        "sp_size": engine.ulysses_sequence_parallel_size,
    }
    trainer.train_sampler.set_epoch(epoch=epoch)
    for batch in trainer.train_dataloader:
        made, _ = prepare_micro_batches(
            data=tu.get_tensordict(tensor_dict=batch, non_tensor_dict=facts),
            dp_group=dist.group.WORLD,
            same_micro_num_in_dp=True,
        )
        yield [
            [
                width(each["input_ids"].values(), engine),
                each["input_ids"].offsets().diff().tolist(),
                int(each["loss_mask"].values().sum()),
            ]
            for each in made
        ]


def width(ids: Any, engine: Any) -> int:
    """Tokens after verl's own padding of a packed batch."""
    from verl.utils.ulysses import ulysses_pad
    from verl.workers.config import FSDPEngineConfig
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    names = ("pad_to_length", "pad_to_length_bucket", "ulysses_sequence_parallel_size")
    config = FSDPEngineConfig(strategy="fsdp", **{name: engine[name] for name in names})
    packed = len(ids) + FSDPEngine._get_packed_pad_size(config, len(ids))
    rows, _, _ = ulysses_pad(ids.new_zeros(1, packed), None, config.ulysses_sequence_parallel_size)
    return int(rows.shape[1])


def warmup(optim: Any) -> int:
    """Steps before the learning rate is all of it."""
    import torch
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    made = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    settings = SimpleNamespace(optimizer_config=optim, rank=1)
    share = FSDPEngine._build_lr_scheduler(settings, made).lr_lambdas[0]
    return next(
        step for step in range(10_000) if share(step + 1) <= share(step) or share(step) >= 1
    )


def keys() -> list[str]:
    """All keys of verl's configuration, with any engine."""
    from omegaconf import OmegaConf

    from batchstat.frameworks.setup import Framework

    plain = Framework(title="", version="", keys={}, unused=frozenset(), read=dict, is_nested=True)
    found: set[str] = set()
    for engine in ENGINES:
        found |= set(plain.named(OmegaConf.to_container(composed([], engine), resolve=False)))
    return sorted(found)


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", RAY_DEDUP_LOGS="0")
    from torch.multiprocessing import get_context

    lines = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer, corpus = save_answering_tokenizer(folder / "tokenizer"), save_chats(folder)
        for example, values, ranks in CASES:
            whole = configuration(values, corpus, tokenizer)
            paths = [folder / f"{rank}.json" for rank in range(ranks)]
            started = [
                get_context("spawn").Process(target=run, args=(whole, rank, ranks, path))
                for rank, path in enumerate(paths)
            ]
            for each in started:
                each.start()
            for each in started:
                each.join()
            found = [json.loads(path.read_text()) for path in paths]
            epochs = [
                list(each) for each in zip(*(one.pop("epochs") for one in found), strict=True)
            ]
            case = {"example": example, "values": values, "ranks": ranks, **found[0]}
            lines.append(json.dumps({**case, "epochs": epochs}, separators=(",", ":")))
    source = {"package": "verl 0.9.1", "examples": f"verl-project/verl@{COMMIT}"}
    head = f'{{"source": {json.dumps(source)},\n"keys": {json.dumps(keys())},\n'
    text = f'{head}"cases": [\n' + ",\n".join(lines) + "\n]}\n"
    (Path(__file__).parent / "verl.json").write_text(text)


if __name__ == "__main__":
    main()
