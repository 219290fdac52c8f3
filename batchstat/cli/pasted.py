"""Lines for the user to paste: commands, and settings as flags or lines of the configuration."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from batchstat.cli.inputs import COMMAND_LINE, Inputs
from batchstat.cli.records import DEFAULT_FOLDER
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import flags, line_to_paste, toml_line

if TYPE_CHECKING:
    from batchstat.planning.settings import ResolvedSettings
    from batchstat.simulation.compare.changes import Change

_DEFAULTS = {setting.name: setting.default for setting in fields(Settings)}  # of batching


def command_line(inputs: Inputs, command: str, **values: str | int | None) -> str:
    """Return `batchstat COMMAND` on the profile in the results folder, without the configuration,
    which could name another corpus: settings that are not the default have a flag.
    """
    in_force = {key: inputs.values[key].value for key in _DEFAULTS if key in inputs.values}
    settings = {key: value for key, value in in_force.items() if value != _DEFAULTS[key]}
    return line_to_paste(["batchstat", command, *flags(settings | values), *folder_flags(inputs)])


def line_of_change(
    inputs: Inputs, basis: "ResolvedSettings", change: "Change", *, all_kept: bool
) -> str:
    """Return the line to paste for a change of the training: the keys or arguments for the user's
    own trainer; else `batchstat compare`, for batches that no recipe reproduces; else `batchstat
    recipe`, which prints lines for the user's script; else empty text.
    """
    from batchstat.render.recipes.writing import refusal

    if change.line:
        return change.line
    row, multiple = change.row, basis.pad_to_multiple_of
    settings: dict[str, str | int | None] = {
        "strategy": row.label,
        "tokens_per_batch": basis.tokens_per_batch,
        "max_length": basis.max_length,
        "pad_to_multiple_of": multiple if multiple > 1 else None,  # 1 changes nothing
        # A strategy that sets a batch size has it in its label.
        "batch_size": row.request.shared_batch_size,
    }
    if refusal("torch", row.request):  # no recipe makes these batches: they can only be simulated
        return "" if inputs.observed is not None else command_line(inputs, "compare", **settings)
    if not all_kept:  # a recipe trains on all samples, by records that index a data set
        return ""
    # `recipe` has no option for an epoch, as a script trains all epochs.
    return command_line(inputs, "recipe", **settings, epoch=None)


def folder_flags(inputs: Inputs) -> list[str]:
    """Return the flags for another command to find the results and ignore the configuration."""
    folder = [] if inputs.output == DEFAULT_FOLDER else ["-o", str(inputs.output)]
    is_configured = inputs.table is not None or "no_config" in inputs.options.given
    return [*folder, *(["--no-config"] if is_configured else [])]


def lines_of_remedy(
    inputs: Inputs, change: "Change", changed: Mapping[str, Any], *, all_kept: bool
) -> tuple[str, str]:
    """Return what the user writes to make a change that keeps a limit: what changes the training,
    "training with token-budget"; and what changes the check, "set current = ... in pyproject.toml",
    or "pass --current ..." if the command line set it, or nothing if it follows by itself.
    """
    # The first part. A line may end in a note, which is not pasted.
    line = change.line.partition("  #")[0]
    if inputs.setup is not None and line:  # the check reads the trainer's configuration again
        return line, ""
    first = f"{change.repair}, and " if change.repair else ""
    training = f"{first}training with {change.row.label}"
    if inputs.observed is not None:  # the check records the training again
        return training, ""
    basis = change.row.request.settings
    training = line or line_of_change(inputs, basis, change, all_kept=all_kept) or training
    # A strategy replaces the trainer's configuration: what only that has set, the check must set.
    settings = {**inputs.decided_by_setup, **changed}
    # A corpus or a value on the command line overrides what the file would set.
    current_values = [inputs.values[key] for key in ("corpus", *settings) if key in inputs.values]
    is_flag = any(setting.origin.endswith(COMMAND_LINE) for setting in current_values)
    if inputs.table is None or is_flag:
        # The corpus has no flag: it is an argument of the command.
        corpus = settings.pop("corpus", ())
        return training, f"pass {line_to_paste([*corpus, *flags(settings)])}"
    lines = [toml_line(key.replace("_", "-"), value) for key, value in settings.items()]
    return training, f"set {' and '.join(lines)} in {inputs.table}"
