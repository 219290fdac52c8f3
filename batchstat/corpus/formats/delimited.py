"""Comma- and tab-separated values."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any

from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.formats.delimited_records import (
    SEPARATORS,
    Dialect,
    Records,
    other_separator,
    quoted_records,
    unquoted_records,
)
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.lengths.labels import label_of_cell
from batchstat.words import short


def read_delimited(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield comma- or tab-separated values; by default only the first are quoted, by RFC 4180."""
    is_csv = opened.split.source.format == "csv"
    dialect = Dialect(
        delimiter=options.separator or ("," if is_csv else "\t"),
        quoted=is_csv if options.quote is None else options.quote,
        backslash=options.backslash,
        may_be_quoted=options.quote is None and not is_csv,
    )
    if dialect.quoted:
        records = quoted_records(opened, dialect, options)
    else:
        records = unquoted_records(opened, dialect)
    # A later split finds the columns at the start of the file. Files with quotes are not split.
    is_later_split = opened.split.first > 0
    start = unquoted_records(opened.head(), dialect) if is_later_split else records
    # Names of the columns; empty until a record shows how many there are.
    names: list[str] = []
    if options.header:
        names, records_below = _take_header(opened.path, start)
        if len(names) == 1 and options.separator is None:
            records_below = _checked_separator(opened.path, names[0], dialect, records_below)
        if not is_later_split:
            records = records_below
    elif is_later_split:
        names = next(filter(None, map(_numbers_as_names, start)), [])
    # The names twice: those of all columns, and those of columns with text, which here are all.
    columns = choose_columns(opened.path, names, names, options) if names else None
    for batch in records:
        # Without a header, the first good record shows the number of columns: one until then.
        if columns is None:
            names = _numbers_as_names(batch)
            columns = choose_columns(opened.path, names, names, options) if names else None
        yield _chunk(opened, batch, names or [""], columns or Columns(("",)), dialect)


def _numbers_as_names(records: Records) -> list[str]:
    widths = (len(row) for row in records.rows if not isinstance(row, BadRecord))
    return [str(number) for number in range(next(widths, 0))]


def _take_header(path: str, records: Iterator[Records]) -> tuple[list[str], Iterator[Records]]:
    batch = next(records, None)
    if batch is None:
        return [], records
    header = batch.rows[0]
    if isinstance(header, BadRecord):
        raise InputError(
            f"{path}, line {batch.lines[0]}: cannot parse the header", "fix it or pass --no-header"
        )
    # The records of this batch below the header, if any, and the batches that follow.
    below = Records(batch.lines[1:], batch.rows[1:])
    return list(header), chain([below] if below.rows else [], records)


def _chunk(
    opened: OpenSource, batch: Records, names: list[str], columns: Columns, dialect: Dialect
) -> Chunk:
    """Return records as a chunk of the columns that are read; `names` are those of the file."""
    rows: list[Any] = list(batch.rows)
    bad: dict[int, BadRecord] = {}
    # (n,) fields of each record; -1 for a bad one.
    widths = [len(row) if type(row) is list else -1 for row in rows]
    # Nearly always all rows are complete, which this finds out faster than the loop would.
    if set(widths) != {len(names)}:
        for i, (row, width) in enumerate(zip(batch.rows, widths, strict=True)):
            if width == len(names):
                continue
            rows[i] = [""] * len(names)  # takes the place of the incomplete row
            if isinstance(row, BadRecord):
                bad[i] = row
            else:
                # The same words whatever else is in the chunk, so that splits change no message.
                remedy = "quote fields that contain a separator, or fix the line"
                if dialect.may_be_quoted:
                    remedy = "pass --quote if fields are quoted, or fix the line"
                message = f"the number of fields is {width}, not {len(names)}: {remedy}"
                bad[i] = BadRecord("wrong_fields", message)
    # Only chats have tools and settings, and no cell holds a chat.
    columns = replace(columns, tools=None, settings=None, separator=dialect.delimiter)
    cell_getters = {name: itemgetter(names.index(name)) for name in columns.all}
    values: dict[str, list[Any]] = {
        name: list(map(get_cell, rows)) for name, get_cell in cell_getters.items()
    }
    for name in set(columns.labels) - set(columns.required):
        values[name] = list(map(label_of_cell, values[name]))
    return Chunk.read_from(opened, values, columns, batch.lines, bad)


def _checked_separator(
    path: str, header: str, dialect: Dialect, records: Iterator[Records]
) -> Iterator[Records]:
    """Return the records below a header of one column, unless another character separates them."""
    first = next(records, None)
    rows = [row for row in first.rows if not isinstance(row, BadRecord)] if first else []
    lines = [dialect.delimiter.join(row) for row in rows[:100]]
    for other in SEPARATORS:
        count = header.count(other)
        # The text of a record may have more of them, where it is quoted.
        if count and all(line.count(other) >= count for line in lines):
            raise other_separator(f"{path}: its header is one column, {short(header)}", other)
    return chain([first], records) if first else records
