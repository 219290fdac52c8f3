"""Comma- and tab-separated values."""

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence

from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecord, too_long
from batchstat.corpus.chunk import Chunk, grouped
from batchstat.corpus.columns import Columns, choose_columns
from batchstat.corpus.lines import LongLine, read_lines, read_raw_lines
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError

Record = tuple[int, Sequence[str] | BadRecord]
"""The number of the line it starts on, and its fields or what is wrong with it."""

_CHUNK_CHARS = 8 << 20
_RECORD_CHARS = 400
"""Characters counted per record beside its text, so that empty records fill a chunk too."""
_NO_COLUMNS = Columns(("",), None)
"""Columns of blank or bad records before the first one that shows the number of columns."""


def read_csv(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield comma-separated values, quoted as in RFC 4180 unless `options.quote` is false."""
    return _read(opened, options, ",", quoted=options.quote is not False)


def read_tsv(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield tab-separated values, in which a quote is text unless `options.quote` is true."""
    return _read(opened, options, "\t", quoted=bool(options.quote))


def _read(
    opened: OpenSource, options: CorpusOptions, delimiter: str, *, quoted: bool
) -> Iterator[Chunk]:
    """Yield the requested columns, one chunk at a time.

    A blank line is a record without text, but before the header it is ignored. A record with too
    few or too many fields is a bad record.

    Raises:
        InputError: a missing column, a header that cannot be parsed, or a quote that is never
            closed, which leaves no records.
    """
    if quoted:
        records = _quoted(opened, delimiter, skip=options.on_error == "skip")
    else:
        records = _unquoted(opened, delimiter)
    head: Iterator[Record] | None = None
    if opened.split.first:  # a later split of the file, which is not quoted
        head = iter(list(_unquoted(opened.head(), delimiter)))
    names = _header(opened.path, head or records) if options.header else _numbers(head or ())
    columns = choose_columns(opened.path, names, names, options) if names else None
    for some in grouped(records, _chars, _CHUNK_CHARS):
        if columns is None:
            names = _numbers(some)
            columns = choose_columns(opened.path, names, names, options) if names else None
        yield _chunk(opened, some, names or [""], columns or _NO_COLUMNS)


def _numbers(records: Iterable[Record]) -> list[str]:
    """Return column numbers as names, from the first record that has fields."""
    width = next(
        (len(fields) for _, fields in records if fields and not isinstance(fields, BadRecord)), 0
    )
    return [str(number) for number in range(width)]


def _header(path: str, records: Iterator[Record]) -> list[str]:
    """Return the names of the columns; empty for a file of blank lines."""
    for line, fields in records:
        if isinstance(fields, BadRecord):
            raise InputError(
                f"{path}, line {line}: cannot parse the header: fix it or pass --no-header"
            )
        if fields:
            return list(fields)
    return []


def _chunk(opened: OpenSource, some: list[Record], names: list[str], columns: Columns) -> Chunk:
    rows: list[Sequence[str]] = []
    blank: set[int] = set()
    bad: dict[int, BadRecord] = {}
    for i, (_, fields) in enumerate(some):
        rows.append(())
        if isinstance(fields, BadRecord):
            bad[i] = fields
        elif not fields:
            blank.add(i)
        elif len(fields) != len(names):
            bad[i] = BadRecord(
                "wrong_fields",
                f"the number of fields is {len(fields)}, not {len(names)}: quote fields that "
                "contain a separator, or fix the line",
            )
        else:
            rows[i] = fields
    picks = {name: names.index(name) for name in columns.all}
    return Chunk(
        size=len(some),
        columns={name: [row[at] if row else "" for row in rows] for name, at in picks.items()},
        position=opened.position,
        content=columns.content,
        label=columns.label,
        lines=[line for line, _ in some],
        blank=blank,
        bad=bad,
    )


def _chars(record: Record) -> int:
    _, fields = record
    return _RECORD_CHARS + (0 if isinstance(fields, BadRecord) else sum(map(len, fields)))


def _unquoted(opened: OpenSource, delimiter: str) -> Iterator[Record]:
    for lines in read_lines(opened):
        for i, line in enumerate(lines.texts.to_pylist()):
            fields = line.split(delimiter) if line else []
            yield lines.first + i, lines.bad.get(i, fields)


def _quoted(opened: OpenSource, delimiter: str, *, skip: bool) -> Iterator[Record]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    lines = _RecordLines(read_raw_lines(opened, skip=skip))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = lines.begin_record()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except _LongRecordError as long:
            yield line, BadRecord("too_long", too_long("record", long.size))
        except csv.Error as error:
            reason = str(error)
            if "new-line character" in reason:
                reason = "a carriage return alone, outside quotes"
            message = (
                f"not RFC 4180 ({reason}): fix the record, or pass --no-quote if quotes are part "
                "of the text"
            )
            if "end of data" in reason:
                raise InputError(f"{opened.path}, line {line}: {message}") from None
            yield line, BadRecord("malformed", message)
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
