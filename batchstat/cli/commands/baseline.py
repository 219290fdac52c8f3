"""batchstat baseline save: store the numbers of checks, to compare with later."""

from dataclasses import dataclass
from pathlib import Path

import typer

from batchstat.cli.device import Calibrated
from batchstat.cli.options import Options, takes
from batchstat.cli.records import (
    READING,
    Checks,
    ConfigFile,
    Current,
    Folder,
    Ignored,
    OptionalCorpus,
)
from batchstat.cli.streams import say
from batchstat.cli.usage import Command, Group, Help
from batchstat.errors import OptionError
from batchstat.parameters import described, option
from batchstat.planning.settings import Settings

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_help_option=False,
    help="Save the numbers of checks, to compare with later.",
)


@app.callback()
def _group(help: Help = None) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class BaselineFile:
    """The baseline to write."""

    baseline: Path | None = option(
        None,
        "Baseline file to write.",
        "Output",
        "FILE",
        shown="the configuration's, or batchstat-baseline.json",
        is_common=True,
    )


@app.command("save", cls=Command, add_help_option=False)
@takes(
    *(OptionalCorpus, BaselineFile, Current, Settings, Calibrated, *READING),
    *(Folder, Checks, Ignored, ConfigFile),
)
@described(
    """Save the numbers of every check to a small file for the repository.

    `batchstat check --baseline FILE` fails if padding has increased since.

    Examples:
        # The checks of the configuration
        batchstat baseline save

        # A corpus, in a file of that name
        batchstat baseline save data/train.jsonl --baseline padding.json
    """
)
def save(options: Options) -> None:
    from batchstat.cli.checks import chosen_checks, measure_inputs
    from batchstat.cli.pasted import with_same_options
    from batchstat.gate.baseline import DEFAULT_FILE
    from batchstat.gate.saving import write_baselines

    checks = chosen_checks(options)
    files = {inputs.get("baseline", DEFAULT_FILE) for inputs in checks}
    if len(files) > 1:
        names = ", ".join(sorted(file.as_posix() for file in files))
        raise OptionError(f"the checks have different baselines ({names}): pick some with --check")
    # The numbers of each check by its name. The limits say which numbers a baseline has to hold.
    baselines = {
        inputs.name: measure_inputs(inputs).as_baseline(inputs.limits_in_force) for inputs in checks
    }
    path = files.pop()  # the only one
    # With --check, the file keeps the baselines of the checks that were not picked.
    write_baselines(path, baselines, keep_others=bool(options.read(Checks).check))
    say(f"wrote {path.as_posix()}")
    say(f"next: {with_same_options(options, 'check', baseline=path.as_posix())}")
