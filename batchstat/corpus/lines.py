"""Lines of a byte stream in blocks, as Arrow text: the basis of .txt, .tsv and .jsonl files."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecord, Location, as_error, too_long
from batchstat.corpus.files.opening import OpenSource, fault_of_text, next_line
from batchstat.errors import InputError

BLOCK_BYTES = 8 << 20
MOST_LINES = 20_000  # limit for lines that are Python's texts at the same time
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PROBE_BYTES = 1 << 16
"""Bytes that are looked at to find an encoding, or read at once to find the end of a line."""
_REMEDY = "name its encoding, as in --encoding latin-1"


@dataclass(frozen=True)
class LongLine:
    """Summary of a line of more than `MOST_RECORD_BYTES`."""

    head: bytes  # its first bytes
    size: int  # number of bytes
    quotes: int

    @classmethod
    def summarize(cls, pieces: Sequence[bytes], so_far: "LongLine | None") -> "LongLine":
        """Summarize a line of which more has been read."""
        so_far = so_far or cls(head=pieces[0][:_PROBE_BYTES], size=0, quotes=0)
        size, quotes = sum(map(len, pieces)), sum(piece.count(b'"') for piece in pieces)
        return cls(so_far.head, so_far.size + size, so_far.quotes + quotes)


RawLines: TypeAlias = list[str | LongLine]  # consecutive lines, each with its line end


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of a file."""

    texts: pa.LargeStringArray
    first: int
    bad: dict[int, BadRecord] = field(default_factory=dict)

    @property
    def numbers(self) -> range:
        """(n,) numbers of the lines."""
        return range(self.first, self.first + len(self.texts))


def read_lines(opened: OpenSource) -> Iterator[Lines]:
    r"""Yield lines in blocks of about 8 MiB; they end with \n or \r\n only; long ones are bad."""
    for block in _blocks(opened):
        if block.long is not None:
            bad = BadRecord("too_long", too_long("line", block.long.size))
            yield Lines(pa.array([""], pa.large_string()), block.first, {0: bad})
            continue
        texts = _texts_of_lines(block.data)
        # All lines are checked for UTF-8 at once; one by one only if that fails.
        try:
            texts.validate(full=True)
            yield Lines(texts, block.first)
        except pa.ArrowInvalid:
            yield _checked_one_by_one(block)


def read_raw_lines(opened: OpenSource, *, skip: bool) -> Iterator[RawLines]:
    r"""Yield lines as texts, many at once, with their ends. Raises InputError: not UTF-8."""
    for block in _blocks(opened):
        if block.long is not None:
            yield [block.long]
            continue
        try:
            text = block.data.decode()
        except UnicodeDecodeError as error:
            if not skip:
                # The lines before the bad one come first: they may hold an earlier bad record.
                lines_before = block.data[: block.data.rfind(b"\n", 0, error.start) + 1]
                yield from _lines_at_once(lines_before.decode())
                line_number = block.first + lines_before.count(b"\n")
                message = not_utf8(block.offset + error.start, block.data[error.start])
                location = Location(opened.path, line_number, "line", opened.lines_before)
                raise as_error(location, message) from None
            text = block.data.decode(errors="surrogateescape")
        yield from _lines_at_once(text)


def _lines_at_once(text: str) -> Iterator[RawLines]:
    all_lines = io.StringIO(text, newline="\n")
    # `list` is given its type for mypy.
    while lines := list[str | LongLine](islice(all_lines, MOST_LINES)):
        yield lines


@dataclass(frozen=True)
class _Block:
    """Consecutive whole lines, or the summary of a single line that is too long."""

    data: bytes  # the bytes of the lines with their ends; empty if there is a `long` line
    first: int
    offset: int  # where the lines begin in the file, in bytes
    long: LongLine | None = None


def _blocks(opened: OpenSource) -> Iterator[_Block]:
    """Yield the lines of a split as blocks of whole lines; the last line may lack its end."""
    # Of the next block: the number of its first line, and where it begins in the file.
    first_line, offset = 1, 0
    # A later split starts at the first line that begins in it.
    if opened.split.first:
        offset = opened.stream.seek(next_line(opened.stream, opened.split.first))
    for data in _cut_after_lines(opened, offset):
        head = (data.head if isinstance(data, LongLine) else data)[:_PROBE_BYTES]
        if offset == 0:
            fewer_nuls, more_nuls = sorted([head[::2].count(0), head[1::2].count(0)])
            # More than 2 as well, so that a few NULs in a short text do not count.
            is_latin = fewer_nuls == 0 and more_nuls > max(2, 3 * len(head[::2]) // 4)
            # Much of such a file would be valid UTF-8, and read as text full of NULs.
            if is_latin or head.startswith(_UTF16):
                ending = "" if head.startswith(_UTF16) else "-be" if head[0] == 0 else "-le"
                raise InputError(f"{opened.path} is UTF-16", f"pass --encoding utf-16{ending}")
            if fault := fault_of_text(head):
                raise InputError(f"{opened.path} is {fault}")
        if isinstance(data, LongLine):
            yield _Block(b"", first_line, offset, long=data)
            first_line, offset = first_line + 1, offset + data.size
            continue
        if offset == 0 and data.startswith(_BOM):
            data, offset = data.removeprefix(_BOM), len(_BOM)
            # A file that is only a byte-order mark has no line, not an empty one.
            if not data:
                return
        yield _Block(data, first_line, offset)
        first_line += data.count(b"\n")
        offset += len(data)


def _bytes_of_split(opened: OpenSource, position: int) -> Iterator[bytes]:
    """Yield the bytes of a split from the start of a line to the end of its last line."""
    stop = opened.split.stop
    if stop is None:
        while data := opened.stream.read(BLOCK_BYTES):
            yield data
        return
    # If no line begins in the split, as one that began before covers all of it, `position` is not
    # before `stop`: then there is no last line that could go on.
    data = b"\n"
    while position < stop and (data := opened.stream.read(min(BLOCK_BYTES, stop - position))):
        position += len(data)
        yield data
    # The last line ended with the split, or the file ends before it, as it became shorter.
    if position != stop or data.endswith(b"\n"):
        return
    # The rest of the last line, after the split.
    while data := opened.stream.read(_PROBE_BYTES):
        end = data.find(b"\n") + 1
        yield data[: end or len(data)]
        if end:
            return


def _cut_after_lines(opened: OpenSource, position: int) -> Iterator[bytes | LongLine]:
    """Yield the bytes of a split from `position` in pieces that end where a line ends."""
    # The line that has not ended: its bytes, or its summary once it is too long to be in memory.
    held: list[bytes] = []
    long: LongLine | None = None
    for data in _bytes_of_split(opened, position):
        first_end = data.find(b"\n") + 1  # position after the first line end; 0 if there is none
        piece = data[: first_end or len(data)]  # more of that line, up to its end if it is here
        if long is not None or sum(map(len, held)) + len(piece) > MOST_RECORD_BYTES:
            long, held = LongLine.summarize([*held, piece], long), []
            if not first_end:
                continue
            yield long
            # No other line of `data` is too long, as `data` is far below the limit.
            long, data = None, data[first_end:]
        last_end = data.rfind(b"\n") + 1
        if last_end:
            yield b"".join([*held, data[:last_end]])
            held = []
        if last_end < len(data):
            held.append(data[last_end:])
    # The last line of a file may lack its end.
    if long is not None:
        yield long
    if held:
        yield b"".join(held)


def _texts_of_lines(data: bytes) -> pa.LargeStringArray:
    """Return the lines of UTF-8, which is not checked, as texts without their ends."""
    # b"ab\nc\r\n" becomes "ab" and "c", in Arrow the text "abc" with the offsets 0, 2 and 3.
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if data and not data.endswith(b"\n"):
        data += b"\n"
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, dtype=np.int64)
    # Line i ends i bytes earlier in the text, which lacks the ends of the i lines before it.
    offsets[1:] = ends - np.arange(len(ends))
    text = pa.py_buffer(data.replace(b"\n", b""))
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), text)


def _checked_one_by_one(block: _Block) -> Lines:
    """Return the lines of a block, of which those that are not UTF-8 are bad, with empty texts."""
    texts: list[str] = []
    bad: dict[int, BadRecord] = {}
    offset = block.offset
    lines = block.data.removesuffix(b"\n").split(b"\n")
    for i, line in enumerate(lines):
        try:
            texts.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError as error:
            message = not_utf8(offset + error.start, line[error.start])
            bad[i] = BadRecord("not_utf8", message)
            texts.append("")
        offset += len(line) + 1  # the line, which still has its \r, and its \n
    return Lines(pa.array(texts, pa.large_string()), block.first, bad)


def not_utf8(offset: int, byte: int) -> str:
    """Return the message for a byte of the file, at this offset, that is not UTF-8."""
    return f"byte {offset} is not UTF-8 (0x{byte:02x}): {_REMEDY}"
