"""What a page is made of: the parts of screens as plain records, and charts beside them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from batchstat.render.screens.layout import Fitting, Line, Pasted, Rows


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

_STANDINGS = {
    "bold green": "best",
    "bold cyan": "current",
    "red": "over",
    "green": "good",
    "yellow": "warn",
}
"""Styles of rows on a terminal, and what they stand for."""


def blocks(*parts: RenderableType | Block) -> tuple[Block, ...]:
    """Return the parts of a screen as blocks; a line before a table is its caption."""
    found: list[Block] = []
    for block in _flat(parts):
        if isinstance(block, Table) and found and isinstance(found[-1], Words) and found[-1].word:
            before = found[-1]
            # Captions begin in lower case; a sentence before a table is a result of its own.
            if not block.caption and before.text[:1].islower():
                found.pop()
                block = _captioned(block, before)
        found.append(block)
    return tuple(found)


def _captioned(block: Table, words: Words) -> Table:
    return Table(f"{words.word}: {words.text}", block.columns, block.rows, block.note)


def _flat(parts: Iterable[RenderableType | Block]) -> Iterator[Block]:
    for part in parts:
        match part:
            case Group():
                yield from _flat(part.renderables)
            case Pasted():
                yield from ([Words(part.word, "")] if part.word else [])
                yield Code(part.line)
            case Text() if not part.plain:
                pass
            case Words() | Code() | Table() | Chart() | Folded():
                yield part
            case _:
                yield _block(part)


def _block(part: RenderableType) -> Block:
    match part:
        case Line():
            return Words(part.word, part.text, _standing(part.style))
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
        (_standing(str(cells[-1].style)), tuple(" ".join(cell.plain.split()) for cell in cells))
        for cells in rows.rows
    )
    return Table("", tuple(" ".join(each.split()) for each in rows.columns), made, rows.note)


def _of_table(table: RichTable) -> Table:
    columns = tuple(_plain(column.header) for column in table.columns)
    cells = zip(*(column.cells for column in table.columns), strict=True)
    rows = tuple((_standing(_style(row[-1])), tuple(_plain(cell) for cell in row)) for row in cells)
    return Table("", columns, rows)


def _plain(cell: RenderableType) -> str:
    return " ".join((cell.plain if isinstance(cell, Text) else str(cell)).split())


def _style(cell: RenderableType) -> str:
    return str(cell.style) if isinstance(cell, Text) else ""


def _standing(style: str) -> str:
    return _STANDINGS.get(style, "")
