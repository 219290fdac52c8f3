"""`run`: what a command trains on, and what would help."""

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from batchstat.errors import InputError, MissingError, OptionError, arguments_named
from batchstat.hidden_secrets import hidden_in
from batchstat.parameters import whole_number
from batchstat.recording.launch import (
    RunFolder,
    command_of,
    folder_of,
    has_several_nodes,
    prepare,
    run_command,
)
from batchstat.recording.recorder.log import Log
from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recording import RUN_FILE, Recording, read_facts, read_recording
from batchstat.storage.addresses import local_path
from batchstat.trainers.preflight.checked import (
    DRY_FOLDER,
    Verdict,
    check_command,
    checked_before,
    why_unchecked,
)
from batchstat.trainers.preflight.current import training_of_observed
from batchstat.trainers.preflight.observed_runs import observe_recording
from batchstat.trainers.preflight.preflight import report_on
from batchstat.trainers.preflight.report import Preflight

DEFAULT_FOLDER = Path("batchstat-results/run")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was recorded of a command, or of a part of a program."""

    folder: Path
    run_id: str
    command: tuple[str, ...] = ()  # what was started, with the Python that runs a script
    code: int = 0  # exit code of the command, or minus the number of the signal that ended it

    @property
    def recording(self) -> Recording:
        """What has been written, also while it runs.

        Raises:
            InputError: another run was recorded in the same folder meanwhile, or it is gone.
        """
        if not self.folder.exists():
            gone = "the folder of the recording is gone: the command deleted or moved it"
            problem = f"{self.folder.as_posix()}: {gone}"
            raise MissingError(problem, "name one that it leaves alone with -o")
        recording = read_recording(self.folder)
        if recording.facts.get("id") != self.run_id:
            raise InputError(
                f"{self.folder.as_posix()}: another run was recorded there meanwhile",
                "name a folder of its own with -o",
            )
        return recording

    @cached_property
    def report(self) -> Preflight:
        """The report on the run.

        Raises:
            InputError: nothing was recorded, ranks whose steps differ, or batches that cannot be
                described.
        """
        return report_on(training_of_observed(observe_recording(self.recording), {}))


@arguments_named()
def run(
    command: Sequence[str],
    *,
    output: str | Path | None = None,
    dry_run: bool = False,
    no_weights: bool = False,
    steps: int | None = None,
    run_id: str | None = None,
    apply: bool = False,
    pad_to_multiple_of: int | None = None,
) -> Run:
    """Run a command that trains, and record the batches that it computes.

    Args:
        command: its words; a script is run by Python.
        output: folder of the recording, by default `batchstat-results/run`. It replaces one of the
            same command there, in the default folder of any command.
        dry_run: an epoch of batches without training, then end the command.
        no_weights: in a dry run, make models of transformers without reading their weights.
        steps: after how many optimizer steps to end the command; by default it is not.
        run_id: name of the run, the same on all of its nodes.
        apply: cut the padding out of its batches and regroup its steps, where a dry run before
            shows that the training stays the same.
        pad_to_multiple_of: the multiple to which cut batches are rounded up; by default the one
            that its batches show, and 64 on a device.

    Returns:
        How it ended. Its `report` is read when it is asked for.

    Raises:
        OptionError: no command, several nodes without a `run_id`, or an option without meaning.
        InputError: a command that cannot be started, or a folder that cannot be written or holds
            another recording.

    Example:
        >>> from tempfile import mkdtemp
        >>> ended = batchstat.run(["python", "-c", "raise SystemExit(3)"], output=mkdtemp())
        >>> ended.code
        3
    """
    if no_weights and not dry_run:
        raise OptionError("--no-weights is for --dry-run alone: training needs the weights")
    if apply and no_weights:
        raise OptionError("--apply with --no-weights: its checks need the weights")
    multiple = 0
    if pad_to_multiple_of is not None:
        multiple = whole_number("pad_to_multiple_of", pad_to_multiple_of)
        if not apply:
            raise OptionError("--pad-to-multiple-of is for --apply alone")
    words = command_of(command)  # a script gets the Python that runs it in front
    named_folder = None if output is None else local_path(output)
    folder = folder_of(named_folder, DEFAULT_FOLDER, words, run_id)
    python = words[: -len(command)]
    checked = None
    if apply:
        checked = _checked(folder, words, command, python, multiple, dry_run)
        if dry_run or checked.code:
            code, dry_folder = checked.code, folder.path / DRY_FOLDER
            facts = read_facts(dry_folder / RUN_FILE) or {"id": ""}
            run_id = facts["id"]
            (dry_folder / RUN_FILE).write_text(json.dumps({**facts, "applied": checked.facts}))
            return Run(folder=dry_folder, run_id=run_id, command=words, code=code)
        if not checked.file:
            sys.stderr.write(f"batchstat: nothing is applied: {checked.why_not}\n")
    orders = begin_run(folder, command, dry_run, steps, no_weights, python, checked, multiple)
    code = run_command(words, orders)
    result = Run(folder=folder.path, run_id=folder.run_id, command=words, code=code)
    try:
        Log(orders.folder, orders.run_id).note_process("ended", code=code)
        if code and (dry_run or steps) and any(rank.is_planned for rank in result.recording.ranks):
            # Ended as planned, which a launcher or a notebook may have taken for a failure.
            return replace(result, code=0)
    except (OSError, InputError):  # the command has taken the folder away: its report says so
        pass
    return result


def _checked(
    folder: RunFolder,
    words: Sequence[str],
    command: Sequence[str],
    python: Sequence[str],
    multiple: int,
    dry_run: bool,
) -> Verdict:
    """Return what a dry run says of cutting batches: the last that still holds, else a new one."""
    if not dry_run:
        earlier = checked_before(folder.path, command, "".join(python), multiple)
        if earlier is not None:
            return earlier
        if why := why_unchecked(words):
            return Verdict(why_not=why)
    path = folder.path / DRY_FOLDER
    # The nodes of one dry run record it together.
    run_id = folder.run_id if has_several_nodes(words) else secrets.token_hex(8)
    dry = RunFolder(path=path, run_id=run_id, is_default=True)
    facts = Verdict(why_not="a dry run computes as it is")
    orders = begin_run(dry, command, True, None, False, python, facts, multiple)
    return check_command(path, words, command, "".join(python), orders)


def begin_run(
    folder: RunFolder,
    words: Sequence[str],
    dry_run: bool,
    steps: int | None,
    no_weights: bool,
    python: Sequence[str] = (),
    checked: Verdict | None = None,
    multiple: int = 0,
) -> Orders:
    """Prepare the folder of a run with its facts, and return the orders for its processes. What was
    `checked` says whether their batches are cut; a dry run with it makes the checks.
    """
    most_steps = 0 if steps is None else whole_number("steps", steps)
    facts = {"command": hidden_in(words), "python": "".join(python)}
    facts |= {"dry_run": dry_run, "steps": most_steps, "no_weights": no_weights}
    facts["applied"] = None if checked is None or dry_run else checked.facts
    prepare(folder, facts)
    where = str(folder.path.resolve())  # absolute, since a script may change its current folder
    key = secrets.token_bytes(16)  # of the digests of samples
    applies = checked is not None and (dry_run or bool(checked.file))
    file = "" if checked is None else checked.file
    return Orders(
        where, folder.run_id, key, most_steps, dry_run, no_weights, applies, multiple, file
    )
