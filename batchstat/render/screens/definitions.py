"""The screens of `explain`: one meaning of a name, and all names."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from batchstat.render.glossary import Entry
from batchstat.render.screens.layout import Line


def definition_screen(entry: Entry) -> RenderableType:
    """Return what `explain NAME` prints for one meaning of the name."""
    parts: list[RenderableType] = [
        Text(entry.name, style="bold").append(f"  {entry.kind}", "not bold dim"),
        Text(entry.text),
    ]
    if entry.facts:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for key, value in entry.facts:
            grid.add_row(Text(f"  {key}"), Text(value))
        parts.append(grid)
    return Group(*parts)


def names_screen(names_by_kind: Mapping[str, Sequence[str]]) -> RenderableType:
    """Return what `explain` prints without a name: all names, by their kind."""
    parts: list[RenderableType] = []
    for kind, names_of_kind in names_by_kind.items():
        parts += [Text(kind, style="bold"), Text("  " + ", ".join(names_of_kind)), Text()]
    return Group(*parts, Line("next", "batchstat explain NAME"))
