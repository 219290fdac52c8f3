"""Make axolotl.json by running axolotl itself on CPU; not part of the tests.

    python tests/integration/preflight/make_axolotl.py

It needs axolotl 0.19 with transformers 5.16, accelerate 1.13 and datasets 4.8. The keys and values
are those of axolotl's published examples, at one commit of axolotl-ai-cloud/axolotl; data and
tokenizer are ours, sequence_len is smaller, and a seed is added, without which axolotl shuffles
differently in each run. Nothing of axolotl is copied but its results: for each rank and epoch, the
width, tokens and trained tokens of each batch.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from axolotl_corpora import save_corpora, save_marked_tokenizer
from trainers import before_accelerate

COMMIT = "067b021c8b87a9e5e380b9173c704cf7340e30f5"
FLASH = {"attn_implementation": "flash_attention_2"}
FLEX = {"attn_implementation": "flex_attention"}
PACKED = {"sample_packing": True}


def sizes(micro: int, accumulation: int, epochs: float, warmup_ratio: float | None = 0.1) -> Any:
    """Keys that all examples have."""
    found = {"micro_batch_size": micro, "gradient_accumulation_steps": accumulation}
    ratio = {} if warmup_ratio is None else {"warmup_ratio": warmup_ratio}
    return {**found, "num_epochs": epochs, **ratio}


CASES: list[tuple[str, str, dict[str, Any], int]] = [
    (
        "LiquidAI/lfm2-350m-fft.yaml",
        "chat",
        PACKED | FLASH | sizes(4, 2, 1) | {"val_set_size": 0.05},
        1,
    ),
    (
        "apertus/apertus-8b-qlora.yaml",
        "chat",
        PACKED | FLASH | sizes(2, 4, 1) | {"val_set_size": 0.1},
        2,
    ),
    ("gemma3/gemma-3-270m-qlora.yml", "chat", PACKED | FLASH | sizes(1, 4, 1), 1),
    (
        "gemma3n/gemma-3n-e2b-qlora.yml",
        "chat",
        PACKED | sizes(1, 1, 4) | {"pad_to_sequence_len": True},
        2,
    ),
    ("minimax/m2-qlora.yaml", "chat", PACKED | FLASH | sizes(1, 2, 1), 4),
    ("qwen3/8b-qat-fsdp2.yml", "chat", PACKED | FLEX | sizes(2, 1, 1.0) | {"max_steps": 2000}, 2),
    (
        "trinity/trinity-nano-preview-qlora.yaml",
        "chat",
        PACKED | sizes(2, 4, 1) | {"attn_implementation": "sdpa", "val_set_size": 0.1},
        1,
    ),
    ("llama-4/scout-qlora-flexattn-fsdp2.yaml", "chat", PACKED | FLEX | sizes(2, 1, 3), 3),
    ("llama-3/instruct-lora-8b.yml", "chat", FLASH | sizes(2, 4, 4) | {"val_set_size": 0.05}, 2),
    ("phi/lora-3.5.yaml", "chat", sizes(4, 4, 2) | {"val_set_size": 0.05}, 1),
    ("eaft/eaft-example.yml", "chat", FLASH | sizes(1, 4, 1.0) | {"max_steps": 1000}, 1),
    (
        "archived/xgen-7b/xgen-7b-8k-qlora.yml",
        "text",
        sizes(1, 1, 4) | {"xformers_attention": True, "val_set_size": 0.05},
        2,
    ),
    ("archived/pythia/lora.yml", "text", sizes(4, 1, 4, None) | {"val_set_size": 0.05}, 1),
    (
        "llama-3/3b-fp8-fsdp2.yaml",
        "text",
        PACKED | FLEX | sizes(16, 1, 1, None) | {"pad_to_sequence_len": True, "warmup_steps": 10},
        1,
    ),
    (
        "archived/code-llama/13b/lora.yml",
        "text",
        PACKED | FLASH | sizes(2, 4, 4) | {"val_set_size": 0.05},
        1,
    ),
    (
        "archived/code-llama/13b/lora.yml, in sequence",
        "text",
        PACKED
        | FLASH
        | sizes(2, 4, 4)
        | {"sample_packing_sequentially": True, "curriculum_sampling": True}
        | {"pad_to_sequence_len": False, "min_sample_len": 30},
        2,
    ),
]
SEQUENCE_LEN = {"chat": 320, "text": 256}


def configuration(
    values: dict[str, Any], kind: str, corpus: Path, tokenizer: Path
) -> dict[str, Any]:
    """The whole configuration of a case."""
    types = {"chat": "chat_template", "text": "completion"}
    return {
        "base_model": str(tokenizer),
        "datasets": [{"path": str(corpus), "type": types[kind]}],
        "sequence_len": SEQUENCE_LEN[kind],
        "seed": 7,
        "learning_rate": 0.0002,
        **values,
    }


def run(values: dict[str, Any], ranks: int, folder: Path) -> dict[str, Any]:
    """What axolotl makes of a configuration: it trains nothing, but prepares all of it."""
    os.environ["WORLD_SIZE"] = str(ranks)
    import torch
    import yaml
    from axolotl.cli.config import load_cfg
    from axolotl.core.builders import HFCausalTrainerBuilder
    from axolotl.loaders import load_tokenizer
    from axolotl.monkeypatch.data.batch_dataset_fetcher import apply_multipack_dataloader_patch
    from axolotl.utils.data import prepare_datasets
    from transformers import AutoConfig, LlamaForCausalLM

    apply_multipack_dataloader_patch()  # as axolotl does before it loads a model
    path = folder / "axolotl.yaml"
    own = {"output_dir": str(folder / "out"), "dataset_prepared_path": str(folder / "prepared")}
    path.write_text(yaml.safe_dump({**values, **own, "optimizer": "adamw_torch", "bf16": False}))
    cfg = load_cfg(str(path))
    tokenizer = load_tokenizer(cfg)
    torch.manual_seed(values["seed"])  # unseeded in axolotl: here, that of the trainer
    train, held_out, steps, _ = prepare_datasets(cfg, tokenizer)
    os.environ.pop("WORLD_SIZE")  # there is one process
    model = LlamaForCausalLM(AutoConfig.from_pretrained(values["base_model"]))
    builder = HFCausalTrainerBuilder(cfg, model, tokenizer)
    builder.train_dataset, builder.eval_dataset = train, held_out
    trainer = builder.build(steps)
    os.environ["WORLD_SIZE"] = str(ranks)
    plans = [[*epochs(trainer, ranks, rank)] for rank in range(ranks)]
    args = trainer.args
    return {
        "samples": len(train),
        "held_out": 0 if held_out is None else len(held_out),
        "steps": args.max_steps,
        "warmup": args.get_warmup_steps(args.max_steps),
        "epochs": [list(each) for each in zip(*plans, strict=True)],
    }


def epochs(trainer: Any, ranks: int, rank: int) -> Iterator[list[Any]]:
    """The batches of a rank in two epochs: width, tokens, and those that carry loss."""
    import torch
    from accelerate.data_loader import prepare_data_loader

    torch.manual_seed(trainer.args.seed)  # as the trainer did when it was made
    loader = prepare_data_loader(
        before_accelerate(trainer),
        num_processes=ranks,
        process_index=rank,
        put_on_device=False,
        use_seedable_sampler=True,
        even_batches=trainer.accelerator.even_batches,
    )
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        yield [[width, sum(rows), trained] for width, rows, trained in _lengths(loader)]


def _lengths(loader: Any) -> Iterator[Any]:
    for batch in loader:
        ids, labels = batch["input_ids"], batch["labels"]
        if "attention_mask" in batch:
            real = int((batch["attention_mask"] > 0).sum())
        else:  # left out where samples are packed: padding is numbered from 0, but has no label
            real = int((ids != 0).sum())
        yield ids.shape[1], [real], int((labels != -100).sum())


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", AXOLOTL_DO_NOT_TRACK="1", CUDA_VISIBLE_DEVICES="")
    from transformers import LlamaConfig

    lines = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = save_marked_tokenizer(folder / "tokenizer")
        one = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
        LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, **one).save_pretrained(
            tokenizer
        )
        corpora = save_corpora(folder)
        for number, (example, kind, values, ranks) in enumerate(CASES):
            (folder / str(number)).mkdir()
            whole = configuration(values, kind, corpora[kind], tokenizer)
            found = run(whole, ranks, folder / str(number))
            case = {"example": example, "corpus": kind, "values": values, "ranks": ranks, **found}
            lines.append(json.dumps(case, separators=(",", ":")))
    source = {"package": "axolotl 0.19.0", "examples": f"axolotl-ai-cloud/axolotl@{COMMIT}"}
    text = f'{{"source": {json.dumps(source)},\n"cases": [\n' + ",\n".join(lines) + "\n]}\n"
    (Path(__file__).parent / "axolotl.json").write_text(text)


if __name__ == "__main__":
    main()
