"""A configuration as TOML text, as `batchstat init` writes it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from batchstat.errors import is_shortened
from batchstat.render.command_lines import COMPLETE


def configuration_toml(
    table: str, values: Mapping[str, Any], limits: Iterable[tuple[str, str, str]]
) -> str:
    """Return the text of a table and its limits, with the measured value beside each limit.

    Args:
        table: its dotted name; empty for a separate file.
        values: values by key.
        limits: name, limit and measured value.
    """
    head = [f"[{table}]"] if table else []
    lines = [setting(key, value) for key, value in values.items()]
    settings = [line + COMPLETE if is_shortened(line) else line for line in lines]
    named = [f"[{table}.limits]" if table else "[limits]"]
    written = [f"{name} = {limit}" for name, limit, _ in limits]
    width = max(map(len, written), default=0)
    notes = [measured for _, _, measured in limits]
    named += [f"{line:<{width}}  # {note}" for line, note in zip(written, notes, strict=True)]
    return "\n".join([*head, *settings, "", *named]) + "\n"


def setting(key: str, value: Any) -> str:
    """Return a line of a table."""
    return f"{key} = {_value(value)}"


def text(value: str) -> str:
    """Return a TOML string: JSON's, except that TOML also requires DEL to be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        parts = [text(str(each)) for each in value]
        return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    return str(value) if isinstance(value, int) else text(str(value))
