"""What the weights of trained tokens do to a model: the mean of each batch against the exact loss.

python tests/benchmarks/token_weights.py [--seeds 5] [--samples 32000] [--learning-rate 2e-3]
                                         [--output FOLDER]

Needs torch. A small causal transformer learns two tasks from one corpus: most samples have a long
prompt and an answer of a few tokens, one in eight a short prompt and a long answer. Per seed it is
trained twice for one epoch, from the same initialisation on the same batches, on two simulated
ranks that accumulate two batches each. The two differ in the weight of each batch's mean loss
alone: 1 / gradient_accumulation_steps, or `batch.token_weight`. The strategy is `bucketed`, whose
batches hold equal numbers of samples of similar lengths, so that their trained tokens differ the
most. It writes token_weights.md and token_weights.json: the weights that `compare` predicts, and
the held-out loss per trained token, mean ± standard error over the seeds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

import batchstat
from batchstat import BatchSampler
from batchstat.planning.rank_batches import Batch

PAD, ANSWER, END, COUNT, FIND = range(5)
SYMBOLS = range(5, 37)
LONGEST = 64
RANKS = 2
ACCUMULATED = 2
SETTINGS = {
    "batch_size": 8,
    "max_length": LONGEST,
    "world_size": RANKS,
    "gradient_accumulation_steps": ACCUMULATED,
}
ARMS = {"mean-per-batch": "mean of each batch", "token-sum": "`batch.token_weight`"}
"""What `compare` calls the loss, and its column in the table."""
HELD_OUT = 1000
TENTHS = ("shortest tenth", "longest tenth", "all samples")


@dataclass(frozen=True)
class Sample:
    """Token ids, of which the last `trained` carry loss."""

    ids: list[int]
    trained: int


def corpus(seed: object, size: int) -> list[Sample]:
    """Return samples of both tasks.

    One in eight counts: from a symbol in steps of another, modulo the number of symbols. The others
    repeat the first one or two symbols of a longer prompt backwards.
    """
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(size):
        if rng.random() < 1 / 8:
            start, stride = rng.integers(0, len(SYMBOLS), 2)
            counted = (start + stride * np.arange(rng.integers(16, 49))) % len(SYMBOLS)
            task, prompt, answer = COUNT, [start, stride], counted.tolist()
        else:
            prompt = rng.choice(len(SYMBOLS), rng.integers(6, 17), replace=False).tolist()
            task, answer = FIND, prompt[: rng.integers(1, 3)][::-1]
        symbols = [[SYMBOLS[each] for each in part] for part in (prompt, answer)]
        samples.append(Sample([task, *symbols[0], ANSWER, *symbols[1], END], len(answer) + 1))
    return samples


def profile(samples: list[Sample]) -> batchstat.Profile:
    """Return the lengths and trained tokens of samples."""
    frame = pd.DataFrame({"ids": [s.ids for s in samples], "trained": [s.trained for s in samples]})
    return batchstat.profile(frame, tokens_column="ids", trained_column="trained")


def predicted(lengths: batchstat.Profile, loss: str, seed: int) -> list[float]:
    """Return the weights of trained tokens: p5, p95, mean of the shortest and longest tenth."""
    made = batchstat.compare(lengths, strategies="bucketed", loss=loss, seed=seed, **SETTINGS)
    weights = made["bucketed"].trained.weights
    return [weights.p5, weights.p95, weights.shortest_tenth, weights.longest_tenth]


class Model(nn.Module):
    """A causal transformer of some 100,000 parameters."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(SYMBOLS.stop, width)
        self.positions = nn.Embedding(LONGEST, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(
            layer, layers, nn.LayerNorm(width), enable_nested_tensor=False
        )
        self.head = nn.Linear(width, SYMBOLS.stop)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        embedded = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return self.head(self.blocks(embedded, mask=mask, is_causal=True))


def losses(model: Model, samples: list[Sample]) -> torch.Tensor:
    """Return the loss of every trained token of samples, in their sequence."""
    width = max(len(each.ids) for each in samples)
    ids = torch.tensor([each.ids + [PAD] * (width - len(each.ids)) for each in samples])
    ends = torch.tensor([len(each.ids) for each in samples])[:, None]
    trained = torch.tensor([each.trained for each in samples])[:, None]
    place = torch.arange(1, width)[None]
    carries = (place >= ends - trained) & (place < ends)
    return functional.cross_entropy(
        model(ids)[:, :-1][carries], ids[:, 1:][carries], reduction="none"
    )


def steps(samplers: list[BatchSampler]) -> Iterator[list[Batch]]:
    """Yield the batches of all ranks, step by step."""
    ranks = [groupby(each.batches(), key=lambda batch: batch.step) for each in samplers]
    for groups in zip(*ranks, strict=True):
        yield [batch for _, group in groups for batch in group]


def held_out_losses(model: Model, samples: list[Sample]) -> list[float]:
    """Return the loss per trained token of the shortest and the longest tenth, and of all."""
    ordered = sorted(samples, key=lambda sample: len(sample.ids))
    tenth = len(ordered) // 10
    parts = [ordered[i : i + tenth] for i in range(0, len(ordered), tenth)]
    with torch.no_grad():
        found = [losses(model, part) for part in parts]
    return [each.mean().item() for each in (found[0], found[-1], torch.cat(found))]


def train(
    samples: list[Sample],
    samplers: list[BatchSampler],
    loss: str,
    seed: int,
    rate: float,
) -> Iterator[tuple[int, list[float]]]:
    """Train one epoch; yield steps done and held-out losses after 1/4, 1/2 and all of it."""
    torch.manual_seed(seed)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    every = list(steps(samplers))
    stops = [len(every) // 4, len(every) // 2, len(every)]
    held_out = corpus((0, 0), HELD_OUT)
    for done, batches in enumerate(every, 1):
        for batch in batches:
            mean = losses(model, [samples[i] for i in batch.records]).mean()
            weight = 1 / ACCUMULATED if loss == "mean-per-batch" else batch.token_weight
            (mean * weight / RANKS).backward()  # DistributedDataParallel averages over the ranks
        optimizer.param_groups[0]["lr"] = rate * min(1, done / 50)
        optimizer.step()
        optimizer.zero_grad()
        if done in stops:
            yield done, held_out_losses(model, held_out)


def table(weights: dict[str, np.ndarray], measured: dict[int, dict[str, np.ndarray]]) -> list[str]:
    """Return the lines of a Markdown table: weights are (seeds, 4), losses (seeds, 3)."""
    means = {loss: found.mean(axis=0) for loss, found in weights.items()}
    rows = [
        ("weight, 5th to 95th percentile", [f"{m[0]:.2f} to {m[1]:.2f}" for m in means.values()]),
        ("weight, shortest tenth", [f"{m[2]:.2f}" for m in means.values()]),
        ("weight, longest tenth", [f"{m[3]:.2f}" for m in means.values()]),
    ]
    for done, by_loss in measured.items():
        for column, tenth in enumerate(TENTHS):
            cells = [
                f"{statistics.mean(own):.3f} ± {statistics.stdev(own) / len(own) ** 0.5:.3f}"
                for own in (found[:, column].tolist() for found in by_loss.values())
            ]
            rows.append((f"loss, {tenth}, {done:,} steps", cells))
    return [
        f"| | {' | '.join(ARMS.values())} |",
        "|---|---:|---:|",
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=32_000)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--output", type=Path, default=Path())
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # which is faster for batches as small as these

    weights: dict[str, list[list[float]]] = {loss: [] for loss in ARMS}
    measured: dict[int, dict[str, list[list[float]]]] = {}
    for seed in range(arguments.seeds):
        samples = corpus((seed, 1), arguments.samples)
        lengths = profile(samples)
        samplers = [
            BatchSampler(lengths, "bucketed", rank=rank, seed=seed, **SETTINGS)
            for rank in range(RANKS)
        ]
        for loss in ARMS:
            began = time.perf_counter()
            weights[loss].append(predicted(lengths, loss, seed))
            for done, found in train(samples, samplers, loss, seed, arguments.learning_rate):
                measured.setdefault(done, {each: [] for each in ARMS})[loss].append(found)
            print(seed, loss, measured[done][loss][-1], f"{time.perf_counter() - began:.0f} s")

    lines = table(
        {loss: np.array(found) for loss, found in weights.items()},
        {done: {k: np.array(v) for k, v in by_loss.items()} for done, by_loss in measured.items()},
    )
    print("\n".join(lines))
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "token_weights.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {key: str(value) for key, value in vars(arguments).items()}
    record = {"settings": settings, "torch": torch.__version__, "weights": weights}
    text = json.dumps(record | {"losses": measured}, indent=2)
    (arguments.output / "token_weights.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
