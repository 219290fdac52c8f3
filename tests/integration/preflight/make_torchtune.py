"""Make torchtune.json by running torchtune's own recipes on CPU; not part of the tests.

    python tests/integration/preflight/make_torchtune.py CHECKOUT

CHECKOUT is one of pytorch/torchtune at COMMIT, whose requirements are installed. The keys and
values are those of its published configurations; data and tokenizer are ours, of bytes, and
sample lengths smaller. Nothing of torchtune is copied but its results: the runs of tokens without
and with loss of each sample, and for each rank and epoch the width, tokens and trained tokens of
each batch.
"""

import ast
import inspect
import json
import random
import sys
import textwrap
from base64 import b64encode
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

COMMIT = "bd2a0fc7c31430972728494fa01aaeeb0ebf1ba1"
HERE = Path(__file__).parent
LINES = HERE.parents[2] / "sample_data" / "corpus.txt"
TABLES = ("model", "checkpointer", "optimizer", "profiler", "metric_logger")
"""Tables that are not needed for batches."""

PACKED = {"dataset.packed": True}
CASES: list[tuple[str, str, str, int | None, dict[str, Any], int]] = [
    ("full_finetune_single_device", "llama3_2/1B_full_single_device", "alpaca", None, {}, 1),
    ("full_finetune_distributed", "llama3_2/1B_full", "chat", 256, {}, 2),
    ("lora_finetune_single_device", "llama3_2/1B_lora_single_device", "chat", 256, PACKED, 1),
    ("lora_finetune_distributed", "qwen2_5/1.5B_lora", "alpaca", 200, PACKED, 2),
    (
        "full_finetune_distributed",
        "llama3_3/70B_full",
        "chat",
        None,
        {"tensor_parallel_dim": 1, "batch_size": 4, "shuffle": False},
        4,
    ),
    ("lora_finetune_distributed", "llama3_1/8B_lora", "text", 160, {}, 3),
    ("full_finetune_single_device", "llama3/8B_full_single_device", "text", 160, PACKED, 1),
    (
        "full_finetune_distributed",
        "mistral/7B_full",
        "text",
        160,
        PACKED | {"dataset.split_across_pack": False, "max_steps_per_epoch": 2},
        2,
    ),
    (
        "lora_finetune_single_device",
        "llama2/7B_qlora_single_device",
        "alpaca",
        200,
        {"max_steps_per_epoch": 3, "epochs": 2, "gradient_accumulation_steps": 4},
        1,
    ),
]
DATASETS: dict[str, dict[str, Any]] = {
    "alpaca": {"_component_": "torchtune.datasets.alpaca_dataset"},
    "chat": {
        "_component_": "torchtune.datasets.chat_dataset",
        "conversation_column": "messages",
        "conversation_style": "openai",
    },
    "text": {"_component_": "torchtune.datasets.text_completion_dataset"},
}


def save_data(folder: Path) -> Path:
    """Instructions, chats and texts, and the vocabulary of all bytes."""
    rng = random.Random(0)
    lines = [line.strip() or "x" for line in LINES.read_text(encoding="utf-8").splitlines()]

    def text(most: int) -> str:
        return rng.choice(lines)[: rng.randint(1, most)].strip() or "x"

    rows: dict[str, list[dict[str, Any]]] = {"alpaca": [], "chat": [], "text": []}
    for i in range(45):
        some = text(60) if i % 3 == 0 else ""
        rows["alpaca"].append({"instruction": text(50), "input": some, "output": text(120)})
        turns = [
            {"role": role, "content": text(70)}
            for _ in range(rng.randint(1, 3))
            for role in ("user", "assistant")
        ]
        system = [{"role": "system", "content": text(30)}] if i % 4 == 0 else []
        rows["chat"].append({"messages": system + turns})
        rows["text"].append({"text": text(250)})
    for name, found in rows.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    vocabulary = folder / "bytes.model"
    vocabulary.write_bytes(b"".join(b64encode(bytes([i])) + f" {i}\n".encode() for i in range(256)))
    return vocabulary


def configuration(
    published: dict[str, Any], kind: str, length: int | None, changes: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """The whole configuration of a case."""
    found = {key: value for key, value in published.items() if key not in TABLES}
    found["tokenizer"] = {
        "_component_": "torchtune.models.llama3.llama3_tokenizer",
        "path": str(folder / "bytes.model"),
        "max_seq_len": length,
    }
    found["dataset"] = {
        **DATASETS[kind],
        "packed": False,
        "source": "json",
        "data_files": str(folder / f"{kind}.jsonl"),
    }
    found.pop("dataset_val", None)
    for name, value in changes.items():
        table, _, key = name.rpartition(".")
        (found[table] if table else found)[key] = value
    return found


def record(recipe: str, values: dict[str, Any], ranks: int) -> dict[str, Any]:
    """What a recipe batches, and how long it trains."""
    from omegaconf import OmegaConf
    from torchtune import config

    cfg = OmegaConf.create(values)
    module = __import__(recipe)
    kind = next(
        each
        for name, each in vars(module).items()
        if name.startswith(("FullFinetune", "LoRAFinetune")) and inspect.isclass(each)
    )
    plans, steps = [], 0
    for rank in range(ranks):
        self = SimpleNamespace(
            _tokenizer=config.instantiate(cfg.tokenizer),
            _loss_fn=SimpleNamespace(ignore_index=-100),
            _gradient_accumulation_steps=cfg.gradient_accumulation_steps,
            max_steps_per_epoch=cfg.max_steps_per_epoch,
            total_epochs=cfg.epochs,
            dp_degree=ranks,
            dp_rank=rank,
            cp_degree=1,
            world_size=ranks,
            rank=rank,
            _is_rank_zero=rank == 0,
            parallel_dims=SimpleNamespace(min_seq_len_divisor=1),
        )
        loader = kind._setup_data(
            self,
            cfg_dataset=cfg.dataset,
            shuffle=cfg.shuffle,
            batch_size=cfg.batch_size,
            collate_fn=cfg.get("collate_fn", "torchtune.data.padded_collate_sft"),
        )
        self._dataloader = loader
        steps = total_steps(kind, self)
        epochs = []
        for epoch in (0, 1):
            loader.sampler.set_epoch(epoch)
            epochs.append([batch(each, self._tokenizer.pad_id) for each in loader])
        plans.append(epochs)
    return {
        "steps": steps,
        "warmup": warmup_steps(cfg, steps),
        "epochs": [list(each) for each in zip(*plans, strict=True)],
    }


def total_steps(kind: Any, self: Any) -> int:
    """The number of steps, by the statements of the recipe's `setup` that count them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.setup)))
    (counting,) = (
        word.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "_setup_lr_scheduler"
        for word in node.keywords
        if word.arg == "num_training_steps"
    )
    self.global_step = self.epochs_run = 0
    body = tree.body[0].body  # type: ignore[attr-defined]
    for node in body:
        assigned = ast.unparse(node).startswith("self._steps_per_epoch =")
        limits = isinstance(node, ast.If) and "self._steps_per_epoch = " in ast.unparse(node)
        if assigned or limits:
            exec(compile(ast.Module([node], []), "setup", "exec"), {"self": self})  # noqa: S102
    counted = compile(ast.Expression(counting), "setup", "eval")
    return int(eval(counted, {"self": self}))  # noqa: S307 (torchtune's own expression)


def warmup_steps(cfg: Any, steps: int) -> int:
    """The first step at which the scheduler gives the whole learning rate."""
    import torch
    from torchtune import config

    if cfg.get("lr_scheduler") is None:
        return 0
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = config.instantiate(
        cfg.lr_scheduler, optimizer, num_training_steps=steps, last_epoch=-1
    )
    found = 0
    while scheduler.get_last_lr()[0] < 1:
        optimizer.step()
        scheduler.step()
        found += 1
    return found


def batch(found: Any, pad: int) -> list[Any]:
    """Width, tokens, and those with a loss."""
    tokens = found["tokens"]
    real = (tokens != pad) & (tokens != 0)  # rows that are packed are padded with 0, as no text has
    return [tokens.shape[1], int(real.sum()), int((found["labels"] != -100).sum())]


def runs(values: dict[str, Any]) -> list[list[int]]:
    """Tokens of each sample without loss, with, without, and so on."""
    from omegaconf import OmegaConf
    from torchtune import config

    cfg = OmegaConf.create(values)
    cfg.dataset.packed = False
    cfg.dataset.pop("split_across_pack", None)
    made = config.instantiate(cfg.dataset, config.instantiate(cfg.tokenizer))
    found = []
    for sample in made:
        trained = [False, *(int(label) != -100 for label in sample["labels"][:-1])]
        found.append([len(list(group)) for _, group in groupby(trained)])
    return found


def main() -> None:
    checkout = Path(sys.argv[1])
    sys.path[:0] = [str(checkout), str(checkout / "recipes")]
    import yaml

    cases, corpora = [], {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        save_data(folder)
        for recipe, published, kind, length, changes, ranks in CASES:
            text = (checkout / "recipes" / "configs" / f"{published}.yaml").read_text()
            values = configuration(yaml.safe_load(text), kind, length, changes, folder)
            found = record(recipe, values, ranks)
            corpora[f"{kind} {length}"] = runs(values)
            values["tokenizer"]["path"] = "bytes.model"
            values["dataset"]["data_files"] = f"{kind}.jsonl"
            case = {"example": f"recipes/configs/{published}.yaml", "recipe": recipe}
            case |= {"corpus": f"{kind} {length}", "values": values, "ranks": ranks, **found}
            cases.append(json.dumps(case, separators=(",", ":")))
    source = json.dumps({"repository": f"pytorch/torchtune@{COMMIT}"})
    known = json.dumps(corpora, separators=(",", ":"))
    lines = ",\n".join(cases)
    made = f'{{"source": {source},\n"corpora": {known},\n"cases": [\n{lines}\n]}}\n'
    (HERE / "torchtune.json").write_text(made)


if __name__ == "__main__":
    main()
