"""What it costs to record a training: processor time and time per step, beside the same without.

python tests/benchmarks/recording.py [--device cpu] [--rounds 5] [--steps 200] [--hidden 32]
                                  [--layers 4] [--threads 1]

Needs torch. A small network trains on padded batches of a loader, in turns with the
recorder and without, in the same process; each number is the median of the rounds. With `--device
cuda` the times are those of the device, which must not be slowed: the recorder waits for nothing.
It prints a table, and fails where a step of 8 rows of 128 tokens takes more processor time than 0.2
ms on a CPU, or 1 ms with CUDA, whose copies and events are the processor's work too.
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

from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recorder.watching import record_here

SHAPES = ((8, 128), (8, 512), (16, 2048), (64, 4096))
"""Rows and width of a batch; the first is held to `MOST`."""
MOST = {"cpu": 0.2, "cuda": 1.0}
"""Milliseconds of processor time of a step, by device: 0.53 with CUDA on slow processors."""
VOCABULARY = 64


class Network(torch.nn.Module):
    """A model without attention, so that long rows do not take minutes on a processor."""

    def __init__(self, hidden: int, layers: int) -> None:
        """Make its layers."""
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, hidden, padding_idx=0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(hidden, hidden) for _ in range(layers))
        self.head = torch.nn.Linear(hidden, 1)

    def forward(self, input_ids: Any, attention_mask: Any, labels: Any) -> dict[str, Any]:
        """Return a loss that every token takes part in."""
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = layer(hidden).relu()
        each = self.head(hidden)[..., 0] * attention_mask * (labels != -100)
        return {"loss": each.mean()}


def batches_of(rows: int, width: int) -> Iterator[dict[str, Any]]:
    """Padded batches without end, as a collate function of a loader makes them."""
    ids = torch.randint(1, VOCABULARY, (rows, width))
    mask = torch.ones_like(ids)
    mask[1:, 3 * width // 4 :] = 0
    whole = {
        "input_ids": ids * mask,
        "attention_mask": mask,
        "labels": ids.masked_fill(mask == 0, -100),
    }
    data = range(1_000_000)  # no list: collecting garbage would look through all of it

    def collate(numbers: list[int]) -> dict[str, Any]:
        made = {name: each.clone() for name, each in whole.items()}
        made["input_ids"][0, 0] = 1 + numbers[0] % (VOCABULARY - 1)
        return made

    yield from torch.utils.data.DataLoader(data, rows, collate_fn=collate)


def train(
    model: Any, optimizer: Any, batches: Iterator[dict[str, Any]], steps: int, device: str
) -> tuple[float, float]:
    """Return milliseconds of processor time, and of time, per step."""
    began, processor = time.perf_counter(), time.process_time()
    for batch in itertools.islice(batches, steps):
        given = {name: each.to(device) for name, each in batch.items()}
        model(**given)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    if device != "cpu":
        torch.cuda.synchronize()
    spent = time.process_time() - processor, time.perf_counter() - began
    return 1000 * spent[0] / steps, 1000 * spent[1] / steps


def measured(shape: tuple[int, int], arguments: argparse.Namespace) -> dict[str, float]:
    """The costs of one shape."""
    torch.manual_seed(0)
    model = Network(arguments.hidden, arguments.layers).to(arguments.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    steps = max(10, arguments.steps * 1024 // max(1024, shape[0] * shape[1]))
    found = []
    for _ in range(arguments.rounds + 1):  # the first warms up
        without = train(model, optimizer, batches_of(*shape), steps, arguments.device)
        with TemporaryDirectory() as folder:
            recorder, patches = record_here(Orders(folder, "run", b"key"))
            recorded = train(model, optimizer, batches_of(*shape), steps, arguments.device)
            recorder.close()
            patches.restore()
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
        found.append((without, recorded, size / steps))
    found = found[1:]
    return {
        "rows": shape[0],
        "width": shape[1],
        "ms_per_step": statistics.median(without[1] for without, _, _ in found),
        "more_processor_ms": statistics.median(b[0] - a[0] for a, b, _ in found),
        "more_ms": statistics.median(b[1] - a[1] for a, b, _ in found),
        "bytes_per_step": statistics.median(size for _, _, size in found),
    }


def main() -> None:
    """Measure, print, and hold the first shape to its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [measured(shape, arguments) for shape in SHAPES]
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print("| batch | a step without | + processor time | + time | written |")
        print("|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row['rows']} × {row['width']} | {row['ms_per_step']:.2f} ms "
                f"| {row['more_processor_ms']:.2f} ms | {row['more_ms']:.2f} ms "
                f"| {row['bytes_per_step']:,.0f} bytes |"
            )
    if rows[0]["more_processor_ms"] > MOST[arguments.device]:
        sys.exit(f"a step of {SHAPES[0]} takes {rows[0]['more_processor_ms']:.3f} ms more")


if __name__ == "__main__":
    main()
