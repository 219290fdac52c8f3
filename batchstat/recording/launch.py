"""Starts a command whose processes record what they train on, and waits for its end. Its output,
signals and exit code are its own. Only PYTHONPATH is longer, for `sitecustomize.py`.
"""

import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from batchstat.errors import InputError, MissingError, OptionError
from batchstat.hidden_secrets import hidden_in
from batchstat.recording.recorder.log import PROCESSES
from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recording import RUN_FILE, begin_of, files_of, read_facts
from batchstat.storage.result_files import PREFLIGHT_FILE

INJECT = Path(__file__).parent / "recorder" / "inject"  # first on the path of every Python
# Flags by which launchers take a number of nodes.
_NODES = ("--nnodes", "--nnode", "--num_machines", "--num-machines", "--num_nodes", "--num-nodes")


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Where a run is recorded."""

    path: Path
    run_id: str
    is_default: bool


def command_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command as it is started: "train.py --lr 1" becomes "python train.py --lr 1". Raises
    OptionError: no command; InputError: a script or program that cannot be found.
    """
    if not words:
        raise OptionError("no command", "write what you train with, as batchstat run train.py")
    program = words[0]
    if program.endswith(".py"):
        if not Path(program).is_file():
            raise MissingError(f"no such file: {program}")
        # This Python if it has torch: batchstat may be installed apart, as by pipx or uv.
        python = None if find_spec("torch") else shutil.which("python") or shutil.which("python3")
        return (python or sys.executable, *words)
    if shutil.which(program) is None:
        raise InputError(f"{program}: no such command", "name a script, or a program on the path")
    return tuple(words)


def folder_of(
    folder: str | Path | None, default: Path, words: Sequence[str], run_id: str | None
) -> RunFolder:
    """Return the folder of a run, and its id: all nodes of one run share both. Raises OptionError
    for several nodes without an id that all of them know.
    """
    # That of torchrun, or of a step of Slurm, since a job of Slurm may have several steps.
    launcher_id = os.environ.get("TORCHELASTIC_RUN_ID")
    if not launcher_id and os.environ.get("SLURM_STEP_ID"):
        launcher_id = f"{os.environ.get('SLURM_JOB_ID')}.{os.environ.get('SLURM_STEP_ID')}"
    used_id = run_id or launcher_id or None
    if used_id is None and has_several_nodes(words):
        raise OptionError(
            "several nodes without an id of the run",
            "pass --run-id NAME, the same on all of them, "
            "and a folder that all of them can write with -o",
        )
    path = default if folder is None else Path(folder)
    return RunFolder(path=path, run_id=used_id or secrets.token_hex(8), is_default=folder is None)


def has_several_nodes(words: Sequence[str]) -> bool:
    """Return whether a launcher's flag in a command asks for several nodes, as --nnodes=2 does."""
    for word, next_word in pairwise([*words, ""]):
        flag, _, value = word.partition("=")
        # torchrun takes a range of nodes, too, as in --nnodes 1:4.
        if flag in _NODES and (value or next_word) not in ("", "1"):
            return True
    return False


def prepare(folder: RunFolder, facts: Mapping[str, Any]) -> None:
    """Make the folder of a run, without the recording of an earlier run, and write its facts.
    Raises InputError where it cannot be written, or holds the recording of another command.
    """
    path = folder.path
    try:
        path.mkdir(parents=True, exist_ok=True)
        _replace_earlier(folder, facts["command"])
        content = {"id": folder.run_id, "created": datetime.now(UTC).isoformat(), **facts}
        # Nodes may share the folder: the first writes the facts at once, for its user (0o600).
        if not (path / RUN_FILE).exists():
            written = path / f"{RUN_FILE}.{secrets.token_hex(4)}"
            file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                json.dump(content, stream, indent=2)
            written.replace(path / RUN_FILE)
    except OSError as error:
        raise InputError(f"cannot write to {path.as_posix()}: {error.strerror}") from None


def _replace_earlier(folder: RunFolder, command: Sequence[str]) -> None:
    """Delete an earlier run; in a named folder, only one without a batch or of the same command."""
    path = folder.path
    facts = read_facts(path / RUN_FILE)
    # Another node of this run may have written the facts: then the ids are equal.
    if not os.path.lexists(path / RUN_FILE) or (facts and facts["id"] == folder.run_id):
        return
    # By its id: another node may have begun to write files of this run meanwhile.
    begun = {file: begin_of(file) for file in (files_of(path) if facts else ())}
    files = [file for file, (run_id, _) in begun.items() if facts and run_id == facts["id"]]
    earlier = hidden_in(facts.get("command", [])) if facts else []
    is_same = folder.is_default or (command and earlier == command)
    if not is_same and (facts is None or any(begun[file][1] for file in files)):
        which = f", {shlex.join(earlier)}" if earlier else "" if facts else " or program"
        raise InputError(
            f"{path.as_posix()}: holds the recording of another run{which}",
            f"name another folder with -o, or delete {(path / RUN_FILE).as_posix()}",
        )
    for file in (*files, *(path / name for name in (PROCESSES, PREFLIGHT_FILE, RUN_FILE))):
        file.unlink(missing_ok=True)


def run_command(
    command: Sequence[str],
    orders: Orders,
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
    signals: list[int] | None = None,
) -> int:
    """Run a command to its end, pass signals on to it, and record its processes; return its exit
    code, or minus the number of the signal that ended it. It prints where this process does, or
    into `output`; `signals` gets those that came. Raises InputError where it cannot start.
    """
    variables = dict(os.environ if environment is None else environment)
    variables |= orders.as_environment()
    # When a Python starts, it imports the first sitecustomize.py on its path.
    path = [str(INJECT), *filter(None, [variables.get("PYTHONPATH")])]
    variables["PYTHONPATH"] = os.pathsep.join(path)
    try:
        child = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
    except OSError as error:
        shown = shlex.join(hidden_in(command))
        raise InputError(f"cannot start {shown}: {error.strerror}") from None
    # Python lets the main thread alone handle signals.
    is_main = threading.current_thread() is threading.main_thread()
    with _signals_of(child, signals) if is_main else nullcontext():
        return child.wait()


@contextmanager
def _signals_of(child: "subprocess.Popen[bytes]", signals: list[int] | None) -> Iterator[None]:
    def pass_on(number: int, _frame: object) -> None:
        if signals is not None:
            signals.append(number)
        # A terminal sends what its keys mean (Ctrl-C) to all processes in its foreground: the
        # command has it already, and this process must outlive it to report.
        if number not in of_keys or not _is_in_foreground():
            child.send_signal(number)

    # Slurm may send SIGUSR1 before a job's time is up. Windows does not have all of them.
    names = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    of_keys = [number for number in numbers if number.name in ("SIGINT", "SIGQUIT")]
    handlers_before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers_before.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    """Return whether the keys of a terminal reach this process; on Windows, take it so."""
    try:
        with Path("/dev/tty").open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return os.name == "nt"
