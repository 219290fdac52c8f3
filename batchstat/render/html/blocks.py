"""What a page is made of: lines and tables of screens, and charts beside them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from batchstat.render.screens.layout import Caption, Fitting, Line, Pasted, Rows


@dataclass(frozen=True)
class Table:
    """A table whose first column has the names."""

    caption: str
    columns: tuple[str, ...]  # headings
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""
    kind: ClassVar[str] = "table"

    @property
    def words(self) -> list[bool]:
        """For each column, whether it holds words. The page aligns the others, numbers, right."""
        columns = zip(*(cells for _, cells in self.rows), strict=True)
        return [not any(_NUMBER.fullmatch(cell) for cell in column) for column in columns]


@dataclass(frozen=True)
class Chart:
    """The place of a chart, which a script draws from the page's documents."""

    name: str
    title: str
    kind: ClassVar[str] = "chart"


@dataclass(frozen=True)
class Folded:
    """Blocks that a reader opens."""

    title: str
    blocks: "tuple[Block, ...]"
    kind: ClassVar[str] = "folded"


Block = Line | Pasted | Table | Chart | Folded

_NUMBER = re.compile(r"\W*\d\S*( ±? ?\S+)?")  # as 1.32x or 3.10% ± 0.02


def blocks(*parts: RenderableType | Block) -> tuple[Block, ...]:
    """Turn the parts of a screen into blocks: tables with captions, and lines of text."""
    page_blocks: list[Block] = []
    caption = ""
    for part in parts:
        match part:
            case Caption():
                caption = f"{part.word}: {part.text}"
            case Line() | Pasted() | Chart() | Folded():
                page_blocks.append(part)
            case Text():
                # An empty one is a blank line of a screen, which a page does not need.
                page_blocks += [Line("", part.plain)] if part.plain else []
            case _:
                # Any other part is a table, which takes the caption before it.
                table = _table(part)
                page_blocks.append(replace(table, caption=caption or table.caption))
                caption = ""
    return tuple(page_blocks)


def _table(part: RenderableType | Block) -> Table:
    """Turn any kind of table that screens have into a `Table`."""
    match part:
        case Table():
            return part
        case Fitting():
            # The first form is the widest. A page needs no narrower one: its tables scroll.
            return _table(part.forms[0])
        case Rows():
            cells = (tuple(map(_cell_text, row)) for row in part.rows)
            rows = tuple(zip(part.standings, cells, strict=True))
            columns = tuple(map(_cell_text, part.columns))
            return Table(caption="", columns=columns, rows=rows, note=part.note)
        case RichTable():
            columns = tuple(_cell_text(column.header) for column in part.columns)
            # rich keeps cells by column, and pages have them by row.
            by_column = (map(_cell_text, column.cells) for column in part.columns)
            return table_of(columns, zip(*by_column, strict=True))
    raise TypeError(f"a page has no block for {type(part).__name__}")


def table_of(
    columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], caption: str = "", note: str = ""
) -> Table:
    """Return a table in which no row is marked as the best or the current one."""
    return Table(caption, columns, tuple(("", cells) for cells in rows), note)


def _cell_text(cell: RenderableType) -> str:
    return " ".join((cell.plain if isinstance(cell, Text) else str(cell)).split())
