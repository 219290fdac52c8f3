"""Training scripts for a setting, as text: they run as they are, and are there to be changed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from batchstat.batching import Strategy
from batchstat.errors import OptionError
from batchstat.profiling.record import Profile
from batchstat.settings import Basis, Settings
from batchstat.tokens.builtin import NAME as BUILTIN

FRAMEWORKS = ("torch", "accelerate", "trainer")

_SCRIPT = '''"""Trains on the batches that batchstat simulated: {spec}.

Start it with: {start}
"""

import os

{imports}

EPOCHS, WORKERS = 1, 0
LENGTHS = {lengths}
rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))

tokenizer = {tokenizer}
if tokenizer.pad_token is None:
    tokenizer.add_special_tokens({{"pad_token": "<pad>"}})

samples = read_samples(LENGTHS)  # or your own dataset, record by record


def encode(sample):
    return {encode}


{collate}

# A tiny model, so that the script runs as it is: put yours in its place.
config = GPT2Config(
    vocab_size=len(tokenizer),
    n_positions={positions},
    n_embd=32,
    n_layer=1,
    n_head=2,
    pad_token_id=tokenizer.pad_token_id,
    bos_token_id=tokenizer.pad_token_id,
    eos_token_id=tokenizer.pad_token_id,{labels}
)
model = {model}.from_config(config)

sampler = BatchSampler(
    LENGTHS,
    {quoted},
    rank=rank,
    world_size=world_size,{settings}
)
sampler.check(samples)
{loop}'''

_LOADER = """loader = DataLoader(
    samples, batch_sampler=sampler, collate_fn=collate, num_workers=WORKERS
)
"""

_TORCH = """
if world_size > 1:
    torch.distributed.init_process_group()
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for consumed, (inputs, batch) in enumerate(zip(loader, sampler.batches()), start=1):
        loss = model(**inputs).loss
        # Weighted, so that the gradient is that of the mean over the whole step.
        (loss * batch.{weight}).backward()
        if batch.ends_step:
            optimizer.step()
            optimizer.zero_grad()
    print(f"rank {{rank}}, epoch {{epoch}}: {{consumed}} batches, last loss {{loss.item():.3f}}")
    # Or after any batch; load_state_dict() goes on from there.
    state = sampler.state_dict(consumed=consumed)
if world_size > 1:
    torch.distributed.destroy_process_group()
"""

_ACCELERATE = """
# The loader stays as it is: the sampler deals to the ranks already.
accelerator = Accelerator()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
model, optimizer = accelerator.prepare(model, optimizer)
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for consumed, (inputs, batch) in enumerate(zip(loader, sampler.batches()), start=1):
        inputs = {{key: value.to(accelerator.device) for key, value in inputs.items()}}
        loss = model(**inputs).loss
        # Weighted, so that the gradient is that of the mean over the whole step.
        accelerator.backward(loss * batch.{weight})
        if batch.ends_step:
            optimizer.step()
            optimizer.zero_grad()
    print(f"rank {{rank}}, epoch {{epoch}}: {{consumed}} batches, last loss {{loss.item():.3f}}")
    # Or after any batch; load_state_dict() goes on from there.
    state = sampler.state_dict(consumed=consumed)
accelerator.end_training()
"""

_TRAINER = '''

class Batches(DataLoader):
    """A loader whose sampler is told the epoch."""

    def set_epoch(self, epoch):
        self.batch_sampler.set_epoch(epoch)


class BatchedTrainer(Trainer):
    """Takes the loader as it is: the sampler deals to the ranks already."""

    def get_train_dataloader(self):
        return Batches(
            samples, batch_sampler=sampler, collate_fn=collate, num_workers=WORKERS
        )


arguments = TrainingArguments(
    output_dir="trained",
    num_train_epochs=EPOCHS,
    gradient_accumulation_steps={accumulate},
    remove_unused_columns=False,
    save_strategy="no",
    report_to=[],
)
trainer = BatchedTrainer(model, arguments, train_dataset=samples)
trainer.train()
print(f"rank {{rank}}: {{len(sampler)}} batches an epoch, {{trainer.state.global_step}} steps")
'''

_LOOPS = {"torch": _LOADER + _TORCH, "accelerate": _LOADER + _ACCELERATE, "trainer": _TRAINER}
_START = {
    "torch": "torchrun --nproc-per-node {n} train.py",
    "accelerate": "accelerate launch --num-processes {n} train.py",
    "trainer": "torchrun --nproc-per-node {n} train.py",
}


_FLAT = """# Samples end to end in one row, the positions of each from 0: for attention that keeps
# them apart by these, such as flash attention.
flatten = DataCollatorWithFlattening(return_tensors="pt")


def collate(batch):
    return flatten([{"input_ids": encode(sample)} for sample in batch])
"""


def recipe(
    framework: str,
    profile: Profile,
    lengths: str,
    spec: str,
    strategy: Strategy,
    settings: Settings,
    basis: Basis,
) -> str:
    """A script that trains on the batches that `compare` measures.

    Args:
        framework: one of `FRAMEWORKS`.
        profile: of the corpus.
        lengths: where its `lengths.parquet` lies.
        spec: the strategy, as it is written.
        strategy: what that is.
        settings: as they are given.
        basis: as they are decided.

    Raises:
        OptionError: batches that record numbers alone do not say.
    """
    _refuse(spec, strategy, basis)
    flat = spec.partition(":")[0] in ("packed", "padding-free")
    labelled = profile.labels is not None and profile.labels.offsets is None and not flat
    model = "AutoModelForSequenceClassification" if labelled else "AutoModelForCausalLM"
    names, tokenizer = _tokenizer(profile)
    names |= {model, "GPT2Config"} | ({"DataCollatorWithFlattening"} if flat else set())
    names |= {"Trainer", "TrainingArguments"} if framework == "trainer" else set()
    loop = _LOOPS[framework].format(
        weight="weight" if labelled else "token_weight", accumulate=basis.accumulate
    )
    starts = "python train.py" if basis.world_size == 1 else _START[framework]
    kept = profile.labels.names if labelled and profile.labels is not None else ()
    return _SCRIPT.format(
        spec=spec,
        start=starts.format(n=basis.world_size),
        imports=_imports(
            names,
            framework,
            builtin="definition()" in tokenizer,
            torch=framework != "trainer" or labelled,
        ),
        lengths=_literal(lengths),
        quoted=_literal(spec),
        tokenizer=tokenizer,
        encode=_encode(profile, basis),
        collate=_collate(strategy, flat=flat, classes=kept),
        positions=basis.max_length if not flat else max(basis.max_length, basis.tokens_per_batch),
        labels=f"\n    num_labels={len(kept)}," if labelled else "",
        model=model,
        settings="".join(
            f"\n    {key}={_literal(value)}," for key, value in _changed(settings).items()
        ),
        loop=loop,
    )


def _refuse(spec: str, strategy: Strategy, basis: Basis) -> None:
    why = ""
    if basis.overflow == "split" or getattr(strategy, "method", "") == "wrapped":
        why = "cuts samples into parts, which have starts and stops"
    elif getattr(strategy, "pad", "") == "edge":
        why = "pads to edges, which are the batch's width"
    elif basis.tail == "empty":
        why = "with tail=empty has empty batches, which need a dummy step"
    if why:
        raise OptionError(f"{spec} {why}: write the script around BatchSampler.batches()")


def _changed(settings: Settings) -> Mapping[str, Any]:
    """The settings that are not at their defaults; ranks are the launcher's to say."""
    defaults = {field.name: field.default for field in fields(Settings)}
    ours = {key: value for key, value in asdict(settings).items() if value != defaults[key]}
    return {key: value for key, value in ours.items() if key not in ("world_size", "epoch")}


def _imports(names: set[str], framework: str, *, builtin: bool, torch: bool) -> str:
    """Theirs, then ours."""
    theirs = ["import torch"] if torch else []
    theirs += ["from accelerate import Accelerator"] if framework == "accelerate" else []
    theirs += ["from tokenizers import Tokenizer"] if builtin else []
    theirs += ["from torch.utils.data import DataLoader"]
    joined = ", ".join(sorted(names))
    if len(joined) > _MOST_IN_A_LINE:
        joined = "(\n" + "".join(f"    {name},\n" for name in sorted(names)) + ")"
    theirs += [f"from transformers import {joined}"]
    ours = ["from batchstat import BatchSampler, read_samples"]
    ours += ["from batchstat.tokens.builtin import definition"] if builtin else []
    return "\n".join([*theirs, "", *ours])


_MOST_IN_A_LINE = 70


def _tokenizer(profile: Profile) -> tuple[set[str], str]:
    """What is imported of transformers, and the expression."""
    name = BUILTIN if profile.tokenizer is None else profile.tokenizer.name
    if name == BUILTIN:
        given = "tokenizer_object=Tokenizer.from_str(definition())"
        return {"PreTrainedTokenizerFast"}, f"PreTrainedTokenizerFast({given})"
    if name.endswith(".json"):
        return {
            "PreTrainedTokenizerFast"
        }, f"PreTrainedTokenizerFast(tokenizer_file={_literal(name)})"
    return {"AutoTokenizer"}, f"AutoTokenizer.from_pretrained({_literal(name)})"


def _encode(profile: Profile, basis: Basis) -> str:
    cut = f"truncation=True, max_length={basis.max_length}"
    if profile.corpus.options.content == "messages":
        given = f'sample["messages"], tokenize=True, return_dict=False, {cut}'
        return f"tokenizer.apply_chat_template({given})"
    pair = "*" if len(profile.corpus.options.text_column) == 2 else ""
    return f'tokenizer({pair}sample["text"], {cut}).input_ids'


def _collate(strategy: Strategy, *, flat: bool, classes: tuple[str, ...]) -> str:
    if flat:
        return _FLAT
    width = (
        f'padding="max_length", max_length={strategy.max_length}'
        if hasattr(strategy, "max_length")
        else "padding=True"
    )
    if strategy.pad_to_multiple_of > 1:
        width += f", pad_to_multiple_of={strategy.pad_to_multiple_of}"
    labels = 'inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)'
    head = ""
    if classes:
        head = f"CLASSES = {_literal(classes)}\n\n\n"
        labels = 'torch.tensor([CLASSES.index(sample["label"]) for sample in batch])'
    return f"""{head}def collate(batch):
    encoded = [{{"input_ids": encode(sample)}} for sample in batch]
    inputs = tokenizer.pad(encoded, {width}, return_tensors="pt")
    inputs["labels"] = {labels}
    return inputs"""


def _literal(value: object) -> str:
    """A value as Python has it, text in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)
