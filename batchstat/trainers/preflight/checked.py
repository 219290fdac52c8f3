"""The dry run before `run --apply`, which checks how the batches of the command can be cut."""

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchstat.applying.applier import digest_of
from batchstat.applying.dry_applier import RANK_FILE, UNENDED
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
    """What a dry run says of cutting and regrouping the batches of a command."""

    file: str = ""  # of the verdict, by which that is done; empty where nothing is
    why_not: str = ""  # why nothing is cut; empty where they are
    why_not_regrouped: str = ""  # why steps are not regrouped; empty where they are
    apart: float = 0.0  # the largest difference of a result of a step, as a share
    outputs: int = 0  # batches whose outputs were compared
    seconds: float = 0.0  # that the dry run took; 0 where an earlier one was taken
    code: int = 0  # how the dry run ended that a signal was to end, as by Ctrl-C; 0 for no signal

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept with the recording of the run."""
        numbers = {"apart": self.apart, "outputs": self.outputs, "seconds": self.seconds}
        reasons = {"why_not": self.why_not, "why_not_regrouped": self.why_not_regrouped}
        return {**reasons, **numbers}


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
        holds = same and verdict["multiple"] == multiple and _applies(verdict)
        if not holds or any(digest_of(path) != digest for path, digest in files.items()):
            return None
        return _verdict_of(verdict, file, 0.0)
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
    if _applies(verdict) and verdict["environment"]["world_size"] != len(ranks):
        verdict |= {"why_not": "not all ranks were checked", "cut": None, "regroup": None}
    verdict_file = folder / VERDICT_FILE
    verdict_file.write_text(json.dumps(verdict))
    found = _verdict_of(verdict, verdict_file, seconds)
    if found.why_not == UNENDED:
        where = f"exit code {code}: {(folder / OUTPUT_FILE).as_posix()}"
        return replace(found, why_not=f"{UNENDED}; {where}")
    return found


def _applies(verdict: Mapping[str, Any]) -> bool:
    return verdict["cut"] is not None or verdict["regroup"] is not None


def _verdict_of(verdict: Mapping[str, Any], file: Path, seconds: float) -> Verdict:
    return Verdict(
        file=str(file.resolve()) if _applies(verdict) else "",
        why_not=verdict["why_not"],
        why_not_regrouped=verdict["why_not_regrouped"],
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
    """Return the verdict of all ranks: how all of them change one loader, or why they do not."""
    cut, why_not = _cut_of(ranks)
    way, apart, why_not_regrouped = _way_of(ranks)
    if any(each["key"] != ranks[0]["key"] for each in ranks):
        cut = way = None
        why_not = why_not_regrouped = "the ranks read loaders of different sizes"
    return {
        "key": ranks[0]["key"],
        "environment": ranks[0]["environment"],
        "cut": cut,
        "why_not": why_not,
        "regroup": None if way is None else {"way": way, "ends": ranks[0]["ends"]},
        "why_not_regrouped": why_not_regrouped,
        "apart": max([apart, *(each["apart"] for each in ranks)]),
        "outputs": sum(each["outputs"] for each in ranks),
    }


def _cut_of(ranks: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any] | None, str]:
    """Return the cut that all ranks make, or why none is made."""
    reasons = [each["why_not"] for each in ranks if each["why_not"]]
    cuts = [each["cut"] for each in ranks if each["cut"] is not None]
    shapes = [[(w["ends"], w["axes"]) for w in cut["widths"]] for cut in cuts]
    if not reasons and any(each != shapes[0] for each in shapes):
        reasons = ["the ranks read batches of different arrays"]
    if reasons:
        return None, reasons[0]
    cut, *others = cuts
    for other in others:
        for one, its in zip(cut["widths"], other["widths"], strict=True):
            one["floor"] = max(one["floor"], its["floor"])  # which all ranks have checked
            for (_, found), (_, more) in zip(one["values"], its["values"], strict=True):
                found += [value for value in more if value not in found]
        cut["multiple"] = max(cut["multiple"], other["multiple"])
    return cut, ""


def _way_of(ranks: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any] | None, float, str]:
    """Return (the first way to regroup that holds on all ranks, the largest difference, ""), or why
    none does.
    """
    if len({len(each["ways"]) for each in ranks}) > 1:
        return None, 0.0, "the ranks did not all come to the end of its checks"
    for ways in zip(*(each["ways"] for each in ranks), strict=True):
        if not any(way["why_not"] for way in ways):
            return ways[0]["way"], max(way["apart"] for way in ways), ""
    reasons = [way["why_not"] for each in ranks for way in each["ways"] if way["why_not"]]
    if reasons:
        return (
            None,
            0.0,
            f"its batches have a part in its gradient: regrouped, it changes {reasons[-1]}",
        )
    known = [each["why_not_regrouped"] for each in ranks if each["why_not_regrouped"]]
    return None, 0.0, known[0] if known else ranks[0]["why_not"]
