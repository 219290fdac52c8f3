"""Building blocks of screens: headings, tables, and the lines above every table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from batchstat.render.text import corpus_name, one_line, tokenizer_name
from batchstat.words import counted, printable

_GAP, _LEAST_NAME, _LONG_HEADING = 2, 14, 14  # characters between columns, of names, of headings


STANDINGS: Mapping[str, str] = {
    "best": "bold green",
    "current": "bold cyan",
    "over": "red",
    "good": "green",
    "warn": "yellow",
}
"""How a terminal shows what a line stands for; pages have styles for the same words."""


@dataclass(frozen=True)
class Line:
    """One or more lines with a word before them; `standing` is one of `STANDINGS`, or empty."""

    word: str
    text: str
    standing: str = ""
    kind: ClassVar[str] = "line"  # tells a page's template how to show it

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=8, no_wrap=True)
        grid.add_column(overflow="fold")
        style = STANDINGS.get(self.standing, "")
        grid.add_row(Text(self.word, style=f"bold {style}".strip()), Text(self.text))
        yield grid


class Caption(Line):
    """A line that says what the table below it shows."""


@dataclass(frozen=True)
class Pasted:
    """A line to paste with a word before it; it is never folded, which would break it."""

    word: str
    line: str
    kind: ClassVar[str] = "pasted"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text(f"{self.word:<9}", style="bold", no_wrap=True, overflow="ignore")
        yield text.append(printable(self.line), "not bold")


class Rows:
    """A table of named rows; columns that do not fit follow below, with the names repeated."""

    def __init__(self, *columns: str, note: str = "") -> None:
        self.columns = columns
        self.note = note
        self.rows: list[tuple[Text, ...]] = []
        self.standings: list[str] = []

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, str]]) -> "Rows":
        """Return a table of at least one row, each with its cells by heading, the name first."""
        all_cells = list(rows)
        new_table = cls(*all_cells[0])
        for cells in all_cells:
            name, *numbers = cells.values()
            new_table.add(Text(name), *numbers)
        return new_table

    def add(self, name: Text, *cells: str, standing: str = "") -> None:
        """Add a row: its name, and a cell for each other column."""
        style = STANDINGS.get(standing, "")
        self.rows.append((name, *(Text(cell, style=style) for cell in cells)))
        self.standings.append(standing)

    def with_headings_on_lines(self) -> "Rows":
        """Return a narrower table: the last word of each heading on a line of its own."""
        first, *others = self.columns
        copy = Rows(first, *("\n".join(text.rsplit(" ", 1)) for text in others), note=self.note)
        copy.rows, copy.standings = self.rows, self.standings
        return copy

    @property
    def widths(self) -> list[int]:
        """Characters of each column, with the gap after it."""
        return [
            max(
                len(line)
                for text in (_on_lines(heading), *(cell.plain for cell in cells))
                for line in text.split("\n")
            )
            + _GAP
            for heading, *cells in zip(self.columns, *self.rows, strict=True)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print as many columns beside the names as fit, then the next below, and so on."""
        widths = self.widths
        # Long names take at most half of the width; they are folded.
        name_width = min(widths[0], max(_LEAST_NAME, options.max_width // 2))
        room = options.max_width - name_width
        first = 1
        while first < len(widths):
            # From `first` to before `end`: at least one column, even if it does not fit.
            end = first + 1
            while end < len(widths) and sum(widths[first : end + 1]) <= room:
                end += 1
            if first > 1:
                yield Text()
            part = table(self.columns[0], *self.columns[first:end])
            part.columns[0].min_width = name_width - _GAP
            for row in self.rows:
                part.add_row(_for_console(row[0], options), *row[first:end])
            yield part
            first = end
        if self.note:
            yield _for_console(Text(self.note, style="dim"), options)


def _for_console(text: Text, options: ConsoleOptions) -> Text:
    if options.ascii_only:
        text = text.copy()
        text.plain = text.plain.translate(_IN_ASCII)
    return text


_IN_ASCII = str.maketrans({"★": "*", "●": ">", "†": "^", "✗": "x"})  # where only ASCII is shown


class Fitting:
    """A table in the first form that fits the terminal, as it is or with headings on two lines."""

    def __init__(self, *forms: Rows) -> None:
        self.forms = forms
        self.columns = forms[0].columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the first form that fits; else the last, whose columns are then split."""
        forms = [rows for form in self.forms for rows in (form, form.with_headings_on_lines())]
        fitting = (rows for rows in forms if sum(rows.widths) <= options.max_width)
        yield next(fitting, self.forms[-1])


def table(*columns: str) -> Table:
    """Return an empty table; its first column may be folded, the numbers never are."""
    new_table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    # As Text, since a heading may be a name from the user's data that contains markup.
    new_table.add_column(Text(columns[0]), overflow="fold", min_width=12)
    for column in columns[1:]:
        new_table.add_column(Text(_on_lines(column)), justify="right", no_wrap=True)
    return new_table


def _on_lines(heading: str) -> str:
    return heading.replace(" ", "\n") if len(heading) > _LONG_HEADING else heading


def folded(label: str, width: int) -> str:
    """Return a name on lines of `width`, broken after `:` and `,`, all but the first indented."""
    lines, remaining = [], label
    while len(remaining) > width:
        # The place of the last `:` or `,` that fits; -1 if there is none.
        last_mark = max(remaining.rfind(mark, 0, width) for mark in ":,")
        break_at = width if last_mark == -1 else last_mark + 1
        lines.append(remaining[:break_at])
        remaining = remaining[break_at:]
    return "\n  ".join([*lines, remaining])


def corpus_line(
    paths: list[str],
    tokenizer: str | None,
    samples: int,
    tokens: int,
    unreadable: int,
    read: str = "",
) -> str:
    """Return the line on a corpus: files, tokenizer, size, skipped records, what was read."""
    words = [corpus_name(paths), tokenizer_name(tokenizer)]
    words += [counted(samples, "sample"), counted(tokens, "token")]
    if unreadable:
        words.append(f"{counted(unreadable, 'unreadable record')} skipped")
    return " · ".join([*words, read] if read else words)


def read_words(
    read: Iterable[tuple[Sequence[str], str | None]],
    content: str,
    labels: Sequence[str],
    label_form: str,
) -> str:
    """Return which columns were read, and for what; empty for lines of text without labels."""
    words = []
    names = {" + ".join(each): None for each, _ in read if each}
    if names:
        kinds = {"tokens": "token ids", "length": "lengths", "messages": "chats"}
        what = kinds.get(content, "text")
        words.append(f"{what} from {' or '.join(map(one_line, names))}")
    if labels:
        forms = {"positions": " (0 and 1 by position)", "columns": " (0 and 1 each)"}
        form = forms.get(label_form, "")
        words.append(f"labels from {', '.join(map(one_line, labels))}{form}")
    # The usual separator of a format needs no word.
    unusual = {separator for _, separator in read} - {None, ",", "\t"}
    words += [f"separator {separator}" for separator in unusual]
    return ", ".join(words)
