"""Building blocks of screens: headings, tables, and the lines above every table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from batchstat.documents.device import calibrated
from batchstat.errors import counted, printable
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.render.command_lines import changed
from batchstat.render.device import described
from batchstat.render.text import class_name, corpus_name, one_line, span, tokenizer_name
from batchstat.simulation.device import Device
from batchstat.simulation.results import StrategyResult

_APART = "communication between ranks is not in the times"

_GAP, _LEAST_NAME, _LONG_HEADING = 2, 14, 14


STANDINGS: Mapping[str, str] = {
    "best": "bold green",
    "current": "bold cyan",
    "over": "red",
    "good": "green",
    "warn": "yellow",
}
"""What a line or a row of a table stands for, and how a terminal shows it; pages have styles of
their own for the same words.
"""


@dataclass(frozen=True)
class Line:
    """One or more lines with a word before them; `standing` is one of `STANDINGS`, or empty."""

    word: str
    text: str
    standing: str = ""
    kind: ClassVar[str] = "line"  # by which a page's template knows it

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the word, and the text beside it."""
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
        """Yield the word and the line."""
        text = Text(f"{self.word:<9}", style="bold", no_wrap=True, overflow="ignore")
        yield text.append(printable(self.line), "not bold")


class Rows:
    """A table of named rows. If a line is too short for all columns, the names are repeated with
    the remaining columns, so that no number is lost.
    """

    def __init__(self, *columns: str, note: str = "") -> None:
        """Start a table; the first column has the names, and a note stands below."""
        self.columns = columns
        self.note = note
        self.rows: list[tuple[Text, ...]] = []
        self.standings: list[str] = []

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, str]]) -> "Rows":
        """Return a table of at least one row: its cells by their headings, the name first."""
        every = list(rows)
        made = cls(*every[0])
        for cells in every:
            name, *others = cells.values()
            made.add(Text(name), *others)
        return made

    def add(self, name: Text, *cells: str, standing: str = "") -> None:
        """Add a row: its name, and a cell for each other column."""
        style = STANDINGS.get(standing, "")
        self.rows.append((name, *(Text(cell, style=style) for cell in cells)))
        self.standings.append(standing)

    def with_headings_on_lines(self) -> "Rows":
        """Return the same table with the last word of a heading on a line of its own."""
        first, *others = self.columns
        rows = Rows(first, *("\n".join(each.rsplit(" ", 1)) for each in others), note=self.note)
        rows.rows, rows.standings = self.rows, self.standings
        return rows

    @property
    def widths(self) -> list[int]:
        """Characters of each column, with the gap after it."""
        return [
            max(_width(_on_lines(heading)), *(_width(cell.plain) for cell in cells), 0) + _GAP
            for heading, *cells in zip(self.columns, *self.rows, strict=True)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the columns that fit, then the remaining ones, and so on."""
        widths = self.widths
        name = min(widths[0], max(_LEAST_NAME, options.max_width // 2))
        first = 1
        while first < len(widths):
            last = first + 1
            while last < len(widths) and name + sum(widths[first : last + 1]) <= options.max_width:
                last += 1
            if first > 1:
                yield Text()
            part = table(self.columns[0], *self.columns[first:last])
            part.columns[0].min_width = name - _GAP
            for row in self.rows:
                part.add_row(_signed(row[0], options), *row[first:last])
            yield part
            first = last
        if self.note:
            yield _signed(Text(self.note, style="dim"), options)


def _signed(text: Text, options: ConsoleOptions) -> Text:
    """Return text with the signs that a console can show."""
    if options.ascii_only:
        text = text.copy()
        text.plain = text.plain.translate(_IN_ASCII)
    return text


_IN_ASCII = str.maketrans({"★": "*", "●": ">", "†": "^", "✗": "x"})


class Fitting:
    """A table in the widest form that fits the terminal: as it is, with the last word of a heading
    on a line of its own, then each further form in the same two ways.
    """

    def __init__(self, *forms: Rows) -> None:
        """Show the first of `forms` that fits."""
        self.forms = forms
        self.columns = forms[0].columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the form that fits; else the last one, whose columns are then split."""
        made = [rows for form in self.forms for rows in (form, form.with_headings_on_lines())]
        yield next((rows for rows in made if sum(rows.widths) <= options.max_width), self.forms[-1])


def table(*columns: str) -> Table:
    """Return a table whose first column may fold, but whose numbers never do."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    # As Text, since a heading may be a name from the user's data that contains markup.
    made.add_column(Text(columns[0]), overflow="fold", min_width=12)
    for column in columns[1:]:
        made.add_column(Text(_on_lines(column)), justify="right", no_wrap=True)
    return made


def _on_lines(heading: str) -> str:
    """Return a heading, a long one of two words on two lines."""
    return heading.replace(" ", "\n") if len(heading) > _LONG_HEADING else heading


def folded(label: str, width: int) -> str:
    """Return a strategy on lines of at most `width` characters, broken between its parameters."""
    lines, rest = [], label
    while len(rest) > width:
        place = max(rest.rfind(mark, 0, width) for mark in ":,") + 1 or width
        lines.append(rest[:place])
        rest = rest[place:]
    return "\n  ".join([*lines, rest])


def _width(text: str) -> int:
    """Return the characters of the longest line."""
    return max(map(len, text.split("\n")))


def whose(
    paths: list[str], tokenizer: str | None, samples: int, tokens: int, unreadable: int
) -> str:
    """Return a corpus in one line: its files, its tokenizer, its size."""
    words = [corpus_name(paths), tokenizer_name(tokenizer)]
    words += [counted(samples, "sample"), counted(tokens, "token")]
    if unreadable:
        words.append(f"{counted(unreadable, 'unreadable record')} skipped")
    return " · ".join(words)


def basis_line(
    basis: ResolvedSettings,
    every: bool = True,
    order: str = "",
    overflows: bool = True,
    cuts: bool = True,
) -> str:
    """Return the settings of a table in one line.

    Args:
        basis: the settings.
        every: whether the main ones are shown at their defaults too.
        order: how samples are shuffled, in words, where that is not `order`.
        overflows: whether to say what happens to samples longer than `max_length`.
        cuts: whether `max_length` is a setting, and not the longest sample that was seen.
    """
    own = changed(basis, Settings).keys()
    seed = "" if basis.order == "file" else f", seed {basis.seed}"
    epoch = f", epoch {basis.epoch}" if basis.epoch else ""
    overflow = f" ({basis.overflow})" if overflows else ""
    steps = basis.gradient_accumulation_steps
    ranks = f"{basis.world_size:,} ranks, distribute {basis.distribute}"
    if basis.distribute == "balanced" and basis.balance_by != "length":
        ranks += f" by {basis.balance_by} tokens"
    if basis.world_size == 1:
        ranks = "1 rank"
    elif basis.remainder != "repeat":
        ranks += f", remainder {basis.remainder}"
    labels = ", ".join(class_name(label) for label in basis.keep_labels[:8])
    shown = (
        (f"at most {basis.tokens_per_batch:,} tokens per batch", True),
        (f"max_length {basis.max_length:,}{overflow}", cuts),
        (f"batch_size {basis.batch_size:,}", every),
        (f"read_ahead {basis.read_ahead:,}", every or "read_ahead" in own),
        (
            order or f"order {basis.order}{seed}{epoch}",
            every or order or own & {"order", "seed", "epoch"},
        ),
        (ranks, every or "world_size" in own),
        (f"gradient_accumulation_steps {steps}", steps > 1),
        (f"loss {basis.loss}", basis.loss is not None),
        (f"widths multiples of {basis.pad_to_multiple_of}", "pad_to_multiple_of" in own),
        (f"at most {basis.max_samples or 0:,} samples per batch", basis.max_samples),
        ("drop_last", basis.drop_last),
        (f"sampler {one_line(basis.sampler)}", "sampler" in own),
        (f"only {labels}", labels),
    )
    return " · ".join(words for words, is_shown in shown if is_shown)


def device_lines(device: Device | None, basis: ResolvedSettings) -> Iterator[Line]:
    """Yield what is to be known of a calibrated device; nothing without one."""
    facts = calibrated(device, basis.widest)
    if facts is None:
        return
    for word, text in described(facts, basis.widest).items():
        is_apart = word == "device" and basis.world_size > 1 and device and device.is_timed
        yield Line(word, f"{text}; {_APART}" if is_apart else text)


def batch_size(row: StrategyResult) -> str:
    """Return the samples of a batch, from the fewest to the most; of equal batches, those of all
    but the last.
    """
    least, most = row.counts.min_samples_per_batch, row.counts.max_samples_per_batch
    size: int | None = row.params.get("batch_size")
    if size is not None and most <= size:
        return f"{size:,}"
    return span(least, most)


def rank_idle(row: StrategyResult) -> float:
    """Return the share of the ranks' time that they wait; in tokens, where times are not known."""
    by_time = row.on_device.rank_idle_time
    return row.counts.rank_idle if by_time is None else by_time
