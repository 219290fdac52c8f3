"""A loop, or a Trainer, with `batchstat.apply` or without: `watched_loop.py FILE KIND 0|1`.

It leaves the widths of its batches, its losses and its parameters.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import batchstat

ROWS, WIDTH, WORDS, IGNORED = 192, 64, 50, -100
ATTENTION_DROPOUT = 1e-9  # so little that it drops nothing
STEPS = {"summed over steps", "means of batches"}  # loops of several batches in a step


class Tiny(nn.Module):
    """A model of tokens; of rows, where it is to tell classes."""

    def __init__(self, dropout: float = 0.0, outputs: int = WORDS) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=dropout, batch_first=True)
        self.head, self.is_of_rows = nn.Linear(16, outputs), outputs != WORDS

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        states = self.layer(self.embedding(input_ids), src_key_padding_mask=attention_mask == 0)
        return self.head(states[:, 0] if self.is_of_rows else states)


class Convolved(Tiny):
    """Real tokens at the end see how much padding follows."""

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        states = super().forward(input_ids, attention_mask)
        return states + states.mean(1, keepdim=True)


def rows() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    found = []
    for number in range(ROWS):
        length = int(torch.randint(4, 40, (1,), generator=generator))
        ids = torch.zeros(WIDTH, dtype=torch.long)
        ids[:length] = torch.randint(1, WORDS, (length,), generator=generator)
        mask = (torch.arange(WIDTH) < length).long()
        labels = torch.where(mask > 0, ids, IGNORED)
        found.append({"input_ids": ids, "attention_mask": mask, "labels": labels, "row": number})
    return found


def collated(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as long as the longest of them."""
    batch = torch.utils.data.default_collate(samples)
    width = int(batch["attention_mask"].sum(1).max())
    return {name: each if each.ndim == 1 else each[:, :width] for name, each in batch.items()}


def loss_of(kind: str, output: Any, batch: dict[str, Any]) -> Any:
    labels = batch["labels"]
    if kind == "of rows":
        return functional.cross_entropy(output, batch["row"] % 3)
    output = output.transpose(1, 2)
    if kind == "padding with loss":
        return functional.cross_entropy(output, batch["input_ids"])
    if kind == "mean of all":
        return functional.cross_entropy(output, labels, reduction="none").mean()
    if kind in {"a sum", "summed over steps"}:
        return functional.cross_entropy(output, labels, reduction="sum") / 300
    return functional.cross_entropy(output, labels)


def train_loop(kind: str, applies: bool) -> dict[str, Any]:
    kinds = {"of rows": lambda: Tiny(outputs=3), "convolved": Convolved}
    model = kinds.get(kind, lambda: Tiny(0.1 if kind in {"dropout", "shuffled"} else 0.0))()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    workers = {"forked": "fork", "spawned": "spawn"}.get(kind)
    n_accumulated = 4 if kind in STEPS else 1
    loader = torch.utils.data.DataLoader(
        rows(),
        8,
        num_workers=2 if workers else 0,
        multiprocessing_context=workers,
        collate_fn=collated if kind in STEPS else None,
        shuffle=kind == "shuffled",
    )
    if applies:
        loader = batchstat.apply(loader, model, gradient_accumulation_steps=n_accumulated)
    if kind == "accelerated":
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    widths, losses, steps = [], [], [[]]
    for _ in range(2):
        for batch in loader:
            steps[-1] += batch["row"].tolist()
            widths.append(batch["input_ids"].shape[1])
            output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
            loss = loss_of(kind, output, batch)
            loss.backward()
            losses.append(loss.item())
            if len(losses) % n_accumulated == 0:
                optimizer.step()
                optimizer.zero_grad()
                steps.append([])
    if kind in STEPS:  # whose batches are others
        losses = [sum(losses[n : n + 4]) for n in range(0, len(losses), 4)]
    steps = [sorted(step) for step in steps]
    return {"widths": widths, "losses": losses, "model": model, "steps": steps}


def train_trainer(folder: Path, applies: bool) -> dict[str, Any]:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        attention_dropout=ATTENTION_DROPOUT,
    )
    widths: list[int] = []

    class Watching(transformers.Trainer):
        def training_step(self, model: Any, inputs: Any, *rest: Any) -> Any:
            widths.append(inputs["input_ids"].shape[1])
            return super().training_step(model, inputs, *rest)

    trainer = Watching(
        transformers.LlamaForCausalLM(config),
        transformers.TrainingArguments(
            str(folder),
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            num_train_epochs=2,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=[{k: v for k, v in row.items() if k != "row"} for row in rows()],
    )
    if applies:
        batchstat.apply(trainer)
    trainer.train()
    losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    assert trainer.model.config.attention_dropout == ATTENTION_DROPOUT, "as the checks found it"
    return {"widths": widths, "losses": [float(each) for each in losses], "model": trainer.model}


if __name__ == "__main__":
    file, kind, applies = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "1"
    torch.manual_seed(0)
    trains = kind == "Trainer"
    left = train_trainer(file.parent / "out", applies) if trains else train_loop(kind, applies)
    parameters = [each.double().sum().item() for each in left.pop("model").parameters()]
    file.write_text(json.dumps({**left, "parameters": parameters}))
