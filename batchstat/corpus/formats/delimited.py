"""Comma- and tab-separated values."""

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any

from batchstat.corpus.bad_records import BLANK, MOST_RECORD_BYTES, BadRecord, too_long
from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.lines import MOST_LINES, LongLine, RawLines, read_lines, read_raw_lines
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError

Record = Sequence[str] | BadRecord
"""The fields of a record, or what is wrong with it."""

_MOST_BYTES_OF_CHAR = 4
"""Bytes of the longest characters in UTF-8."""
_NO_COLUMNS = Columns(("",))
"""Columns of blank or bad records before the first one that shows the number of columns."""


def read_csv(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield comma-separated values, quoted as in RFC 4180 unless `options.quote` is false."""
    return _read_delimited(opened, options, ",", quoted=options.quote is not False)


def read_tsv(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield tab-separated values, in which a quote is text unless `options.quote` is true."""
    return _read_delimited(opened, options, "\t", quoted=bool(options.quote))


def _read_delimited(
    opened: OpenSource, options: CorpusOptions, delimiter: str, *, quoted: bool
) -> Iterator[Chunk]:
    """Yield the requested columns, one chunk at a time.

    A blank line is a record without text; before the header it is ignored. A record with too few or
    too many fields is bad.

    Args:
        opened: the file, or a split of it.
        options: how it is read.
        delimiter: what separates the fields.
        quoted: whether fields may be quoted.

    Raises:
        InputError: a missing column, a header that cannot be parsed, or a quote that is never
            closed, which leaves no records.
    """
    if quoted:
        records = _quoted(opened, delimiter, skip=options.on_error == "skip")
    else:
        records = _unquoted(opened, delimiter)
    # A later split (its first byte is not 0) finds the columns at the start of the file. Files with
    # quotes have no later splits.
    head: Iterator[_Records] | None = None
    if opened.split.first:
        head = _unquoted(opened.head(), delimiter)
    # Names of the columns; empty until a record shows how many there are.
    names: list[str] = []
    if options.header:
        names, records_below = _header(opened.path, head or records)
        # A later split has no header among its own records.
        records = records if head else records_below
    # As many columns as the first record of the file with fields has.
    elif head:
        names = next(filter(None, map(_numbers_as_names, head)), [])
    # The names twice: those of all columns, and of those with text, which here are all.
    columns = choose_columns(opened.path, names, names, options) if names else None
    for part in records:
        # Without a header, the first record with fields shows the number of columns. Until then all
        # records are blank or bad, and have one empty column.
        if columns is None:
            names = _numbers_as_names(part)
            columns = choose_columns(opened.path, names, names, options) if names else None
        yield _chunk(opened, part, names or [""], columns or _NO_COLUMNS)


@dataclass(frozen=True)
class _Records:
    """At least one record of consecutive ones, and the number of the line on which each starts."""

    lines: list[int]
    rows: list[Record]


def _numbers_as_names(records: _Records) -> list[str]:
    """Return the column numbers as names, "0", "1" and so on: as many as the first record has
    fields. Returns no names if all records are blank or bad.
    """
    widths = (len(row) for row in records.rows if row and not isinstance(row, BadRecord))
    return [str(number) for number in range(next(widths, 0))]


def _header(path: str, records: Iterator[_Records]) -> tuple[list[str], Iterator[_Records]]:
    """Take the header, the first record that is not blank, from the records of a file.

    Returns:
        The names of the columns, none for a file of blank lines; and the records below the header.

    Raises:
        InputError: the header is a bad record.
    """
    for part in records:
        for below, (line, fields) in enumerate(zip(part.lines, part.rows, strict=True), 1):
            if isinstance(fields, BadRecord):
                raise InputError(
                    f"{path}, line {line}: cannot parse the header: fix it or pass --no-header"
                )
            if fields:
                # The rest of this part, unless it is empty, and the parts that follow.
                rest = _Records(part.lines[below:], part.rows[below:])
                return list(fields), chain([rest] if rest.rows else [], records)
    return [], records


def _chunk(opened: OpenSource, part: _Records, names: list[str], columns: Columns) -> Chunk:
    """Return records as a chunk of the columns that are read; `names` are all columns of the file.

    A record that is blank, bad, or has another number of fields is bad in the chunk.
    """
    width = len(names)
    rows: Sequence[Any] = part.rows
    bad: dict[int, BadRecord] = {}
    # Most parts have only complete rows: this finds out faster than looking at each row below. A
    # bad record counts as -1 fields.
    if {len(row) if type(row) is list else -1 for row in rows} != {width}:
        # A row of empty fields takes the place of an incomplete one, so that columns are complete.
        rows = [row if type(row) is list and len(row) == width else [""] * width for row in rows]
        for i, row in enumerate(part.rows):
            if isinstance(row, BadRecord):
                bad[i] = row
            elif not row:
                bad[i] = BLANK
            elif len(row) != width:
                bad[i] = BadRecord(
                    "wrong_fields",
                    f"the number of fields is {len(row)}, not {width}: quote fields that contain a "
                    "separator, or fix the line",
                )
    # Only chats have tools and settings, and no cell holds a chat.
    columns = replace(columns, tools=None, settings=None)
    picks = {name: itemgetter(names.index(name)) for name in columns.all}
    return Chunk(
        columns={name: list(map(pick, rows)) for name, pick in picks.items()},
        position=opened.position,
        read=columns,
        lines=part.lines,
        bad=bad,
        before=opened.lines_before,
    )


def _unquoted(opened: OpenSource, delimiter: str) -> Iterator[_Records]:
    """Yield the records of a file without quotes, in which each line is a record."""
    for lines in read_lines(opened):
        for first in range(0, len(lines.texts), MOST_LINES):
            texts = lines.texts.slice(first, MOST_LINES).to_pylist()
            rows: list[Record] = [text.split(delimiter) if text else [] for text in texts]
            # The bad lines among these; i is the index in the block, i - first the one in `rows`.
            for i in (i for i in lines.bad if first <= i < first + len(rows)):
                rows[i - first] = lines.bad[i]
            yield _Records(list(lines.numbers[first : first + len(rows)]), rows)


def _quoted(opened: OpenSource, delimiter: str, *, skip: bool) -> Iterator[_Records]:
    """Yield the records of a file in which fields may be quoted, and span several lines.

    Many lines are taken at once and parsed together, which is fast. From the first record on that
    is bad, too long, or goes on after these lines, the rest of them is parsed record by record.
    """
    # By default, `csv` takes fields of up to 131,072 characters. Its limit is a C long, which has
    # 32 bits on Windows.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    lines = _RecordLines(read_raw_lines(opened, skip=skip))
    while lines.fill():
        part = _parse_together(lines, delimiter)
        try:
            for line, fields in _parse_each(opened.path, lines, delimiter):
                part.lines.append(line)
                part.rows.append(fields)
        # A quote is never closed. The records before it come first: one of them may be bad.
        except InputError:
            if part.rows:
                yield part
            raise
        yield part


def _parse_together(lines: "_RecordLines", delimiter: str) -> _Records:
    """Parse those lines that were taken from the file and not read yet, up to the first error.

    The lines of the records that are returned then count as read. There may be no such records.
    """
    first_line, rows = lines.read + 1, list[Record]()
    # How many of the lines were read before each record, and after the last one.
    lines_before = [0]
    reader = csv.reader(lines.all_short(), delimiter=delimiter, strict=True)
    with suppress(csv.Error):
        for fields in reader:
            rows.append(fields)
            lines_before.append(reader.line_num)
    # The last count has no record after it: so many lines belong to complete records.
    lines.skip(lines_before.pop())
    return _Records([first_line + count for count in lines_before], rows)


def _parse_each(path: str, lines: "_RecordLines", delimiter: str) -> Iterator[tuple[int, Record]]:
    """Yield each record that begins in the lines that are left, with the line on which it starts.

    The last one may end in lines that are taken after these.

    Raises:
        InputError: a quote that is never closed.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    # Until more lines had to be taken: the next records are parsed together again.
    times_filled = lines.times_filled
    while lines.times_filled == times_filled and lines.are_left:
        line = lines.begin_record()
        try:
            fields: Record = next(reader)
        except _LongRecordError as long:
            fields = BadRecord("too_long", too_long("record", long.size))
        except csv.Error as error:
            reason = str(error)
            # Python's message goes on with how to open a file in Python.
            if "new-line character" in reason:
                reason = "a carriage return alone, outside quotes"
            message = (
                f"not RFC 4180 ({reason}): fix the record, or pass --no-quote if quotes are part "
                "of the text"
            )
            # A quote that is never closed takes in the rest of the file: no records follow.
            if "end of data" in reason:
                raise InputError(f"{path}, line {line}: {message}") from None
            fields = BadRecord("malformed", message)
        yield line, fields


class _LongRecordError(Exception):
    def __init__(self, size: int) -> None:
        self.size = size


class _RecordLines:
    """Lines for `csv.reader`, which by itself would buffer a record of any size.

    Lines are taken from the file many at a time, and read one by one as an iterator, or skipped. A
    record of more than `MOST_RECORD_BYTES` is read up to the end of the line on which its last
    quote is closed, without holding it in memory; then `_LongRecordError` is raised.

    Attributes:
        read: number of lines read or skipped so far.
        times_filled: how many times lines were taken from the file.
    """

    def __init__(self, lines: Iterator[RawLines]) -> None:
        self._lines = lines
        self._taken: RawLines = []
        # Lines before this position of `_taken` are read.
        self._at = 0
        # `_size` and `_quotes`: bytes and quotes of the current record so far.
        self.read = self.times_filled = self._size = self._quotes = 0

    @property
    def are_left(self) -> bool:
        """Whether some of the lines that were taken are not read yet."""
        return self._at < len(self._taken)

    def fill(self) -> bool:
        """Take more lines from the file unless some are left; return whether there are any.

        Raises:
            InputError: the next line cannot be read.
        """
        if not self.are_left:
            self._taken, self._at = next(self._lines, []), 0
            self.times_filled += 1
        return self.are_left

    def all_short(self) -> list[str]:
        """Return all lines that are left; no lines if one of their records may be too long."""
        rest = self._taken[self._at :]
        lines = [line for line in rest if isinstance(line, str)]
        chars = sum(map(len, lines))
        # Neither a line that is too long by itself, nor too much text in all of them together.
        is_short = len(lines) == len(rest) and chars * _MOST_BYTES_OF_CHAR <= MOST_RECORD_BYTES
        return lines if is_short else []

    def skip(self, lines: int) -> None:
        """Count so many of the lines that are left as read."""
        self._at += lines
        self.read += lines

    def begin_record(self) -> int:
        """Count size and quotes from 0 again; return the number of the record's first line."""
        self._size = self._quotes = 0
        return self.read + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next line of the current record.

        Raises:
            _LongRecordError: the record is too long; the lines up to its end are read.
            csv.Error: the file ends within a record that is too long.
        """
        line = self._next()
        if self._size <= MOST_RECORD_BYTES and isinstance(line, str):
            return line
        # The record is too long. It ends with the line in which the number of its quotes is even:
        # a quote within a field is doubled.
        while self._quotes % 2:
            try:
                self._next()
            except StopIteration:
                # The words of `csv` for a quote that is never closed.
                raise csv.Error("unexpected end of data") from None
        raise _LongRecordError(self._size)

    def _next(self) -> str | LongLine:
        """Return the next line, and add its bytes and quotes to those of the current record."""
        if not self.fill():
            raise StopIteration
        line = self._taken[self._at]
        self.skip(1)
        if isinstance(line, LongLine):
            self._size += line.size
            self._quotes += line.quotes
        else:
            # ASCII has as many bytes as characters. Elsewhere, a lone surrogate stands for a byte
            # that is not UTF-8; see `read_raw_lines`.
            self._size += len(line if line.isascii() else line.encode(errors="surrogateescape"))
            self._quotes += line.count('"')
        return line
