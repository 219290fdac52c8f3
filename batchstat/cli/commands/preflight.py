"""batchstat preflight: report what a trainer's configuration does to a corpus."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from batchstat.cli.device import Calibrated, read_device
from batchstat.cli.options import Options, takes
from batchstat.cli.records import READING, Current, Details, Folder, Output, corpus_argument
from batchstat.errors import InputError, OptionError
from batchstat.parameters import described, option, options_of
from batchstat.planning.settings import Settings
from batchstat.storage.result_files import PREFLIGHT_FILE, profile_version


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
    *(Trainer, Current, Settings, Calibrated, *READING, Output, Details),
    without=(*_DECIDED, "current", "html", "open_page"),
)
@described(
    """Report what a trainer's own configuration does to a corpus.

    Reads those of transformers, TRL, axolotl and others. Options override the configuration.

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
    from batchstat.cli.configuration import DEFAULT_CHECK, CheckSettings
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.pages import check_outputs
    from batchstat.cli.pasted import line_of_change, with_same_options
    from batchstat.cli.profiles import FoundProfile, count
    from batchstat.cli.results import CommandResult, publish
    from batchstat.documents.preflight import preflight_document
    from batchstat.render.screens.preflight import preflight_screen
    from batchstat.trainers.base.files import read_setup
    from batchstat.trainers.preflight.preflight import report_on_setup

    trainer, output = options.read(Trainer), options.read(Output)
    if not trainer.trainer_config:
        raise OptionError("no configuration: name the trainer's, such as training_args.json")
    current = options.read(Current)
    # What the configuration means. `current` has only the options for reading it, not its name.
    setup = read_setup(trainer.trainer_config, current.framework, current.ignore_keys)
    # Without settings of batchstat's own configuration: only options override the trainer's.
    inputs = read_inputs(options, CheckSettings(DEFAULT_CHECK), setup)
    if not inputs.corpus:
        raise InputError(setup.no_corpus)
    check_outputs(output)
    device = read_device(inputs)
    # The version of the profile in the results folder, taken before the profile is read: if another
    # run replaces the profile in between, writing the results notices that.
    version = profile_version(output.output)
    profile, is_reused = count(inputs, folder=output.output, reuse=True)
    report = report_on_setup(
        setup,
        profile,
        given={k: value for k, value in vars(inputs.settings).items() if k in options.given},
        device=device,
        recording=trainer.recording,
    )
    # The command to suggest, compare, with those options of this one that it takes, too: the corpus
    # and what these records declare.
    records = (Current, Settings, Calibrated, *READING, Folder)
    shared = {"corpus", *(name for record in records for name in options_of(record))}
    shared_options = Options({k: v for k, v in options.given.items() if k in shared})
    compare = with_same_options(shared_options, "compare", current=trainer.trainer_config)
    samples = report.samples.profile  # without those that the trainer leaves out
    to_use = partial(
        line_of_change,
        inputs,
        samples,
        report.simulation.basis,
        is_whole=len(samples) == len(profile),
    )
    result = CommandResult(
        file=PREFLIGHT_FILE,
        document=preflight_document(report),
        screen=preflight_screen(report, to_use, compare, options.read(Details).details),
        plotted=None,
        page=str,  # never called: the command has no --html
        warnings=[warning.message for warning in report.warnings],
    )
    # The version is that of the folder's profile: a profile that was counted just now has none.
    publish(FoundProfile(profile, version if is_reused else ""), result, output)
