"""Recordings that are written line by line."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from batchstat.recording.recorder.log import FORMAT
from batchstat.recording.recorder.read_batches import part_of
from batchstat.recording.recorder.reading import read_batch
from batchstat.recording.recording import RUN_FILE


def begin(rank: int = 0, world_size: int = 1, at: float = 0) -> dict[str, Any]:
    facts = {"id": "a", "program": "train.py", "python": "3.11.5", "torch": "2.13.0", "at": at}
    return {"k": "begin", "format": FORMAT, "rank": rank, "world_size": world_size, **facts}


def batch(step: int, *lengths: int, width: int | None = None, **more: Any) -> dict[str, Any]:
    mask = np.arange(width or max(lengths)) < np.array(lengths)[:, None]
    read = read_batch({"input_ids": mask.astype(int), "attention_mask": mask.astype(int)})
    assert read is not None
    parts = [part_of(read)]
    return {
        "k": "batch",
        "s": step,
        "model": "Net",
        "t": [step, step + 0.5],
        "parts": parts,
        **more,
    }


def step(number: int) -> dict[str, Any]:
    return {"k": "step", "s": number, "t": [number + 0.7], "by": "SGD"}


def write(folder: Path, *files: list[dict[str, Any]], **more: Any) -> Path:
    facts = {"id": "a", "created": "2026-01-01T00:00:00+00:00", "command": ["train.py"]} | more
    (folder / RUN_FILE).write_text(json.dumps(facts))
    for number, lines in enumerate(files):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{number:05d}-host-{number}.jsonl").write_text(text)
    return folder
