"""JSON: an array of objects."""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecord, Location, too_long
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.formats.json_records import RecordCollector, reason_of
from batchstat.corpus.lines import not_utf8
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.storage.sealed_records import unique_keys

_CHUNK_CHARS = 8 << 20
_RECORD_CHARS = 400
"""Characters counted per record beside its text."""
_PIECE_BYTES = 1 << 18
Element: TypeAlias = tuple[object, int]
"""An element of the array, and how many characters it has."""
_STRUCTURE = re.compile(r'[\\"{}\[\],]')


def read_json(
    opened: OpenSource,
    options: CorpusOptions,
    convert: Callable[[object], object] = lambda record: record,
) -> Iterator[Chunk]:
    """Yield the columns of the objects in an array, which is never entirely in memory.

    `convert` returns what is read of each record.

    Raises:
        InputError: not an array of objects; JSON that is malformed or ends early, or bytes that are
            not UTF-8, after which the start of the next record cannot be found.
    """
    collector = RecordCollector(opened, options)
    elements = _elements(opened)
    # The chunk that an element begins takes those after it from the same iterator.
    for first in elements:
        yield from collector.chunks(map(convert, _records_of_chunk(chain([first], elements))))


def _records_of_chunk(elements: Iterable[Element]) -> Iterator[object]:
    chars = 0
    for value, size in elements:
        too_large = size > MOST_RECORD_BYTES
        yield BadRecord("too_long", too_long("record", size)) if too_large else value
        chars += size + _RECORD_CHARS
        if chars >= _CHUNK_CHARS:
            return


def _elements(opened: OpenSource) -> Iterator[Element]:
    """Yield the elements of the array in a file, parsed one at a time."""
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    pieces = _decoded(opened)
    text, number = next(pieces, ""), 0
    passed = 0  # characters before `text`
    # RFC 8259 lets a reader pass over a byte-order mark.
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
            # A number may go on in the next piece: it ends where something else begins.
            if text[end : end + 1] not in (",", "]"):
                raise json.JSONDecodeError("Expecting ',' or ']'", text, end)
        except (ValueError, RecursionError) as error:
            is_cut = _may_go_on(error, text)
            if is_cut and len(text) - at > MOST_RECORD_BYTES:
                rest, end, size = _without_element(text, at, pieces)
                if end < len(rest):
                    yield None, size
                    number += 1
                    passed += at + size - end
                    after_comma = rest[end] == ","
                    text, at = rest, end + after_comma
                    continue
                text, at = "", 0
            # The text so far is doubled, so that an element of any size is parsed only a few times.
            fresh = _more_text(pieces, len(text) - at) if is_cut else ""
            if not fresh:
                location = Location(opened.path, number)
                reason = reason_of(error, "character", passed)
                raise InputError(f"{location}: malformed JSON: {reason}") from None
            passed += at
            text, at = text[at:] + fresh, 0
            continue
        yield element, end - at
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
    # Half a literal or number at the end of a piece is an error a few characters before it.
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


def _more_text(pieces: Iterator[str], least: int) -> str:
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
