"""A loop of torch with a classifier, whose texts are padded together before it."""

import os

import torch
from common import Clock, arguments, leave, texts, tokenizer_of
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from transformers import BertConfig, BertForSequenceClassification

given = arguments()
tokenizer = tokenizer_of(given)
lines = texts(480)
encoded = tokenizer(lines, padding=True, truncation=True, max_length=384, return_tensors="pt")
labels = torch.tensor([int(any(each.isdigit() for each in line)) for line in lines])
rows = [
    {"input_ids": ids, "attention_mask": mask, "labels": label}
    for ids, mask, label in zip(
        encoded["input_ids"], encoded["attention_mask"], labels, strict=True
    )
]
model = whole = BertForSequenceClassification(
    BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
)
sampler = None
if "WORLD_SIZE" in os.environ:
    torch.distributed.init_process_group("gloo")
    model, sampler = DistributedDataParallel(whole), DistributedSampler(rows)
loader = DataLoader(rows, batch_size=8, sampler=sampler, shuffle=sampler is None)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
losses = []
clock = Clock()
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
clock.stop()
leave(given, losses, clock, whole)
if sampler is not None:
    torch.distributed.destroy_process_group()
