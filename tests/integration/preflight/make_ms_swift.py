"""Make ms_swift.json by running ms-swift itself on CPU; not part of the tests.

    python tests/integration/preflight/make_ms_swift.py

It needs ms-swift 4.6.0. The keys and values are those of its published examples, at one commit of
modelscope/ms-swift; data, model and tokenizer are ours, and max_length is smaller. Nothing of
ms-swift is copied but its results: the runs of tokens without and with loss of each sample, and for
each rank and epoch the width, tokens and trained tokens of each batch.
"""

import json
import os
import random
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

COMMIT = "3602360a562313afbf2ef6065fdf61f271a2c5b9"
HERE = Path(__file__).parent
LINES = HERE.parents[2] / "sample_data" / "corpus.txt"
PACKAGES = ("ms-swift", "transformers", "datasets", "binpacking", "torch")
FLASH = {"attn_impl": "flash_attn"}


def sizes(batch: int, accumulation: int, epochs: float = 1, warmup: float = 0.05) -> dict[str, Any]:
    """Keys that all examples have."""
    return {
        "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": accumulation,
        "num_train_epochs": epochs,
        "warmup_ratio": warmup,
    }


PACKED = FLASH | {"packing": True}
FEW = {"split_dataset_ratio": 0.01}
CASES: list[tuple[str, list[str], dict[str, Any], int]] = [
    ("lora_sft.sh", ["a#20", "b#20", "c#20"], sizes(1, 16), 1),
    ("padding_free/sft.sh", ["a"], sizes(8, 1, 3) | FLASH | FEW | {"padding_free": True}, 4),
    ("packing/llm.sh", ["a#40", "b#30", "c"], sizes(1, 4, 3) | PACKED | FEW, 1),
    ("packing/liger_kernel.sh", ["a", "b"], sizes(1, 2, 3) | PACKED | FEW, 4),
    ("liger/sft.sh", ["c", "b#30"], sizes(1, 2, 5) | PACKED | FEW, 4),
    ("full/train.sh", ["b#31"], sizes(1, 16), 1),
    ("multi-gpu/ddp/train.sh", ["a#42"], sizes(1, 8), 2),
    (
        "think_model/qwen3_demo1.sh",
        ["a", "b"],
        sizes(1, 16) | {"loss_scale": "ignore_empty_think"},
        3,
    ),
    (
        "multi-gpu/ddp/train.sh, changed",
        ["a", "b#31"],
        sizes(4, 2, 1.5) | {"split_dataset_ratio": 0.1, "dataset_shuffle": False},
        3,
    ),
    (
        "multi-gpu/ddp/train.sh, truncating",
        ["c", "a"],
        sizes(3, 2) | {"truncation_strategy": "right", "dataloader_drop_last": True},
        2,
    ),
    (
        "multi-gpu/ddp/train.sh, truncating from the left",
        ["b#25"],
        sizes(2, 3) | {"truncation_strategy": "left", "data_seed": 7, "max_steps": 40},
        1,
    ),
    (
        "packing/llm.sh, changed",
        ["a", "c"],
        sizes(2, 2)
        | PACKED
        | {"packing_length": 400, "packing_strategy": "sequential"}
        | {"eval_strategy": "no", "split_dataset_ratio": 0.2},
        2,
    ),
]
MAX_LENGTH = 150


def save_data(folder: Path) -> None:
    """Three files of chats, some longer than MAX_LENGTH."""
    rng = random.Random(0)
    lines = [line.strip() or "x" for line in LINES.read_text(encoding="utf-8").splitlines()]
    for name, rows in (("a", 45), ("b", 37), ("c", 29)):
        made = []
        for _ in range(rows):
            turns = [
                {"role": role, "content": rng.choice(lines)[: rng.randint(1, 260)].strip() or "x"}
                for _ in range(rng.randint(1, 3))
                for role in ("user", "assistant")
            ]
            made.append(json.dumps({"messages": turns}) + "\n")
        (folder / f"{name}.jsonl").write_text("".join(made), encoding="utf-8")


def save_model(folder: Path) -> None:
    """A model of one layer, and the built-in tokenizer."""
    from trainers import save_tokenizer
    from transformers import Qwen2Config, Qwen2ForCausalLM

    save_tokenizer(folder)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
    Qwen2ForCausalLM(Qwen2Config(vocab_size=60_000, **shape, **heads)).save_pretrained(folder)


def arguments(values: dict[str, Any], names: list[str], folder: Path) -> dict[str, Any]:
    """The whole configuration of a case."""
    datasets = []
    for name in names:
        file, _, some = name.partition("#")
        datasets.append(f"{folder / file}.jsonl" + (f"#{some}" if some else ""))
    return {"max_length": MAX_LENGTH, **values, "dataset": datasets}


def prepared(values: dict[str, Any], folder: Path) -> tuple[Any, Any]:
    """The pipeline and its trainer, at the moment at which training would begin."""
    from swift.arguments import SftArguments
    from swift.pipelines.train.sft import SwiftSft
    from swift.trainers import TrainerFactory

    def free(self: Any) -> None:  # as with flash attention, which needs a device
        self.padding_free = self.padding_free or self.packing

    SftArguments._check_padding_free = free
    own = {key: value for key, value in values.items() if key != "attn_impl"}
    args = SftArguments(
        **own,
        model=str(folder / "model"),
        model_type="qwen2",
        template="qwen2_5",
        tuner_type="full",
        output_dir=str(folder / "out"),
        torch_dtype="float32",
        use_cpu=True,
        dataloader_num_workers=0,
        report_to=[],
        check_model=False,
    )
    pipeline = SwiftSft(args)
    train, held_out = pipeline._prepare_dataset()
    kind = TrainerFactory.get_trainer_cls(args)
    trainer = kind(
        model=pipeline.model,
        args=args.training_args,
        template=pipeline.template,
        train_dataset=train,
        eval_dataset=held_out,
    )
    return pipeline, trainer


def record(values: dict[str, Any], ranks: int, folder: Path) -> dict[str, Any]:
    """What ms-swift batches, and how long it trains."""
    from swift.dataloader import BatchSamplerShard

    _, trainer = prepared(values, folder)
    plans = []
    BatchSamplerShard.world_size = ranks
    for rank in range(ranks):
        BatchSamplerShard.rank = rank
        loader = trainer.get_train_dataloader()
        epochs = []
        for epoch in (0, 1):
            loader.set_epoch(epoch)
            epochs.append([batch(each) for each in loader])
        plans.append(epochs)
    steps = trainer.set_initial_training_values(trainer.args, loader)[-1]
    return {
        "steps": steps,
        "warmup": trainer.args.get_warmup_steps(steps),
        "epochs": [list(each) for each in zip(*plans, strict=True)],
    }


def batch(found: Any) -> list[Any]:
    """Width, tokens, and those with a loss."""
    ids, labels = found["input_ids"], found["labels"]
    real = ids.numel() if "attention_mask" not in found else int(found["attention_mask"].sum())
    return [ids.shape[1], int(real), int((labels[:, 1:] != -100).sum())]


def runs(name: str, folder: Path) -> list[list[int]]:
    """Tokens of each sample of a file without loss, with, without, and so on."""
    values = {"dataset": [str(folder / f"{name}.jsonl")], "max_length": 10**6}
    pipeline, _ = prepared(values | {"gradient_accumulation_steps": 1}, folder)
    found = []
    for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        encoded = pipeline.template.encode(json.loads(line))
        trained = [False, *(label != -100 for label in encoded["labels"][1:])]
        found.append([len(list(group)) for _, group in groupby(trained)])
    return found


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    cases = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        save_data(folder)
        save_model(folder / "model")
        corpora = {each: runs(each, folder) for each in "abc"}
        for example, names, values, ranks in CASES:
            found = record(arguments(values, names, folder), ranks, folder)
            case = {"example": f"examples/train/{example}", "datasets": names, "values": values}
            cases.append(json.dumps({**case, "ranks": ranks, **found}, separators=(",", ":")))
    from dataclasses import fields

    from swift.arguments import SftArguments

    known = json.dumps(" ".join(sorted(each.name for each in fields(SftArguments) if each.init)))
    source = {"repository": f"modelscope/ms-swift@{COMMIT}"}
    source |= {each: version(each) for each in PACKAGES}
    lines = ",\n".join(cases)
    data = json.dumps(corpora, separators=(",", ":"))
    (HERE / "ms_swift.json").write_text(
        f'{{"source": {json.dumps(source)},\n"keys": {known},\n"corpora": {data},\n'
        f'"cases": [\n{lines}\n]}}\n'
    )


if __name__ == "__main__":
    main()
