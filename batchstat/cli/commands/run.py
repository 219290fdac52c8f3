"""batchstat run: record the batches that a command trains on, and report on them."""

import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.options import Options, takes
from batchstat.cli.records import Ignored, Report
from batchstat.cli.streams import console, emit, render, say, warn
from batchstat.errors import BatchstatError
from batchstat.parameters import described, option
from batchstat.render.text import one_line
from batchstat.storage.result_files import PREFLIGHT_FILE

if TYPE_CHECKING:
    from batchstat.trainers.preflight.recorded import Run as Recording


@dataclass(frozen=True, kw_only=True)
class Run:
    """A command that trains."""

    command: tuple[str, ...] = option(
        (),
        "What you train with. From its first word on, all is its own.",
        "",
        "COMMAND",
        is_argument=True,
        takes_rest=True,
    )


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """How a command is recorded."""

    dry_run: bool = option(
        False,
        "An epoch of batches without training, then end the command.",
        "Recording",
        flags=("--dry-run",),
        is_common=True,
    )
    apply: bool = option(
        False,
        "Cut padding and regroup steps, once a dry run shows that training stays the same.",
        "Recording",
        flags=("--apply",),
        is_common=True,
    )
    pad_to_multiple_of: int | None = option(
        None,
        "With --apply, round the width of cut batches up to a multiple of N.",
        "Recording",
        "N",
        shown="as the batches show; 64 on a device",
    )
    no_weights: bool = option(
        False,
        "In a dry run, make models of transformers without their weights.",
        "Recording",
        flags=("--no-weights",),
    )
    steps: int | None = option(
        None,
        "End the command after N optimizer steps.",
        "Recording",
        "N",
        shown="all",
        is_common=True,
    )
    run_id: str | None = option(
        None,
        "Name of the run, the same on all of its nodes.",
        "Recording",
        "NAME",
        shown="the launcher's",
    )
    output: Path | None = option(
        None,
        "Folder of the recording.",
        "Output",
        "DIR",
        shown="batchstat-results/run",
        flags=("--output", "-o"),
        is_common=True,
    )


@takes(Run, Recorded, Report, Ignored)
@described(
    """Record the batches that a command really trains on, and report what they pad.

    The command runs unchanged: its output, its exit code and signals are its own. Afterwards the
    report says, on standard error, what share was padding, and what to change.

    Examples:
        # Any script that trains with torch
        batchstat run train.py --lr 2e-5

        # An epoch of its batches, without training
        batchstat run --dry-run train.py

        # The same training without the padding
        batchstat run --apply train.py --lr 2e-5

        # Whatever starts the script
        batchstat run torchrun --nproc-per-node 8 train.py
    """
)
def command(options: Options) -> None:
    from batchstat.cli.inputs import read_ignored, read_inputs
    from batchstat.trainers.preflight.recorded import run

    # Before the command runs: a wrong id must not cost its report.
    ignored = read_inputs(options, check=read_ignored()).get("ignore", ())
    ended = run(options.read(Run).command, **vars(options.read(Recorded)))
    say("")  # a progress bar may have left the line unfinished
    # Whatever happens to the report, batchstat ends with the exit code of the command.
    try:
        _report(ended, options.read(Report).as_json, ignored)
    except (BatchstatError, OSError) as error:
        say(f"batchstat: {error}")
    except Exception as error:  # a bug of batchstat, which must not change how the command ends
        say(f"batchstat: no report, by a bug of batchstat, please report it: {error!r}")
    if ended.code >= 0:
        raise SystemExit(ended.code)
    # A signal ended the command, and ends this process, so that a shell sees the same: in place of
    # batchstat's own handlers, by the default. Windows has no SIGKILL, hence the None.
    number = -ended.code
    if number != getattr(signal, "SIGKILL", None):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()  # a signal ends the process without writing what is buffered
    sys.stderr.flush()
    os.kill(os.getpid(), number)


def _report(ended: "Recording", as_json: bool, ignored: tuple[str, ...]) -> None:
    """Print the report to standard error, as standard output is the command's own; also as JSON."""
    from batchstat.documents.base import to_text
    from batchstat.documents.preflight import preflight_document
    from batchstat.render.printed import screen_of
    from batchstat.storage.results import write_files

    report = replace(ended.report, ignored=ignored)
    run = report.run
    applied = None if run is None else run.applied
    if ended.code and run and applied and (applied.cut_batches or applied.regrouped_steps):
        plain = one_line(run.command, 300)
        say(
            f"batchstat: the command ended with exit code {ended.code} after its batches were "
            f"changed: run it without --apply, to see whether that is why: {plain}"
        )
    sys.stderr.write(render(screen_of(report), console()))
    warn(*report.warnings)
    document = to_text(preflight_document(report))
    if as_json:
        emit(document)
    write_files(ended.folder, {PREFLIGHT_FILE: document.encode()})
