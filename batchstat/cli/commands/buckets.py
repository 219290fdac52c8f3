"""batchstat buckets: find the bucket edges with the least padding, compute or time."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from batchstat.cli.device import read_device
from batchstat.cli.options import Options, takes
from batchstat.cli.records import READING, REPORTING, Details, Model, OptionalCorpus, Output
from batchstat.parameters import check_fields, described, option
from batchstat.planning.rules import COSTS
from batchstat.planning.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """The search for bucket edges."""

    buckets: int | None = option(
        None, "Number of buckets.", "Batching", "K", shown="8", is_common=True
    )
    min_bucket_samples: int = option(1, "Fewest samples per bucket.", "Batching", "N")
    cost: str | None = option(
        None,
        "What to minimise: linear (padding), quadratic (attention), model (the cost by --model) or "
        "time (by --calibration).",
        "Batching",
        "COST",
        shown="time with --calibration, model with --model, else linear",
        values=COSTS,
        is_common=True,
    )
    calibration: Path | None = option(
        None,
        "Find the number of buckets with the least time, new shapes included, by this file of "
        "batchstat calibrate.",
        "Batching",
        "FILE",
        is_common=True,
    )
    epochs: int = option(
        1, "Epochs that share the time of new shapes, with --calibration.", "Batching", "N"
    )

    def __post_init__(self) -> None:
        check_fields(self)


@takes(
    *(OptionalCorpus, Buckets, Settings, Model, *READING, *REPORTING),
    without=("read_ahead", "max_samples"),  # of strategies that cut windows
)
@described(
    """Find the bucket edges with the least padding.

    With --calibration, the number of buckets with the least time is used unless --buckets sets it.

    Simulates each result with all other settings too: ranks, order, classes.

    Writes buckets.json, a plot and a new profile to the results folder.

    Examples:
        # 8 buckets, of widths that suit tensor cores
        batchstat buckets --buckets 8 --pad-to-multiple-of 8

        # The edges with the least attention instead of the least padding
        batchstat buckets corpus.txt --cost quadratic
    """
)
def command(options: Options) -> None:
    from batchstat.calibration.cost_model import as_model
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.pasted import command_line
    from batchstat.cli.profiles import find_profile
    from batchstat.cli.results import CommandResult, publish
    from batchstat.documents.buckets import buckets_document
    from batchstat.render.html.pages import buckets_page
    from batchstat.render.screens.buckets import buckets_screen
    from batchstat.simulation.buckets.search import decide_cost
    from batchstat.trainers.buckets import find_buckets

    inputs, search, output = read_inputs(options), options.read(Buckets), options.read(Output)
    settings = inputs.settings
    given = options.given
    calibration, model_name = inputs.get("calibration"), inputs.get("model")
    # Those of the configuration are not used beside flags that ask for something else.
    if "calibration" not in given and ("model" in given or search.cost not in (None, "time")):
        calibration = None
    if "model" not in given and (calibration is not None or search.cost not in (None, "model")):
        model_name = None
    cost = decide_cost(search.cost, model_name, calibration)
    if calibration is not None:
        read_device(inputs)  # raises for a bad file before anything is counted
    search_options = vars(search) | {"cost": cost, "calibration": calibration}
    search_options["model"] = as_model(model_name)
    found = find_profile(inputs)
    report = find_buckets(found.profile, **search_options, **asdict(settings))
    report = replace(report, warnings=inputs.shown((*found.warnings, *report.warnings)))

    def compare_command(buckets: str) -> str:
        file = None if calibration is None else calibration.as_posix()
        return command_line(inputs, "compare", strategy=buckets, calibration=file)

    result = CommandResult(
        file="buckets.json",
        document=buckets_document(report),
        screen=buckets_screen(report, compare_command, options.read(Details).details),
        plotted=report,
        page=lambda: buckets_page(report, found.profile, compare_command),
        warnings=report.warnings,
    )
    publish(found, result, output)
