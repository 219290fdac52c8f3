"""Loops whose steps have several batches, over ranks or one after the other, of a tiny model.

`python step_loops.py FOLDER LOOP [NAME=VALUE …]` trains one of them with such `Options`. It leaves
in the folder the samples of each batch of each step, the parameters, and the samples that its own
sampler drew.
"""

import atexit
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from loops import IGNORED, Classifier, Encoder, Normed, Run, batch_of, inputs_of
from loops import sample as sample_of
from loops import token_loss as loss_of
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Sampler

N_SAMPLES = 72


@dataclass
class Options:
    rows: int = 3
    accumulation: int = 3
    epochs: int = 2
    most_steps: int = 1000
    n_samples: int = N_SAMPLES
    workers: int = 0
    persistent: bool = False
    drop_last: bool = False
    seed: int | None = 4  # None for the random numbers of all
    dynamic: bool = False  # whether the collator pads to the longest row
    looks: bool = False  # whether the first rank reads an epoch before
    skipped: int = 0  # batches of the first epoch
    # What becomes of the last batches of an epoch: they are "carried", "stepped", "dropped", or
    # "kept" beside those of the next step.
    tail: str = "carried"
    change_at: int = 1000  # the step from which it has one batch more
    order: str = ""  # a file that has the samples to come, in their sequence
    # What goes wrong on the last rank: it "raises" in its collation, is "killed", or its "recorder"
    # fails; and the batch, collated by this rank, in which it does.
    fault: str = os.environ.get("FAULT", "")
    fault_at: int = int(os.environ.get("FAULT_AT", "0"))


class Numbers(Sampler):  # type: ignore[misc, type-arg]
    """What another sampler draws, which is kept."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.drawn = inner, list[int]()

    def __iter__(self) -> Iterator[int]:
        for number in self.inner:
            self.drawn.append(int(number))
            yield number

    def __len__(self) -> int:
        return len(self.inner)


class InEpoch(Sampler):  # type: ignore[misc, type-arg]
    """Draws each number when it is asked for."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        left = list(range(self.n))
        while left:
            yield left.pop(int(torch.randint(len(left), ())))

    def __len__(self) -> int:
        return self.n


class Texts(Dataset):  # type: ignore[misc, type-arg]
    def __init__(self, numbers: list[int], draws: bool = False) -> None:
        self.numbers, self.draws = numbers, draws

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, number: int) -> Any:
        text = sample_of(self.numbers[number])
        return text[: random.randint(3, len(text))] if self.draws else text


class Stream(IterableDataset):  # type: ignore[misc, type-arg]
    def __init__(self, texts: Any) -> None:
        self.texts = texts

    def __iter__(self) -> Iterator[Any]:
        yield from (self.texts[number] for number in range(len(self.texts)))


@dataclass
class Steps:
    """What a loop trains, and what it leaves: the samples of each batch of each step."""

    run: Run
    given: Options
    steps: list[list[list[int]]] = field(default_factory=list)
    waiting: list[list[int]] = field(default_factory=list)
    sampler: Any = None
    _n_collated: int = 0

    def collate(self, rows: Any) -> Any:
        self._n_collated += 1
        if self.given.fault and self.run.rank == 1 and self._n_collated == self.given.fault_at:
            if self.given.fault == "raises":
                raise ValueError("a row that cannot be read")
            if self.given.fault == "recorder":
                sys.modules["batchstat_recorder.line_queue"].LineQueue.add = None  # type: ignore[attr-defined]
                return batch_of(rows)
            (self.run.folder / "killed").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        batch = batch_of(rows)
        if self.given.dynamic:
            longest = max(map(len, rows))
            batch = {name: column[:, :longest].contiguous() for name, column in batch.items()}
        return batch

    def loader(self, collate: Any = None, texts: Any = None, sampler: Any = None) -> Any:
        given = self.given
        texts = Texts(list(range(given.n_samples))) if texts is None else texts
        seeded = {}
        if given.seed is not None:
            seeded["generator"] = torch.Generator().manual_seed(given.seed)
        if sampler is None and not isinstance(texts, IterableDataset):
            self.sampler = sampler = Numbers(RandomSampler(texts, **seeded))
        if given.order:
            sampler = iter(json.loads(Path(given.order).read_text()))
            sampler = Parts(list(sampler), given.n_samples)
        workers = {"multiprocessing_context": "fork"} if given.workers else {}
        return DataLoader(
            texts,
            given.rows,
            sampler=sampler,
            collate_fn=collate or self.collate,
            num_workers=given.workers,
            persistent_workers=given.persistent,
            drop_last=given.drop_last,
            **workers,
        )

    def backward(self, loss: Any, ids: Any, backward: Any = None) -> None:
        (backward or torch.Tensor.backward)(loss)
        self.waiting.append([int(first) - 3 for first in ids[:, 0]])

    def step(self) -> None:
        self.run.optimizer.step()
        self.run.optimizer.zero_grad()
        self.steps.append(self.waiting)
        self.waiting = []

    @property
    def is_done(self) -> bool:
        return len(self.steps) >= self.given.most_steps

    def train(self, loader: Any, loss_of_batch: Any, samplers: Any = ()) -> None:
        """Train on batches one after the other."""
        given, n_before = self.given, 0
        for epoch in range(given.epochs):
            for each in samplers:
                each.set_epoch(epoch)
            for number, batch in enumerate(loader, 1):
                if epoch == 0 and number <= given.skipped:
                    continue
                self.backward(loss_of_batch(batch), ids_of(batch))
                n_before += 1
                n_in_step = given.accumulation + (len(self.steps) >= given.change_at)
                is_last = given.tail == "stepped" and number == len(loader)
                if n_before % n_in_step == 0 or is_last:
                    self.step()
                    n_before = 0
                if self.is_done:
                    return
            if given.tail == "dropped":
                self.run.optimizer.zero_grad()
                self.waiting, n_before = [], 0
            if given.tail == "kept":
                n_before = 0

    def leave(self) -> None:
        values = [v for each in self.run.model.parameters() for v in each.flatten().tolist()]
        drawn = getattr(self.sampler, "drawn", [])
        content = {"steps": self.steps, "parameters": values, "drawn": drawn}
        file = self.run.folder / f"trained.{self.run.rank}.json"
        file.write_text(json.dumps(content))


class Parts(Sampler):  # type: ignore[misc, type-arg]
    """Numbers in their sequence, so many in each epoch."""

    def __init__(self, numbers: list[int], size: int) -> None:
        self.numbers, self.size = iter(numbers), size

    def __iter__(self) -> Iterator[int]:
        return islice(self.numbers, self.size)

    def __len__(self) -> int:
        return self.size


def ids_of(batch: Any) -> Any:
    return batch["text"]["input_ids"] if "text" in batch else batch["input_ids"]


# --- losses of a batch ---------------------------------------------------------------------------
def summed(steps: Steps) -> Callable[[Any], Any]:
    """Over tokens, each of which weighs the same in every batch."""
    model = steps.run.model or steps.run.make()

    def loss(batch: Any) -> Any:
        return loss_of(model(**inputs_of(batch)), batch["labels"], reduction="sum") / 60

    return loss


def averaged(steps: Steps) -> Callable[[Any], Any]:
    """Over the tokens of the batch."""
    model = steps.run.model or steps.run.make()

    def loss(batch: Any) -> Any:
        return loss_of(model(**inputs_of(batch)), batch["labels"]) / steps.given.accumulation

    return loss


def classified(steps: Steps, kind: Any = Classifier) -> Callable[[Any], Any]:
    """Over the samples of the batch."""
    model = steps.run.model or steps.run.make(kind)

    def loss(batch: Any) -> Any:
        labels = batch["input_ids"][:, 1] % 3
        logits = model(**inputs_of(batch))
        return functional.cross_entropy(logits, labels) / steps.given.accumulation

    return loss


# --- loops ---------------------------------------------------------------------------------------
def plain(steps: Steps, loss: Callable[[Steps], Any] = summed) -> None:
    steps.train(steps.loader(), loss(steps))


def ranks(steps: Steps, loss: Callable[[Steps], Any] = summed) -> None:
    """DistributedDataParallel over the ranks that a launcher starts."""
    from torch.utils.data import DistributedSampler

    begin_ranks(steps)
    texts, own = Texts(list(range(steps.given.n_samples))), steps.given
    sampler = DistributedSampler(texts, seed=own.seed or 0, drop_last=own.drop_last)
    loss(steps)  # which makes the model
    steps.run.model = nn.parallel.DistributedDataParallel(steps.run.model)
    loader = steps.loader(texts=texts, sampler=sampler)
    if own.looks and not steps.run.rank:  # on one rank, as to count what it trains
        assert all(len(batch["input_ids"]) for batch in loader)
    steps.train(loader, loss(steps), [sampler])


def begin_ranks(steps: Steps) -> None:
    from torch import distributed

    distributed.init_process_group("gloo")
    steps.run.rank = distributed.get_rank()
    atexit.register(distributed.destroy_process_group)


def accelerated(steps: Steps) -> None:
    """Reads the batches of a step at once, and divides by the tokens of them on all ranks."""
    from accelerate import Accelerator

    given, run = steps.given, steps.run
    accelerator = Accelerator(cpu=True, mixed_precision="no")
    run.rank = accelerator.process_index
    run.make()
    loader = steps.loader(sampler=RandomSampler(Texts(list(range(given.n_samples)))))
    run.model, run.optimizer, loader = accelerator.prepare(run.model, run.optimizer, loader)
    for epoch in range(given.epochs):
        skips = given.skipped and not epoch
        own = accelerator.skip_first_batches(loader, given.skipped) if skips else loader
        if hasattr(own, "set_epoch"):
            own.set_epoch(epoch)
        batches = iter(own)
        while of_step := list(islice(batches, given.accumulation)):
            n_tokens = torch.tensor(sum(int((b["labels"] != IGNORED).sum()) for b in of_step))
            n_tokens = accelerator.gather(n_tokens).sum()
            for number, batch in enumerate(of_step, 1):
                run.model.require_backward_grad_sync = number == len(of_step)
                logits = run.model(**inputs_of(batch))
                loss = loss_of(logits, batch["labels"], reduction="sum")
                loss = loss * accelerator.num_processes / n_tokens
                steps.backward(loss, batch["input_ids"], accelerator.backward)
            steps.step()
            if steps.is_done:
                return


def contrastive(steps: Steps) -> None:
    model = steps.run.make(Encoder)

    def collate(rows: Any) -> Any:
        sides = {"query": batch_of([row[: len(row) // 2] for row in rows]), "text": batch_of(rows)}
        return {side: inputs_of(batch) for side, batch in sides.items()}

    def loss(batch: Any) -> Any:
        scores = model(**batch["query"]) @ model(**batch["text"]).T / 0.1
        return functional.cross_entropy(scores, torch.arange(len(scores))) / 3

    steps.train(steps.loader(collate), loss)


def masking(steps: Steps) -> None:
    """The collator masks tokens that it draws."""

    def collate(rows: Any) -> Any:
        batch = steps.collate(rows)
        masked = (torch.rand(batch["labels"].shape) < 0.3) & (batch["attention_mask"] > 0)
        masked[:, :2] = False
        return {**batch, "input_ids": batch["input_ids"].masked_fill(masked, 2)}

    steps.train(steps.loader(collate), summed(steps))


def drawing(steps: Steps) -> None:
    """The data set draws how long its samples are."""
    texts = Texts(list(range(steps.given.n_samples)), draws=True)
    steps.train(steps.loader(texts=texts), summed(steps))


def stream(steps: Steps) -> None:
    texts = Stream(Texts(list(range(steps.given.n_samples))))
    steps.train(steps.loader(texts=texts), summed(steps))


def drawn_in_epoch(steps: Steps) -> None:
    torch.manual_seed(3)
    steps.train(steps.loader(sampler=InEpoch(steps.given.n_samples)), summed(steps))


def unseeded_split(steps: Steps) -> None:
    """Samples have other numbers each time that the command starts."""
    numbers = list(range(steps.given.n_samples))
    random.Random(os.urandom(8)).shuffle(numbers)
    steps.train(steps.loader(texts=Texts(numbers)), summed(steps))


LOOPS: dict[str, Callable[[Steps], None]] = {
    "plain": plain,
    "token-means": lambda steps: plain(steps, averaged),
    "classified": lambda steps: plain(steps, classified),
    "batch-norm": lambda steps: plain(steps, lambda own: classified(own, Normed)),
    "ranks": ranks,
    "ranks-classified": lambda steps: ranks(steps, classified),
    "accelerated": accelerated,
    "contrastive": contrastive,
    "masking": masking,
    "drawing": drawing,
    "stream": stream,
    "drawn-in-epoch": drawn_in_epoch,
    "unseeded-split": unseeded_split,
}


def options_of(words: list[str]) -> Options:
    pairs = [word.split("=", 1) for word in words]
    values = {name: value if name in TEXTS else json.loads(value) for name, value in pairs}
    return Options(**values)


TEXTS = {"tail", "order", "fault"}


if __name__ == "__main__":
    torch.set_num_threads(1)
    own = Steps(Run(Path(sys.argv[1]), False, False), options_of(sys.argv[3:]))
    LOOPS[sys.argv[2]](own)
    own.leave()
