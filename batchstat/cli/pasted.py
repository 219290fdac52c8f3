"""Lines for the user to paste: complete command lines, and settings as flags or as lines of the
configuration.
"""

import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from batchstat.cli.inputs import COMMAND_LINE, Inputs
from batchstat.cli.options import Options
from batchstat.cli.records import DEFAULT_FOLDER
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import flags
from batchstat.render.text import key_values
from batchstat.render.toml import setting

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
    return shlex.join(["batchstat", command, *flags(settings | values), *where(inputs)])


def where(inputs: Inputs) -> list[str]:
    """Return the words that name the results folder, and keep a configuration out."""
    folder = [] if inputs.output == DEFAULT_FOLDER else ["-o", str(inputs.output)]
    is_configured = inputs.is_configured or "no_config" in inputs.options.given
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
    return shlex.join(["batchstat", command, *map(str, corpus), *flags(given | values)])


def written(given: Inputs, changes: Mapping[str, Any]) -> str:
    """Return changed settings of a check as its user writes them: as lines for the file that has
    the check, or as flags where the command line names its corpus or sets one of them; changed keys
    of a trainer's configuration as that has them.
    """
    if given.setup is not None and given.strategy == given.setup.strategy:
        return f"{key_values(changes)} in {given.setup.path.as_posix()}"
    origins = [given.values[key].origin for key in ("corpus", *changes) if key in given.values]
    if given.table is None or any(origin.endswith(COMMAND_LINE) for origin in origins):
        return shlex.join(flags(changes))
    lines = [setting(key.replace("_", "-"), value) for key, value in changes.items()]
    return f"{' and '.join(lines)} in {given.table}"
