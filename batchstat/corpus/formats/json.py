"""JSON: one object per line, or an array of objects."""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from batchstat.corpus.arrow_values import kind_of
from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecord, Location, too_long
from batchstat.corpus.chat import TOOLS_COLUMN
from batchstat.corpus.chunk import Chunk, grouped
from batchstat.corpus.columns import TEXT_NAMES, Columns, choose_columns
from batchstat.corpus.lines import Lines, not_utf8, read_lines
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.storage.sealed_records import unique_keys

_CHUNK_CHARS = 8 << 20
_RECORD_CHARS = 400
"""Characters counted per record beside its text."""
_PIECE_BYTES = 1 << 18
_STRUCTURE = re.compile(r'[\\"{}\[\],]')


_BLANK = object()
"""An empty record."""


class _Collector:
    """Collects JSON records, one by one, into chunks of the requested columns."""

    def __init__(self, opened: OpenSource, options: CorpusOptions) -> None:
        self._opened, self._options = opened, options
        self._named = [name for name in options.named_columns if name != options.label_column]
        self._columns: Columns | None = None
        self._label_seen = False
        self._records: list[dict[str, object]] = []
        self._blank: set[int] = set()
        self._bad: dict[int, BadRecord] = {}

    def chunks(
        self, records: Iterable[object], lines: Sequence[int] | None = None
    ) -> Iterator[Chunk]:
        """Yield a chunk of parsed records; of an `InputError`, those before it come first.

        A record may also be a `BadRecord`, or `_BLANK`.
        """
        try:
            for record in records:
                self._add(record)
        except InputError:
            yield self._chunk(lines)
            raise
        yield self._chunk(lines)

    def _add(self, record: object) -> None:
        i, good = len(self._records), {}
        if record is _BLANK:
            self._blank.add(i)
        elif isinstance(record, BadRecord):
            self._bad[i] = record
        elif not isinstance(record, dict):
            message = f"{kind_of(record)} where an object is expected"
            self._bad[i] = BadRecord("wrong_type", message)
        elif missing := self._missing(record):
            self._bad[i] = BadRecord("missing_column", missing)
        else:
            good = record
        self._records.append(good)

    def _missing(self, record: dict[str, object]) -> str:
        """Return the message for a record that lacks a column; empty if it lacks none."""
        self._label_seen = self._label_seen or self._options.label_column in record
        self.decide(record)
        required = self._columns.content if self._columns else self._named or ["text"]
        missing = [column for column in required if column not in record]
        if not missing:
            return ""
        has = ", ".join(list(record)[:20]) or "nothing"
        return f"column {missing[0]!r} is missing (has: {has})"

    def decide(self, record: object) -> bool:
        """Choose the columns by the first record that has them; return whether they are chosen."""
        if self._columns is None and isinstance(record, dict) and record:
            lacking = any(column not in record for column in self._named)
            if not (lacking and self._options.on_error == "skip"):
                self._columns = self._choose(record)
        return self._columns is not None

    def _choose(self, record: dict[str, object]) -> Columns:
        # A missing label counts as a class of its own, and a text may be null.
        names = list(dict.fromkeys([*record, *filter(None, [self._options.label_column])]))
        texts = [name for name, value in record.items() if value is None or isinstance(value, str)]
        usual = [name for name in record if name.lower() in TEXT_NAMES]
        chosen = choose_columns(self._opened.path, names, texts or usual, self._options)
        # Not every chat in a file has tools.
        return replace(chosen, tools=TOOLS_COLUMN) if self._options.messages_column else chosen

    def _chunk(self, lines: Sequence[int] | None = None) -> Chunk:
        columns = self._columns or Columns(("text",), None)
        made = Chunk(
            size=len(self._records),
            columns={name: [record.get(name) for record in self._records] for name in columns.all},
            position=self._opened.position,
            content=columns.content,
            label=columns.label,
            lines=lines,
            blank=self._blank,
            bad=self._bad,
            label_seen=None if self._columns is None else self._label_seen,
            tools=columns.tools,
        )
        self._records, self._blank, self._bad = [], set(), {}
        return made


def read_jsonl(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the columns of the object on each line; a blank line is an empty record."""
    collector = _Collector(opened, options)
    if opened.split.first:
        _decide_by_head(collector, opened)
    for lines in read_lines(opened):
        yield from collector.chunks(_parsed(lines), lines.numbers)


def _parsed(lines: Lines) -> Iterator[object]:
    for i, line in enumerate(lines.texts.to_pylist()):
        if i in lines.bad:
            yield lines.bad[i]
        elif not line or line.isspace():
            yield _BLANK
        else:
            try:
                yield json.loads(line, object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                yield BadRecord("malformed", f"malformed JSON: {_reason(error)}")


def _decide_by_head(collector: _Collector, opened: OpenSource) -> None:
    """Choose the columns as the first split of the file does: by its first good record."""
    for lines in read_lines(opened.head()):
        if any(collector.decide(record) for record in _parsed(lines)):
            return


def read_json(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the columns of the objects in an array, which is never entirely in memory.

    Raises:
        InputError: not an array of objects; JSON that is malformed or ends early, or bytes that are
            not UTF-8, after which the start of the next record cannot be found.
    """
    collector = _Collector(opened, options)
    for some in grouped(_elements(opened), lambda each: each.chars + _RECORD_CHARS, _CHUNK_CHARS):
        yield from collector.chunks(
            each.value
            if each.chars <= MOST_RECORD_BYTES
            else BadRecord("too_long", too_long("record", each.chars))
            for each in some
        )


@dataclass(frozen=True)
class _Element:
    value: object
    chars: int


def _elements(opened: OpenSource) -> Iterator[_Element]:
    """Yield the elements of the array in a file, parsed one at a time."""
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    pieces = _decoded(opened)
    text, number = next(pieces, ""), 0
    passed = 0  # characters before `text`
    at = _skip_space(text, int(text.startswith("\ufeff")))
    if text[at : at + 1] != "[":
        remedy = ": pass --input-format jsonl for lines" if text[at : at + 1] == "{" else ""
        raise InputError(f"{opened.path} is not a JSON array of objects{remedy}")
    at += 1
    after_comma = False
    while True:
        at = _skip_space(text, at)
        if text[at : at + 1] == "]" and not after_comma:
            break
        try:
            element, end = decoder.raw_decode(text, at)
            end = _skip_space(text, end)
            if text[end : end + 1] not in (",", "]"):
                raise json.JSONDecodeError("Expecting ',' or ']'", text, end)
        except (ValueError, RecursionError) as error:
            # The text so far may be the start of a longer element. Double it, so that an element
            # of any size is parsed only a few times.
            if _may_go_on(error, text) and len(text) - at > MOST_RECORD_BYTES:
                rest, end, size = _without_element(text, at, pieces)
                if end < len(rest):
                    yield _Element(None, size)
                    number += 1
                    passed += at + size - end
                    after_comma = rest[end] == ","
                    text, at = rest, end + after_comma
                    continue
                text, at = "", 0
            fresh = _some_of(pieces, len(text) - at) if _may_go_on(error, text) else ""
            if not fresh:
                location = Location(opened.path, number)
                reason = _reason(error, "character", passed)
                raise InputError(f"{location}: malformed JSON: {reason}") from None
            passed += at
            text, at = text[at:] + fresh, 0
            continue
        yield _Element(element, end - at)
        number += 1
        after_comma = text[end] == ","
        at = end + after_comma
    if text[at + 1 :].strip() or any(piece.strip() for piece in pieces):
        raise InputError(f"{opened.path}: something follows the end of the array: use one per file")


def _without_element(text: str, at: int, pieces: Iterator[str]) -> tuple[str, int, int]:
    """Skip an element that begins at `at`, without holding it in memory.

    Returns:
        The piece in which it ends, the position there of the comma or bracket after it, and the
        element's size in characters. If it has no end, a position after the whole piece.
    """
    size, depth, in_string, skipped_to = 0, 0, False, at
    while True:
        for match in _STRUCTURE.finditer(text, at):
            i, mark = match.start(), match[0]
            if i < skipped_to:
                continue
            if in_string:
                in_string = mark != '"'
                skipped_to = i + 2 if mark == "\\" else i
            elif mark == '"':
                in_string = True
            elif depth == 0 and mark in ",]}":
                return text, i, size + i - at
            elif mark != "," and mark != "\\":
                depth += 1 if mark in "{[" else -1
        size += len(text) - at
        skipped_to -= len(text)
        at = 0
        text = next(pieces, "")
        if not text:
            return "", 0, size


def _may_go_on(error: Exception, text: str) -> bool:
    """Return whether the text may just be incomplete, rather than wrong."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    unfinished = ("Unterminated string", "Invalid \\")
    return error.msg.startswith(unfinished) or error.pos > len(text) - 16


def _decoded(opened: OpenSource) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    while True:
        data = opened.stream.read(_PIECE_BYTES)
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            at = offset - held + error.start
            byte = error.object[error.start]
            raise InputError(f"{opened.path}: {not_utf8(at, byte)}") from None
        if not data:
            return
        offset += len(data)
        yield text


def _some_of(pieces: Iterator[str], least: int) -> str:
    parts: list[str] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= least:
            break
    return "".join(parts)


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _reason(error: Exception, unit: str = "column", before: int = 1) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at {unit} {before + error.pos}"
    return str(error)
