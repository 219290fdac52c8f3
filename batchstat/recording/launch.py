"""Starts a command whose processes record what they train on, and ends as it ends."""

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
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, OptionError
from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recording import RUN_FILE, read_facts

INJECT = Path(__file__).parent / "recorder" / "inject"
"""Folder that comes first on the path of every Python that the command starts."""

_NODES = ("--nnodes", "--nnode", "--num_machines", "--num-machines", "--num_nodes", "--num-nodes")
"""Flags by which launchers take a number of nodes."""


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Where a run is recorded.

    Attributes:
        path: the folder.
        run_id: of the run.
        is_default: whether the user named none, so that the last run's is replaced.
    """

    path: Path
    run_id: str
    is_default: bool


def command_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command as it is started: a script is run by Python.

    Raises:
        OptionError: no command.
        InputError: one that cannot be found.
    """
    if not words:
        raise OptionError("no command: write what you train with, as batchstat run train.py")
    first = words[0]
    if first.endswith(".py"):
        if not Path(first).is_file():
            raise InputError(f"no such file: {first}")
        return (_python(), *words)
    if shutil.which(first) is None:
        raise InputError(f"{first}: no such command: name a script, or a program on the path")
    return tuple(words)


def _python() -> str:
    """Return the Python for a script: this one if it has torch, else the one on the path."""
    if find_spec("torch") is not None:
        return sys.executable
    on_path = shutil.which("python") or shutil.which("python3")
    return on_path or sys.executable


def folder_of(
    given: str | Path | None, default: Path, words: Sequence[str], run_id: str | None
) -> RunFolder:
    """Return the folder of a run: several nodes with one id share it.

    Raises:
        OptionError: several nodes without an id that all of them know.
        InputError: the folder of another run.
    """
    # A launcher names a run by the same id on all of its nodes; a job of Slurm may have several.
    launched = os.environ.get("TORCHELASTIC_RUN_ID")
    if not launched and os.environ.get("SLURM_STEP_ID"):
        launched = f"{os.environ.get('SLURM_JOB_ID')}.{os.environ.get('SLURM_STEP_ID')}"
    run_name = run_id or launched or None
    if run_name is None and _has_several_nodes(words):
        raise OptionError(
            "several nodes without an id of the run: pass --run-id NAME, the same on all of them, "
            "and a folder that all of them can write with -o"
        )
    path = default if given is None else Path(given)
    # Not Path.exists, which raises OSError for a name that is too long.
    if given is not None and os.path.lexists(path / RUN_FILE):
        facts = read_facts(path / RUN_FILE)
        if run_name is None or not isinstance(facts, dict) or facts.get("id") != run_name:
            raise InputError(
                f"{path.as_posix()}: holds the recording of another run: name another folder with "
                "-o, or delete it"
            )
    return RunFolder(path=path, run_id=run_name or secrets.token_hex(8), is_default=given is None)


def _has_several_nodes(words: Sequence[str]) -> bool:
    for place, word in enumerate(words):
        flag, _, value = word.partition("=")
        if flag not in _NODES:
            continue
        value = value or (words[place + 1] if place + 1 < len(words) else "")
        # torchrun takes a range of nodes, too, as in --nnodes 1:4.
        if value.partition(":")[2] or value not in ("", "1"):
            return True
    return False


def prepare(folder: RunFolder, facts: Mapping[str, Any]) -> None:
    """Make the folder of a run, without what an earlier one left in it.

    Raises:
        InputError: it cannot be written.
    """
    path = folder.path
    try:
        if folder.is_default and path.exists():
            # rmtree refuses a link, which the user may have made of the default folder.
            shutil.rmtree(path.resolve())
        path.mkdir(parents=True, exist_ok=True)
        content = {"id": folder.run_id, "created": datetime.now(UTC).isoformat(), **facts}
        # Else another node of the same run has written it.
        if not (path / RUN_FILE).exists():
            file = os.open(path / RUN_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                json.dump(content, stream, indent=2)
    except OSError as error:
        raise InputError(f"cannot write to {path.as_posix()}: {error.strerror}") from None


def run_command(
    command: Sequence[str], orders: Orders, environment: Mapping[str, str] | None = None
) -> int:
    """Run a command to its end, with signals passed on to it; return its exit code, or minus the
    number of the signal that ended it.

    Raises:
        InputError: it cannot be started.
    """
    variables = dict(os.environ if environment is None else environment)
    variables |= orders.as_environment()
    path = [str(INJECT), *filter(None, [variables.get("PYTHONPATH")])]
    variables["PYTHONPATH"] = os.pathsep.join(path)
    try:
        child = subprocess.Popen(command, env=variables)
    except OSError as error:
        raise InputError(f"cannot start {shlex.join(command)}: {error.strerror}") from None
    if threading.current_thread() is not threading.main_thread():
        return child.wait()  # signals come to the main thread alone
    with _signals_of(child):
        return child.wait()


@contextmanager
def _signals_of(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Leave interrupts to a command, and pass other signals on: a terminal sends an interrupt to
    all processes in its foreground, so that the command has it already.
    """

    def passed(number: int, _frame: object) -> None:
        child.send_signal(number)

    names = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, passed) for number in numbers}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
