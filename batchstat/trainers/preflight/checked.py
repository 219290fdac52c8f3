"""The dry run before `run --apply`, which checks how the batches of the command can be cut."""

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchstat.applying.applier import RANK_FILE, UNENDED, digest_of
from batchstat.errors import InputError, OptionError
from batchstat.hidden_secrets import hidden_in
from batchstat.recording.launch import has_several_nodes, run_command
from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recording import read_recording

DRY_FOLDER = "dry-run"  # in the folder of the run
OUTPUT_FILE, VERDICT_FILE = "output.txt", "verdict.json"
_MOST_SECONDS = 20  # that what another node writes is waited for
_ENDING = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a dry run says of cutting the batches of a command."""

    file: str = ""  # of the verdict, by which they are cut; empty where nothing is
    why_not: str = ""  # why nothing is cut; empty where they are
    apart: float = 0.0  # the largest difference of a cut result, as a share
    outputs: int = 0  # batches whose outputs were compared
    seconds: float = 0.0  # that the dry run took; 0 where an earlier one was taken
    code: int = 0  # how the dry run ended that a signal was to end, as by Ctrl-C; 0 for no signal

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept with the recording of the run."""
        numbers = {"apart": self.apart, "outputs": self.outputs, "seconds": self.seconds}
        return {"why_not": self.why_not, **numbers}


def checked_before(
    folder: Path, command: Sequence[str], python: str, multiple: int
) -> Verdict | None:
    """Return what the last dry run of a command says, in the folder of its run; None without one
    that still holds.
    """
    file = folder / DRY_FOLDER / VERDICT_FILE
    try:
        verdict = json.loads(file.read_bytes())
        same = verdict["command"] == [*hidden_in(command)] and verdict["python"] == python
        files = verdict["environment"]["files"]
        holds = same and verdict["multiple"] == multiple and not verdict["why_not"]
        if not holds or any(digest_of(path) != digest for path, digest in files.items()):
            return None
        found = verdict["apart"], verdict["outputs"]
        return Verdict(file=str(file.resolve()), apart=found[0], outputs=found[1])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_command(
    folder: Path, words: Sequence[str], command: Sequence[str], python: str, orders: Orders
) -> Verdict:
    """Run a command dry with its checks, into a folder that `orders` name, and return what they
    say. What it prints goes to a file there.
    """
    for earlier in folder.glob(RANK_FILE.replace("%05d", "*")):
        earlier.unlink(missing_ok=True)  # another node may have
    file = (folder / OUTPUT_FILE).as_posix()
    sys.stderr.write(f"batchstat: it begins twice: first a dry run with checks, into {file}\n")
    began, signals = time.monotonic(), list[int]()
    with (folder / OUTPUT_FILE).open("wb") as output:
        code = run_command(words, orders, output=output, signals=signals)
    seconds = time.monotonic() - began
    # A launcher ends with a code of its own.
    ending = [number for number in signals if signal.Signals(number).name in _ENDING]
    if ending or code < 0 or code == 130:
        code = code or -ending[0]
        return Verdict(why_not="the dry run was interrupted", seconds=seconds, code=code)
    ranks = _ranks_of(folder)
    if ranks and has_several_nodes(words):
        # A command ends on this node a little before it does on another.
        until = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < until and _are_awaited(ranks):
            time.sleep(0.1)
            ranks = _ranks_of(folder)
    if not ranks:
        return Verdict(why_not=_why_nothing(folder, code), seconds=seconds)
    verdict = {**_joined(ranks), "command": [*hidden_in(command)], "python": python}
    verdict["multiple"] = orders.multiple
    if not verdict["why_not"] and verdict["environment"]["world_size"] != len(ranks):
        verdict["why_not"] = "not all ranks were checked"
    verdict_file = folder / VERDICT_FILE
    verdict_file.write_text(json.dumps(verdict))
    why_not = verdict["why_not"]
    if why_not == UNENDED:
        why_not = f"{UNENDED}; exit code {code}: {(folder / OUTPUT_FILE).as_posix()}"
    return Verdict(
        file="" if verdict["why_not"] else str(verdict_file.resolve()),
        why_not=why_not,
        apart=verdict["apart"],
        outputs=verdict["outputs"],
        seconds=seconds,
    )


def _ranks_of(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob(RANK_FILE.replace("%05d", "*")))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _are_awaited(ranks: Sequence[Mapping[str, Any]]) -> bool:
    is_ended = all(each["why_not"] != UNENDED for each in ranks)
    return not is_ended or len(ranks) < ranks[0]["environment"]["world_size"]


def _why_nothing(folder: Path, code: int) -> str:
    """Return why a dry run came to no checks."""
    if code > 0:
        return f"the dry run ended with exit code {code}: {(folder / OUTPUT_FILE).as_posix()}"
    try:
        recording = read_recording(folder)
    except InputError as error:
        return str(error)
    return "" if recording.ranks else recording.why_nothing


def why_unchecked(words: Sequence[str]) -> str:
    """Return why a command cannot be started twice; empty if it can. Raises OptionError for several
    nodes, of which each would start a dry run alone.
    """
    if has_several_nodes(words):
        raise OptionError(
            "--apply on several nodes needs a dry run that all of them see",
            "run it before with --dry-run --apply and the same -o, a folder that all can read",
        )
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # closed, or none as in a notebook
        is_pipe = False
    return "standard input is a pipe, which a dry run would read" if is_pipe else ""


def _joined(ranks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the verdict of all ranks: one loader that all of them cut alike, or why none is."""
    reasons = [each["why_not"] for each in ranks if each["why_not"]]
    cuts = [each["cut"] for each in ranks if each["cut"] is not None]
    shapes = [[(w["ends"], w["axes"]) for w in cut["widths"]] for cut in cuts]
    if not reasons and any(each["key"] != ranks[0]["key"] for each in ranks):
        reasons = ["the ranks read loaders of different sizes"]
    if not reasons and any(each != shapes[0] for each in shapes):
        reasons = ["the ranks read batches of different arrays"]
    if reasons:
        return {**ranks[0], "why_not": reasons[0], "cut": None}
    cut, *others = cuts
    for other in others:
        for one, its in zip(cut["widths"], other["widths"], strict=True):
            one["floor"] = max(one["floor"], its["floor"])  # which all ranks have checked
            for (_, found), (_, more) in zip(one["values"], its["values"], strict=True):
                found += [value for value in more if value not in found]
        cut["multiple"] = max(cut["multiple"], other["multiple"])
    apart, outputs = max(e["apart"] for e in ranks), sum(e["outputs"] for e in ranks)
    return {**ranks[0], "apart": apart, "outputs": outputs, "cut": cut}
