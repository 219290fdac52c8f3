"""`batchstat.show`: prints the report of `batchstat.preflight` in Python, with lines to paste."""

import sys

from rich.console import Console, RenderableType

from batchstat.errors import OptionError
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import non_defaults
from batchstat.render.recipes.writing import literal, refusal
from batchstat.render.screens.preflight import preflight_screen
from batchstat.simulation.compare.changes import Change
from batchstat.trainers.preflight.report import Preflight
from batchstat.words import printable, short

_WIDTH = 100
"""Characters of a line where the output does not go to a terminal."""
_SETTINGS_TO_PASS = ("seed", "gradient_accumulation_steps", "distribute", "remainder", "drop_last")
"""Settings that the line to paste passes on to the sampler where they are not at their defaults."""
_PARAMETERS_TO_STATE = ("tokens_per_batch", "pad_to_multiple_of")
"""Parameters that the line to paste states where the strategy does not state them itself."""
_RANK = "rank=trainer.args.process_index, world_size=trainer.args.world_size"
_IMPORT = "from batchstat.training.integrations.huggingface import with_batches"


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
    screen = screen_of(report)
    console = Console(highlight=False)
    # In a terminal or a notebook, rich knows how wide it is and shows colours.
    if console.is_jupyter or sys.stdout.isatty():
        console.print(screen, crop=False)  # a line to paste is longer than a terminal is wide
    else:
        with (plain_console := Console(width=_WIDTH, highlight=False)).capture() as captured:
            plain_console.print(screen, crop=False)
        # rich fills lines with blanks.
        sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    error_console = Console(stderr=True, markup=False, highlight=False)
    for warning in report.warnings:
        error_console.print(f"warning: {printable(str(warning))}", soft_wrap=True)


def screen_of(report: Preflight) -> RenderableType:
    """Return the screen on a report of `batchstat.preflight`, with lines to paste into the user's
    script.
    """
    return preflight_screen(report, lambda change: line_of(report, change))


def line_of(report: Preflight, change: Change) -> str:
    """Return the line to paste into the user's script for a change. It is empty where a sampler
    cannot make the change: a sampler picks samples by their record numbers, which must be the
    indices of the script's data set.

    Args:
        report: what `batchstat.preflight(trainer)` returned; the line calls it `report`.
        change: the change.
    """
    observed, request = report.observed, change.row.request
    # The trainer has an argument for the change, or the report is on a file.
    if change.line or observed is None:
        return change.line
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
        words.append(_RANK)
    sampler = f"batchstat.BatchSampler(report.profile, {', '.join(words)})"
    line = f"with_batches(trainer, {sampler})  # {_IMPORT}"
    # Padding that the data set already holds must be taken out first, by a line of its own.
    return f"{observed.repair}, and {line}" if observed.repair else line
