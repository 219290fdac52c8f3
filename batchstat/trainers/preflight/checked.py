"""The dry run before `run --apply`, which checks how the batches of the command can be cut."""

import json
import os
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchstat.applying.applier import RANK_FILE
from batchstat.applying.verdict import digest_of, joined, read
from batchstat.errors import InputError, OptionError
from batchstat.hidden_secrets import hidden_in
from batchstat.recording.launch import has_several_nodes, run_command
from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recording import read_recording

DRY_FOLDER = "dry-run"  # in the folder of the run
OUTPUT_FILE, VERDICT_FILE = "output.txt", "verdict.json"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a dry run says of cutting the batches of a command."""

    file: str = ""  # of the verdict, by which they are cut; empty where nothing is
    why_not: str = ""  # why nothing is cut; empty where they are
    apart: float = 0.0  # the largest difference of a cut result, as a share
    seconds: float = 0.0  # that the dry run took; 0 where an earlier one was taken
    code: int = 0  # minus the number of the signal that ended the dry run, for Ctrl-C

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept with the recording of the run."""
        return {"why_not": self.why_not, "apart": self.apart, "seconds": self.seconds}


def checked_before(
    folder: Path, command: Sequence[str], python: str, multiple: int
) -> Checked | None:
    """Return what the last dry run of a command says, in the folder of its run; None without one
    that still holds.
    """
    file = folder / DRY_FOLDER / VERDICT_FILE
    try:
        verdict = read(str(file))
        same = verdict["command"] == [*hidden_in(command)] and verdict["python"] == python
        files = verdict["environment"]["files"]
        holds = same and verdict["multiple"] == multiple and not verdict["why_not"]
        if not holds or any(digest_of(path) != digest for path, digest in files.items()):
            return None
        return Checked(file=str(file.resolve()), apart=verdict["apart"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_command(
    folder: Path, words: Sequence[str], command: Sequence[str], python: str, orders: Orders
) -> Checked:
    """Run a command dry with its checks, into a folder that `orders` name, and return what they
    say. Its standard output goes to a file there.
    """
    for file in folder.glob(RANK_FILE.replace("%05d", "*")):
        file.unlink()
    began = time.monotonic()
    with (folder / OUTPUT_FILE).open("wb") as output:
        code = run_command(words, orders, output=output)
    seconds = time.monotonic() - began
    if code < 0 or code == 130:
        return Checked(why_not="the dry run was interrupted", seconds=seconds, code=code)
    ranks = []
    for path in sorted(folder.glob(RANK_FILE.replace("%05d", "*"))):
        with path.open(encoding="utf-8") as stream:
            ranks.append(json.load(stream))
    if not ranks:
        return Checked(why_not=_why_nothing(folder, code), seconds=seconds)
    verdict = {**joined(ranks), "command": [*hidden_in(command)], "python": python}
    verdict["multiple"] = orders.multiple
    if not verdict["why_not"] and verdict["environment"]["world_size"] != len(ranks):
        verdict["why_not"] = "not all ranks were checked"
    file = folder / VERDICT_FILE
    file.write_text(json.dumps(verdict))
    if verdict["why_not"]:
        return Checked(why_not=verdict["why_not"], apart=verdict["apart"], seconds=seconds)
    return Checked(file=str(file.resolve()), apart=verdict["apart"], seconds=seconds)


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
