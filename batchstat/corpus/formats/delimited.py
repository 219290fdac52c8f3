"""Comma- and tab-separated values."""

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence

from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecords, Location, grouped, too_long
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.columns import Columns, choose_columns
from batchstat.corpus.lines import LongLine, read_lines, read_raw_lines
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError

Record = tuple[int, Sequence[str] | None]
"""The number of the line it starts on, and its fields; None if it is already noted as bad."""

_CHUNK_CHARS = 8 << 20
_RECORD_CHARS = 400
"""Characters counted per record beside its text, so that empty records fill a chunk too."""
_NO_COLUMNS = Columns(("",), None)
"""Columns of blank or bad records before the first one that shows the number of columns."""


def read_csv(
    opened: OpenSource, options: CorpusOptions, bad_records: BadRecords
) -> Iterator[Chunk]:
    """Yield comma-separated values, quoted as in RFC 4180 unless `options.quote` is false."""
    if options.quote is False:
        return _read_unquoted(opened, options, bad_records, ",")
    return _read(opened, options, bad_records, _quoted(opened, ",", bad_records))


def read_tsv(
    opened: OpenSource, options: CorpusOptions, bad_records: BadRecords
) -> Iterator[Chunk]:
    """Yield tab-separated values, in which a quote is text unless `options.quote` is true."""
    if not options.quote:
        return _read_unquoted(opened, options, bad_records, "\t")
    return _read(opened, options, bad_records, _quoted(opened, "\t", bad_records))


def _read_unquoted(
    opened: OpenSource, options: CorpusOptions, bad_records: BadRecords, delimiter: str
) -> Iterator[Chunk]:
    head = None
    if opened.part.first:
        head = iter(list(_unquoted(opened.head(), delimiter, BadRecords(skip=True))))
    return _read(opened, options, bad_records, _unquoted(opened, delimiter, bad_records), head)


def _read(
    opened: OpenSource,
    options: CorpusOptions,
    bad_records: BadRecords,
    records: Iterator[Record],
    head: Iterator[Record] | None = None,
) -> Iterator[Chunk]:
    """Yield the requested columns, one chunk at a time.

    `head` is given when a later part of a file is read. A blank line is a record without text, but
    before the header it is ignored. A record with too few or too many fields is a bad record.

    Raises:
        InputError: a missing column, a header that cannot be parsed, or a quote that is never
            closed, which leaves no records.
    """
    names = _header(opened.path, head or records) if options.header else _numbers(head or ())
    columns = choose_columns(opened.path, names, names, options) if names else None
    for some in grouped(records, _chars, _CHUNK_CHARS):
        if columns is None:
            names = _numbers(some)
            columns = choose_columns(opened.path, names, names, options) if names else None
        yield _chunk(opened, some, names or [""], columns or _NO_COLUMNS, bad_records)


def _numbers(records: Iterable[Record]) -> list[str]:
    """Return column numbers as names, from the first record that has fields."""
    width = next((len(fields) for _, fields in records if fields), 0)
    return [str(number) for number in range(width)]


def _header(path: str, records: Iterator[Record]) -> list[str]:
    """Return the names of the columns; empty for a file of blank lines."""
    for line, fields in records:
        if fields is None:
            raise InputError(
                f"{path}, line {line}: cannot parse the header: fix it or pass --no-header"
            )
        if fields:
            return list(fields)
    return []


def _chunk(
    opened: OpenSource,
    some: list[Record],
    names: list[str],
    columns: Columns,
    bad_records: BadRecords,
) -> Chunk:
    failed: set[int] = set()
    for i, (line, fields) in enumerate(some):
        if fields is None:
            failed.add(i)
        elif fields and len(fields) != len(names):
            failed.add(i)
            bad_records.add(
                "wrong_fields",
                Location(opened.path, line, "line", opened.lines_before),
                f"the number of fields is {len(fields)}, not {len(names)}: quote fields that "
                "contain a separator, or fix the line",
            )
    good = [None if i in failed else fields for i, (_, fields) in enumerate(some)]
    picks = {name: names.index(name) for name in columns.all}
    return Chunk(
        size=len(some),
        columns={name: [f[at] if f else "" for f in good] for name, at in picks.items()},
        position=opened.position,
        content=columns.content,
        label=columns.label,
        blank={i for i, (_, fields) in enumerate(some) if fields is not None and not fields},
        lines=[line for line, _ in some],
        failed=failed,
        before=opened.lines_before,
    )


def _chars(record: Record) -> int:
    return _RECORD_CHARS + sum(map(len, record[1] or ()))


def _unquoted(opened: OpenSource, delimiter: str, bad_records: BadRecords) -> Iterator[Record]:
    for lines in read_lines(opened):
        for i, line in enumerate(lines.texts.to_pylist()):
            if i in lines.broken:
                place = Location(opened.path, lines.first + i, "line", opened.lines_before)
                bad_records.add(lines.broken[i].reason, place, lines.broken[i].message)
                yield lines.first + i, None
            else:
                yield lines.first + i, line.split(delimiter) if line else []


def _quoted(opened: OpenSource, delimiter: str, bad_records: BadRecords) -> Iterator[Record]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    lines = _RecordLines(read_raw_lines(opened, bad_records))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = lines.begin_record()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except _LongRecordError as long:
            bad_records.add(
                "too_long", Location(opened.path, line, "line"), too_long("record", long.size)
            )
            yield line, None
        except csv.Error as error:
            reason = str(error)
            if "new-line character" in reason:
                reason = "a carriage return alone, outside quotes"
            place = Location(opened.path, line, "line")
            message = (
                f"not RFC 4180 ({reason}): fix the record, or pass --no-quote if quotes are part "
                "of the text"
            )
            if "end of data" in reason:
                raise InputError(f"{place}: {message}") from None
            bad_records.add("malformed", place, message)
            yield line, None
        else:
            yield line, fields


class _LongRecordError(Exception):
    def __init__(self, size: int) -> None:
        self.size = size


class _RecordLines:
    """Lines for `csv.reader`, which by itself would buffer a record of any size.

    A record of more than `MOST_RECORD_BYTES` is passed over, up to the end of the line on which its
    last quote is closed; then the error is raised.
    """

    def __init__(self, lines: Iterator[str | LongLine]) -> None:
        self._lines = lines
        self._read = self._size = self._quotes = 0

    def begin_record(self) -> int:
        """Return the number of the line on which the next record starts."""
        self._size = self._quotes = 0
        return self._read + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._next()
        if self._size <= MOST_RECORD_BYTES and isinstance(line, str):
            return line
        while self._quotes % 2:
            try:
                self._next()
            except StopIteration:
                raise csv.Error("unexpected end of data") from None
        raise _LongRecordError(self._size)

    def _next(self) -> str | LongLine:
        line = next(self._lines)
        self._read += 1
        if isinstance(line, LongLine):
            self._size += line.size
            self._quotes += line.quotes
        else:
            self._size += len(line if line.isascii() else line.encode(errors="surrogateescape"))
            self._quotes += line.count('"')
        return line
