"""Trains tiny models in the ways that people train: python cases.py CASE. What each collates is
logged beside, in the file that OWN_LOG names, by nothing of batchstat.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

torch.set_num_threads(1)  # of models so small, threads only wait for each other

ROOT = Path(__file__).parents[3]
WORDS = (ROOT / "sample_data/corpus.txt").read_text(encoding="utf-8").splitlines()
TEXTS = [line[: 9 + 37 * i % 300] for i, line in enumerate(WORDS[:47]) if line]
OPTIONS = {
    "output_dir": "out",
    "report_to": [],
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
}
OPTIONS |= {"save_strategy": "no", "num_train_epochs": 1, "per_device_train_batch_size": 4}
SHAPE = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}


class Logged:
    """A collate function that logs what it returns."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        batch = self.inner(*args, **kwargs)
        ids = batch["input_ids"] if isinstance(batch, dict) or hasattr(batch, "keys") else batch[0]
        line: dict[str, Any] = {"width": ids.shape[1], "rows": ids.tolist()}
        named = batch if hasattr(batch, "keys") else {}
        if "attention_mask" in named:
            line["real"] = named["attention_mask"].sum(1).tolist()
        elif "position_ids" in named:
            starts = (named["position_ids"].reshape(-1) == 0).nonzero().flatten().tolist()
            ends = [*starts[1:], ids.numel()]
            line["real"] = [b - a for a, b in zip(starts, ends, strict=True)]
        labels = named.get("labels")
        if "decoder_input_ids" in named:
            decoder = (labels != -100).sum(1).tolist()
            line["width"] += labels.shape[1]
            line["real"] = [a + b for a, b in zip(line["real"], decoder, strict=True)]
        elif labels is not None and labels.dim() == 2 and labels.shape == ids.shape:
            line["trained"] = int((labels[:, 1:] != -100).sum())
        rank = os.environ.get("RANK", "0")
        with Path(f"{os.environ['OWN_LOG']}.{rank}").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return batch


def tokenizer_of() -> Any:
    from chat_tokenizer import chat_tokenizer

    return chat_tokenizer()


def llama(size: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=size, num_key_value_heads=1, **SHAPE))


def classifier(size: int) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(vocab_size=size, **SHAPE))


def rows_of(tokenizer: Any, longest: int = 64) -> list[dict[str, Any]]:
    return [
        {**tokenizer(text, truncation=True, max_length=longest), "labels": i % 2}
        for i, text in enumerate(TEXTS)
    ]


def trainer(made: Any = None, **keys: Any) -> Any:
    from datasets import Dataset
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    tokenizer = tokenizer_of()
    data = Dataset.from_list([{"input_ids": row["input_ids"]} for row in rows_of(tokenizer)])
    collator = Logged(DataCollatorForLanguageModeling(tokenizer, mlm=False))
    streams = keys.pop("streams", False)
    evaluates = {"eval_dataset": data.select(range(9))} if "eval_strategy" in keys else {}
    return (made or Trainer)(
        llama(len(tokenizer)),
        TrainingArguments(**OPTIONS | keys),
        train_dataset=data.to_iterable_dataset() if streams else data,
        data_collator=collator,
        **evaluates,
    )


def sft(kind: str = "text", **keys: Any) -> Any:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    tokenizer = tokenizer_of()
    rows: list[dict[str, Any]] = [{"text": text} for text in TEXTS]
    if kind == "chats":
        lines = (ROOT / "sample_data/conversations.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [{"messages": json.loads(line)["messages"]} for line in lines[:40]]
    made = SFTTrainer(
        llama(len(tokenizer)),
        SFTConfig(**OPTIONS | keys),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    made.data_collator = Logged(made.data_collator)
    return made


def accelerated(stateful: bool = False, dispatch: bool = False) -> None:
    from accelerate import Accelerator, DataLoaderConfiguration
    from transformers import DataCollatorWithPadding

    tokenizer = tokenizer_of()
    config = DataLoaderConfiguration(
        use_stateful_dataloader=stateful, dispatch_batches=dispatch or None, split_batches=dispatch
    )
    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True, dataloader_config=config)
    torch.manual_seed(1)
    model = classifier(len(tokenizer))
    loader = torch.utils.data.DataLoader(
        rows_of(tokenizer),
        batch_size=8,
        shuffle=True,
        collate_fn=Logged(DataCollatorWithPadding(tokenizer)),
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        model(**batch)


def plain(kind: str, workers: int = 0) -> None:
    tokenizer = tokenizer_of()
    rows = [row["input_ids"] for row in rows_of(tokenizer)]

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            padding = None if kind == "dict" else 0
            self.embed = torch.nn.Embedding(len(tokenizer), 8, padding_idx=padding)
            self.out = torch.nn.Linear(8, 2)

        def forward(self, x: Any, lengths: Any = None) -> Any:
            return self.out(
                self.embed(x).sum(1) / (x.shape[1] if lengths is None else lengths[:, None])
            )

    def collate(samples: list[list[int]]) -> Any:
        padded = torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, samples)), batch_first=True)
        if kind == "lengths":
            return padded, torch.tensor(list(map(len, samples)))
        return {"x": padded} if kind == "dict" else (padded,)

    class OfPlain(Logged):
        def __call__(self, samples: list[list[int]]) -> Any:
            found = collate(samples)
            padded = found["x"] if kind == "dict" else found[0]
            line = {
                "width": padded.shape[1],
                "real": list(map(len, samples)),
                "rows": padded.tolist(),
            }
            with Path(f"{os.environ['OWN_LOG']}.0").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            return found

    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    loader = torch.utils.data.DataLoader(
        rows, 8, shuffle=True, collate_fn=OfPlain(None), num_workers=workers
    )
    for batch in loader:
        optimizer.zero_grad()
        out = net(batch["x"]) if kind == "dict" else net(*batch)
        out.sum().backward()
        optimizer.step()


def lightning() -> None:
    import lightning.pytorch as pl
    from transformers import DataCollatorWithPadding

    tokenizer = tokenizer_of()

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = classifier(len(tokenizer))

        def training_step(self, batch: Any, _: int) -> Any:
            return self.model(**batch).loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("loss", self.model(**batch).loss)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    made = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        accumulate_grad_batches=4,
        val_check_interval=5,
    )
    pad = DataCollatorWithPadding(tokenizer)
    data = rows_of(tokenizer)
    loaders = [torch.utils.data.DataLoader(data, 8, collate_fn=each) for each in (Logged(pad), pad)]
    made.fit(Module(), *loaders)


def preferences(**keys: Any) -> Any:
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    tokenizer = tokenizer_of()
    rows = [
        {"prompt": text[:20], "chosen": text[20:60], "rejected": text[30:]}
        for text in TEXTS
        if len(text) > 40
    ]
    made = DPOTrainer(
        llama(len(tokenizer)),
        ref_model=llama(len(tokenizer)),
        args=DPOConfig(**OPTIONS | keys),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    made.data_collator = Logged(made.data_collator)
    return made


def sequence_to_sequence() -> Any:
    from datasets import Dataset
    from transformers import (
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        T5Config,
        T5ForConditionalGeneration,
    )

    tokenizer = tokenizer_of()
    ids = [row["input_ids"] for row in rows_of(tokenizer)]
    data = [{"input_ids": a, "labels": b} for a, b in zip(ids, reversed(ids), strict=True)]
    torch.manual_seed(0)
    shape = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(
        T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, **shape)
    )
    return Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(**OPTIONS),
        train_dataset=Dataset.from_list(data),
        data_collator=Logged(DataCollatorForSeq2Seq(tokenizer, model)),
    )


def cached_loss() -> None:
    """Contrastive training with a large batch in parts: the first forwards of all parts without a
    graph, then again, each with the gradient of its embeddings.
    """
    from transformers import DataCollatorWithPadding

    tokenizer = tokenizer_of()
    model = classifier(len(tokenizer))
    collate = Logged(DataCollatorWithPadding(tokenizer))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    rows = rows_of(tokenizer)
    for start in (0, 16):
        parts = [collate(rows[place : place + 4]) for place in range(start, start + 16, 4)]
        inputs = [{**part} for part in parts]
        for each in inputs:
            each.pop("labels")
        with torch.no_grad():
            outputs = [model(**each).logits for each in inputs]
        joined = torch.cat(outputs).requires_grad_()
        (joined @ joined.T).logsumexp(1).sum().backward()
        for each, gradient in zip(inputs, joined.grad.split(4), strict=True):
            (model(**each).logits * gradient).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


ACCUMULATED = {"gradient_accumulation_steps": 4}
TRAINERS: dict[str, Any] = {
    "trainer": lambda: trainer(**ACCUMULATED, eval_strategy="epoch"),
    "two epochs": lambda: trainer(**ACCUMULATED, num_train_epochs=2),
    "grouped": lambda: trainer(train_sampling_strategy="group_by_length"),
    "workers": lambda: trainer(dataloader_num_workers=2),
    "checkpointing": lambda: trainer(gradient_checkpointing=True),
    "smoothing": lambda: trainer(label_smoothing_factor=0.1),
    "stream": lambda: trainer(streams=True, max_steps=7),
    "sft": lambda: sft(max_length=64, gradient_accumulation_steps=2),
    "bfd": lambda: sft(max_length=64, packing=True),
    "bfd_split": lambda: sft(max_length=64, packing=True, packing_strategy="bfd_split"),
    "wrapped": lambda: sft(max_length=64, packing=True, packing_strategy="wrapped"),
    "padding_free": lambda: sft(max_length=None, padding_free=True),
    "assistant_only_loss": lambda: sft("chats", max_length=99, assistant_only_loss=True),
    "preferences": preferences,
    "sequence to sequence": sequence_to_sequence,
}
LOOPS: dict[str, Any] = {
    "accelerate": accelerated,
    "stateful": lambda: accelerated(stateful=True),
    "dispatcher": lambda: accelerated(dispatch=True),
    "tuple": lambda: plain("tuple"),
    "dict": lambda: plain("dict"),
    "lengths": lambda: plain("lengths"),
    "loader workers": lambda: plain("tuple", workers=2),
    "lightning": lightning,
    "cached loss": cached_loss,
}


def train(case: str) -> None:
    """Train a case to its end."""
    if case in TRAINERS:
        TRAINERS[case]().train()
    else:
        LOOPS[case]()


if __name__ == "__main__":
    train(sys.argv[1])
    print("DONE", sys.argv[1:])
