"""batchstat explain: define a column, a key, a strategy, a setting or a finding."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from batchstat.cli.options import Options, takes
from batchstat.cli.streams import console, emit, render, show
from batchstat.parameters import described, option


def _names() -> Iterable[str]:
    from batchstat.render.glossary import COLUMNS, entries

    return sorted({*COLUMNS, *(entry.name for entry in entries())})


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names to explain."""

    name: tuple[str, ...] = option(
        (), "A column, a key, a strategy, …", "", "NAME", is_argument=True, names=_names
    )
    as_json: bool = option(
        False, "Print definitions as JSON: of all names without one.", "Output", flags=("--json",)
    )


@takes(Names)
@described(
    """Explain a column, a key, a strategy, a rule, a setting or a finding.

    Examples:
        # All names
        batchstat explain

        # A column of a table
        batchstat explain correlation

        # Two names
        batchstat explain token-budget packing efficiency

        # What a warning is about, why it matters, and what to do
        batchstat explain padding/over-budget

        # The models that --model knows
        batchstat explain model

        # Everything that has a name, for a program
        batchstat explain --json
    """
)
def command(options: Options) -> None:
    from batchstat.documents.base import to_text
    from batchstat.render.glossary import COLUMNS, entries, explain_all
    from batchstat.render.screens.definitions import definition_screen, names_screen

    requested, as_json = options.read(Names).name, options.read(Names).as_json
    if as_json:
        found = explain_all(requested) if requested else entries()
        emit(to_text([{**vars(entry), "facts": dict(entry.facts)} for entry in found]))
        return
    if not requested:  # list all names, grouped by kind
        names_by_kind: dict[str, list[str]] = {"column": list(COLUMNS)}
        for entry in entries():
            # Keys have a kind for each file, such as "key of compare.json": they are one group.
            kind = "key of JSON" if ".json" in entry.kind else entry.kind
            names = names_by_kind.setdefault(kind, [])
            if entry.name not in names:  # several files may have the same key
                names.append(entry.name)
        show(names_screen(names_by_kind))
        return
    target = console()
    screens = [render(definition_screen(entry), target) for entry in explain_all(requested)]
    emit("\n".join(screens), sys.stdout.encoding)
