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
"""Characters of JSON from which on a chunk is large enough."""
_RECORD_CHARS = 400
"""Characters counted for each record beside its text, as a parsed object takes memory, too."""
_PIECE_BYTES = 1 << 18
"""Bytes of the file that are read at once."""
Element: TypeAlias = tuple[object, int]
"""An element of the array, and how many characters it has."""
_STRUCTURE = re.compile(r'[\\"{}\[\],]')
"""The characters that say where a value of JSON ends."""


def read_json(
    opened: OpenSource,
    options: CorpusOptions,
    convert: Callable[[object], object] = lambda record: record,
) -> Iterator[Chunk]:
    """Yield the columns of the objects in an array, which is never entirely in memory.

    Args:
        opened: the file.
        options: how it is read.
        convert: function that returns, for each element, the record whose columns are read.

    Raises:
        InputError: not an array of objects; JSON that is malformed or ends early, or bytes that are
            not UTF-8, after which the start of the next record cannot be found.
    """
    collector = RecordCollector(opened, options)
    elements = _elements(opened)
    # `_records_of_chunk` takes the elements after the first from this same iterator.
    for first in elements:
        yield from collector.chunks(map(convert, _records_of_chunk(chain([first], elements))))


def _records_of_chunk(elements: Iterable[Element]) -> Iterator[object]:
    """Yield records until they make a chunk; one that is too long becomes a `BadRecord`."""
    chars = 0
    for value, size in elements:
        is_too_long = size > MOST_RECORD_BYTES
        yield BadRecord("too_long", too_long("record", size)) if is_too_long else value
        chars += size + _RECORD_CHARS  # a parsed object takes memory beside its text
        if chars >= _CHUNK_CHARS:
            return


def _elements(opened: OpenSource) -> Iterator[Element]:
    """Yield the elements of the array in a file, parsed one at a time.

    Only the text of the current element is in memory. If the text ends within the element, more of
    the file is read, and the element is parsed again; one that is too long is passed over, and
    yielded as None.
    """
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    pieces = _decoded(opened)
    # What was read of the file and is not parsed yet: text[at:]. `number` is the next element's.
    text, number = next(pieces, ""), 0
    chars_before = 0  # characters of the file before `text`
    # RFC 8259 lets a reader pass over a byte-order mark.
    at = _skip_space(text, int(text.startswith("\ufeff")))
    if text[at : at + 1] != "[":
        remedy = ": pass --input-format jsonl for lines" if text[at : at + 1] == "{" else ""
        raise InputError(f"{opened.path} is not a JSON array of objects{remedy}")
    at += 1
    after_comma = False
    while True:
        at = _skip_space(text, at)
        # After a comma, another element must follow.
        if text[at : at + 1] == "]" and not after_comma:
            break
        try:
            element, end = decoder.raw_decode(text, at)
            end = _skip_space(text, end)
            # A number may go on in the next piece: it ends where something else begins.
            if text[end : end + 1] not in (",", "]"):
                raise json.JSONDecodeError("Expecting ',' or ']'", text, end)
        # The element goes on in the next piece, is too long, or is malformed.
        except (ValueError, RecursionError) as error:
            is_cut = _may_go_on(error, text)
            if is_cut and len(text) - at > MOST_RECORD_BYTES:
                rest, end, size = _skip_element(text, at, pieces)
                if end < len(rest):
                    yield None, size
                    number += 1
                    # `rest` starts `end` characters before the end of the element.
                    chars_before += at + size - end
                    after_comma = rest[end] == ","
                    text, at = rest, end + after_comma
                    continue
                # The file ends within the element: nothing is left to read, which fails below.
                text, at = "", 0
            # The text so far is doubled, so that an element of any size is parsed only a few times.
            # No more text: the file ends within the element, or the element is malformed.
            more_text = _more_text(pieces, len(text) - at) if is_cut else ""
            if not more_text:
                location = Location(opened.path, number)
                reason = reason_of(error, "character", chars_before)
                raise InputError(f"{location}: malformed JSON: {reason}") from None
            chars_before += at
            text, at = text[at:] + more_text, 0
            continue
        yield element, end - at
        number += 1
        after_comma = text[end] == ","
        at = end + after_comma  # past the comma, if there is one
    # `at` is the closing bracket of the array.
    if text[at + 1 :].strip() or any(piece.strip() for piece in pieces):
        raise InputError(f"{opened.path}: something follows the end of the array: use one per file")


def _skip_element(text: str, at: int, pieces: Iterator[str]) -> tuple[str, int, int]:
    """Skip an element that begins at text[at] and goes on in `pieces`, without keeping it.

    Only brackets, braces, quotes and backslashes are looked at, not whether the element is valid.

    Returns:
        The piece in which the element ends; the position there of the comma or bracket after it;
        and the characters of the element. If the file ends within it, the piece is empty.
    """
    # `size`: characters of the element before `text`; in the first round, where `at` is its start,
    # 0. `depth`: how many brackets and braces are open. `ignored_to`: marks before this position of
    # `text` do not count, as a backslash escapes them.
    size, depth, in_string, ignored_to = 0, 0, False, at
    while True:
        for match in _STRUCTURE.finditer(text, at):
            i, mark = match.start(), match[0]
            if i < ignored_to:
                continue
            if in_string:
                in_string = mark != '"'
                # A backslash escapes the next character, which may be a quote.
                ignored_to = i + 2 if mark == "\\" else i
            elif mark == '"':
                in_string = True
            # What follows the element in the array.
            elif depth == 0 and mark in ",]}":
                return text, i, size + i - at
            # A bracket or brace. Commas inside of the element do not matter.
            elif mark != "," and mark != "\\":
                depth += 1 if mark in "{[" else -1
        size += len(text) - at
        # The escaped character may be the first one of the next piece.
        ignored_to -= len(text)
        at = 0
        text = next(pieces, "")
        if not text:
            return "", 0, size


def _may_go_on(error: Exception, text: str) -> bool:
    """Return whether an error may only say that the text read so far ends within an element."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    # Of a string or an escape that is cut; reported where it begins, maybe far from the end.
    unfinished = ("Unterminated string", "Invalid \\")
    # Half a literal (true, null) or number at the end of the text is an error where it begins: 16
    # characters are more than any literal has.
    return error.msg.startswith(unfinished) or error.pos > len(text) - 16


def _decoded(opened: OpenSource) -> Iterator[str]:
    """Yield the text of a file in pieces. Raise InputError for a byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    while True:
        data = opened.stream.read(_PIECE_BYTES)
        # The decoder may hold the first bytes of a character that the last piece cut in two.
        held_bytes = len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            # The error counts from the bytes that were held.
            bad_offset = offset - held_bytes + error.start
            bad_byte = error.object[error.start]
            raise InputError(f"{opened.path}: {not_utf8(bad_offset, bad_byte)}") from None
        if not data:
            return
        offset += len(data)
        yield text


def _more_text(pieces: Iterator[str], least_chars: int) -> str:
    """Return the next pieces as one text of at least so many characters, if there are as many."""
    parts: list[str] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= least_chars:
            break
    return "".join(parts)


def _skip_space(text: str, at: int) -> int:
    """Return the first position from `at` on that does not hold whitespace of JSON."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
