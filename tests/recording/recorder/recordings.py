"""Recordings of the cases, beside what their collate functions logged."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from batchstat import record
from batchstat.recording.recorder.reading import settle
from batchstat.recording.recording import RecordedBatch, Recording, read_recording
from conftest import environment
from warm_python import WarmPython

HERE = Path(__file__).parent
PATHS = [HERE.parents[2], HERE.parents[1], HERE.parents[1] / "helpers"]
Tried = tuple[str, str, bool]
"""A case, the folder to record it in, and whether it is a dry run."""

Batch = tuple[int, list[int]]
"""The width of a batch, with that of a decoder, and the real tokens of each sample."""


class Recorded:
    """A recorded case.

    Attributes:
        recording: what batchstat recorded.
        folder: where.
    """

    def __init__(self, folder: Path) -> None:
        """Read what was written."""
        self.folder = folder
        self.recording: Recording = read_recording(folder / "run")

    def batches(self, rank: int = 0) -> list[Batch]:
        """The forwards that were recorded of a rank."""
        parts = [part for batch in self.recorded(rank) for part in batch.parts]
        settle(parts, has_decoder=False)  # where only all batches show what pads
        return [(part.width, [n for row in part.real or [] for n in row]) for part in parts]

    def recorded(self, rank: int = 0) -> list[RecordedBatch]:
        """The batches of a rank."""
        return list(self.recording.ranks[rank].batches)

    def trained(self, rank: int = 0) -> list[int | None]:
        """Trained tokens of each forward."""
        parts = [part for batch in self.recorded(rank) for part in batch.parts]
        return [
            None if part.trained is None else sum(n for row in part.trained for n in row)
            for part in parts
        ]

    def logged(self, rank: int = 0) -> list[dict[str, Any]]:
        """What was collated on a rank, in the sequence of collating."""
        text = (self.folder / f"log.{rank}").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def collated(self, rank: int = 0) -> list[Batch]:
        """The batches that were collated."""
        return [
            (line["width"], line.get("real") or [line["width"]] * len(line["rows"]))
            for line in self.logged(rank)
        ]


def record_case(case: str, folder: Path, **options: Any) -> Recorded:
    """Train a case in this process, and record it."""
    from cases import train

    logged = patch.dict(os.environ, {"OWN_LOG": str(folder / "log")})
    with logged, record(folder / "run", **options):
        train(case)
    return Recorded(folder)


def record_on_two_ranks(warm_python: WarmPython, folder: Path, tried: Sequence[Tried]) -> None:
    """Train cases one after another on the same two processes, each recorded in its folder."""
    script = folder / "ranks.py"
    script.write_text(
        f"""
import json, os, sys, time
from pathlib import Path
from torch import distributed
sys.path[:0] = {[str(HERE), *map(str, PATHS)]}
from recordings import record_case

distributed.init_process_group("gloo")
os.environ.pop("TORCHELASTIC_RUN_ID", None)  # as without torchrun: nothing tells the ranks an id
for case, name, dry_run in json.loads({json.dumps(tried)!r}):
    # The first rank has prepared the folder before the other comes to it.
    time.sleep(0.5 * distributed.get_rank())
    record_case(case, Path(name), dry_run=dry_run)
"""
    )
    for _, name, _ in tried:
        (folder / name).mkdir()
    warm_python.run(script, ranks=2)


def run_case(
    case: str, folder: Path, *options: str, launcher: tuple[str, ...] = (), code: int = 0
) -> Recorded:
    """Train a case by `batchstat run`."""
    command = [sys.executable, "-m", "batchstat", "run", *options, "-o", str(folder / "run")]
    ended = subprocess.run(
        [*command, *launcher, str(HERE / "cases.py"), case],
        cwd=folder,
        env=environment(OWN_LOG=str(folder / "log"), PYTHONPATH=os.pathsep.join(map(str, PATHS))),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    return Recorded(folder)
