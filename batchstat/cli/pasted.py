"""Lines for the user to paste: complete command lines, and settings as flags or as lines of the
configuration.
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from batchstat.cli.inputs import COMMAND_LINE, Inputs
from batchstat.cli.options import Options
from batchstat.cli.records import DEFAULT_FOLDER
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import flags, joined, setting

if TYPE_CHECKING:
    from batchstat.gate.trials import Trial
    from batchstat.planning.settings import ResolvedSettings
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.compare.changes import Change

_BATCHING = {each.name: each.default for each in fields(Settings)}


def command_line(inputs: Inputs, command: str, **values: str | int | None) -> str:
    """Return `batchstat COMMAND` on the profile in the results folder, under the settings in force.

    A configuration could name another corpus, so the line ignores it and has its settings as flags,
    those other than the defaults.

    Args:
        inputs: the settings in force.
        command: the one to run next.
        values: by the names of `KEYS`, added to or replacing the settings; None omits one.
    """
    in_force = {key: inputs.values[key].value for key in _BATCHING if key in inputs.values}
    settings = {key: value for key, value in in_force.items() if value != _BATCHING[key]}
    return joined(["batchstat", command, *flags(settings | values), *where(inputs)])


def line_of(
    inputs: Inputs,
    profile: "Profile",
    basis: "ResolvedSettings",
    change: "Change",
    *,
    is_whole: bool,
) -> str:
    """Return the line to paste for a change: what the user's own trainer is to be passed; or the
    command that trains with it, by a whole script or, for a corpus that no script can read, by
    lines to paste; or that simulates it where neither can reproduce its batches. Empty where a
    recipe would train on samples that the trainer leaves out.

    Args:
        inputs: the settings in force.
        profile: the samples that are batched.
        basis: the settings that are decided.
        change: the change.
        is_whole: whether these are all samples of the profile in the results folder.
    """
    from batchstat.render.recipes.writing import holds_text, refusal

    # No recipe reads the data of a recorded run, and its samples have no numbers of a corpus.
    if change.line or inputs.observed is not None:
        return change.line
    row = change.row
    decided = {
        "strategy": row.label,
        "tokens_per_batch": basis.tokens_per_batch,
        "max_length": basis.max_length,
        "pad_to_multiple_of": basis.pad_to_multiple_of if basis.pad_to_multiple_of > 1 else None,
        "batch_size": None if row.request.sets("batch_size") else row.params.get("batch_size"),
    }
    if refusal("torch", row.request):
        return command_line(inputs, "compare", **decided)
    if not is_whole:
        return ""
    how: dict[str, Any] = {"snippet": True}
    if holds_text(profile):
        template = inputs.get("chat_template")
        how = {} if template is None else {"chat_template": template.as_posix()}
    return command_line(inputs, "recipe", **decided, epoch=None, **how)


def where(inputs: Inputs) -> list[str]:
    """Return the words that name the results folder, and keep a configuration out."""
    folder = [] if inputs.output == DEFAULT_FOLDER else ["-o", str(inputs.output)]
    is_configured = inputs.table is not None or "no_config" in inputs.options.given
    return [*folder, *(["--no-config"] if is_configured else [])]


def repeated(options: Options, command: str, **values: str) -> str:
    """Return `batchstat COMMAND` with all options that the user gave the current command.

    Args:
        options: those of the current command, which the other accepts too.
        command: the one to run next.
        values: by the names of options, replacing those given.
    """
    given = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in options.given.items()
    }
    corpus = given.pop("corpus", [])
    return joined(["batchstat", command, *map(str, corpus), *flags(given | values)])


def written(given: Inputs, profile: "Profile", trial: "Trial", is_whole: bool) -> tuple[str, str]:
    """Return a change of the training as its user writes it, and what of the check follows it:
    lines for the file that has the check, or flags where the command line sets them.

    Args:
        given: the settings of the check.
        profile: the samples that are trained.
        trial: the change.
        is_whole: whether these are all samples of the corpus.
    """
    line = trial.line.partition("  #")[0]
    if given.setup is not None and line:  # the check reads the configuration again
        return line, ""
    if given.observed is not None:  # the check records the training again
        assert trial.change is not None
        return f"training with {trial.change.row.label}", ""
    if trial.change is not None:
        basis = trial.change.row.request.settings
        change = line or line_of(given, profile, basis, trial.change, is_whole=is_whole)
        change = change or f"training with {trial.change.row.label}"
    else:
        pairs = (
            value if key == "current" else f"{key}={value}" for key, value in trial.changes.items()
        )
        change = f"training with {', '.join(pairs)}"
    changes = dict(trial.changes)
    if given.setup is not None:  # which no longer says how samples are read and what is decided
        origins = given.setup_origins
        kept = {key: each.value for key, each in given.values.items() if each.origin in origins}
        changes = kept | changes
    is_flag = any(
        given.values[key].origin.endswith(COMMAND_LINE)
        for key in ("corpus", *changes)
        if key in given.values
    )
    if given.table is None or is_flag:
        return change, f"pass {joined(flags(changes))}"
    lines = [setting(key.replace("_", "-"), value) for key, value in changes.items()]
    return change, f"set {' and '.join(lines)} in {given.table}"
