"""What batches take by a recorded run, beside what `calibrate` measures of the same model.

python tests/benchmarks/recorded_times.py [--device cpu] [--hidden 128] [--layers 2] [--rows 8]
                                         [--samples 1600] [--threads 1]

Needs torch, transformers and accelerate. A Trainer trains one epoch on texts of very different
lengths, padded to the longest of a batch, while batchstat records it; then `calibrate` measures the
model, and the Trainer trains again with batches of similar lengths. It prints what both say of
batches of the recorded sizes, and both epochs as they were recorded, beside what the times of the
first one make of them. It fails where the two differ by more than the residuals that both state,
each a root mean square, or where an epoch is more than a tenth off.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

import batchstat
from batchstat.calibration.calibrate import calibrate
from batchstat.recording.recorded_times import recorded_calibration
from batchstat.recording.recording import read_recording

VOCABULARY, LONGEST = 1_000, 512
TOLERANCE = 0.1
SHOWN = 6


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Pad to the longest."""
    samples = [row["input_ids"] for row in rows]
    width = max(map(len, samples))
    mask = torch.stack([(torch.arange(width) < len(each)).long() for each in samples])
    ids = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    labels = ids.masked_fill(mask == 0, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def recorded(arguments: argparse.Namespace, config: Any, folder: Path, sampling: str) -> Path:
    """Record an epoch of a Trainer; return the folder of the recording."""
    lengths = np.random.default_rng(0).lognormal(4.5, 0.9, arguments.samples).astype(int)
    cut = lengths.clip(4, LONGEST).tolist()
    data = [{"input_ids": torch.randint(1, VOCABULARY, (each,))} for each in cut]
    options: dict[str, Any] = {
        "per_device_train_batch_size": arguments.rows,
        "num_train_epochs": 1,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "use_cpu": arguments.device == "cpu",
        "bf16": False,
        "train_sampling_strategy": sampling,
    }
    trainer = Trainer(
        AutoModelForCausalLM.from_config(config),
        TrainingArguments(str(folder / "out"), **options),
        collate,
        data,  # type: ignore[arg-type]
    )
    with batchstat.record(folder / sampling):
        trainer.train()
    return folder / sampling


def main() -> int:
    """Record, measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    for name, default in {"hidden": 128, "layers": 2, "rows": 8, "samples": 1_600}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = AutoConfig.for_model(
            "llama",
            vocab_size=VOCABULARY,
            hidden_size=arguments.hidden,
            num_hidden_layers=arguments.layers,
            num_attention_heads=max(1, arguments.hidden // 64),
            intermediate_size=8 * arguments.hidden // 3,
            max_position_embeddings=LONGEST,
        )
        config.save_pretrained(folder / "model")
        run = recorded(arguments, config, folder, "random")
        by_run = recorded_calibration(read_recording(run))
        measured = calibrate(
            str(folder / "model"),
            device=arguments.device,
            max_length=LONGEST,
            tokens_per_batch=by_run.most_tokens,
        )
        grouped = recorded(arguments, config, folder, "group_by_length")
        off = [show_epoch(each, run) for each in (run, grouped)]
    assert by_run.time is not None
    assert measured.time is not None
    both = (by_run.time.residual, measured.time.residual)
    print(f"\nresiduals: recorded ±{both[0]:.1%}, calibrate ±{both[1]:.1%}")
    print("\n| batch | recorded | calibrate | differ |\n|---|---|---|---|")
    differences = []
    for place, shape in enumerate(point.shape for point in by_run.points):
        one, other = by_run.seconds(shape) or 0.0, measured.seconds(shape) or 0.0
        differences.append(one / other - 1)
        if place % (len(by_run.points) // SHOWN) == 0:
            times = f"{1e3 * one:.1f} ms | {1e3 * other:.1f} ms"
            print(f"| {shape} | {times} | {one / other - 1:+.1%} |")
    differ = float(np.sqrt(np.mean(np.square(differences))))
    print(f"\nthey differ by ±{differ:.1%}")
    return int(differ > sum(both) or max(off) > TOLERANCE)


def show_epoch(run: Path, timed: Path) -> float:
    """Print the seconds of a recorded epoch, and what the times of another run make of it; return
    how far that is off.
    """
    report = batchstat.compare(current=run, calibration=timed, strategies=["static"])
    facts, by_times = report.run, report.current.on_device.seconds
    assert facts is not None
    assert by_times is not None
    whole = facts.seconds * facts.steps / (facts.steps - 1)  # all steps but the first are timed
    print(f"{run.name}: {whole:.2f} s recorded, {by_times:.2f} s by the times of {timed.name}")
    return abs(by_times / whole - 1)


if __name__ == "__main__":
    sys.exit(main())
