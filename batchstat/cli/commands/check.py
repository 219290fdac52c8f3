"""batchstat check: compare the numbers of what is trained with limits, for CI."""

from dataclasses import dataclass
from datetime import UTC, datetime

from typer import Exit

from batchstat.cli.device import Calibrated
from batchstat.cli.options import Options, takes
from batchstat.cli.records import (
    READING,
    Checks,
    ConfigFile,
    Current,
    Folder,
    Ignored,
    Limits,
    OptionalCorpus,
)
from batchstat.cli.streams import say, warn
from batchstat.errors import InputError
from batchstat.parameters import described, names_in, option
from batchstat.planning.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What a check reports."""

    format: tuple[str, ...] = option(
        (),
        "One of text, json, markdown, junit, github, html; =FILE writes a file. Repeatable.",
        "Output",
        "NAME[=FILE]",
        shown="text",
        names=names_in("batchstat.cli.checks.formats", "FORMATS"),
        is_common=True,
    )
    warn_only: bool = option(
        False,
        "Report exceeded limits, but exit with 0.",
        "Output",
        flags=("--warn-only",),
        is_common=True,
    )


@takes(
    *(OptionalCorpus, Limits, Current, Settings, Calibrated, *READING),
    *(Folder, Gate, Checks, Ignored, ConfigFile),
)
@described(
    """Check padding and other numbers of what you train against limits, for CI.

    `--current` names that, or `current` in the configuration; else it is static.

    Exit code 0: all limits are kept. 1: a limit is exceeded. 2: the arguments or the configuration
    are wrong. 3: there is no answer.

    Examples:
        # At most 40% padding, of what the Trainer does by default
        batchstat check data/train.jsonl --current hf-trainer --max-padding 40%

        # The checks of the configuration, as annotations of a GitHub workflow
        batchstat check --format github

        # What your trainer's configuration does, with a page to share
        batchstat check --current sft.yaml --max-padding 40% --format html=report.html
    """
)
def command(options: Options) -> None:
    from batchstat.cli.checks.bases import Bases
    from batchstat.cli.checks.formats import as_destinations, write
    from batchstat.cli.checks.run import chosen_checks, run_check
    from batchstat.gate.check import require_limits
    from batchstat.gate.outcome import worst
    from batchstat.storage.results import check_writable

    created = datetime.now(UTC).isoformat()  # the time that reports name
    gate = options.read(Gate)
    destinations = as_destinations(gate.format or ["text"])
    inputs_of_checks = chosen_checks(options)  # the settings of each check
    # Missing limits and wrong files are reported here, before anything is counted.
    for inputs in inputs_of_checks:
        subject = f"check {inputs.name!r} has" if len(inputs_of_checks) > 1 else "there are"
        require_limits(inputs.limits_in_force, inputs.get("base") is not None, subject)
    for path in destinations.values():
        if path is not None:
            check_writable(path.parent)
    bases = Bases(inputs_of_checks)
    checks = [run_check(inputs, bases.of) for inputs in inputs_of_checks]
    write(checks, destinations, created)
    for check in checks:
        prefix = f"{check.name}: " if len(checks) > 1 else ""
        warn(*check.warnings, prefix=prefix)
        if check.error is not None:
            say(f"error: {prefix}{check.error}")
    status = worst(checks)
    if status == "error":
        raise Exit(InputError.exit_code)
    if status == "fail" and not gate.warn_only:
        raise Exit(1)
