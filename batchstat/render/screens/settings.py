"""The screen of `config`: the settings in force, and where each is set."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.render.screens.layout import Line, table
from batchstat.render.text import one_line

Rows = Sequence[tuple[str, str, str]]  # key, value and where it is set


def settings_screen(checks: Mapping[str, Rows]) -> RenderableType:
    """Return what `config` prints: settings in force by the name of a check."""
    parts: list[RenderableType] = []
    for name, rows in checks.items():
        if len(checks) > 1:
            parts += [Text()] if parts else []
            parts.append(Line("check", one_line(name)))
        values = table("key", "value", "set in")
        # The columns hold words, and not the numbers that `table` expects.
        for column in values.columns[1:]:
            column.justify, column.no_wrap, column.overflow = "left", False, "fold"
        for key, value, origin in rows:
            # What the user did not set is dim.
            style = "" if origin not in ("default", "not set") else "dim"
            cells = (one_line(key), one_line(value, 200), one_line(origin, 200))
            values.add_row(*(Text(cell, style=style) for cell in cells))
        parts.append(values)
    return Group(*parts)
