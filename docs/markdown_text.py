"""Markdown for generated pages."""

import re
from collections.abc import Iterable, Sequence


def page(title: str, blocks: Iterable[str]) -> str:
    """Return a page of blocks."""
    return "\n\n".join([f"# {title}", *blocks]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(' '.join(cell.split()) for cell in row)} |" for row in lines)


def prose(text: str) -> str:
    """Return text that Markdown shows as it is; names in backticks remain code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_<>|\[\]#])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [part.replace("|", r"\|") for part in parts[1::2]]
    return "`".join(parts)


def code(text: str) -> str:
    """Return text as code; nothing for no text."""
    return f"`{text}`".replace("|", r"\|") if text else ""
