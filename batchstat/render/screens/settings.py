"""The settings in force and where each is set; the keys of a trainer's configuration."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.hidden_secrets import hidden_in
from batchstat.render.screens.layout import Line, Rows, table
from batchstat.render.text import one_line

if TYPE_CHECKING:
    from batchstat.trainers.base.setup import TrainingSetup


def settings_screen(checks: Mapping[str, Sequence[tuple[str, str, str]]]) -> RenderableType:
    """Return what `config` prints: by the name of a check, keys, values and where each is set."""
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
            style = "" if origin not in ("default", "not set") else "dim"
            cells = (one_line(key), one_line(value, 200), one_line(origin, 200))
            values.add_row(*(Text(cell, style=style) for cell in cells))
        parts.append(values)
    return Group(*parts)


def keys_of_setup(setup: "TrainingSetup") -> Iterator[RenderableType]:
    """Yield the table of a trainer's keys that decide on batches, then those that do not."""
    rows = Rows("key that decides", "value")
    for key, value in hidden_in(setup.config.values()).items():
        # A key without a value is listed only if the configuration gives it, as null.
        if key in setup.config.given_keys or value is not None:
            is_word = value is None or isinstance(value, bool)  # which YAML writes as JSON does
            rows.add(Text(key), json.dumps(value) if is_word else one_line(str(value)))
    yield rows
    if setup.unused:
        yield from (Text(), Line("unused", ", ".join(map(one_line, setup.unused))))
