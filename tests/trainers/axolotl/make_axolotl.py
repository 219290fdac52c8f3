"""Make axolotl.json by running axolotl itself on CPU; not part of the tests.

    PYTHONPATH=tests/helpers python tests/trainers/axolotl/make_axolotl.py

It needs axolotl 0.19 with transformers 5.16, accelerate 1.13 and datasets 4.8. The keys and values
are those of axolotl's published examples, at one commit of axolotl-ai-cloud/axolotl; data and
tokenizer are ours, sequence_len is smaller, and a seed is added, without which axolotl shuffles
differently in each run. Nothing of axolotl is copied but its results: for each rank and epoch, the
width, tokens and trained tokens of each batch.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from axolotl_corpora import CONTENTS, digest_of, random_chats, save_corpora, save_tokenizers

from batchstat.recording.recorder.arguments import WholeNumbers, as_array
from batchstat.recording.recorder.reading import read_batch
from trainers import before_accelerate

COMMIT = "067b021c8b87a9e5e380b9173c704cf7340e30f5"
FLASH = {"attn_implementation": "flash_attention_2"}
FLEX = {"attn_implementation": "flex_attention"}
PACKED = {"sample_packing": True}
TRUNCATED = {"excess_length_strategy": "truncate"}
OWN = {"chat_template": "llama3", "val_set_size": 0.05}
GROUPED = {"group_by_length": True, "pad_to_sequence_len": False}


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
    (
        "mistral/qlora.yml",
        "instructions",
        PACKED | FLASH | sizes(2, 4, 1) | {"val_set_size": 0.1},
        1,
    ),
    (
        "archived/openllama-3b/lora.yml",
        "instructions",
        PACKED | FLASH | sizes(2, 1, 4) | {"val_set_size": 0.02},
        2,
    ),
    (
        "mamba/config.yml, in sequence",
        "instructions",
        sizes(1, 4, 2)
        | {"train_on_inputs": False, "pad_to_sequence_len": False, "curriculum_sampling": True},
        2,
    ),
    (
        "archived/cerebras/btlm-ft.yml",
        "instructions",
        PACKED | FLASH | sizes(1, 1, 1) | {"train_on_inputs": True},
        2,
    ),
    (
        "archived/cerebras/btlm-ft.yml, unpacked",
        "instructions",
        sizes(4, 1, 1) | {"train_on_inputs": True},
        1,
    ),
    (
        "phi/phi2-ft.yml, truncated",
        "instructions",
        PACKED | FLASH | sizes(2, 1, 4) | {"val_set_size": 0.05} | TRUNCATED,
        1,
    ),
    (
        "phi/phi2-ft.yml, truncated, unpacked",
        "instructions",
        sizes(2, 1, 4) | {"val_set_size": 0.05} | TRUNCATED,
        2,
    ),
    (
        "llama-3/instruct-lora-8b.yml, its own template, all trained",
        "headers",
        PACKED
        | FLASH
        | sizes(2, 4, 4)
        | {"chat_template": "llama3", "train_on_inputs": True, "val_set_size": 0.05},
        2,
    ),
    (
        "archived/pythia/lora.yml, split",
        "text",
        sizes(4, 1, 4, None) | {"val_set_size": 0.05, "sequence_len": 24},
        1,
    ),
    ("llama-3/instruct-lora-8b.yml, its own template", "headers", OWN | sizes(2, 4, 4), 1),
    (
        "llama-3/instruct-lora-8b.yml, another template and its token",
        "headers",
        OWN | sizes(2, 4, 4) | {"chat_template": "chatml", "eot_tokens": ["<|im_end|>"]},
        1,
    ),
    (
        "archived/replit-3b/config-lora.yml",
        "text",
        {"batch_size": 8, "micro_batch_size": 4, "num_epochs": 3, "warmup_ratio": 0.1},
        2,
    ),
    (
        "llama-3/3b-fp8-fsdp2.yaml, without a whole step by its count",
        "text",
        PACKED
        | FLEX
        | sizes(64, 1, 2.5, 0.3)
        | {"dataloader_drop_last": True, "sequence_len": 512},
        1,
    ),
    (
        "eaft/eaft-example.yml, max_steps -1",
        "chat",
        FLASH | sizes(1, 4, 1.5) | {"max_steps": -1},
        1,
    ),
    # Keys of its documentation that no example has.
    (
        "qwen3/8b-qat-fsdp2.yml, rows apart",
        "text",
        PACKED | FLASH | sizes(4, 1, 1) | {"multipack_real_batches": True},
        2,
    ),
    (
        "archived/pythia/lora.yml, to a multiple of its own",
        "text",
        sizes(4, 1, 1) | {"pad_to_multiple_of": 24, "pad_to_sequence_len": False},
        2,
    ),
    (
        "mistral/qlora.yml, few samples a row",
        "instructions",
        PACKED | FLASH | sizes(2, 1, 1) | {"sample_packing_bin_size": 2},
        1,
    ),
    (
        "phi/lora-3.5.yaml, unshuffled",
        "chat",
        sizes(4, 1, 1) | {"shuffle_merged_datasets": False, "curriculum_sampling": True},
        2,
    ),
]
DRAWN: list[tuple[str, str, dict[str, Any], int]] = [
    ("mamba/config.yml", "instructions", GROUPED | sizes(1, 4, 2), 1),
    ("mamba/config.yml, batches of 4", "chat", GROUPED | sizes(4, 2, 2), 2),
    (
        "qwen3/8b-qat-fsdp2.yml, packed by eights",
        "text",
        PACKED | FLASH | sizes(1, 1, 4) | {"sample_packing_group_size": 8},
        1,
    ),
]
"""Cases with unseeded random numbers, without which axolotl would do the same in each run."""
RUNS = 100
TEMPLATES = ("chatml", "llama3")
SOME_CHATS = [*random_chats()][:60]
SEQUENCE_LEN = {"chat": 320, "headers": 320, "text": 256, "instructions": 300}


def configuration(
    values: dict[str, Any], kind: str, corpus: Path, tokenizer: Path
) -> dict[str, Any]:
    """The whole configuration of a case."""
    types = {"text": "completion", "instructions": "alpaca"}
    return {
        "base_model": str(tokenizer),
        "datasets": [{"path": str(corpus), "type": types.get(kind, "chat_template")}],
        "sequence_len": SEQUENCE_LEN[kind],
        "seed": 7,
        "learning_rate": 0.0002,
        **values,
    }


@dataclass(frozen=True)
class Prepared:
    """What axolotl makes of a configuration: it trains nothing, but prepares all of it."""

    cfg: Any
    trainer: Any
    train: Any
    held_out: Any


def prepare(values: dict[str, Any], ranks: int, folder: Path) -> Prepared:
    """Prepare a training."""
    os.environ["WORLD_SIZE"] = str(ranks)
    import multiprocess
    import torch
    import yaml
    from axolotl.cli.config import load_cfg
    from axolotl.core.builders import HFCausalTrainerBuilder
    from axolotl.loaders import load_tokenizer
    from axolotl.monkeypatch.data.batch_dataset_fetcher import apply_multipack_dataloader_patch
    from axolotl.utils.data import prepare_datasets
    from transformers import AutoConfig, LlamaForCausalLM

    multiprocess.set_start_method("fork", force=True)  # others would import all of it again
    apply_multipack_dataloader_patch()  # as axolotl does before it loads a model
    path = folder / "axolotl.yaml"
    own: dict[str, Any] = {
        "output_dir": str(folder / "out"),
        "dataset_prepared_path": str(folder / "prepared"),
        "dataset_num_proc": 1,  # more would take longer to start than they work
    }
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
    trainer.args.dataloader_num_workers, trainer.args.dataloader_prefetch_factor = 0, None
    trainer.args.dataloader_pin_memory = False
    os.environ["WORLD_SIZE"] = str(ranks)
    return Prepared(cfg, trainer, train, held_out)


def run(values: dict[str, Any], ranks: int, folder: Path) -> dict[str, Any]:
    """The samples, steps and batches of a configuration."""
    found = prepare(values, ranks, folder)
    trainer, train, held_out = found.trainer, found.train, found.held_out
    plans = [[*epochs(trainer, ranks, rank)] for rank in range(ranks)]
    args = trainer.args
    loader = loader_of(trainer, ranks, 0)
    steps = trainer.set_initial_training_values(args, loader)[-1]
    return {
        "samples": len(train),
        "held_out": 0 if held_out is None else len(held_out),
        "steps": steps,
        "warmup": args.get_warmup_steps(steps),
        "epochs": [list(each) for each in zip(*plans, strict=True)],
    }


def drawn(values: dict[str, Any], ranks: int, folder: Path) -> dict[str, Any]:
    """The steps, and the total tokens of the first epoch, of many runs."""
    import torch
    from axolotl.utils.trainer import calculate_total_num_steps

    found = prepare(values, ranks, folder)
    steps, totals = [], []
    for seed in range(RUNS):
        torch.manual_seed(seed)  # what a run without a seed may begin with
        found.cfg.sample_packing_eff_est = None  # set by the estimate before
        steps.append(calculate_total_num_steps(found.cfg, found.train, update=False))
        if not values.get("sample_packing"):
            plans = [first_epoch(found.trainer, ranks, rank, seed) for rank in range(ranks)]
            totals.append([len(plans[0]), sum(width * rows for p in plans for width, rows in p)])
    return {"samples": len(found.train), "steps": steps, "totals": totals}


def first_epoch(trainer: Any, ranks: int, rank: int, seed: int) -> list[tuple[int, int]]:
    """Width and rows of each batch of a rank in the first epoch of a run."""
    import torch

    loader = loader_of(trainer, ranks, rank)
    torch.manual_seed(seed)
    return [tuple(reversed(batch["input_ids"].shape)) for batch in loader]


def epochs(trainer: Any, ranks: int, rank: int) -> Iterator[list[Any]]:
    """The batches of a rank in two epochs: width, tokens, and those that carry loss."""
    import torch

    torch.manual_seed(trainer.args.seed)  # as the trainer did when it was made
    loader = loader_of(trainer, ranks, rank)
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        yield [[width, sum(rows), trained] for width, rows, trained in _lengths(loader)]


def loader_of(trainer: Any, ranks: int, rank: int) -> Any:
    """The DataLoader of a rank."""
    from accelerate.data_loader import prepare_data_loader

    return prepare_data_loader(
        before_accelerate(trainer),
        num_processes=ranks,
        process_index=rank,
        put_on_device=False,
        use_seedable_sampler=True,
        even_batches=trainer.accelerator.even_batches,
    )


def _lengths(loader: Any) -> Iterator[Any]:
    for batch in loader:
        read = read_batch(WholeNumbers(dict(batch)).converted(as_array), pad_token_id=0)
        assert read is not None
        assert read.real is not None
        yield read.width, [sum(map(sum, read.real))], sum(read.labelled)


def contents(tokenizers: dict[str, Path]) -> str:
    """Of random chats with each template, 1 for each token that carries loss, and 0 for others."""
    from axolotl.prompt_strategies.chat_template import load
    from axolotl.utils.dict import DictDefault
    from transformers import AutoTokenizer

    lines = []
    for kind, template, ends in CONTENTS:
        values = {"sequence_len": 512, "train_on_inputs": False, "eot_tokens": ends}
        entry = {"chat_template": "jinja", "chat_template_jinja": template}
        tokenizer = AutoTokenizer.from_pretrained(tokenizers[kind])
        strategy = load(tokenizer, DictDefault(values), DictDefault(entry))
        rows = [strategy.tokenize_prompt({"messages": chat}) for chat in SOME_CHATS]
        masks = ["".join("01"[each != -100] for each in row["labels"]) for row in rows]
        lines.append(json.dumps(masks, separators=(",", ":")))
    return ",\n".join(lines)


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", AXOLOTL_DO_NOT_TRACK="1", CUDA_VISIBLE_DEVICES="")
    from axolotl.utils.chat_templates import get_chat_template
    from transformers import LlamaConfig

    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizers = save_tokenizers(folder)
        one = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
        model = LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, **one)
        for tokenizer in tokenizers.values():
            model.save_pretrained(tokenizer)
        corpora = save_corpora(folder)

        def recorded(cases: Any, record: Any) -> str:
            lines = []
            for example, kind, values, ranks in cases:
                with TemporaryDirectory() as own:
                    whole = configuration(values, kind, corpora[kind], tokenizers[kind])
                    found = record(whole, ranks, Path(own))
                case = {"example": example, "corpus": kind, "values": values, "ranks": ranks}
                lines.append(json.dumps(case | found, separators=(",", ":")))
            return ",\n".join(lines)

        templates = {
            name: digest_of(get_chat_template(name), tokenizers["headers"]) for name in TEMPLATES
        }
        cases, draws = recorded(CASES, run), recorded(DRAWN, drawn)
        found = contents(tokenizers)
    source = {"package": "axolotl 0.19.0", "examples": f"axolotl-ai-cloud/axolotl@{COMMIT}"}
    head = f'{{"source": {json.dumps(source)},\n"templates": {json.dumps(templates)},\n'
    text = f'{head}"cases": [\n{cases}\n],\n"drawn": [\n{draws}\n],\n"contents": [\n{found}\n]}}\n'
    (Path(__file__).parent / "axolotl.json").write_text(text)


if __name__ == "__main__":
    main()
