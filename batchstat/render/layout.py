"""What screens are made of: headings, tables, and the lines above every table."""

from rich.table import Table
from rich.text import Text

from batchstat.render.words import corpus_name, counted, tokenizer_name
from batchstat.settings import Basis


def heading(word: str, text: str, style: str = "") -> Table:
    """A line or more with a word before it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=8, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(word, style=f"bold {style}".strip()), Text(text))
    return grid


def table(*columns: str) -> Table:
    """A table whose first column may fold, and whose numbers never do."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    made.add_column(columns[0], overflow="fold", min_width=12)
    for column in columns[1:]:
        made.add_column(column, justify="right", no_wrap=True)
    return made


def whose(
    paths: list[str], tokenizer: str | None, samples: int, tokens: int, unreadable: int
) -> str:
    """A corpus in a line: its files, its tokenizer, how much it holds."""
    words = [
        corpus_name(paths),
        tokenizer_name(tokenizer),
        counted(samples, "sample"),
        counted(tokens, "token"),
    ]
    if unreadable:
        words.append(f"{counted(unreadable, 'unreadable record')} skipped")
    return " · ".join(words)


def basis_line(basis: Basis) -> str:
    """The settings that a table rests on, those at their defaults left out but for the main."""
    words = [
        f"at most {basis.tokens_per_batch:,} tokens a batch",
        f"max_length {basis.max_length:,} ({basis.overflow})",
        f"batch_size {basis.batch_size:,}",
        f"read_ahead {basis.read_ahead:,}",
        f"order {basis.order}"
        + ("" if basis.order == "file" else f", seed {basis.seed}")
        + (f", epoch {basis.epoch}" if basis.epoch else ""),
        counted(basis.world_size, "rank")
        + (f", {basis.deal} dealt" if basis.world_size > 1 else ""),
    ]
    if basis.world_size > 1 and basis.tail != "repeat":
        words.append(f"tail {basis.tail}")
    if basis.accumulate > 1:
        words.append(f"accumulate {basis.accumulate}")
    if basis.pad_to_multiple_of > 1:
        words.append(f"widths a multiple of {basis.pad_to_multiple_of}")
    if basis.max_samples:
        words.append(f"at most {basis.max_samples:,} samples a batch")
    if basis.drop_last:
        words.append("drop_last")
    return " · ".join(words)
