"""A recording: what the processes of a run have written, read again."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from batchstat.errors import MissingError
from batchstat.recording.recorded_lines import (
    are_facts,
    edited,
    first_training,
    is_line,
    parsed,
    read_lines,
    steps_of,
)
from batchstat.recording.recorder.arguments import split_digests
from batchstat.recording.recorder.log import PROCESSES
from batchstat.recording.recorder.read_batches import ReadBatch, read_of

RUN_FILE = "run.json"
_FILE = re.compile(r"\d{5,}-.+-(0|[1-9]\d*)([-._]\w+)*\.jsonl")  # as `Log.open` makes them
_BATCHES = tuple(f'{{"k":"{kind}"'.encode() for kind in ("batch", "rest"))
_NOT_SEEN = "were only read: whether the loop steps on the end of an epoch was not seen"


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedBatch:
    """A batch that a rank computed, or in a dry run only read: the forwards of one backward."""

    step: int  # the number of its step, or of what was cleared instead
    unstepped: str = ""  # why it is in no step, in words; empty where it is in one
    parts: Sequence[ReadBatch]  # what its forwards compute: one part for each set of token ids
    epoch: int | None = None  # the number of the iterator of a loader that handed it out, if known
    # For each part, the numbers of its iterator, data set and loader; None where not known.
    sources: Sequence[Sequence[int] | None] = ()
    # For each part, the sample numbers of its rows, if known, and digests of its samples.
    numbers: Sequence[Sequence[int]] | None = None
    digests: Sequence[Sequence[str]] = ()
    before: int = 0  # its tokens before padding was cut; 0 if none was
    today: int = 0  # tokens of the batch in whose place it came; 0 if its step was not regrouped
    is_of_one: bool = False  # whether all its forwards compute one batch of a loader
    # Seconds since the process began to write: of its first forward, and of its backward's end.
    began: float | None = None
    ended: float | None = None
    # Whether the model divides the loss by the number of trained tokens of the step.
    is_counted: bool = False
    is_step_counted: bool = False  # whether the Trainer gave its step that number
    is_stream: bool = False  # whether its loader reads a data set that has its own sequence
    ranks_meet: bool = False  # whether ranks wait for each other in it, by what wraps the model


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedRank:
    """What one process trained."""

    rank: int
    world_size: int  # the number of ranks of its training
    begun: Mapping[str, Any]  # its first line: the versions of Python and torch, the program
    batches: Sequence[RecordedBatch]
    epoch_batches: int | None = None  # batches of an epoch, where its Trainer's loader tells it
    device: str = ""  # that computed them; empty where none did
    step_ends: Sequence[float] = ()  # when each step ended, as of a batch
    skipped: int = 0  # number of steps that a scaler of gradients skipped
    trainer: Mapping[str, Any] | None = None  # what its Trainer said of itself; None without one
    # (epoch, sample numbers, digests) of each batch that accelerate's dispatcher read on this rank.
    handed: Sequence[tuple[int, Sequence[int], Sequence[str]]] = ()
    later_trainings: int = 0  # how often a Trainer trained again; only the first training is kept
    why_ended: str = ""  # how the process ended, in words; empty where it wrote nothing of that
    is_planned: bool = False  # whether a dry run ended it, or a number of steps that was asked for
    why_partly: str = ""  # why a dry run read less than an epoch; empty if it did not
    is_once: bool = False  # whether one iterator of a loader alone yielded batches
    threads: int = 1  # number of threads that trained
    unused: tuple[int, int] = (0, 0)  # (calls, tokens) of forwards without a gradient


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """What the processes of a run have written."""

    folder: Path
    facts: Mapping[str, Any]  # what the launcher wrote: the command, the id, whether it was dry
    ranks: Sequence[RecordedRank]  # those of the longest training, in their order
    others: int = 0  # number of other trainings
    of_other_runs: int = 0  # number of files in the folder that are of other runs
    # How far each process came, as a line "torch" when it had imported that.
    processes: Sequence[Mapping[str, Any]] = ()

    @property
    def wait(self) -> str | None:
        """Where ranks wait for each other, one of `WAITS`; None where no batch shows it."""
        if not any(batch.ranks_meet for rank in self.ranks for batch in rank.batches):
            return None
        is_often = any(  # also in a batch that another of its step comes after
            one.ranks_meet and one.step == other.step
            for rank in self.ranks
            for one, other in pairwise(rank.batches)
        )
        return "micro-batch" if is_often else "step"

    @property
    def is_dry(self) -> bool:
        """Whether nothing, or only the first steps, were computed."""
        return bool(self.facts.get("dry_run"))

    @property
    def why_nothing(self) -> str:
        """Why there is no batch, in words."""
        lines = {line["k"]: line for line in self.processes}  # the last one of each kind
        if "refused" in lines:  # a dry run that cannot see batches without training
            return str(lines["refused"]["why"])
        why = self._why_unseen
        code = lines.get("ended", {}).get("code", 0)
        if code > 0:  # a code below 0 is minus the number of a signal
            return f"{why}; the command ended with exit code {code}"
        return f"{why}; the command was ended by signal {-code}" if code else why

    @property
    def _why_unseen(self) -> str:
        kinds = {line["k"] for line in self.processes}
        if "started" not in kinds:
            return (
                "no Python that reads PYTHONPATH was started: python -S, -E and -I do not, nor "
                "what a script starts with a PYTHONPATH of its own"
            )
        if "torch" not in kinds:
            return "no process imported torch"
        # Of processes that imported torch, and ended without a batch.
        ended = [line for line in self.processes if line["k"] == "nothing"]
        if calls := sum(line["unused"][0] + line["waiting"] for line in ended):
            return f"no gradient came back to any of {calls:,} forwards with token ids"
        return "no model was called with token ids: whole numbers in rows of equal length"


def read_facts(file: Path) -> dict[str, Any] | None:
    """Return the facts in the file of a run; None if it is another file."""
    try:  # reading a pipe would never end
        facts = json.loads(file.read_bytes()) if file.is_file() else None
        return facts if are_facts(facts) else None
    except (OSError, ValueError, RecursionError):
        return None


def files_of(folder: Path) -> list[Path]:
    """Return the files that processes wrote in a folder, by rank, without its other files."""
    return sorted(path for path in folder.glob("*.jsonl") if _FILE.fullmatch(path.name))


def begin_of(file: Path) -> tuple[Any, bool]:
    """Return the id of the run in the file of a process, and whether it has a batch."""
    with file.open("rb") as lines:
        begun = parsed(lines.readline()) or {}
        return begun.get("id"), any(line.startswith(_BATCHES) for line in lines)


def read_recording(folder: Path) -> Recording:
    """Return what the processes of a run have written, also while it runs. Raises InputError for no
    run in this folder, or lines of another format or edited.
    """
    facts = read_facts(folder / RUN_FILE)
    if facts is None:
        raise MissingError(
            f"{folder.as_posix()}: no recording", "name the folder that batchstat run wrote"
        )
    ranks = [rank for rank in map(_read_rank, files_of(folder)) if rank is not None]
    ranks_of_run = [rank for rank in ranks if rank.begun["id"] == facts["id"]]
    # The processes by the training that they are ranks of: the second process of a rank, in the
    # sequence of their beginnings, is of the second training of its world size.
    n_before: Counter[tuple[int, int]] = Counter()
    trainings: dict[tuple[int, int], list[RecordedRank]] = {}
    for process in sorted(ranks_of_run, key=lambda process: process.begun["at"]):
        place = process.world_size, process.rank
        trainings.setdefault((process.world_size, n_before[place]), []).append(process)
        n_before[place] += 1
    # A command may start several trainings: the one with the most batches is described.
    most: list[RecordedRank] = max(
        trainings.values(), key=lambda ranks: sum(len(rank.batches) for rank in ranks), default=[]
    )
    file = folder / PROCESSES
    texts = file.read_bytes().split(b"\n") if file.is_file() else []
    processes = tuple(filter(None, map(parsed, texts)))
    if not all(map(is_line, processes)):
        raise edited(file, "this is")
    return Recording(
        folder=folder,
        facts=facts,
        ranks=tuple(sorted(most, key=lambda process: process.rank)),
        others=max(len(trainings) - 1, 0),
        of_other_runs=len(ranks) - len(ranks_of_run),
        processes=processes,
    )


def _read_rank(path: Path) -> RecordedRank | None:
    """Return what a process trained, from its file; None if it trained nothing."""
    lines = read_lines(path)
    if not lines:
        return None
    begun = lines[0]  # written when the process began to record
    lines, later_trainings = first_training(lines)
    batches = list(_batches(lines))
    if not batches:
        return None
    steps = [line for line in lines if line["k"] == "step" and "cleared" not in line]
    # A process that was killed wrote no line of its end.
    end = next((line for line in lines if line["k"] == "end"), {"why": ""})
    unused = [line.get("unused", (0, 0)) for line in lines if line["k"] in ("batch", "end")]
    return RecordedRank(
        rank=begun["rank"],
        world_size=begun["world_size"],
        begun=begun,
        batches=batches,
        epoch_batches=next(
            (line["epoch_batches"] for line in lines if line.get("epoch_batches")), None
        ),
        device=next((line["device"] for line in lines if line.get("device")), ""),
        step_ends=[line["t"][0] for line in steps],  # the line of a step has one time
        skipped=sum("skipped" in line for line in steps),
        trainer=next((line for line in lines if line["k"] == "trainer"), None),
        handed=[
            (line["e"], line["n"], split_digests(line["d"]))
            for line in lines
            if line["k"] == "handed"
        ],
        later_trainings=later_trainings,
        why_ended=end["why"],
        is_planned="planned" in end,
        why_partly=end.get("partly", ""),
        is_once="once" in end,
        threads=int(end.get("threads", 1)),
        unused=(sum(calls for calls, _ in unused), sum(tokens for _, tokens in unused)),
    )


def _batches(lines: list[dict[str, Any]]) -> Iterator[RecordedBatch]:
    """Yield the computed batches, then those only read, in steps of the largest computed size."""
    computed = [line for line in lines if line["k"] == "batch"]
    only_read = [line for line in lines if line["k"] == "rest"]
    steps = [*steps_of(lines)]
    most_batches = max(Counter(step for step, why in steps if not why).values(), default=1)
    first_read_step = steps[-1][0] + 1 if computed else 0
    # The first steps do not show whether a loop steps on the last, fewer batches of an epoch.
    n_whole = (
        len(only_read) if "tail" in lines[-1] else len(only_read) // most_batches * most_batches
    )
    steps += [
        (first_read_step + place // most_batches, "" if place < n_whole else _NOT_SEEN)
        for place in range(len(only_read))
    ]
    for (step, unstepped), line in zip(steps, [*computed, *only_read], strict=True):
        began, ended = line.get("t", (None, None))
        yield RecordedBatch(
            step=step,
            unstepped=unstepped,
            parts=[read_of(part) for part in line["parts"]],
            epoch=line.get("epoch"),
            sources=line.get("sources", ()),
            numbers=line.get("numbers"),
            digests=[split_digests(joined) for joined in line.get("digests", ())],
            before=line.get("before", 0),
            today=line.get("today", 0),
            is_of_one="one" in line,
            began=began,
            ended=ended,
            is_counted="counted" in line,
            is_step_counted="step_counted" in line,
            is_stream="stream" in line,
            ranks_meet="meet" in line,
        )
