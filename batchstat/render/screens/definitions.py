"""The screen of `explain`."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from batchstat.render.screens.layout import Line


def definition_screen(
    name: str, kind: str, text: str, facts: Sequence[tuple[str, str]]
) -> RenderableType:
    """Return the screen for one meaning of a name."""
    parts: list[RenderableType] = [
        Text(name, style="bold").append(f"  {kind}", "not bold dim"),
        Text(text),
    ]
    if facts:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for key, value in facts:
            grid.add_row(Text(f"  {key}"), Text(value))
        parts.append(grid)
    return Group(*parts)


def names_screen(names: Mapping[str, Sequence[str]]) -> RenderableType:
    """Return the screen of all names, by kind."""
    parts: list[RenderableType] = []
    for kind, every in names.items():
        parts += [Text(kind, style="bold"), Text("  " + ", ".join(every)), Text()]
    return Group(*parts, Line("next", "batchstat explain NAME"))
