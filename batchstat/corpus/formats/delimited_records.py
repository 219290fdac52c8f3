"""The records of comma- and tab-separated files: their fields, before columns are chosen."""

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecord, Location, too_long
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.lines import MOST_LINES, Lines, LongLine, RawLines, read_lines, read_raw_lines
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.storage.arrow_numbers import as_arrow, as_numpy

Record = Sequence[str] | BadRecord  # the fields of a record, or what is wrong with it


@dataclass(frozen=True)
class Dialect:
    """How the fields of a file are written."""

    delimiter: str
    quoted: bool
    backslash: bool
    may_be_quoted: bool
    skips_blanks: bool = False

    def reader(self, lines: Iterable[str]) -> Any:
        """Return a reader of the csv module."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            escapechar="\\" if self.backslash else None,
            skipinitialspace=self.skips_blanks,
            strict=True,
        )

    def is_blank(self, line: str) -> bool:
        """Return whether a line has neither text nor separators: it counts as no record."""
        return not line.strip(" \t\r\n") and self.delimiter not in line


@dataclass(frozen=True)
class Records:
    """Consecutive records, and the number of the line on which each starts."""

    lines: list[int]
    rows: list[Record]


def unquoted_records(opened: OpenSource, dialect: Dialect) -> Iterator[Records]:
    """Yield the records of a file without quotes, in which each line is a record."""
    for lines in read_lines(opened):
        if dialect.may_be_quoted:
            _refuse_quotes(opened.path, lines, dialect)
        for first in range(0, len(lines.texts), MOST_LINES):
            texts = lines.texts.slice(first, MOST_LINES).to_pylist()
            # `lines.bad` has all bad lines of the block, by their index in it.
            records: list[tuple[int, Record]] = [
                (lines.first + i, lines.bad.get(i) or text.split(dialect.delimiter))
                for i, text in enumerate(texts, first)
                if i in lines.bad or not dialect.is_blank(text)
            ]
            if records:
                yield Records([line for line, _ in records], [fields for _, fields in records])


def quoted_records(
    opened: OpenSource, dialect: Dialect, options: CorpusOptions
) -> Iterator[Records]:
    """Yield the records of a file with quotes. Many lines are parsed together, which is fast; from
    a record on that is bad, too long, or goes on after them, the rest one by one.
    """
    # `csv` takes fields of up to 131,072 characters. Its limit is a C long, 32 bits on Windows.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    lines = _RecordLines(read_raw_lines(opened, skip=options.on_error == "skip"))
    while lines.fill():
        if lines.lines_read == 0:
            first = next(filter(str.strip, lines.left_if_short()), "")
            # Quotes inside of a text say nothing: the first field has to be quoted.
            others = SEPARATORS if options.separator is None and first.startswith('"') else ()
            for other in others:
                if f'"{other}"' in first and f'"{dialect.delimiter}' not in first:
                    raise other_separator(f"{opened.path}: its first line has other fields", other)
            # A header such as `text, label`: a blank follows every separator of the file.
            if options.header:
                names = first.split(dialect.delimiter)[1:]
                skips_blanks = bool(names) and all(name.startswith(" ") for name in names)
                dialect = replace(dialect, skips_blanks=skips_blanks)
        batch = _parse_together(lines, dialect)
        try:
            for line, fields in _parse_singly(opened.path, lines, dialect):
                batch.lines.append(line)
                batch.rows.append(fields)
        # A quote is never closed. The records before it come first: one of them may be bad.
        except InputError:
            if batch.rows:
                yield batch
            raise
        if batch.rows:
            yield batch


SEPARATORS = (",", ";", "\t", "|")  # what separates fields in files that people have


def other_separator(problem: str, separator: str) -> InputError:
    """Return the error for a file in which another character separates the fields."""
    shown = "tab" if separator == "\t" else f"'{separator}'"
    return InputError(problem, f"pass --separator {shown}")


def _parse_together(lines: "_RecordLines", dialect: Dialect) -> Records:
    """Parse the lines that are left, up to a bad record or one that goes on after them."""
    records, texts = Records([], []), lines.left_if_short()
    lines_read_before, begin = lines.lines_read, 0  # `begin`: where in `texts` a record begins
    reader = dialect.reader(texts)
    with suppress(csv.Error):
        for fields in reader:
            if len(fields) > 1 or not dialect.is_blank(texts[begin]):
                records.lines.append(lines_read_before + begin + 1)
                records.rows.append(fields)
            begin = reader.line_num
    lines.mark_read(begin)
    return records


def _parse_singly(
    path: str, lines: "_RecordLines", dialect: Dialect
) -> Iterator[tuple[int, Record]]:
    """Yield each record in the lines that are left, with its first line. Raises InputError."""
    reader = dialect.reader(lines)
    times_filled = lines.times_filled
    # Once more lines were taken, the caller parses the next records together again.
    while lines.are_left and lines.times_filled == times_filled:
        if lines.next_is_blank(dialect):
            lines.mark_read(1)
            continue
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
            remedy = "fix the record, or pass --no-quote if quotes are part of the text"
            if lines.has_backslash and not dialect.backslash:
                remedy = r"pass --backslash if \" is a quote in the text"
            message = f"not RFC 4180 ({reason}): {remedy}"
            # A quote that is never closed takes in the rest of the file: no records follow.
            if "end of data" in reason:
                raise InputError(f"{path}, line {line}: {message}") from None
            fields = BadRecord("malformed", message)
        yield line, fields


class _LongRecordError(Exception):
    def __init__(self, size: int) -> None:
        self.size = size


class _RecordLines:
    """Lines for `csv.reader`, which by itself would buffer a record of any size. One of more than
    `MOST_RECORD_BYTES` is read to the line where its last quote closes, without holding it; then
    `_LongRecordError` is raised.
    """

    def __init__(self, lines: Iterator[RawLines]) -> None:
        self._lines_of_file = lines
        self._taken: RawLines = []
        self._at = 0  # lines of `_taken` before this position are read
        self.has_backslash = False  # whether the current record has an escaped quote
        # `_record_bytes` and `_quotes`: bytes and quotes of the current record so far.
        self.lines_read = self.times_filled = self._record_bytes = self._quotes = 0

    @property
    def are_left(self) -> bool:
        return self._at < len(self._taken)

    def fill(self) -> bool:
        if not self.are_left:
            self._taken, self._at = next(self._lines_of_file, []), 0
            self.times_filled += 1
        return self.are_left

    def left_if_short(self) -> list[str]:
        """Return all lines that are left, or no lines if one of their records may be too long."""
        left = self._taken[self._at :]
        lines = [line for line in left if isinstance(line, str)]
        has_long_line = len(lines) < len(left)
        # All lines together may be a single record. A character has at most 4 bytes in UTF-8.
        most_bytes = sum(map(len, lines)) * 4
        return [] if has_long_line or most_bytes > MOST_RECORD_BYTES else lines

    def mark_read(self, count: int) -> None:
        self._at += count
        self.lines_read += count

    def next_is_blank(self, dialect: Dialect) -> bool:
        line = self._taken[self._at]
        return isinstance(line, str) and dialect.is_blank(line)

    def begin_record(self) -> int:
        self._record_bytes = self._quotes = 0
        self.has_backslash = False
        return self.lines_read + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next line. Raises _LongRecordError behind a long record, or csv.Error."""
        line = self._read_line()
        if self._record_bytes <= MOST_RECORD_BYTES and isinstance(line, str):
            return line
        # The record is too long. It ends on the line where the number of its quotes is even.
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
            # A lone surrogate stands for a byte that is not UTF-8; see `read_raw_lines`.
            data = line if line.isascii() else line.encode(errors="surrogateescape")
            self._record_bytes += len(data)
            self._quotes += line.count('"')
            self.has_backslash |= '\\"' in line
        return line


def _refuse_quotes(path: str, lines: Lines, dialect: Dialect) -> None:
    """Raise InputError for a doubled quote in a quoted field, or a header of quoted names."""
    tab = re.escape(dialect.delimiter)
    whole = f'"([^"{tab}]|"")*"'
    field = f'(^|{tab})"([^"{tab}]|"")*""([^"{tab}]|"")*"({tab}|$)'
    found: list[int] = []
    # Hardly any line has a doubled quote: they are found first, if all bytes have one at all.
    data = lines.texts.buffers()[2]
    if data is not None and b'""' in data.to_pybytes():
        candidates = np.flatnonzero(as_numpy(pc.match_substring(lines.texts, '""')))
        texts = lines.texts.take(as_arrow(candidates))
        found = candidates[as_numpy(pc.match_substring_regex(texts, field))].tolist()
    header = lines.texts[0].as_py() if lines.first == 1 and len(lines.texts) else ""
    if re.fullmatch(f"{whole}({tab}{whole})+", header):
        found = [0]
    if found:
        location = Location(path, lines.numbers[found[0]], "line")
        raise InputError(
            f"{location}: fields are quoted, as pandas writes them",
            "pass --quote to read them so, or --no-quote if quotes are part of the text",
        )
