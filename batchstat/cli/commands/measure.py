"""batchstat measure: report again on a run that was recorded."""

from dataclasses import dataclass, replace
from pathlib import Path

from batchstat.cli.options import Options, takes
from batchstat.cli.records import Ignored, Report
from batchstat.cli.streams import emit, show, warn
from batchstat.parameters import described, option


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recording."""

    recording: Path | None = option(
        None,
        "Folder that batchstat run wrote.",
        "",
        "DIR",
        shown="batchstat-results/run",
        is_argument=True,
    )


@takes(Recorded, Report, Ignored)
@described(
    """Report what a recorded command trained on, again.

    Also while it still runs, or after it was killed: whatever it has written by then.

    Examples:
        # What batchstat run has recorded last
        batchstat measure

        # Another recording, as JSON
        batchstat measure my-run --json
    """
)
def command(options: Options) -> None:
    from batchstat.cli.inputs import read_ignored, read_inputs
    from batchstat.documents.base import to_text
    from batchstat.documents.preflight import preflight_document
    from batchstat.render.printed import screen_of
    from batchstat.trainers.preflight.current import observe_folder, training_of_observed
    from batchstat.trainers.preflight.preflight import report_on
    from batchstat.trainers.preflight.recorded import DEFAULT_FOLDER

    inputs = read_inputs(options, check=read_ignored())
    # The report is made again from the recorded batches; run has printed it once.
    observed = observe_folder(options.read(Recorded).recording or DEFAULT_FOLDER)
    report = report_on(training_of_observed(observed, {}))
    report = replace(report, ignored=inputs.get("ignore", ()))
    if options.read(Report).as_json:
        emit(to_text(preflight_document(report)))
    else:
        show(screen_of(report))
    warn(*report.warnings)
