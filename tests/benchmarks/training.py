"""How long a transformer trains under each batching, beside what the report estimates.

python tests/benchmarks/training.py [--rounds 3] [--device cpu] [--hidden 128] [--layers 2]
                                    [--tokens-per-batch 4096] [--dtype float32] [--output FOLDER]

Needs torch and transformers. Every strategy trains a BERT of that shape over one epoch of the same
lengths, those of sample_data/corpus.txt, on the batches that BatchSampler gives; the rounds
alternate between the strategies, and each time is the median of its rounds, as a ratio to static's.
Beside it stand the ratios of the report: total tokens (linear), attention (quadratic) and the model
estimate for that shape. It writes training.md and training.json.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

import batchstat
from batchstat import BatchSampler, CostModel

ROOT = Path(__file__).parents[2]
STRATEGIES = ("static", "fixed", "hf-group-by-length", "bucketed", "token-budget")


def epoch_of(model: torch.nn.Module, sampler: BatchSampler, arguments: argparse.Namespace) -> float:
    """Seconds of forward, backward and update over all batches."""
    device, dtype = arguments.device, getattr(torch, arguments.dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = []
    for batch in sampler.batches():
        lengths = torch.tensor(batch.stops)
        mask = torch.arange(batch.width)[None] < lengths[:, None]
        batches.append((torch.randint(5, 1000, mask.shape) * mask, mask.long()))
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for ids, mask in batches:
        with torch.autocast(device, dtype, enabled=dtype is not torch.float32):
            output = model(input_ids=ids.to(device), attention_mask=mask.to(device))
            loss = output.last_hidden_state.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens-per-batch", type=int, default=4096)
    parser.add_argument("--output", type=Path, default=Path())
    arguments = parser.parse_args()

    lengths = batchstat.profile(ROOT / "sample_data" / "corpus.txt").lengths
    settings = {"tokens_per_batch": arguments.tokens_per_batch, "max_length": 512}
    shape = CostModel(hidden=arguments.hidden, layers=arguments.layers)
    report = batchstat.compare(lengths, strategies=STRATEGIES, model=shape, **settings)
    torch.manual_seed(0)
    heads = max(1, arguments.hidden // 64)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=arguments.hidden,
        num_hidden_layers=arguments.layers,
        num_attention_heads=heads,
        intermediate_size=4 * arguments.hidden,
    )
    model = BertModel(config).to(arguments.device)
    samplers = {name: BatchSampler(lengths, name, **settings) for name in STRATEGIES}
    epoch_of(model, samplers["static"], arguments)  # what is loaded at the first use
    times: dict[str, list[float]] = {name: [] for name in STRATEGIES}
    for _ in range(arguments.rounds):
        for name, sampler in samplers.items():
            times[name].append(epoch_of(model, sampler, arguments))

    rows = []
    costs = {row.name: report.costs(row) for row in report.strategies}
    for row in report.strategies:
        ratios = [a / b for a, b in zip(times[row.name], times["static"], strict=True)]
        estimates = {key: costs[row.name][key] / costs["static"][key] for key in costs["static"]}
        rows.append(
            {
                "strategy": row.name,
                "batches": row.counts.batches,
                "padding_ratio": row.counts.padding_ratio,
                "measured": statistics.median(ratios),
                **estimates,
            }
        )
    lines = [
        "| strategy | batches | padding | measured | linear | quadratic | model |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row['strategy']} | {row['batches']:,} | {100 * row['padding_ratio']:.1f} % | "
            f"{row['measured']:.2f} | {row['linear']:.2f} | {row['quadratic']:.2f} | "
            f"{row['model']:.2f} |"
            for row in rows
        ),
    ]
    print("\n".join(lines))
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "training.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings_used = {key: str(value) for key, value in vars(arguments).items()}
    record = {"settings": settings_used, "torch": torch.__version__, "rows": rows}
    (arguments.output / "training.json").write_text(json.dumps(record, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
