"""Gradients of a small LLaMA, trained with the steps of a setup and with these steps regrouped.

One process of a group that torchrun starts:

    torchrun --nproc-per-node 2 train_both_ways.py ddp|transformers|trl OUTPUT.json
"""

import json
import sys
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM

from batchstat import BatchSampler
from batchstat.training.integrations.huggingface import with_batches

ACCUMULATION, BATCH_SIZE, WORDS, IGNORED = 3, 4, 97, -100
RNG = np.random.default_rng(3)
LENGTHS = np.clip(RNG.lognormal(2.6, 0.7, 101), 2, 60).astype(int)
IDS = [RNG.integers(3, WORDS, n) for n in LENGTHS]
# Which tokens of each sample are trained: a random share of it.
LABELS = [np.where(RNG.random(len(ids)) < RNG.random(), ids, IGNORED) for ids in IDS]
DATASET = [
    {"record": n, "input_ids": ids.tolist(), "labels": labels.tolist()}
    for n, (ids, labels) in enumerate(zip(IDS, LABELS, strict=True))
]
SETTINGS = {"gradient_accumulation_steps": ACCUMULATION, "batch_size": BATCH_SIZE}
seen: list[list[int]] = []
"""The records of each batch, in the sequence in which they are collated."""


class Recorder(torch.optim.Optimizer):
    """An optimizer that changes nothing and keeps the gradient of every step."""

    def __init__(self, model):
        super().__init__(model.parameters(), {"lr": 0.0})
        self.gradients = []

    def step(self, closure=None):
        if closure is not None:
            closure()
        every = [p.grad for group in self.param_groups for p in group["params"]]
        self.gradients.append(torch.cat([each.flatten().double() for each in every]).clone())


def small_model(dtype: torch.dtype) -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = LlamaConfig(vocab_size=WORDS, max_position_embeddings=64, **sizes, **heads)
    return LlamaForCausalLM(config).to(dtype)


def collate(samples):
    seen.append([sample["record"] for sample in samples])
    width = max(len(sample["input_ids"]) for sample in samples)
    padded = {"input_ids": 0, "labels": IGNORED}
    batch = {
        key: torch.tensor([each[key] + [value] * (width - len(each[key])) for each in samples])
        for key, value in padded.items()
    }
    lengths = torch.tensor([len(sample["input_ids"]) for sample in samples])
    batch["attention_mask"] = (torch.arange(width) < lengths[:, None]).long()
    return batch


def sampler(spec: str) -> BatchSampler:
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    return BatchSampler(LENGTHS, spec, rank=rank, world_size=world_size, **SETTINGS)


def by_ddp(spec: str, dtype: torch.dtype, *, synchronizes_once: bool):
    """A loop of one's own, whose loss is summed over the tokens of all ranks and divided once."""
    model = torch.nn.parallel.DistributedDataParallel(small_model(dtype))
    recorder = Recorder(model)
    for _, group in groupby(sampler(spec).batches(), lambda batch: batch.step):
        batches = list(group)
        inputs = [collate([DATASET[record] for record in batch.records]) for batch in batches]
        tokens = sum((each["labels"][:, 1:] != IGNORED).sum() for each in inputs)
        distributed.all_reduce(tokens)
        for batch, each in zip(batches, inputs, strict=True):
            labels = each.pop("labels")[:, 1:]
            waits = batch.ends_step or not synchronizes_once
            with nullcontext() if waits else model.no_sync():
                logits = model(**each).logits[:, :-1]
                loss = torch.nn.functional.cross_entropy(
                    logits.reshape(-1, WORDS), labels.reshape(-1), reduction="sum"
                )
                (loss * distributed.get_world_size() / tokens).backward()
        recorder.step()
        recorder.zero_grad()
    return recorder.gradients


def by_trainer(name: str, spec: str | None):
    """The trainer's own loop: on its own batches, or on those of a sampler."""
    import transformers

    arguments = {
        "output_dir": "unused",
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "per_device_train_batch_size": BATCH_SIZE,
        "num_train_epochs": 1,
        "max_grad_norm": 0,
        "gradient_accumulation_steps": ACCUMULATION,
        "remove_unused_columns": False,
        "disable_tqdm": True,
        "logging_strategy": "no",
        "bf16": False,
    }
    model = small_model(torch.float32)
    recorder = Recorder(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(recorder, lambda _: 1.0)
    given = {"data_collator": collate, "optimizers": (recorder, scheduler)}
    if name == "trl":
        import datasets
        import tokenizers
        import trl

        from batchstat.tokenization.builtin import definition

        definition = tokenizers.Tokenizer.from_str(definition())
        trainer = trl.SFTTrainer(
            model,
            trl.SFTConfig(
                **arguments,
                gradient_checkpointing=False,
                dataset_kwargs={"skip_prepare_dataset": True},
            ),
            train_dataset=datasets.Dataset.from_list(DATASET),
            processing_class=transformers.PreTrainedTokenizerFast(
                tokenizer_object=definition, pad_token="<pad>", eos_token="<pad>"
            ),
            **given,
        )
    else:
        made = transformers.TrainingArguments(**arguments)
        trainer = transformers.Trainer(model, made, train_dataset=DATASET, **given)
    if spec is not None:
        with_batches(trainer, BatchSampler(
            LENGTHS, spec, rank=trainer.args.process_index, world_size=trainer.args.world_size,
            seed=trainer.args.seed, **SETTINGS,
        ))  # fmt: skip
    trainer.train()
    return recorder.gradients


def everything(gradients: list[torch.Tensor]) -> dict[str, list]:
    """The gradients of steps and the records of their batches on all ranks, since the last call."""
    ranks: list = [None] * distributed.get_world_size()
    distributed.all_gather_object(ranks, list(seen))
    seen.clear()
    steps = []
    for first in range(0, max(map(len, ranks)), ACCUMULATION):
        steps.append([rank[first : first + ACCUMULATION] for rank in ranks])
    return {"gradients": gradients, "steps": steps}


def compared(now: dict[str, list], new: dict[str, list]) -> dict[str, object]:
    """The largest error of a step's gradient, relative to the largest of its numbers."""
    pairs = list(zip(now["gradients"], new["gradients"], strict=True))
    errors = [float((a - b).abs().max() / a.abs().max()) for a, b in pairs]
    return {"error": max(errors), "now": now["steps"], "new": new["steps"]}


def main(framework: str, output: str) -> None:
    found = {}
    if framework == "ddp":
        distributed.init_process_group("gloo")
        for dtype in (torch.float64, torch.float32):
            for once in (True, False):
                both = [
                    everything(by_ddp(spec, dtype, synchronizes_once=once))
                    for spec in ("static", "regrouped:of=static")
                ]
                found[f"{dtype}, {once}"] = compared(*both)
    else:
        setup = {"transformers": "hf-trainer", "trl": "trl"}[framework]
        both = [everything(by_trainer(framework, spec)) for spec in (None, f"regrouped:of={setup}")]
        found[framework] = compared(*both)
    if distributed.get_rank() == 0:
        Path(output).write_text(json.dumps(found))
    distributed.destroy_process_group()


main(*sys.argv[1:])
