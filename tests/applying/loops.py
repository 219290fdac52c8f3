"""Loops that train a tiny model on rows that are padded to one width.

`python loops.py FOLDER LOOP [dropout] [bfloat16]` trains one of them. It leaves in the folder the
losses, the samples of each step and the parameters.
"""

import atexit
import json
import sys
from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

WIDTH, VOCABULARY, SIZE = 32, 80, 16  # of rows, of tokens, and of an embedding
ROWS_OF_BATCH, N_SAMPLES = 4, 60
IGNORED = -100


def sample(number: int) -> Any:
    """Token ids, of which the first is the sample's own."""
    length = 3 + 7 * number % 11
    return torch.tensor([3 + number, *((5 * number + 3 * k) % 77 + 3 for k in range(length))])


SAMPLES = [sample(number) for number in range(N_SAMPLES)]


def padded(rows: Any, value: Any = 0) -> Any:
    """Rows of one width, with this value behind them."""
    return torch.stack([functional.pad(row, (0, WIDTH - len(row)), value=value) for row in rows])


def labels_of(rows: Any) -> Any:
    """The next token of each, and none behind the last one."""
    return padded([torch.cat([row[1:], torch.tensor([IGNORED])]) for row in rows], IGNORED)


def batch_of(rows: Any) -> dict[str, Any]:
    ids = padded(rows)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels_of(rows)}


class Tiny(nn.Module):
    """A layer of attention, which takes masks of two, three and four dimensions."""

    def __init__(self, dropout: float = 0.0, outputs: int = VOCABULARY) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, SIZE, padding_idx=0)
        self.place = nn.Embedding(WIDTH, SIZE)
        self.query, self.key, self.value = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(SIZE, outputs)

    def attend(self, states: Any, over: Any, mask: Any) -> Any:
        scores = self.query(states) @ self.key(over).transpose(1, 2) / SIZE**0.5
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return states + self.drop(scores.softmax(-1) @ self.value(over))

    def hidden(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
        mask = input_ids != 0 if attention_mask is None else attention_mask
        mask = mask >= 0 if mask.is_floating_point() else mask.bool()  # floats are added to scores
        mask = {2: lambda: mask[:, None, :], 3: lambda: mask, 4: lambda: mask[:, 0]}[mask.ndim]()
        places = torch.arange(input_ids.shape[1]) if position_ids is None else position_ids
        states = self.drop(self.embed(input_ids) + self.place(places))
        return self.attend(states, states, mask)

    def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
        return self.out(self.hidden(input_ids, attention_mask, position_ids))


class Causal(Tiny):
    """Each token sees those before it, whatever they are."""

    def __init__(self, dropout: float) -> None:
        super().__init__(dropout)
        self.embed = nn.Embedding(VOCABULARY, SIZE)  # which tells no padding

    def forward(self, input_ids: Any) -> Any:
        rows, width = input_ids.shape
        return super().forward(input_ids, torch.ones(rows, width, width).tril().bool())


def token_loss(logits: Any, labels: Any, **options: Any) -> Any:
    flat = logits.float().flatten(0, 1), labels.flatten()
    return functional.cross_entropy(*flat, ignore_index=IGNORED, **options)


def masked_mean(states: Any, mask: Any) -> Any:
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


class Run:
    """What a loop trains, and what it leaves."""

    def __init__(self, folder: Path, dropout: bool, bfloat16: bool) -> None:
        self.folder, self.bfloat16, self.rank = folder, bfloat16, 0
        self.dropout = 0.3 if dropout else 0.0
        self.losses: list[float] = []
        self.steps: list[list[int]] = []  # the samples of each
        self.waiting: list[int] = []
        self.model: Any = None
        self.optimizer: Any = None

    def make(self, kind: Callable[..., Any] = Tiny, **options: Any) -> Any:
        """A model, and its optimizer."""
        torch.manual_seed(1)
        model = kind(dropout=self.dropout, **options)
        self.model = model.to(torch.bfloat16) if self.bfloat16 else model
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05, momentum=0.9)
        return self.model

    def backward(self, loss: Any, ids: Any, share: int = 1) -> None:
        """Compute the gradients of a batch, of which a column is in `ids`."""
        (loss / share).backward()
        self.losses.append(loss.item())
        self.waiting += ids[:, 0].tolist()

    def step(self, loss: Any = None, ids: Any = None) -> None:
        if loss is not None:
            self.backward(loss, ids)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps.append(self.waiting)
        self.waiting = []

    def leave(self) -> None:
        values = [value for each in self.model.parameters() for value in each.flatten().tolist()]
        content = {"losses": self.losses, "steps": self.steps, "parameters": values}
        (self.folder / f"trained.{self.rank}.json").write_text(json.dumps(content))


def loader_of(collate: Any = batch_of, **options: Any) -> Any:
    return DataLoader(SAMPLES, ROWS_OF_BATCH, collate_fn=collate, **options)


def inputs_of(batch: Any) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if name != "labels"}


def train(run: Run, loader: Any, epochs: int = 1) -> None:
    """Train on batches of labels and what the model is given."""
    model = run.model or run.make()
    for _ in range(epochs):
        for batch in loader:
            run.step(token_loss(model(**inputs_of(batch)), batch["labels"]), batch["input_ids"])


# --- what a batch is -----------------------------------------------------------------------------
def special_tokens(run: Run) -> None:
    def collate(rows: Any) -> Any:
        specials = padded([functional.one_hot(torch.tensor(0), len(row)) for row in rows], 1)
        types = torch.zeros_like(specials)
        return {**batch_of(rows), "special_tokens_mask": specials, "token_type_ids": types}

    model = run.make()
    for batch in loader_of(collate):
        logits = model(batch["input_ids"], batch["attention_mask"])
        labels = batch["labels"].masked_fill(batch["special_tokens_mask"].bool(), IGNORED)
        run.step(token_loss(logits, labels), batch["input_ids"])


def positions(run: Run) -> None:
    def collate(rows: Any) -> Any:
        return {**batch_of(rows), "position_ids": torch.arange(WIDTH).repeat(len(rows), 1)}

    train(run, loader_of(collate))


class Pair(Tiny):
    """An encoder, and a decoder that attends to it."""

    def forward(
        self,
        input_ids: Any,
        attention_mask: Any,
        decoder_input_ids: Any,
        decoder_attention_mask: Any,
    ) -> Any:
        encoded = self.hidden(input_ids, attention_mask)
        causal = torch.ones(2 * [decoder_input_ids.shape[1]]).tril().bool()
        mask = decoder_attention_mask[:, None].bool() & causal
        decoded = self.hidden(decoder_input_ids, mask.long())
        return self.out(self.attend(decoded, encoded, attention_mask[:, None].bool()))


class Parts(Tiny):
    """An encoder and a layer behind it, which a loop calls one after the other."""

    def __init__(self, dropout: float) -> None:
        super().__init__(0.0)
        self.first = Tiny(dropout, outputs=SIZE)
        self.last = nn.Sequential(nn.Linear(SIZE, SIZE), nn.Dropout(dropout))


def embedded_apart(run: Run) -> None:
    """Of the parts that the loop calls, the one that takes token ids has no dropout."""

    class Words(nn.Sequential):
        """A module of its own, as many models have one."""

    model = run.make(Tiny)
    model.embed = Words(model.embed)
    for batch in loader_of(shuffle=True):
        embedded = model.embed(batch["input_ids"])
        states = model.drop(embedded + model.place(torch.arange(embedded.shape[1])))
        mask = batch["attention_mask"].bool()[:, None]
        logits = model.out(model.attend(states, states, mask))
        run.step(token_loss(logits, batch["labels"]), batch["input_ids"])


def called_apart(run: Run) -> None:
    model = run.make(Parts)
    for batch in loader_of():
        states = model.last(model.first(batch["input_ids"], batch["attention_mask"]))
        run.step(token_loss(model.out(states), batch["labels"]), batch["input_ids"])


def decoder_masks(run: Run) -> None:
    def collate(rows: Any) -> Any:
        inputs, targets = batch_of(rows), batch_of([row[: len(row) // 2 + 1] for row in rows])
        return {
            "input_ids": inputs["input_ids"],
            "attention_mask": inputs["attention_mask"],
            "decoder_input_ids": targets["input_ids"],
            "decoder_attention_mask": targets["attention_mask"],
            "labels": targets["labels"],
        }

    run.make(Pair)
    train(run, loader_of(collate))


def masks_of_pairs(run: Run) -> None:
    """Of three dimensions: each token sees those before it in its row."""

    def collate(rows: Any) -> Any:
        real = padded([torch.ones(len(row), dtype=torch.long) for row in rows])
        mask = real[:, None, :] * real[:, :, None] * torch.ones(WIDTH, WIDTH).tril().long()
        return {**batch_of(rows), "attention_mask": mask}

    train(run, loader_of(collate))


def masks_of_four(run: Run) -> None:
    """Of four dimensions, which are added to scores."""

    def collate(rows: Any) -> Any:
        real = padded([torch.ones(len(row)) for row in rows])
        seen = real[:, None, None, :] * torch.ones(WIDTH, WIDTH).tril()
        return {**batch_of(rows), "attention_mask": (1 - seen) * -1e9}

    train(run, loader_of(collate))


def token_weights(run: Run) -> None:
    def collate(rows: Any) -> Any:
        weights = padded([torch.linspace(0.5, 1.5, len(row)) for row in rows], 0.0)
        return {**batch_of(rows), "weights": weights}

    model = run.make()
    for batch in loader_of(collate):
        weights = batch.pop("weights")
        losses = token_loss(model(**inputs_of(batch)), batch["labels"], reduction="none")
        run.step((losses * weights.flatten()).sum() / weights.sum(), batch["input_ids"])


def answers(run: Run) -> None:
    def collate(rows: Any) -> Any:
        chosen, rejected = batch_of(rows), batch_of([row[: 2 + len(row) // 2] for row in rows])
        sides = {"chosen": chosen, "rejected": rejected}
        return {f"{side}_{name}": sides[side][name] for side in sides for name in chosen}

    def score(batch: Any, side: str) -> Any:
        logits = run.model(batch[f"{side}_input_ids"], batch[f"{side}_attention_mask"])
        labels = batch[f"{side}_labels"]
        return -token_loss(logits, labels, reduction="none").view(labels.shape).sum(1)

    run.make()
    for batch in loader_of(collate):
        gap = score(batch, "chosen") - score(batch, "rejected")
        run.step(-functional.logsigmoid(0.1 * gap).mean(), batch["chosen_input_ids"])


def ids_alone(run: Run) -> None:
    model = run.make()
    for ids in loader_of(padded):
        labels = functional.pad(ids[:, 1:], (0, 1)).masked_fill(ids == 0, 0)
        logits = model(ids).float().flatten(0, 1)
        run.step(functional.cross_entropy(logits, labels.flatten(), ignore_index=0), ids)


def untold(run: Run) -> None:
    """Nothing but the tokens themselves tells the padding; the token that ends texts pads, too, and
    is trained once in each row.
    """
    end = 2

    def collate(rows: Any) -> Any:
        rows = [torch.cat([row, torch.tensor([end])]) for row in rows]
        return padded(rows, end), padded(rows, IGNORED)

    model = run.make(Causal)
    for ids, labels in loader_of(collate):
        run.step(token_loss(model(ids)[:, :-1], labels[:, 1:]), ids)


def tuples(run: Run) -> None:
    model = run.make()
    for ids, mask, labels in loader_of(lambda rows: tuple(batch_of(rows).values())):
        run.step(token_loss(model(ids, mask), labels), ids)


@dataclass(frozen=True)
class Batch:
    ids: Any
    mask: Any
    labels: Any
    names: Any


def dataclasses(run: Run) -> None:
    def collate(rows: Any) -> Any:
        return Batch(*batch_of(rows).values(), [f"sample {row[0]}" for row in rows])

    model = run.make()
    for batch in loader_of(collate):
        run.step(token_loss(model(batch.ids, batch.mask), batch.labels), batch.ids)


def nested(run: Run) -> None:
    def collate(rows: Any) -> Any:
        batch = batch_of(rows)
        return {"inputs": {"text": inputs_of(batch)}, "targets": [batch["labels"]]}

    model = run.make()
    for batch in loader_of(collate):
        inputs = batch["inputs"]["text"]
        run.step(token_loss(model(**inputs), batch["targets"][0]), inputs["input_ids"])


def encodings(run: Run) -> None:
    from transformers import BatchEncoding

    model = run.make()
    for batch in loader_of(lambda rows: BatchEncoding(batch_of(rows))):
        assert isinstance(batch, BatchEncoding)
        labels = batch.pop("labels")
        run.step(token_loss(model(**batch), labels), batch.input_ids)


def own_mappings(run: Run) -> None:
    train(run, loader_of(lambda rows: UserDict(batch_of(rows))))


# --- how they are loaded -------------------------------------------------------------------------
def forked(run: Run) -> None:
    train(run, loader_of(num_workers=2, multiprocessing_context="fork"), epochs=2)


def spawned(run: Run) -> None:
    train(run, loader_of(num_workers=2, multiprocessing_context="spawn"))


def persistent(run: Run) -> None:
    train(run, loader_of(num_workers=1, persistent_workers=True), epochs=2)


def pinned(run: Run) -> None:
    train(run, loader_of(pin_memory=True))


class Stream(IterableDataset):  # type: ignore[misc, type-arg]
    def __iter__(self) -> Iterator[Any]:
        yield from SAMPLES


def streamed(run: Run) -> None:
    train(run, DataLoader(Stream(), ROWS_OF_BATCH, collate_fn=batch_of))


def shuffled(run: Run) -> None:
    train(run, loader_of(shuffle=True, generator=torch.Generator().manual_seed(4)))


def shuffled_by_all(run: Run) -> None:
    """By the random numbers that dropout draws, too."""
    train(run, loader_of(shuffle=True))


# --- how the loop goes ---------------------------------------------------------------------------
def evaluated(run: Run, loader: Any) -> float:
    run.model.eval()
    with torch.no_grad():
        losses = [token_loss(run.model(**inputs_of(b)), b["labels"]).item() for b in loader]
    run.model.train()
    return sum(losses) / len(losses)


def evaluation(run: Run) -> None:
    """On the loader that trains."""
    run.make()
    loader = loader_of()
    for _ in range(2):
        train(run, loader)
        run.losses.append(evaluated(run, loader))


def early_stopping(run: Run) -> None:
    run.make()
    loader, others, least = loader_of(), loader_of(), float("inf")
    for _ in range(9):
        train(run, loader)
        now = evaluated(run, others)
        run.losses.append(now)
        if now > 0.95 * least:
            break
        least = min(now, least)


def max_steps(run: Run) -> None:
    run.make()
    while len(run.steps) < 20:
        for batch in loader_of():
            loss = token_loss(run.model(**inputs_of(batch)), batch["labels"])
            run.step(loss, batch["input_ids"])
            if len(run.steps) == 20:
                break


def resumed(run: Run) -> None:
    """In the middle of an epoch."""
    model = run.make()
    for epoch in range(2):
        for number, batch in enumerate(loader_of()):
            if epoch == 0 and number < 6:
                continue
            run.step(token_loss(model(**inputs_of(batch)), batch["labels"]), batch["input_ids"])


def accelerated(run: Run, skipped: int = 0) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, mixed_precision="no")
    run.make()
    run.model, run.optimizer, loader = accelerator.prepare(run.model, run.optimizer, loader_of())
    for epoch in range(2):
        skips = skipped and not epoch
        for batch in accelerator.skip_first_batches(loader, skipped) if skips else loader:
            loss = token_loss(run.model(**inputs_of(batch)), batch["labels"])
            accelerator.backward(loss)
            run.losses.append(loss.item())
            run.waiting += batch["input_ids"][:, 0].tolist()
            run.step()


def skipped(run: Run) -> None:
    accelerated(run, skipped=4)


class Checkpointed(Tiny):
    def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
        states = torch.utils.checkpoint.checkpoint(
            self.hidden, input_ids, attention_mask, position_ids, use_reentrant=False
        )
        return self.out(states)


def checkpointing(run: Run) -> None:
    run.make(Checkpointed)
    train(run, loader_of())


def autocast(run: Run) -> None:
    model = run.make()
    for batch in loader_of():
        with torch.autocast("cpu", torch.bfloat16):
            loss = token_loss(model(**inputs_of(batch)), batch["labels"])
        run.step(loss, batch["input_ids"])


def accumulated(run: Run) -> None:
    model = run.make()
    for _ in range(2):
        for number, batch in enumerate(loader_of(), 1):
            loss = token_loss(model(**inputs_of(batch)), batch["labels"])
            run.backward(loss, batch["input_ids"], share=3)
            if number % 3 == 0:
                run.step()


def distributed(run: Run, shard: bool = False) -> None:
    """On the ranks that torchrun starts."""
    from torch import distributed
    from torch.utils.data import DistributedSampler

    distributed.init_process_group("gloo")
    run.rank = distributed.get_rank()
    atexit.register(distributed.destroy_process_group)
    run.make()
    if shard:
        from torch.distributed.fsdp import fully_shard

        fully_shard(run.model, mesh=distributed.init_device_mesh("cpu", (2,)))
        run.optimizer = torch.optim.SGD(run.model.parameters(), 0.05)
    else:
        run.model = nn.parallel.DistributedDataParallel(run.model)
    train(run, loader_of(sampler=DistributedSampler(SAMPLES, shuffle=False)), epochs=2)
    if shard:
        run.model.unshard()


# --- what the loss is ----------------------------------------------------------------------------
def smoothed(run: Run) -> None:
    model = run.make()
    for batch in loader_of():
        logits = model(**inputs_of(batch))
        loss = token_loss(logits, batch["labels"], label_smoothing=0.1, reduction="sum")
        run.step(loss / 50, batch["input_ids"])


def sample_means(run: Run) -> None:
    """The mean over a batch of the means over its rows."""
    model = run.make()
    for batch in loader_of():
        losses = token_loss(model(**inputs_of(batch)), batch["labels"], reduction="none")
        real = batch["labels"] != IGNORED
        means = losses.view(real.shape).sum(1) / real.sum(1)
        run.step(means.mean(), batch["input_ids"])


class Encoder(Tiny):
    def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
        states = self.hidden(input_ids, attention_mask, position_ids)
        return functional.normalize(masked_mean(states, attention_mask), dim=-1)


def contrastive(run: Run) -> None:
    def collate(rows: Any) -> Any:
        sides = {"query": batch_of([row[: len(row) // 2] for row in rows]), "text": batch_of(rows)}
        return {side: inputs_of(batch) for side, batch in sides.items()}

    model = run.make(Encoder)
    for batch in loader_of(collate):
        scores = (model(**batch["query"]) @ model(**batch["text"]).T).float() / 0.1
        loss = functional.cross_entropy(scores, torch.arange(len(scores)))
        run.step(loss, batch["text"]["input_ids"])


class Routed(Tiny):
    """Experts, and the loss of their router over real tokens or all positions."""

    def __init__(self, dropout: float, over_all: bool) -> None:
        super().__init__(dropout)
        self.router, self.over_all, self.balance = nn.Linear(SIZE, 3), over_all, 0.0
        self.experts = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(3))

    def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
        states = self.hidden(input_ids, attention_mask, position_ids)
        shares = self.router(states).softmax(-1)
        counted = shares.flatten(0, 1) if self.over_all else shares[attention_mask.bool()]
        self.balance = 3 * (counted.mean(0) ** 2).sum()
        experts = torch.stack([expert(states) for expert in self.experts], -1)
        return self.out((experts * shares[..., None, :]).sum(-1))


def routed(run: Run, over_all: bool = False) -> None:
    model = run.make(Routed, over_all=over_all)
    for batch in loader_of():
        loss = token_loss(model(**inputs_of(batch)), batch["labels"])
        run.step(loss + model.balance, batch["input_ids"])


# --- where padding is computed with --------------------------------------------------------------
def padding_with_loss(run: Run) -> None:
    model = run.make()
    for batch in loader_of():
        labels = functional.pad(batch["input_ids"][:, 1:], (0, 1))
        run.step(token_loss(model(**inputs_of(batch)), labels), batch["input_ids"])


def mean_over_all(run: Run) -> None:
    model = run.make()
    for batch in loader_of():
        losses = token_loss(model(**inputs_of(batch)), batch["labels"], reduction="none")
        run.step(losses.mean(), batch["input_ids"])


class Classifier(Tiny):
    """Pools as a subclass says."""

    def __init__(self, dropout: float, outputs: int = 3) -> None:
        super().__init__(dropout, outputs)

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        return self.out(self.pooled(self.hidden(input_ids, attention_mask), attention_mask))

    def pooled(self, states: Any, mask: Any) -> Any:
        return masked_mean(states, mask)


class MeanOfAll(Classifier):
    def pooled(self, states: Any, _mask: Any) -> Any:
        return states.mean(1)


class Normed(Classifier):
    def __init__(self, dropout: float) -> None:
        super().__init__(dropout)
        self.norm = nn.BatchNorm1d(SIZE)

    def pooled(self, states: Any, mask: Any) -> Any:
        return masked_mean(self.norm(states.transpose(1, 2)).transpose(1, 2), mask)


class Recurrent(Classifier):
    def __init__(self, dropout: float) -> None:
        super().__init__(dropout)
        self.lstm = nn.LSTM(SIZE, SIZE, batch_first=True)

    def pooled(self, states: Any, _mask: Any) -> Any:
        return self.lstm(states)[1][0][-1]


def classify(run: Run, kind: Callable[..., Any] = Classifier) -> None:
    def collate(rows: Any) -> Any:
        return {**inputs_of(batch_of(rows)), "labels": torch.stack([row[1] % 3 for row in rows])}

    model = run.make(kind)
    for batch in loader_of(collate):
        loss = functional.cross_entropy(model(**inputs_of(batch)).float(), batch["labels"])
        run.step(loss, batch["input_ids"])


class Rotated(Tiny):
    """Rotates by positions, whose base goes by the length of the row."""

    def hidden(self, input_ids: Any, attention_mask: Any = None, _positions: Any = None) -> Any:
        length = input_ids.shape[1]
        base = 10.0 * max(1.0, length / 4)
        turns = base ** (-torch.arange(0, SIZE, 2) / SIZE)
        angles = torch.arange(length)[:, None] * turns
        even, odd = self.embed(input_ids).unflatten(-1, (-1, 2)).unbind(-1)
        turned = (
            even * angles.cos() - odd * angles.sin(),
            even * angles.sin() + odd * angles.cos(),
        )
        states = torch.stack(turned, -1).flatten(-2)
        return self.attend(states, states, attention_mask[:, None].bool())


def rotated(run: Run) -> None:
    run.make(Rotated)
    train(run, loader_of())


class Noisy(nn.Embedding):
    def forward(self, ids: Any) -> Any:
        states = super().forward(ids)
        if not self.training:
            return states
        most = 5.0 / (ids.shape[1] * SIZE) ** 0.5
        return states + torch.zeros_like(states).uniform_(-most, most)


def noisy(run: Run) -> None:
    run.make()
    run.model.embed.__class__ = Noisy
    train(run, loader_of())


def left(run: Run) -> None:
    def collate(rows: Any) -> Any:
        batch, sizes = batch_of(rows), [len(row) for row in rows]
        return {
            name: torch.stack([each.roll(WIDTH - n) for each, n in zip(value, sizes, strict=True)])
            for name, value in batch.items()
        }

    train(run, loader_of(collate))


def multi_hot(run: Run, classes: int = WIDTH) -> None:
    """As many classes as columns, of which the last ones may be rare."""

    def collate(rows: Any) -> Any:
        hot = [functional.one_hot(row % classes, WIDTH).sum(0).clamp(max=1) for row in rows]
        return {**inputs_of(batch_of(rows)), "labels": torch.stack(hot).float()}

    model = run.make(Classifier, outputs=WIDTH)
    for batch in loader_of(collate):
        logits = model(**inputs_of(batch)).float()
        loss = functional.binary_cross_entropy_with_logits(logits, batch["labels"])
        run.step(loss, batch["input_ids"])


class Featured(Classifier):
    """Takes numbers of a sample beside its tokens, as many as tokens or fewer."""

    def __init__(self, dropout: float) -> None:
        super().__init__(dropout)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, input_ids: Any, attention_mask: Any, features: Any) -> Any:
        pooled = masked_mean(self.hidden(input_ids, attention_mask), attention_mask)
        return self.out(pooled * (1 + self.scale * features.mean(1, keepdim=True)))


def features(run: Run, n_set: int = WIDTH) -> None:
    def collate(rows: Any) -> Any:
        numbers = torch.stack([torch.linspace(0, 1, n_set) * float(row[0]) / 40 for row in rows])
        numbers = functional.pad(numbers, (0, WIDTH - n_set))
        labels = torch.stack([row[1] % 3 for row in rows])
        return {**inputs_of(batch_of(rows)), "features": numbers, "labels": labels}

    model = run.make(Featured)
    for batch in loader_of(collate):
        loss = functional.cross_entropy(model(**inputs_of(batch)).float(), batch["labels"])
        run.step(loss, batch["input_ids"])


LOOPS: dict[str, Callable[[Run], None]] = {
    "special tokens": special_tokens,
    "positions": positions,
    "called apart": called_apart,
    "embedded apart": embedded_apart,
    "decoder masks": decoder_masks,
    "masks of three dimensions": masks_of_pairs,
    "masks of four dimensions": masks_of_four,
    "token weights": token_weights,
    "answers": answers,
    "ids alone": ids_alone,
    "untold": untold,
    "tuples": tuples,
    "dataclasses": dataclasses,
    "nested": nested,
    "encodings": encodings,
    "own mappings": own_mappings,
    "forked": forked,
    "spawned": spawned,
    "persistent": persistent,
    "pinned": pinned,
    "streamed": streamed,
    "shuffled": shuffled,
    "shuffled by all": shuffled_by_all,
    "evaluation": evaluation,
    "early stopping": early_stopping,
    "max steps": max_steps,
    "resumed": resumed,
    "accelerated": accelerated,
    "skipped": skipped,
    "checkpointing": checkpointing,
    "autocast": autocast,
    "accumulated": accumulated,
    "distributed": distributed,
    "sharded": lambda run: distributed(run, shard=True),
    "smoothed": smoothed,
    "sample means": sample_means,
    "contrastive": contrastive,
    "routed": routed,
    "classified": classify,
    "padding with loss": padding_with_loss,
    "mean over all": mean_over_all,
    "mean of all": lambda run: classify(run, MeanOfAll),
    "batch norm": lambda run: classify(run, Normed),
    "LSTM": lambda run: classify(run, Recurrent),
    "routed over all": lambda run: routed(run, over_all=True),
    "rotated": rotated,
    "noisy": noisy,
    "left": left,
    "multi-hot": multi_hot,
    "rare classes": lambda run: multi_hot(run, classes=7),
    "features": features,
    "features that end in zeros": lambda run: features(run, n_set=6),
}


if __name__ == "__main__":
    torch.set_num_threads(1)
    own = Run(Path(sys.argv[1]), "dropout" in sys.argv[3:], "bfloat16" in sys.argv[3:])
    LOOPS[sys.argv[2]](own)
    own.leave()
