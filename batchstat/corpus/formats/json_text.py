"""The text of a JSON file, of which only what is being parsed is in memory."""

import codecs
import json
import re
from collections.abc import Iterator

from batchstat.corpus.bad_records import MOST_RECORD_BYTES
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.lines import not_utf8
from batchstat.errors import InputError
from batchstat.storage.sealed_records import unique_keys

_PIECE_BYTES = 1 << 18  # bytes of the file that are read at once
_OUTSIDE_STRING, _IN_STRING = re.compile(r'["{}\[\],]'), re.compile(r'[\\"]')
"""The characters that say where a value of JSON ends."""
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


class JsonText:
    """A place in the text of a JSON file."""

    def __init__(self, opened: OpenSource) -> None:
        self._path, self._pieces = opened.path, _decoded(opened)
        self._text = next(self._pieces, "")
        # RFC 8259 lets a reader pass over a byte-order mark.
        self.at, self.before = int(self._text.startswith("\ufeff")), 0

    def mark(self) -> str:
        """Pass over whitespace, and return the next character; empty text at the end."""
        while True:
            self.at = _skip_space(self._text, self.at)
            if self.at < len(self._text):
                return self._text[self.at]
            if not self._read_more(1):
                return ""

    def value(self, marks: str) -> tuple[object, int]:
        """Return the value here (None if it is too long) and its characters, and pass over it to
        one of `marks`. Raises ValueError, RecursionError: it is malformed, or the file ends in it.
        """
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self.at)
                end = _skip_space(self._text, end)
                # A number may go on in the next piece: it ends where something else begins.
                if (self._text[end : end + 1] or "\0") not in marks:
                    expected = " or ".join(f"'{mark}'" for mark in marks)
                    raise json.JSONDecodeError(f"Expecting {expected}", self._text, end)
                size, self.at = end - self.at, end
                return value, size
            except (ValueError, RecursionError) as error:
                chars_left = len(self._text) - self.at
                # A cut string or escape: the error is where it begins, maybe far from the end. All
                # else that is cut, such as half of `true`, has less than 16 characters.
                may_be_cut = isinstance(error, json.JSONDecodeError) and (
                    error.msg.startswith(("Unterminated string", "Invalid \\"))
                    or error.pos > len(self._text) - 16
                )
                if not may_be_cut:
                    raise
                if chars_left > MOST_RECORD_BYTES:
                    return None, self.skip()
                # Doubled, so that a value of any size is parsed only a few times. The error names
                # a place in the text as it was, and would be raised again with another.
                if not self._read_more(chars_left):
                    raise

    def skip(self) -> int:
        """Pass over the value here, valid or not, and return its characters. Raises ValueError."""
        begin = self.before + self.at
        depth, in_string = 0, False  # `depth`: how many brackets and braces are open
        while self._text:
            match = (_IN_STRING if in_string else _OUTSIDE_STRING).search(self._text, self.at)
            if match is None:
                # The escaped character after a backslash may be the first one of the next piece.
                beyond = max(self.at - len(self._text), 0)
                self.before += len(self._text)
                self._text, self.at = next(self._pieces, ""), beyond
                continue
            mark, self.at = match[0], match.end()
            if mark == '"':
                in_string = not in_string
            elif mark == "\\":
                self.at += 1  # it escapes the next character, which may be a quote
            # What follows the value.
            elif depth == 0 and mark in ",]}":
                self.at = match.start()
                return self.before + self.at - begin
            # A bracket or brace. Commas inside of the value do not matter.
            elif mark != ",":
                depth += 1 if mark in "{[" else -1
        raise ValueError("the file ends within a value")

    def whole(self) -> str:
        """Return the text from here to the end. Raise InputError if it is too long."""
        while len(self._text) - self.at <= MOST_RECORD_BYTES:
            if not self._read_more(1 << 20):
                return self._text[self.at :]
        raise InputError(
            f"{self._path} is one JSON object of more than {MOST_RECORD_BYTES >> 20} MiB: say with "
            "--records where its samples are, or write one object per line"
        )

    def _read_more(self, least_chars: int) -> bool:
        """Read at least so many characters more, if there are; return whether there were any."""
        parts, size = [self._text[self.at :]], 0
        for piece in self._pieces:
            parts.append(piece)
            size += len(piece)
            if size >= least_chars:
                break
        if size:
            self.before += self.at
            self._text, self.at = "".join(parts), 0
        return size > 0


def _decoded(opened: OpenSource) -> Iterator[str]:
    """Yield the text of a file in pieces. Raise InputError for a byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    while True:
        data = opened.stream.read(_PIECE_BYTES)
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            # `error.object` may begin with bytes of a character that the last piece cut in two.
            bad_offset = offset + len(data) - len(error.object) + error.start
            bad_byte = error.object[error.start]
            raise InputError(f"{opened.path}: {not_utf8(bad_offset, bad_byte)}") from None
        if not data:
            return
        offset += len(data)
        yield text


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
