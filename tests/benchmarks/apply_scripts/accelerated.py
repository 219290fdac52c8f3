"""A loop of accelerate that accumulates gradients of a language model."""

import torch
from accelerate import Accelerator
from common import Clock, arguments, leave, texts, tokenizer_of
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

given = arguments()
tokenizer = tokenizer_of(given)
encoded = tokenizer(texts(320), padding="max_length", truncation=True, max_length=384)
rows = [
    {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    for ids, mask in zip(encoded["input_ids"], encoded["attention_mask"], strict=True)
]
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=384,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
loader = DataLoader(rows, batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
clock = Clock()
for batch in loader:
    with accelerator.accumulate(model):
        logits = model(**batch).logits[:, :-1]
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item())
clock.stop()
leave(given, losses, clock, accelerator.unwrap_model(model))
accelerator.end_training()
