"""What a page is made of: the parts of screens as plain records, and charts beside them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from batchstat.render.screens.layout import Caption, Fitting, Line, Pasted, PlainTable, Rows


@dataclass(frozen=True)
class Words:
    """A paragraph with a word before it.

    Attributes:
        word: empty for none.
        text: the paragraph.
        standing: a word for what the text says: best, over, or nothing.
    """

    word: str
    text: str
    standing: str = ""
    kind: str = "words"


@dataclass(frozen=True)
class Code:
    """A line to paste."""

    text: str
    kind: str = "code"


@dataclass(frozen=True)
class Table:
    """A table whose first column has the names.

    Attributes:
        caption: what it shows.
        columns: headings.
        rows: the cells of each row, after a word for its standing: best, current, or nothing.
        note: a line below it.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""
    kind: str = "table"

    @property
    def words(self) -> list[bool]:
        """Of each column, whether it holds words, and not numbers."""
        columns = zip(*(cells for _, cells in self.rows), strict=True)
        return [not any(_NUMBER.fullmatch(cell) for cell in column) for column in columns]


@dataclass(frozen=True)
class Chart:
    """The place of a chart, which a script draws from the page's documents.

    Attributes:
        name: which chart.
        title: what it shows.
    """

    name: str
    title: str
    kind: str = "chart"


@dataclass(frozen=True)
class Folded:
    """Blocks that a reader opens."""

    title: str
    blocks: "tuple[Block, ...]"
    kind: str = "folded"


Block = Words | Code | Table | Chart | Folded

_NUMBER = re.compile(r"\W*\d\S*( ±? ?\S+)?")


def blocks(*parts: RenderableType | Block) -> tuple[Block, ...]:
    """Return the parts of a screen as blocks, tables with their captions."""
    found: list[Block] = []
    caption = ""
    for part in _flat(parts):
        if isinstance(part, Caption):
            caption = f"{part.word}: {part.text}"
            continue
        if caption and isinstance(part, Table):
            part, caption = replace(part, caption=caption), ""
        found.append(part)
    return tuple(found)


def _flat(parts: Iterable[RenderableType | Block]) -> Iterator[Block | Caption]:
    for part in parts:
        match part:
            case Group():
                yield from _flat(part.renderables)
            case Pasted():
                yield from ([Words(part.word, "")] if part.word else [])
                yield Code(part.line)
            case Text() if not part.plain:
                pass
            case Words() | Code() | Table() | Chart() | Folded() | Caption():
                yield part
            case _:
                yield _block(part)


def _block(part: RenderableType) -> Block:
    match part:
        case Line():
            return Words(part.word, part.text, part.standing)
        case Text():
            return Words("", part.plain)
        case Fitting():
            # The widest: tables of a page scroll.
            return _of_rows(part.forms[0])
        case Rows():
            return _of_rows(part)
        case RichTable():
            return _of_table(part)
    raise TypeError(f"a page has no block for {type(part).__name__}")


def _of_rows(rows: Rows) -> Table:
    made = tuple(
        (standing, tuple(" ".join(cell.plain.split()) for cell in cells))
        for standing, cells in zip(rows.standings, rows.rows, strict=True)
    )
    return Table("", tuple(" ".join(each.split()) for each in rows.columns), made, rows.note)


def _of_table(table: RichTable) -> Table:
    columns = tuple(_plain(column.header) for column in table.columns)
    cells = zip(*(column.cells for column in table.columns), strict=True)
    standings = (isinstance(table, PlainTable) and table.standings) or [""] * table.row_count
    rows = zip(standings, (tuple(map(_plain, row)) for row in cells), strict=True)
    return Table("", columns, tuple(rows))


def _plain(cell: RenderableType) -> str:
    return " ".join((cell.plain if isinstance(cell, Text) else str(cell)).split())
