"""batchstat preflight: report what a trainer's configuration does to a corpus."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from batchstat.cli.device import Calibrated, read_device
from batchstat.cli.options import Options, takes
from batchstat.cli.records import (
    READING,
    Current,
    Details,
    Folder,
    Ignored,
    Output,
    corpus_argument,
)
from batchstat.errors import InputError, OptionError
from batchstat.parameters import described, option, options_of
from batchstat.planning.settings import Settings
from batchstat.storage.result_files import PREFLIGHT_FILE


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """A trainer's configuration, and its corpus."""

    trainer_config: str = option(
        "", "The trainer's configuration: .json or .yaml.", "", "CONFIG", is_argument=True
    )
    corpus: tuple[str, ...] = corpus_argument(
        "As for profile. Default: what the configuration names."
    )
    recording: Path | None = option(
        None,
        "Compare the plan with what batchstat run recorded, batch for batch.",
        "Output",
        "DIR",
        is_common=True,
    )


_DECIDED = (
    *("tokens_per_batch", "batch_size", "read_ahead", "max_samples", "overflow", "order"),
    *("distribute", "balance_by", "remainder", "drop_last", "gradient_accumulation_steps"),
    *("sampler", "keep_labels"),
)
"""Settings that a trainer's configuration decides."""


@takes(
    *(Trainer, Current, Settings, Calibrated, *READING, Output, Details, Ignored),
    without=(*_DECIDED, "current", "html", "open_page"),
)
@described(
    """Report what a trainer's own configuration does to a corpus.

    Reads those of transformers and TRL. Options override the configuration.

    Writes preflight.json and a new profile to the results folder.

    Examples:
        # Samples, steps and padding of a training on 8 GPUs
        batchstat preflight training_args.json data.jsonl --world-size 8

        # What `trl sft --config sft.yaml` does; it names dataset and model
        batchstat preflight sft.yaml

        # Whether that is what was trained, and if not, why
        batchstat preflight sft.yaml --recording batchstat-results/run
    """
)
def command(options: Options) -> None:
    from batchstat.cli.inputs import read_ignored, read_inputs
    from batchstat.cli.pasted import line_of_change
    from batchstat.cli.profiles import find_profile
    from batchstat.cli.results import CommandResult, publish
    from batchstat.documents.preflight import preflight_document
    from batchstat.render.command_lines import flags, line_to_paste, repeated
    from batchstat.render.screens.preflight import preflight_screen
    from batchstat.trainers.base.files import read_setup
    from batchstat.trainers.preflight.current import training_of_setup
    from batchstat.trainers.preflight.preflight import report_on

    trainer, output = options.read(Trainer), options.read(Output)
    if not trainer.trainer_config:
        raise OptionError("no configuration", "name the trainer's, such as training_args.json")
    reading = options.read(Current)  # the options for reading a trainer's configuration
    setup = read_setup(trainer.trainer_config, reading.framework, reading.ignore_keys)
    # Of batchstat's own configuration, only which findings to ignore: only options override.
    inputs = read_inputs(options, check=read_ignored(), setup=setup)
    if not inputs.corpus:
        raise InputError(setup.no_corpus)
    device = read_device(inputs)
    found = find_profile(inputs)
    overriding = {k: value for k, value in vars(inputs.settings).items() if k in options.given}
    training = training_of_setup(setup, found.profile, overriding)
    report = report_on(training, device, trainer.recording)
    report = replace(report, noted=found.warnings, ignored=inputs.get("ignore", ()))
    # The next command to suggest takes the options given here that these records declare.
    shared_names = {"corpus", *options_of(Current, Settings, Calibrated, *READING, Folder)}
    shared = repeated({k: v for k, v in options.given.items() if k in shared_names})
    corpus = map(str, shared.pop("corpus", []))
    shared_flags = flags({**shared, "current": trainer.trainer_config})
    compare = line_to_paste(["batchstat", "compare", *corpus, *shared_flags])
    samples = report.samples.profile  # without those that the trainer leaves out
    all_kept, basis = len(samples) == len(found.profile), report.simulation.basis
    line_of = partial(line_of_change, inputs, basis, all_kept=all_kept)
    result = CommandResult(
        file=PREFLIGHT_FILE,
        document=preflight_document(report),
        screen=preflight_screen(report, line_of, compare, options.read(Details).details),
        plotted=None,
        page=str,  # never called: the command has no --html
        warnings=report.warnings,
    )
    publish(found, result, output)
