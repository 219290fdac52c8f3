"""Building blocks of screens: headings, tables, and the lines above every table."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from batchstat.errors import counted, printable
from batchstat.planning.settings import ResolvedSettings
from batchstat.render.text import class_name, corpus_name, one_line, tokenizer_name
from batchstat.simulation.comparison import Comparison

_GAP, _LEAST_NAME, _LONG_HEADING = 2, 14, 14


def heading(word: str, text: str, style: str = "") -> Table:
    """Return one or more lines with a word before them."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=8, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(word, style=f"bold {style}".strip()), Text(text))
    return grid


def pasted(word: str, line: str) -> Text:
    """Return a line to paste with a word before it; it is never folded, which would break it."""
    text = Text(f"{word:<9}", style="bold", no_wrap=True, overflow="ignore")
    return text.append(printable(line), "not bold")


class Rows:
    """A table of named rows. If a line is too short for all columns, the names are repeated with
    the remaining columns, so that no number is lost.
    """

    def __init__(self, *columns: str) -> None:
        """Start a table; the first column has the names."""
        self.columns = columns
        self.rows: list[tuple[Text, ...]] = []

    def add(self, name: Text, *cells: str) -> None:
        """Add a row: its name, and a cell for each other column."""
        self.rows.append((name, *map(Text, cells)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the columns that fit, then the remaining ones, and so on."""
        widths = (
            [
                max(_width(heading), *(cell.cell_len for cell in cells), 0) + _GAP
                for heading, *cells in zip(self.columns, *self.rows, strict=True)
            ]
            if self.rows
            else [_width(heading) + _GAP for heading in self.columns]
        )
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
                part.add_row(row[0], *row[first:last])
            yield part
            first = last


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


def _width(heading: str) -> int:
    return max(map(len, _on_lines(heading).splitlines()))


def whose(
    paths: list[str], tokenizer: str | None, samples: int, tokens: int, unreadable: int
) -> str:
    """Return a corpus in one line: its files, its tokenizer, its size."""
    words = [
        corpus_name(paths),
        tokenizer_name(tokenizer),
        counted(samples, "sample"),
        counted(tokens, "token"),
    ]
    if unreadable:
        words.append(f"{counted(unreadable, 'unreadable record')} skipped")
    return " · ".join(words)


def basis_line(basis: ResolvedSettings) -> str:
    """Return the settings of a table in one line; of those at defaults, only the main ones."""
    words = [
        f"at most {basis.tokens_per_batch:,} tokens per batch",
        f"max_length {basis.max_length:,} ({basis.overflow})",
        f"batch_size {basis.batch_size:,}",
        f"read_ahead {basis.read_ahead:,}",
        f"order {basis.order}"
        + ("" if basis.order == "file" else f", seed {basis.seed}")
        + (f", epoch {basis.epoch}" if basis.epoch else ""),
        counted(basis.world_size, "rank")
        + (f", distribute {basis.distribute}" if basis.world_size > 1 else ""),
    ]
    if basis.world_size > 1 and basis.remainder != "repeat":
        words.append(f"remainder {basis.remainder}")
    if basis.gradient_accumulation_steps > 1:
        words.append(f"gradient_accumulation_steps {basis.gradient_accumulation_steps}")
    if basis.pad_to_multiple_of > 1:
        words.append(f"widths multiples of {basis.pad_to_multiple_of}")
    if basis.max_samples:
        words.append(f"at most {basis.max_samples:,} samples per batch")
    if basis.drop_last:
        words.append("drop_last")
    if basis.sampler != "none":
        words.append(f"sampler {one_line(basis.sampler)}")
    if basis.keep_labels:
        words.append(f"only {', '.join(class_name(label) for label in basis.keep_labels[:8])}")
    return " · ".join(words)


def sample_words(comparison: Comparison) -> str:
    """Return the number of samples that a comparison's numbers describe, and whether they are an
    estimate.
    """
    sample = comparison.subsample
    if sample is None:
        return counted(comparison.samples, "sample")
    return f"an ESTIMATE from {sample.samples:,} of {counted(sample.corpus_samples, 'sample')}"
