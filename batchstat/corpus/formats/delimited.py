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
        records = _quoted_records(opened, delimiter, skip=options.on_error == "skip")
    else:
        records = _unquoted_records(opened, delimiter)
    # A later split finds the columns at the start of the file. Files with quotes are not split.
    is_later_split = opened.split.first > 0
    start = _unquoted_records(opened.head(), delimiter) if is_later_split else records
    # Names of the columns; empty until a record shows how many there are.
    names: list[str] = []
    if options.header:
        names, records_below = _take_header(opened.path, start)
        if not is_later_split:
            records = records_below
    elif is_later_split:
        names = next(filter(None, map(_numbers_as_names, start)), [])
    # The names twice: those of all columns, and those of columns with text, which here are all.
    columns = choose_columns(opened.path, names, names, options) if names else None
    for batch in records:
        # Without a header, the first record with fields shows the number of columns. Until then all
        # records are blank or bad, and have one empty column.
        if columns is None:
            names = _numbers_as_names(batch)
            columns = choose_columns(opened.path, names, names, options) if names else None
        yield _chunk(opened, batch, names or [""], columns or _NO_COLUMNS)


@dataclass(frozen=True)
class _Records:
    """At least one record of consecutive ones, and the number of the line on which each starts."""

    lines: list[int]
    rows: list[Record]


def _numbers_as_names(records: _Records) -> list[str]:
    """Return the column numbers as names, "0", "1" and so on: as many as the first record that is
    neither blank nor bad has fields. Returns no names if there is no such record.
    """
    widths = (len(row) for row in records.rows if row and not isinstance(row, BadRecord))
    return [str(number) for number in range(next(widths, 0))]


def _take_header(path: str, records: Iterator[_Records]) -> tuple[list[str], Iterator[_Records]]:
    """Take the header, the first record that is not blank, from the records of a file.

    Returns:
        The names of the columns, none for a file of blank lines; and the records below the header.

    Raises:
        InputError: the header is a bad record.
    """
    for batch in records:
        for i, (line, fields) in enumerate(zip(batch.lines, batch.rows, strict=True)):
            if isinstance(fields, BadRecord):
                raise InputError(
                    f"{path}, line {line}: cannot parse the header: fix it or pass --no-header"
                )
            if fields:
                # The records of this batch below the header, if any, and the batches that follow.
                below = _Records(batch.lines[i + 1 :], batch.rows[i + 1 :])
                return list(fields), chain([below] if below.rows else [], records)
    return [], records


def _chunk(opened: OpenSource, batch: _Records, names: list[str], columns: Columns) -> Chunk:
    """Return records as a chunk of the columns that are read; `names` are all columns of the file.

    A record that is blank, bad, or has another number of fields is bad in the chunk.
    """
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
            elif not row:
                bad[i] = BLANK
            else:
                bad[i] = BadRecord(
                    "wrong_fields",
                    f"the number of fields is {width}, not {len(names)}: quote fields that contain "
                    "a separator, or fix the line",
                )
    # Only chats have tools and settings, and no cell holds a chat.
    columns = replace(columns, tools=None, settings=None)
    cell_getters = {name: itemgetter(names.index(name)) for name in columns.all}
    return Chunk(
        values={name: list(map(get_cell, rows)) for name, get_cell in cell_getters.items()},
        columns=columns,
        position=opened.position,
        lines=batch.lines,
        bad=bad,
        count_before=opened.lines_before,
    )


def _unquoted_records(opened: OpenSource, delimiter: str) -> Iterator[_Records]:
    """Yield the records of a file without quotes, in which each line is a record."""
    for lines in read_lines(opened):
        for first in range(0, len(lines.texts), MOST_LINES):
            texts = lines.texts.slice(first, MOST_LINES).to_pylist()
            rows: list[Record] = [text.split(delimiter) if text else [] for text in texts]
            stop = first + len(rows)
            # `lines.bad` has all bad lines of the block, by their index in it.
            for i, bad in lines.bad.items():
                if first <= i < stop:
                    rows[i - first] = bad
            yield _Records(list(lines.numbers[first:stop]), rows)


def _quoted_records(opened: OpenSource, delimiter: str, *, skip: bool) -> Iterator[_Records]:
    """Yield the records of a file in which fields may be quoted, and span several lines.

    Many lines are taken at once and parsed together, which is fast. From the first record on that
    is bad, too long, or goes on after these lines, the rest of them is parsed record by record.
    """
    # By default, `csv` takes fields of up to 131,072 characters. Its limit is a C long, which has
    # 32 bits on Windows.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    lines = _RecordLines(read_raw_lines(opened, skip=skip))
    while lines.fill():
        batch = _parse_together(lines, delimiter)
        try:
            for line, fields in _parse_singly(opened.path, lines, delimiter):
                batch.lines.append(line)
                batch.rows.append(fields)
        # A quote is never closed. The records before it come first: one of them may be bad.
        except InputError:
            if batch.rows:
                yield batch
            raise
        yield batch


def _parse_together(lines: "_RecordLines", delimiter: str) -> _Records:
    """Parse the lines that are left of those taken from the file, up to the first bad record or one
    that goes on after them.

    The lines of the records that are returned then count as read. There may be no such records.
    """
    lines_read_before, rows = lines.lines_read, list[Record]()
    # How many of these lines the records up to each one have, from the 0 before the first.
    line_counts = [0]
    reader = csv.reader(lines.left_if_short(), delimiter=delimiter, strict=True)
    with suppress(csv.Error):
        for fields in reader:
            rows.append(fields)
            line_counts.append(reader.line_num)
    lines.mark_read(line_counts.pop())
    # The counts that are left are those before each record, of which the line after is the first.
    return _Records([lines_read_before + count + 1 for count in line_counts], rows)


def _parse_singly(path: str, lines: "_RecordLines", delimiter: str) -> Iterator[tuple[int, Record]]:
    """Yield each record that begins in the lines that are left, with the line on which it starts.

    The last one may end in lines that are taken from the file for it.

    Raises:
        InputError: a quote that is never closed.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    times_filled = lines.times_filled
    # Once more lines were taken, the caller parses the next records together again.
    while lines.are_left and lines.times_filled == times_filled:
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
        lines_read: number of lines read or skipped so far.
        times_filled: how many times lines were taken from the file.
    """

    def __init__(self, lines: Iterator[RawLines]) -> None:
        self._lines_of_file = lines
        self._taken: RawLines = []
        # Lines before this position of `_taken` are read.
        self._at = 0
        # `_record_bytes` and `_quotes`: bytes and quotes of the current record so far.
        self.lines_read = self.times_filled = self._record_bytes = self._quotes = 0

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
            self._taken, self._at = next(self._lines_of_file, []), 0
            self.times_filled += 1
        return self.are_left

    def left_if_short(self) -> list[str]:
        """Return all lines that are left, or no lines if one of their records may be too long."""
        left = self._taken[self._at :]
        lines = [line for line in left if isinstance(line, str)]
        has_long_line = len(lines) < len(left)
        # All lines together may be a single record.
        most_bytes = sum(map(len, lines)) * _MOST_BYTES_OF_CHAR
        return [] if has_long_line or most_bytes > MOST_RECORD_BYTES else lines

    def mark_read(self, count: int) -> None:
        """Count so many of the lines that are left as read."""
        self._at += count
        self.lines_read += count

    def begin_record(self) -> int:
        """Count bytes and quotes from 0 again; return the number of the record's first line."""
        self._record_bytes = self._quotes = 0
        return self.lines_read + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next line of the current record.

        Raises:
            _LongRecordError: the record is too long; the lines up to its end are read.
            csv.Error: the file ends within a record that is too long.
        """
        line = self._read_line()
        if self._record_bytes <= MOST_RECORD_BYTES and isinstance(line, str):
            return line
        # The record is too long. A line ends it if all quotes are closed there: their number is
        # even, as a quote within a field is doubled.
        while self._quotes % 2:
            try:
                self._read_line()
            except StopIteration:
                # The words of `csv` for a quote that is never closed.
                raise csv.Error("unexpected end of data") from None
        raise _LongRecordError(self._record_bytes)

    def _read_line(self) -> str | LongLine:
        """Return the next line, and add its bytes and quotes to those of the current record."""
        if not self.fill():
            raise StopIteration
        line = self._taken[self._at]
        self.mark_read(1)
        if isinstance(line, LongLine):
            self._record_bytes += line.size
            self._quotes += line.quotes
        else:
            # ASCII has as many bytes as characters. Elsewhere, a lone surrogate stands for a byte
            # that is not UTF-8; see `read_raw_lines`.
            data = line if line.isascii() else line.encode(errors="surrogateescape")
            self._record_bytes += len(data)
            self._quotes += line.count('"')
        return line
