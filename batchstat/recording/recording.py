"""A recording: what the processes of a run have written, read again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from batchstat.errors import InputError, short
from batchstat.recording.recorder.arguments import split_digests
from batchstat.recording.recorder.lines import read_of
from batchstat.recording.recorder.log import FORMAT, PROCESSES
from batchstat.recording.recorder.read_batches import ReadBatch

RUN_FILE = "run.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedBatch:
    """A batch that a rank computed, or in a dry run only read.

    Attributes:
        step: its step.
        parts: what its forwards compute, one for each.
        epoch: which iterator of a loader handed it out; None where none is known to have.
        numbers: sample numbers of the rows of each part; None where they are not known.
        digests: of the samples of each part.
        began: seconds when its first forward began; None if it was not computed.
        ended: seconds when its backward ended.
        is_counted: whether the forward was given the number of trained tokens of its step.
        is_step_counted: whether the Trainer's step was given it.
    """

    step: int
    parts: Sequence[ReadBatch]
    epoch: int | None = None
    numbers: Sequence[Sequence[int]] | None = None
    digests: Sequence[Sequence[str]] = ()
    began: float | None = None
    ended: float | None = None
    is_counted: bool = False
    is_step_counted: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedRank:
    """What one process trained.

    Attributes:
        rank: its rank.
        world_size: how many there were.
        begun: its first line: versions of Python and torch, the program.
        batches: in their sequence.
        device: the name of the device that computed them; empty where none did.
        step_ends: seconds when each step ended.
        skipped: steps that a scaler skipped.
        trainer: what its Trainer said of itself; None without one.
        handed: epoch, sample numbers and digests of batches that a dispatcher cut for all ranks.
        later_trainings: how often a Trainer trained after that.
        why_ended: how it ended; empty where it did not say.
        is_planned: whether it was ended as the run was to do.
        why_partly: why a dry run has not read an epoch; empty if it has.
        unused: calls and tokens of forwards without gradient.
    """

    rank: int
    world_size: int
    begun: Mapping[str, Any]
    batches: Sequence[RecordedBatch]
    device: str = ""
    step_ends: Sequence[float] = ()
    skipped: int = 0
    trainer: Mapping[str, Any] | None = None
    handed: Sequence[tuple[int, Sequence[int], Sequence[str]]] = ()
    later_trainings: int = 0
    why_ended: str = ""
    is_planned: bool = False
    why_partly: str = ""
    unused: tuple[int, int] = (0, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """What the processes of a run have written.

    Attributes:
        folder: where.
        facts: what the launcher wrote: the command, the id, when it was made, whether it was dry.
        ranks: those of the longest training, in their order.
        others: how many more trainings there were.
        of_other_runs: files of other runs in the same folder.
        processes: how far each process came, where no training was recorded.
    """

    folder: Path
    facts: Mapping[str, Any]
    ranks: Sequence[RecordedRank]
    others: int = 0
    of_other_runs: int = 0
    processes: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def is_dry(self) -> bool:
        """Whether nothing, or only the first steps, were computed."""
        return bool(self.facts.get("dry_run"))

    @property
    def why_nothing(self) -> str:
        """Why there is no batch, in words."""
        found = {each["k"]: each for each in self.processes}
        if "refused" in found:
            return str(found["refused"]["why"])
        why = self._why_unseen
        code = found.get("ended", {}).get("code", 0)
        if code > 0:
            return f"{why}; the command ended with exit code {code}"
        return f"{why}; the command was ended by signal {-code}" if code else why

    @property
    def _why_unseen(self) -> str:
        kinds = {each["k"] for each in self.processes}
        if "started" not in kinds:
            return (
                "no Python that reads PYTHONPATH was started: python -S, -E and -I do not, nor "
                "what a script starts with a PYTHONPATH of its own"
            )
        if "torch" not in kinds:
            return "no process imported torch"
        unused = [each for each in self.processes if each["k"] == "nothing"]
        calls = sum(each["unused"][0] + each["waiting"] for each in unused)
        if calls:
            return f"no gradient came back to any of {calls:,} forwards with token ids"
        return "no model was called with token ids: whole numbers in rows of equal length"


def read_facts(file: Path) -> Any:
    """Return the facts in the file of a run; None without JSON, or for a pipe, which never ends."""
    try:
        return json.loads(file.read_bytes()) if file.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None


def read_recording(folder: Path) -> Recording:
    """Return what the processes of a run have written, also while it runs.

    Raises:
        InputError: no run in this folder, one of another format, or ranks that differ.
    """
    facts = read_facts(folder / RUN_FILE)
    try:
        datetime.fromisoformat(facts["created"])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{folder.as_posix()}: no recording: name the folder that batchstat run wrote"
        ) from None
    files = sorted(path for path in folder.glob("*.jsonl") if path.name != PROCESSES)
    read = [rank for rank in map(_read_rank, files) if rank is not None]
    of_this_run = [rank for rank in read if rank.begun["id"] == facts.get("id")]
    trainings = _trainings(of_this_run)
    longest = max(trainings, key=lambda ranks: sum(len(rank.batches) for rank in ranks), default=[])
    return Recording(
        folder=folder,
        facts=facts,
        ranks=tuple(longest),
        others=max(len(trainings) - 1, 0),
        of_other_runs=len(read) - len(of_this_run),
        processes=tuple(_processes(folder / PROCESSES)),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file; the last one is left out if a killed process did not finish it."""
    texts = path.read_bytes().split(b"\n")
    for number, text in enumerate(texts, 1):
        line = _parsed(text)
        if line is not None:
            yield line
        elif number < len(texts):
            raise _edited(path, f"line {number:,} is")


def _processes(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines that all processes have written, as far as they can be read."""
    if path.exists():
        yield from filter(None, map(_parsed, path.read_bytes().split(b"\n")))


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and "k" in line else None


def _edited(path: Path, what: str) -> InputError:
    return InputError(f"{path.as_posix()}: {what} not as batchstat wrote it: record it again")


def _read_rank(path: Path) -> RecordedRank | None:
    """Return what a process trained; None if it trained nothing."""
    # Only recordings need its models of pydantic, which take some 50 ms to build.
    from batchstat.recording.recorded_lines import check_lines

    lines = list(_lines(path))
    if not lines:
        return None
    begun = lines[0]
    if begun.get("format", FORMAT) != FORMAT:
        raise InputError(
            f"{path.as_posix()}: a recording of format {short(begun['format'])}, which this "
            f"version of batchstat does not read (it reads {FORMAT}): record it again"
        )
    try:
        check_lines(lines)
    except ValueError:
        raise _edited(path, "this is") from None
    lines, later = _of_first_training(lines)
    batches = list(_batches(lines))
    if not batches:
        return None
    steps = [line for line in lines if line["k"] == "step"]
    end: dict[str, Any] = {"why": "", "unused": (0, 0)}  # of a process that did not say how
    for line in lines:
        end = line if line["k"] == "end" else end
    unused = [line.get("unused", (0, 0)) for line in lines if line["k"] == "batch"]
    unused.append(end["unused"])
    return RecordedRank(
        rank=begun["rank"],
        world_size=begun["world_size"],
        begun=begun,
        batches=batches,
        device=next((line["device"] for line in lines if line.get("device")), ""),
        step_ends=[line["t"][0] for line in steps],
        skipped=sum("skipped" in line for line in steps),
        trainer=next((line for line in lines if line["k"] == "trainer"), None),
        handed=[
            (line["e"], line["n"], split_digests(line["d"]))
            for line in lines
            if line["k"] == "handed"
        ],
        later_trainings=later,
        why_ended=end["why"],
        is_planned="planned" in end,
        why_partly=end.get("partly", ""),
        unused=(sum(calls for calls, _ in unused), sum(tokens for _, tokens in unused)),
    )


def _of_first_training(lines: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the lines of the first training of a Trainer, with how the process ended, and how
    many trainings followed.
    """
    begins = [place for place, line in enumerate(lines) if line.get("k") == "trainer"]
    trained = [
        (first, after)
        for first, after in pairwise([*begins, len(lines)])
        if any(line["k"] == "batch" for line in lines[first:after])
    ]
    if len(trained) < 2:
        return lines, 0
    after = trained[0][1]
    return lines[:after] + [line for line in lines[after:] if line["k"] == "end"], len(trained) - 1


def _batches(lines: list[dict[str, Any]]) -> Iterator[RecordedBatch]:
    """Yield batches; those of a dry run that were only read go on with steps of as many."""
    computed = [line for line in lines if line["k"] == "batch"]
    only_read = [line for line in lines if line["k"] == "rest"]
    steps = [line["s"] for line in computed]
    per_step = int(max(np.bincount(steps))) if computed else 1
    first = steps[-1] + 1 if computed else 0
    steps += [first + place // per_step for place in range(len(only_read))]
    for step, line in zip(steps, [*computed, *only_read], strict=True):
        began, ended = line.get("t", (None, None))
        yield RecordedBatch(
            step=step,
            parts=[read_of(part) for part in line["parts"]],
            epoch=line.get("epoch"),
            numbers=line.get("numbers"),
            digests=[split_digests(joined) for joined in line.get("digests", ())],
            began=began,
            ended=ended,
            is_counted="counted" in line,
            is_step_counted="step_counted" in line,
        )


def _trainings(ranks: list[RecordedRank]) -> list[list[RecordedRank]]:
    """Return the processes by the training that they are ranks of: a command may start several."""
    trainings: list[list[RecordedRank]] = []
    for each in sorted(ranks, key=lambda rank: rank.begun["at"]):
        for training in trainings:
            taken = {other.rank for other in training}
            if each.rank not in taken and training[0].world_size == each.world_size:
                training.append(each)
                break
        else:
            trainings.append([each])
    return [sorted(training, key=lambda rank: rank.rank) for training in trainings]
