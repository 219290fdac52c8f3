"""How long models train under each batching, beside what a calibration says before.

python tests/benchmarks/calibration.py [--rounds 5] [--device cpu] [--dtype float32] [--hidden 128]
                                    [--layers 2] [--tokens-per-batch 4096] [--samples 240]
                                    [--config FOLDER] [--output FOLDER]

Needs torch and transformers. Each model is calibrated first, on batches of random tokens. Then it
trains over one epoch of each corpus under each strategy, on the batches that BatchSampler gives;
the rounds alternate between the strategies, and each time is the median of its rounds, as a ratio
to static's in the same round. Beside it stand the ratios of the report: by the calibration, by
total tokens (linear), by attention (quadratic) and by the model's operations. It writes
calibration.md and calibration.json, and fails where a calibrated ratio is more than a tenth off, or
where rows that differ by more than a tenth are in another sequence than measured.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoConfig

import batchstat
from batchstat import BatchSampler, Calibration
from batchstat.calibration.calibrate import calibrate
from batchstat.calibration.calibration import PER_SECOND
from batchstat.calibration.torch_steps import ModelSteps, quiet_transformers

ROOT = Path(__file__).parents[2]
STRATEGIES = ("static", "fixed", "bucketed", "token-budget")
CORPORA = {
    "corpus.txt": {},
    "reviews.csv": {"text_column": "review"},
}
TOLERANCE = 0.1
VOCABULARY = 1_000


def configurations(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Small models of two families."""
    hidden = arguments.hidden
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "num_hidden_layers": arguments.layers,
        "num_attention_heads": max(1, hidden // 64),
        "max_position_embeddings": 512,
    }
    yield "bert", {"model_type": "bert", **shape, "intermediate_size": 4 * hidden}
    yield "llama", {"model_type": "llama", **shape, "intermediate_size": 8 * hidden // 3}


def seconds_of_epoch(steps: ModelSteps, sampler: BatchSampler, device: torch.device) -> float:
    """Seconds of forward, backward and update over all batches."""
    batches = []
    for batch in sampler.batches():
        lengths = torch.tensor(batch.stops)
        mask = torch.arange(batch.width)[None] < lengths[:, None]
        ids = torch.randint(1, steps.vocabulary, mask.shape)
        labels = torch.where(mask, ids, -100)
        batches.append({"input_ids": ids, "attention_mask": mask.long(), "labels": labels})
    wait(device)
    began = time.perf_counter()
    for each in batches:
        steps.forward_backward({name: tensor.to(device) for name, tensor in each.items()})
        steps.update()
    wait(device)
    return time.perf_counter() - began


def wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def rows_of(
    model: str, corpus: str, calibration: Calibration, arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """What is measured and what was said of each strategy on one corpus."""
    profile = batchstat.profile(ROOT / "sample_data" / corpus, **CORPORA[corpus])
    lengths = profile.lengths[: arguments.samples]
    settings = {"tokens_per_batch": arguments.tokens_per_batch, "max_length": 512}
    shape = calibration.setup.shape
    report = batchstat.compare(lengths, strategies=STRATEGIES, model=shape, **settings)
    timed = batchstat.compare(lengths, strategies=STRATEGIES, calibration=calibration, **settings)
    device = torch.device(arguments.device)
    config = AutoConfig.from_pretrained(calibration.setup.model)
    steps = ModelSteps(config, calibration.setup, device)
    samplers = {name: BatchSampler(lengths, name, **settings) for name in STRATEGIES}
    seconds_of_epoch(steps, samplers["static"], device)  # what is loaded at the first use
    times: dict[str, list[float]] = {name: [] for name in STRATEGIES}
    for _ in range(arguments.rounds):
        for name, sampler in samplers.items():
            times[name].append(seconds_of_epoch(steps, sampler, device))
    costs = {row.name: report.costs(row) for row in report.strategies}
    for row in timed.strategies:
        ratios = [a / b for a, b in zip(times[row.name], times["static"], strict=True)]
        yield {
            "model": model,
            "corpus": corpus,
            "strategy": row.name,
            "batches": row.counts.batches,
            "padding_ratio": row.counts.padding_ratio,
            "seconds": statistics.median(times[row.name]),
            "calibrated_seconds": row.counts.compute / PER_SECOND,
            "measured": statistics.median(ratios),
            "calibrated": row.counts.compute / timed["static"].counts.compute,
            "linear": costs[row.name]["linear"] / costs["static"]["linear"],
            "quadratic": costs[row.name]["quadratic"] / costs["static"]["quadratic"],
            "operations": costs[row.name]["model"] / costs["static"]["model"],
        }


def failures(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Where calibrated ratios are not what was measured."""
    for row in rows:
        off = row["calibrated"] / row["measured"] - 1
        if abs(off) > TOLERANCE:
            yield f"{row['model']}, {row['corpus']}, {row['strategy']}: {off:+.1%}"
    for a, b in itertools.permutations(rows, 2):
        same = (a["model"], a["corpus"]) == (b["model"], b["corpus"])
        slower = a["measured"] > (1 + TOLERANCE) * b["measured"]
        if same and slower and a["calibrated"] <= b["calibrated"]:
            yield f"{a['model']}, {a['corpus']}: {a['strategy']} is slower than {b['strategy']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens-per-batch", type=int, default=4096)
    parser.add_argument("--samples", type=int, default=240)
    parser.add_argument("--config", type=Path, help="the folder of a config.json instead")
    parser.add_argument("--output", type=Path, default=Path())
    arguments = parser.parse_args()

    torch.manual_seed(0)
    rows, residuals = [], {}
    with TemporaryDirectory() as folder, quiet_transformers():
        models = dict(configurations(arguments))
        if arguments.config is not None:
            text = (arguments.config / "config.json").read_text(encoding="utf-8")
            models = {arguments.config.name: json.loads(text)}
        for name, config in models.items():
            path = Path(folder) / name
            path.mkdir()
            (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
            calibration = calibrate(
                str(path),
                device=arguments.device,
                dtype=arguments.dtype,
                max_length=512,
                tokens_per_batch=arguments.tokens_per_batch,
            )
            assert calibration.time is not None
            print(f"{name}: {calibration.time}", file=sys.stderr, flush=True)
            residuals[name] = calibration.time.residual
            for corpus in CORPORA:
                rows += rows_of(name, corpus, calibration, arguments)
    names = ("measured", "calibrated", "linear", "quadratic", "operations")
    lines = [
        f"| model, corpus | strategy | batches | padding | {' | '.join(names)} |",
        f"|---|---|---|---|{'---|' * len(names)}",
        *(
            f"| {row['model']}, {row['corpus']} | {row['strategy']} | {row['batches']:,} | "
            f"{100 * row['padding_ratio']:.1f} % | "
            f"{' | '.join(f'{row[name]:.2f}' for name in names)} |"
            for row in rows
        ),
    ]
    print("\n".join(lines))
    print("residuals of the fits:", {name: f"{each:.1%}" for name, each in residuals.items()})
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "calibration.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings_used = {key: str(value) for key, value in vars(arguments).items()}
    record = {"settings": settings_used, "torch": torch.__version__, "rows": rows}
    record["residuals"] = residuals
    (arguments.output / "calibration.json").write_text(
        json.dumps(record, indent=2), encoding="utf-8"
    )
    if found := list(failures(rows)):
        sys.exit("\n".join(["not as measured:", *found]))


if __name__ == "__main__":
    main()
