"""What Python prints of a report."""

import sys

from rich.console import Console, RenderableType

from batchstat.errors import OptionError, printable, short
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import changed
from batchstat.render.recipes.writing import literal, refusal
from batchstat.render.screens.preflight import preflight_screen
from batchstat.simulation.compare.changes import Change
from batchstat.trainers.preflight.report import Preflight

_WIDTH = 100
_KEPT = ("seed", "gradient_accumulation_steps", "distribute", "remainder", "drop_last")
_SIZES = ("tokens_per_batch", "batch_size", "pad_to_multiple_of")
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
        raise OptionError(f"report={short(report)}: must be what batchstat.preflight returned")
    screen = screen_of(report)
    on = Console(highlight=False)
    if on.is_jupyter or sys.stdout.isatty():
        on.print(screen, crop=False)  # a line to paste is longer than a terminal is wide
    else:
        with (plain := Console(width=_WIDTH, highlight=False)).capture() as captured:
            plain.print(screen, crop=False)
        # rich fills lines with blanks.
        sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    aside = Console(stderr=True, markup=False, highlight=False)
    for warning in report.warnings:
        aside.print(f"warning: {printable(warning.message)}", soft_wrap=True)


def screen_of(report: Preflight) -> RenderableType:
    """Return the report on an object or on a run, with lines to paste into its script."""
    return preflight_screen(report, lambda change: line_of(report, change))


def line_of(report: Preflight, change: Change) -> str:
    """Return the line to paste into the script for a change; empty where there is none, since its
    sampler would need to know what the data set has under which number.

    Args:
        report: what `batchstat.preflight(trainer)` returned, as it is called in the line.
        change: the change.
    """
    observed, request = report.observed, change.row.request
    if change.line or observed is None:
        return change.line
    if not observed.is_indexed or refusal("trainer", request):
        return ""
    own = changed(request.settings, Settings)
    given = {name: own[name] for name in _KEPT if name in own}
    given |= {
        name: change.row.params[name]
        for name in _SIZES
        if not request.sets(name) and change.row.params.get(name) not in (None, 1)
    }
    words = [literal(request.spec), *(f"{key}={literal(value)}" for key, value in given.items())]
    if request.settings.world_size > 1:
        words.append(_RANK)
    sampler = f"batchstat.BatchSampler(report.profile, {', '.join(words)})"
    line = f"with_batches(trainer, {sampler})  # {_IMPORT}"
    return f"{observed.repair}, and {line}" if observed.repair else line
