"""batchstat config"""

import sys
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli.options import groups as o

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs


@o.takes(
    o.OPTIONAL_CORPUS,
    o.LIMITS,
    o.STRATEGY,
    o.BATCHING,
    o.SAMPLER,
    o.READING,
    o.CHECKS,
    o.CONFIGURATION,
)
def command(context: typer.Context, **options: Any) -> None:
    """Print the settings in force for check, and where each is set.

    Accepts the options of check; the same settings, except limits, apply to compare and profile.
    """
    from batchstat.cli.checking import chosen
    from batchstat.cli.streams import console, emit, render
    from batchstat.render.screens.settings import settings_screen

    every = chosen(context)
    tables = {given.name: _rows(given) for given in every}
    emit(render(settings_screen(tables), console()), sys.stdout.encoding)


def _rows(given: "Inputs") -> list[tuple[str, str, str]]:
    """Return key, value and origin of every setting in force, including defaults."""
    from dataclasses import MISSING, fields

    from batchstat.cli.checking import DEFAULT_STRATEGY, limits_of
    from batchstat.cli.configuration import KEYS
    from batchstat.corpus.options import CorpusOptions
    from batchstat.planning.settings import Settings
    from batchstat.tokenization.builtin import NAME

    defaults: dict[str, Any] = {"tokenizer": NAME, "strategy": DEFAULT_STRATEGY}
    for record in (CorpusOptions, Settings):
        defaults |= {each.name: each.default for each in fields(record)}
    rows = []
    for key in KEYS:
        name = key.replace("_", "-")
        if key in given.values:
            setting = given.values[key]
            rows.append((name, _shown(setting.value), setting.origin))
        elif defaults.get(key) not in (None, (), MISSING):
            rows.append((name, _shown(defaults[key]), "default"))
        else:
            rows.append((name, "", "not set"))
    for limit in limits_of(given):
        level = "" if limit.level == "error" else f" ({limit.level})"
        rows.append((limit.name, f"{limit.written}{level}", limit.origin))
    return rows


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
