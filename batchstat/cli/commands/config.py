"""batchstat config: print the settings in force, and where each is set."""

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from batchstat.cli.options import Options, takes
from batchstat.cli.records import (
    Checks,
    ConfigFile,
    Current,
    Ignored,
    Limits,
    OptionalCorpus,
    Tokenization,
)
from batchstat.cli.streams import show
from batchstat.corpus.options import CorpusOptions
from batchstat.parameters import described
from batchstat.planning.settings import Settings

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs


@takes(
    *(OptionalCorpus, Limits, Current, Settings, Tokenization, CorpusOptions),
    *(Checks, Ignored, ConfigFile),
)
@described(
    """Print the settings of the checks, and where each is set.

    Accepts the options of check that change them; the same settings, except limits, apply to all
    commands.

    Examples:
        # The configuration, with the defaults
        batchstat config

        # What an option would change
        batchstat config --tokens-per-batch 16k
    """
)
def command(options: Options) -> None:
    from batchstat.cli.checks.run import chosen_checks
    from batchstat.render.screens.settings import settings_screen

    tables = {inputs.name: _rows(inputs) for inputs in chosen_checks(options)}
    show(settings_screen(tables))


def _rows(inputs: "Inputs") -> list[tuple[str, str, str]]:
    """Return a row for every key and every limit of a check: name, value, and where it is set."""
    from batchstat.cli.configuration import KEYS
    from batchstat.tokenization.builtin import NAME

    defaults: dict[str, Any] = {"tokenizer": NAME, "current": inputs.current_text}
    for record in (CorpusOptions, Settings):
        defaults |= {declared.name: declared.default for declared in fields(record)}
    rows = []
    for key in KEYS:
        name = key.replace("_", "-")
        if key in inputs.values:
            setting = inputs.values[key]
            rows.append((name, _shown(setting.value), setting.origin))
        elif defaults.get(key) not in (None, (), MISSING):  # each of these means no default
            rows.append((name, _shown(defaults[key]), "default"))
        else:
            rows.append((name, "", "not set"))
    for limit in inputs.limits_in_force:
        level = "" if limit.level == "error" else f" ({limit.level})"
        rows.append((limit.name, f"{limit.written}{level}", limit.origin))
    return rows


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
