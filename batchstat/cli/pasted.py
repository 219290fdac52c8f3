"""Lines for the user to paste: complete command lines, and settings as flags or as lines of the
configuration.
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from batchstat.cli.inputs import COMMAND_LINE, Inputs
from batchstat.cli.options import Options
from batchstat.cli.records import DEFAULT_FOLDER
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import flags, line_to_paste, toml_line

if TYPE_CHECKING:
    from batchstat.gate.trials import Trial
    from batchstat.planning.settings import ResolvedSettings
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.compare.changes import Change

_DEFAULTS = {setting.name: setting.default for setting in fields(Settings)}
"""The settings of batching, with their defaults."""


def command_line(inputs: Inputs, command: str, **values: str | int | None) -> str:
    """Return `batchstat COMMAND` on the profile in the results folder, under the settings in force.

    A configuration could name another corpus. So the line ignores the configuration, and has a flag
    for each setting of it that is not the default.

    Args:
        inputs: the settings in force.
        command: the one to run next.
        values: settings by the names of `KEYS`, which are added, or replace those in force; a None
            leaves one out.
    """
    in_force = {key: inputs.values[key].value for key in _DEFAULTS if key in inputs.values}
    settings = {key: value for key, value in in_force.items() if value != _DEFAULTS[key]}
    return line_to_paste(["batchstat", command, *flags(settings | values), *folder_flags(inputs)])


def line_of_change(
    inputs: Inputs,
    profile: "Profile",
    basis: "ResolvedSettings",
    change: "Change",
    *,
    is_whole: bool,
) -> str:
    """Return the line to paste for a change of the training. The first that can be had of:

    - the keys or arguments for the user's own trainer,
    - `batchstat compare`, for batches that no recipe reproduces,
    - `batchstat recipe`, which prints a script, or lines for the user's script.

    Empty if there is none.

    Args:
        inputs: the settings in force.
        profile: the samples that are batched.
        basis: the settings of batching, those that nobody gave as batchstat decided them.
        change: the change.
        is_whole: whether these are all samples of the profile in the results folder.
    """
    from batchstat.render.recipes.writing import holds_text, refusal

    # The line for the user's trainer, if there is one. A recorded run has no other: no recipe reads
    # its data, and its samples are not records of a corpus.
    if change.line or inputs.observed is not None:
        return change.line
    row = change.row
    # The settings to train with. A None has no flag: padding to a multiple of 1 changes nothing,
    # and the label of a strategy may say its batch size already.
    decided = {
        "strategy": row.label,
        "tokens_per_batch": basis.tokens_per_batch,
        "max_length": basis.max_length,
        "pad_to_multiple_of": basis.pad_to_multiple_of if basis.pad_to_multiple_of > 1 else None,
        "batch_size": None if row.request.sets("batch_size") else row.params.get("batch_size"),
    }
    if refusal("torch", row.request):  # no recipe has these batches: they can only be simulated
        return command_line(inputs, "compare", **decided)
    if not is_whole:  # a recipe trains on the whole profile, also on what the trainer leaves out
        return ""
    # A whole script tokenizes texts. For a profile of lengths or token ids, `recipe` prints lines
    # for the user's own script instead.
    recipe_options: dict[str, Any] = {"snippet": True}
    if holds_text(profile):
        template = inputs.get("chat_template")
        recipe_options = {} if template is None else {"chat_template": template.as_posix()}
    # A recipe trains all epochs: it has no option for one.
    return command_line(inputs, "recipe", **decided, epoch=None, **recipe_options)


def folder_flags(inputs: Inputs) -> list[str]:
    """Return the flags with which another command finds the same results folder, and ignores the
    configuration if there is one.
    """
    folder = [] if inputs.output == DEFAULT_FOLDER else ["-o", str(inputs.output)]
    is_configured = inputs.table is not None or "no_config" in inputs.options.given
    return [*folder, *(["--no-config"] if is_configured else [])]


def with_same_options(options: Options, command: str, **values: str) -> str:
    """Return `batchstat COMMAND` with all options that the user gave the current command.

    Args:
        options: those of the current command, which the other accepts too.
        command: the one to run next.
        values: by the names of options, replacing those given.
    """
    # `flags` repeats the flag for each item of a list, as the command line takes it.
    given = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in options.given.items()
    }
    corpus = given.pop("corpus", [])
    return line_to_paste(["batchstat", command, *map(str, corpus), *flags(given | values)])


def lines_of_trial(
    inputs: Inputs, profile: "Profile", trial: "Trial", *, is_whole: bool
) -> tuple[str, str]:
    """Return what the user writes for a change that keeps a limit, in two parts.

    The first part changes the training: "training with token-budget". The second changes the check
    to match: "set current = ... in pyproject.toml", or "pass --current ..." if the command line set
    it; empty if the check follows the training by itself.

    Args:
        inputs: the settings of the check.
        profile: the samples that are trained.
        trial: the change.
        is_whole: whether these are all samples of the corpus.
    """
    line = trial.line.partition("  #")[0]  # without the note after it
    if inputs.setup is not None and line:  # the check reads the trainer's configuration again
        return line, ""
    if inputs.observed is not None:  # the check records the training again
        assert trial.change is not None  # no trial of a recording is of settings alone
        return f"training with {trial.change.row.label}", ""
    if trial.change is not None:
        basis = trial.change.row.request.settings
        training = line or line_of_change(inputs, profile, basis, trial.change, is_whole=is_whole)
        training = training or f"training with {trial.change.row.label}"
    else:  # a trial of settings alone
        pairs = (
            value if key == "current" else f"{key}={value}" for key, value in trial.changes.items()
        )
        training = f"training with {', '.join(pairs)}"
    changes = dict(trial.changes)
    if inputs.setup is not None:
        # A strategy replaces the trainer's configuration as the current setup: what only the
        # configuration has set must now be set in the check.
        origins = inputs.setup_origins
        from_setup = {k: v.value for k, v in inputs.values.items() if v.origin in origins}
        changes = from_setup | changes
    # A corpus or a value on the command line overrides what the file would set.
    is_flag = any(
        inputs.values[key].origin.endswith(COMMAND_LINE)
        for key in ("corpus", *changes)
        if key in inputs.values
    )
    if inputs.table is None or is_flag:
        return training, f"pass {line_to_paste(flags(changes))}"
    lines = [toml_line(key.replace("_", "-"), value) for key, value in changes.items()]
    return training, f"set {' and '.join(lines)} in {inputs.table}"
