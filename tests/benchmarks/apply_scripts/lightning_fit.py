"""Lightning, with a classifier of its own and a loader whose worker pads."""

import os

import lightning
import torch
from common import Clock, arguments, leave, texts, tokenizer_of
from torch import nn
from torch.utils.data import DataLoader

LONGEST = 384


class Classifier(lightning.LightningModule):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, 64)
        self.positions = nn.Embedding(LONGEST, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, 2)
        self.losses: list[float] = []

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden = self.embed(input_ids) + self.positions(places)
        hidden = self.encoder(hidden, src_key_padding_mask=attention_mask == 0)
        weights = attention_mask.to(hidden.dtype)[..., None]
        return self.head((hidden * weights).sum(1) / weights.sum(1))

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        logits = self(batch["input_ids"], batch["attention_mask"])
        loss = nn.functional.cross_entropy(logits, batch["labels"])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-2, momentum=0.9)


def collate(lines: list[str]) -> dict[str, torch.Tensor]:
    encoded = tokenizer(
        lines, padding="max_length", truncation=True, max_length=LONGEST, return_tensors="pt"
    )
    labels = [int(any(each.isdigit() for each in line)) for line in lines]
    return {
        "input_ids": encoded["input_ids"],
        "attention_mask": encoded["attention_mask"],
        "labels": torch.tensor(labels),
    }


given = arguments()
tokenizer = tokenizer_of(given)
model = Classifier(len(tokenizer))
loader = DataLoader(texts(480), batch_size=8, shuffle=True, collate_fn=collate, num_workers=1)
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=int(os.environ.get("WORLD_SIZE", "1")),
    strategy="ddp" if "WORLD_SIZE" in os.environ else "auto",
    max_epochs=1,
    precision="64-true" if given.double else "32-true",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    default_root_dir=given.left,
)
clock = Clock()
trainer.fit(model, loader)
clock.stop()
leave(given, model.losses, clock, model)
