"""`preflight`, `record` and `show`: reports that are printed in Python, with lines to paste."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from batchstat.calibration.calibration import Calibration
from batchstat.errors import OptionError, arguments_named
from batchstat.parameters import checks_keywords
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.profiling.build import profile as count
from batchstat.profiling.profile import Profile
from batchstat.render.command_lines import non_defaults
from batchstat.render.recipes.writing import literal, refusal
from batchstat.simulation.compare.changes import Change
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.preflight.corpus import profile_keywords
from batchstat.trainers.preflight.current import training_of_observed, training_of_setup
from batchstat.trainers.preflight.live_recording import LiveRecording, live_recording
from batchstat.trainers.preflight.observed import APPLY_TO_TRAINER
from batchstat.trainers.preflight.observed_objects import observe
from batchstat.trainers.preflight.preflight import device_of, report_on
from batchstat.trainers.preflight.report import Preflight
from batchstat.words import printable, short

if TYPE_CHECKING:
    from rich.console import RenderableType

_SETTINGS_TO_PASS = ("seed", "gradient_accumulation_steps", "distribute", "remainder", "drop_last")
"""Settings that the line to paste passes on to the sampler where they are not at their defaults."""
_PARAMETERS_TO_STATE = ("tokens_per_batch", "pad_to_multiple_of")
"""Parameters that the line to paste states where the strategy does not state them itself."""


@checks_keywords(Settings)
def preflight(
    config: str | Path | Any,
    corpus: Profile | str | Path | Sequence[str | Path] | None = None,
    *,
    framework: str | None = None,
    steps: int | None = None,
    pad_token_id: int | None = None,
    recording: str | Path | None = None,
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> Preflight:
    """Report what a trainer does to a corpus: by its configuration, or by its object in Python.

    Of a Trainer, the prepared data set is read, and nothing is trained. Its own loader is read for
    an epoch instead where it is the user's own, streams, or collates by the user's own function;
    random numbers are then as they were before. The report of an object is printed too, by the
    first of its ranks.

    Args:
        config: a trainer's configuration, a JSON or YAML file, such as one of TRL's `SFTConfig`; a
            `Trainer`, an `SFTTrainer` or one of a subclass; or a loader of batches, such as a
            DataLoader.
        corpus: the corpus of a configuration: its paths, or a profile that is counted as
            `profile_keywords` says; by default the one that the configuration names.
        framework: the one that a file is for; by default the one that knows most of its keys.
        steps: how many steps of a loader to read; by default an epoch.
        pad_token_id: what pads the batches of a loader, where no mask says so.
        recording: the folder of a recorded run to compare the plan with, batch for batch; where
            they differ, the report says which change of the plan makes them equal.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it:
            compute is time then, also in the speed-up of a change.
        cost_per_hour: of one such device.
        settings: fields of `batchstat.Settings` that it does not have, such as `world_size=8`;
            others override it.

    Example:
        >>> report = batchstat.preflight("sample_data/sft.yaml", world_size=4)
        >>> report.total_steps, report.warmup_steps
        (12, 1)
        >>> report.changes.star.row.label
        'bucketed:distribute=balanced'

    Raises:
        OptionError: a configuration with an unknown key, an invalid value, or one whose batches are
            not modelled.
        InputError: a configuration, corpus or tokenizer that is not available, or a calibration of
            another dtype or gradient checkpointing than the configuration trains with.
    """
    if not isinstance(config, str | Path):  # a Trainer or a loader
        observed = observe(config, settings, steps, pad_token_id)
        device = device_of(observed.setup, calibration, cost_per_hour)
        report = report_on(training_of_observed(observed, {}), device, recording)
        if observed.is_main:
            show(report)
        return report
    setup = read_setup(config, framework)
    device = device_of(setup, calibration, cost_per_hour)
    if not isinstance(corpus, Profile | None):
        corpus = count(**profile_keywords(setup, corpus=corpus))
    overriding = cast("Mapping[str, Any]", settings)
    return report_on(training_of_setup(setup, corpus, overriding), device, recording)


@arguments_named()
def record(
    output: str | Path | None = None, *, dry_run: bool = False, steps: int | None = None
) -> LiveRecording:
    """Record the batches that are trained in a block, as `run` does for a command; or those of a
    Trainer of transformers or Lightning, as a callback.

    What it replaces in torch and transformers is put back at the end. The report is printed by the
    first rank. A callback also prints a line at the end of each epoch, and logs `padding_ratio` and
    `speed_up` by the trainer's own logger. transformers tells no callback of an error in `train`:
    what was replaced then stays until the same callback records again.

    Args:
        output: folder of the recording, by default `batchstat-results/run`, which is replaced.
        dry_run: an epoch of batches without training, then leave the block.
        steps: after how many optimizer steps to leave the block; by default it is not left.

    Returns:
        What a `with` statement takes, for which it is a `Run`, and `Trainer(callbacks=[…])` of a
        library that was imported before. When it records again, as in a second `train`, it replaces
        its recording.

    Raises:
        OptionError: when it begins: several ranks that cannot wait for each other yet; `dry_run` or
            `steps` of a callback.
        InputError: when it begins: a folder that cannot be written or holds another recording.

    Warns:
        UserWarning: nothing was recorded, or nothing that can be described.

    Example:
        >>> with batchstat.record("my-run") as run:  # doctest: +SKIP
        ...     trainer.train()
        >>> trainer = Trainer(model, args, callbacks=[batchstat.record()])  # doctest: +SKIP
    """
    return live_recording(output, dry_run, steps, show)


def show(report: Preflight) -> None:
    """Print what `batchstat preflight` prints, in a terminal or a notebook; warnings go to standard
    error.

    Args:
        report: of `batchstat.preflight`.

    Example:
        >>> report = batchstat.preflight("sample_data/sft.yaml")
        >>> batchstat.show(report)  # doctest: +ELLIPSIS
        config   sample_data/sft.yaml · TRL's SFTConfig, as in 1.16
        data     120 samples, 120 per epoch · 49,805 tokens
        ...

    Raises:
        OptionError: not a report.
    """
    if not isinstance(report, Preflight):
        raise OptionError(f"report={short(report)}", "must be what batchstat.preflight returned")
    from rich.console import Console  # which a training that is recorded loads at its end

    screen = screen_of(report)
    console = Console(highlight=False)
    # In a terminal or a notebook, rich knows how wide it is and shows colours.
    if console.is_jupyter or sys.stdout.isatty():
        console.print(screen, crop=False)  # a line to paste is longer than a terminal is wide
    else:
        with (plain_console := Console(width=100, highlight=False)).capture() as captured:
            plain_console.print(screen, crop=False)
        # rich fills lines with blanks.
        sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    error_console = Console(stderr=True, markup=False, highlight=False)
    for warning in report.warnings:
        error_console.print(f"warning: {printable(str(warning))}", soft_wrap=True)


def screen_of(report: Preflight) -> "RenderableType":
    """Return the screen on a report, with lines to paste into the user's script."""
    from batchstat.render.screens.preflight import preflight_screen

    return preflight_screen(report, lambda change: line_of(report, change))


def line_of(report: Preflight, change: Change) -> str:
    """Return the line for a change; empty where no record numbers index the script's data set."""
    observed, request = report.observed, change.row.request
    # The trainer has an argument for the change, or the report is on a file.
    if change.line or observed is None:
        return change.line
    if change.is_regrouped and change.keeps_gradient and observed.trainer is not None:
        return APPLY_TO_TRAINER
    # Its steps are those of batches that only this process has: no text names them.
    if request.strategy.is_given:
        return ""
    # Record numbers are no indices of the data set, or cannot represent these batches.
    if not observed.is_indexed or refusal("trainer", request):
        return ""
    settings = non_defaults(request.settings, Settings)
    passed = (*_SETTINGS_TO_PASS, *(("wait",) if request.strategy.uses_wait else ()))
    arguments = {name: settings[name] for name in passed if name in settings}
    arguments |= {
        name: change.row.params[name]
        for name in _PARAMETERS_TO_STATE
        # None: the strategy has no such parameter. 1: the default, at which nothing is stated.
        if not request.sets(name) and change.row.params.get(name) not in (None, 1)
    }
    if request.shared_batch_size is not None:
        arguments["batch_size"] = request.shared_batch_size
    words = [literal(request.spec), *(f"{name}={literal(arguments[name])}" for name in arguments)]
    # Each rank computes its own part of every step.
    if request.settings.world_size > 1:
        words.append("rank=trainer.args.process_index, world_size=trainer.args.world_size")
    sampler = f"batchstat.BatchSampler(report.profile, {', '.join(words)})"
    module = "batchstat.training.integrations.huggingface"
    line = f"with_batches(trainer, {sampler})  # from {module} import with_batches"
    # Padding that the data set already holds must be taken out first, by a line of its own.
    return f"{observed.repair}, and {line}" if observed.repair else line
