"""Comma- and tab-separated values."""

import csv
import sys
from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from batchstat.corpus.columns import CorpusOptions, choose_columns
from batchstat.corpus.formats.chunk import Chunk
from batchstat.corpus.lines import read_lines, read_raw_lines
from batchstat.corpus.sources import OpenSource
from batchstat.errors import InputError

Rows = Iterator[tuple[int, list[str]]]
"""Records as (number of the line they start on, fields)."""

_CHUNK_RECORDS = 20_000
_CHUNK_CHARS = 8 << 20


def read_csv(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Comma-separated values, quoted as RFC 4180 says unless `options.quote` is false."""
    rows = _unquoted_rows if options.quote is False else _quoted_rows
    return _read(opened, options, rows(opened, ","))


def read_tsv(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Tab-separated values, where a quote is text unless `options.quote` is true."""
    rows = _quoted_rows if options.quote else _unquoted_rows
    return _read(opened, options, rows(opened, "\t"))


def _read(opened: OpenSource, options: CorpusOptions, rows: Rows) -> Iterator[Chunk]:
    """The text and label columns of `rows`.

    Raises:
        InputError: a missing column, a row with too few or too many fields, an open quote, bytes
            that are not UTF-8: each with its line.
    """
    leading = list(_up_to_first(rows))
    if not leading or not leading[-1][1]:
        return
    first = leading[-1][1]
    width = len(first)
    names = first if options.header else [str(number) for number in range(width)]
    columns = choose_columns(opened.path, names, names, options)
    picks = [names.index(columns.text)]
    if columns.label is not None:
        picks.append(names.index(columns.label))
    pending = [] if options.header else leading
    while records := pending + _some(rows):
        for line, fields in records:
            if len(fields) != width and fields:
                raise InputError(
                    f"{opened.path}, line {line}: {len(fields)} fields where the first record has "
                    f"{width}: quote fields that hold a separator, or mend the line"
                )
        # A blank line is a record without text: skipped as blank, and counted.
        taken = [[fields[i] if fields else "" for _, fields in records] for i in picks]
        arrays = [pa.array(values, pa.large_string()) for values in taken]
        yield Chunk(arrays[0], arrays[1] if len(picks) > 1 else None, opened.raw.tell())
        pending = []


def _up_to_first(rows: Rows) -> Rows:
    """The first record, after the blank lines before it."""
    for line, fields in rows:
        yield line, fields
        if fields:
            return


def _some(rows: Rows) -> list[tuple[int, list[str]]]:
    taken: list[tuple[int, list[str]]] = []
    chars = 0
    for line, fields in islice(rows, _CHUNK_RECORDS):
        taken.append((line, fields))
        chars += sum(map(len, fields))
        if chars > _CHUNK_CHARS:
            break
    return taken


def _unquoted_rows(opened: OpenSource, delimiter: str) -> Rows:
    for lines in read_lines(opened):
        for number, line in enumerate(lines.texts.to_pylist(), lines.first):
            yield number, line.split(delimiter) if line else []


def _quoted_rows(opened: OpenSource, delimiter: str) -> Rows:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader(read_raw_lines(opened), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            lone_cr = "new-line character" in str(error)
            raise InputError(
                f"{opened.path}, line {line}: not RFC 4180 "
                f"({'a carriage return alone, outside quotes' if lone_cr else error}): mend the "
                "record, or pass --no-quote where a quote is text"
            ) from None
        if fields is None:
            return
        yield line, fields
        line = reader.line_num + 1
