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
_OUTSIDE_STRING, _IN_STRING = re.compile(r'["{}\[\],]'), re.compile(r'[\\"]')
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
    # Each round makes a chunk: of the element that is taken here, and of those that
    # `_records_of_chunk` then takes from the same iterator.
    for first in elements:
        yield from collector.chunks(map(convert, _records_of_chunk(chain([first], elements))))


def _records_of_chunk(elements: Iterable[Element]) -> Iterator[object]:
    """Yield records until they make a chunk; one that is too long becomes a `BadRecord`."""
    chars = 0
    for value, size in elements:
        if size > MOST_RECORD_BYTES:
            value = BadRecord("too_long", too_long("record", size))
        yield value
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
    # What was read of the file and is not parsed yet is text[at:].
    text = next(pieces, "")
    chars_before = 0  # characters of the file before `text`
    number = 0  # of the next element
    at = _after_bracket(opened.path, text)
    after_comma = False
    while True:
        at = _skip_space(text, at)
        # After a comma, another element must follow.
        if text[at : at + 1] == "]" and not after_comma:
            break
        try:
            element, end = decoder.raw_decode(text, at)
            end = _skip_space(text, end)
            size = end - at
            # A number may go on in the next piece: it ends where something else begins.
            if text[end : end + 1] not in (",", "]"):
                raise json.JSONDecodeError("Expecting ',' or ']'", text, end)
        except (ValueError, RecursionError) as error:
            is_too_long = len(text) - at > MOST_RECORD_BYTES
            more_text = ""
            if _may_be_cut(error, text):
                if is_too_long:
                    more_text, end, size = _skip_element(text, at, pieces)
                else:
                    # Doubled, so that an element of any size is parsed only a few times.
                    more_text = _more_text(pieces, len(text) - at)
            # The element is malformed, or the file ends within it.
            if not more_text:
                location = Location(opened.path, number)
                reason = reason_of(error, "character", chars_before)
                raise InputError(f"{location}: malformed JSON: {reason}") from None
            if not is_too_long:
                chars_before += at
                text, at = text[at:] + more_text, 0
                continue
            # The element was skipped, and more_text[:end] is its end.
            element = None
            chars_before += at + size - end
            text = more_text
        yield element, size
        number += 1
        after_comma = text[end] == ","
        at = end + after_comma  # past the comma, if there is one
    # `at` is the closing bracket of the array.
    if text[at + 1 :].strip() or any(map(str.strip, pieces)):
        raise InputError(f"{opened.path}: something follows the end of the array: use one per file")


def _after_bracket(path: str, text: str) -> int:
    """Return the position after the bracket that opens an array, with which a file must begin."""
    # RFC 8259 lets a reader pass over a byte-order mark.
    at = _skip_space(text, int(text.startswith("\ufeff")))
    if text[at : at + 1] != "[":
        remedy = ": pass --input-format jsonl for lines" if text[at : at + 1] == "{" else ""
        raise InputError(f"{path} is not a JSON array of objects{remedy}")
    return at + 1


def _skip_element(text: str, at: int, pieces: Iterator[str]) -> tuple[str, int, int]:
    """Skip an element that begins at text[at] and goes on in `pieces`, without keeping it.

    Only brackets, braces, quotes and backslashes are looked at, not whether the element is valid.

    Returns:
        The piece in which the element ends; the position there of the comma or bracket after it;
        and the characters of the element. If the file ends within it, the piece is empty.
    """
    size = -at  # characters of the element before `text`; so `size + i` are those before text[i]
    depth, in_string = 0, False  # `depth`: how many brackets and braces are open
    while text:
        match = (_IN_STRING if in_string else _OUTSIDE_STRING).search(text, at)
        if match is None:
            size += len(text)
            # The escaped character after a backslash may be the first one of the next piece.
            at = max(at - len(text), 0)
            text = next(pieces, "")
            continue
        mark, at = match[0], match.end()
        if mark == '"':
            in_string = not in_string
        elif mark == "\\":
            at += 1  # it escapes the next character, which may be a quote
        # What follows the element in the array.
        elif depth == 0 and mark in ",]}":
            return text, match.start(), size + match.start()
        # A bracket or brace. Commas inside of the element do not matter.
        elif mark != ",":
            depth += 1 if mark in "{[" else -1
    return "", 0, size


def _may_be_cut(error: Exception, text: str) -> bool:
    """Return whether an element may have failed to parse because the text read so far ends in it.

    If so, it may parse once more of the file is read.
    """
    if not isinstance(error, json.JSONDecodeError):
        return False
    # A string or an escape that is cut: the error is where it begins, maybe far from the end.
    is_cut_string = error.msg.startswith(("Unterminated string", "Invalid \\"))
    # Anything else that is cut, such as half of `true`, has less than 16 characters.
    return is_cut_string or error.pos > len(text) - 16


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
