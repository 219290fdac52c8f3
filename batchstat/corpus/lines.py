"""Lines of a byte stream in blocks, as Arrow text: the basis of .txt, .tsv and .jsonl files."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from batchstat.corpus.bad_records import MOST_RECORD_BYTES, BadRecord, Location, ending, too_long
from batchstat.corpus.opening import OpenSource, line_end
from batchstat.errors import InputError

BLOCK_BYTES = 8 << 20
MOST_LINES = 20_000
"""Limit for lines that are Python's texts at the same time."""
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PROBE_BYTES = 1 << 16
_REMEDY = "convert it to UTF-8, for example with iconv"


@dataclass(frozen=True)
class LongLine:
    """Summary of a line of more than `MOST_RECORD_BYTES`.

    Attributes:
        head: its first bytes.
        size: number of bytes.
        quotes: how many of them are `"`.
    """

    head: bytes
    size: int
    quotes: int

    @classmethod
    def of(cls, pieces: Sequence[bytes], before: "LongLine | None" = None) -> "LongLine":
        """Return the line made of these pieces, or of what is known of those before and these."""
        size, quotes = sum(map(len, pieces)), sum(piece.count(b'"') for piece in pieces)
        if before is None:
            return cls(pieces[0][:_PROBE_BYTES], size, quotes)
        return cls(before.head, before.size + size, before.quotes + quotes)


RawLines: TypeAlias = list[str | LongLine]
"""Consecutive lines with their ends."""


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of a file.

    Attributes:
        texts: (n,) large_string, without the line ends.
        first: number of the first line, from 1.
        bad: lines that cannot be read: they are empty here.
    """

    texts: pa.LargeStringArray
    first: int
    bad: dict[int, BadRecord] = field(default_factory=dict)

    @property
    def numbers(self) -> range:
        """(n,) numbers of the lines."""
        return range(self.first, self.first + len(self.texts))


def read_lines(opened: OpenSource) -> Iterator[Lines]:
    r"""Yield the lines of a source in blocks of about 8 MiB. A line ends with \n or \r\n only.

    A byte-order mark at the start is not part of the text. A line is never divided; one of more
    than `MOST_RECORD_BYTES` is bad.
    """
    for block in _blocks(opened):
        if block.long is not None:
            bad = BadRecord("too_long", too_long("line", block.long.size))
            yield Lines(pa.array([""], pa.large_string()), block.first, {0: bad})
            continue
        texts = _split(block.data)
        try:
            texts.validate(full=True)
            yield Lines(texts, block.first)
        except pa.ArrowInvalid:
            yield _without_bad_lines(block)


def read_raw_lines(opened: OpenSource, *, skip: bool) -> Iterator[RawLines]:
    r"""Yield the lines of a source, many at a time, with their \n or \r\n; else as `read_lines`.

    If bad records are skipped, bytes that are not UTF-8 become lone surrogates, which the caller
    finds in the record that they belong to.
    """
    for block in _blocks(opened):
        if block.long is not None:
            yield [block.long]
            continue
        try:
            text = block.data.decode()
        except UnicodeDecodeError as error:
            if not skip:
                start = block.data.rfind(b"\n", 0, error.start) + 1
                yield from _lines_at_once(block.data[:start].decode())
                line = block.first + block.data.count(b"\n", 0, start)
                message = not_utf8(block.offset + error.start, block.data[error.start])
                location = Location(opened.path, line, "line", opened.lines_before)
                raise ending(location, message) from None
            text = block.data.decode(errors="surrogateescape")
        yield from _lines_at_once(text)


def _lines_at_once(text: str) -> Iterator[RawLines]:
    lines = io.StringIO(text, newline="\n")
    while some := list[str | LongLine](islice(lines, MOST_LINES)):
        yield some


@dataclass(frozen=True)
class _Block:
    data: bytes
    first: int
    offset: int
    long: LongLine | None = None


def _blocks(opened: OpenSource) -> Iterator[_Block]:
    """Yield blocks that end at the end of a line, except the last."""
    first, offset = 1, 0
    if begin := opened.split.first:  # a line belongs to the split it begins in
        offset = opened.stream.seek(line_end(opened.stream, begin))
    for data in _cut_after_lines(opened, offset):
        if offset == 0 and _is_utf16(data.head if isinstance(data, LongLine) else data):
            # Much of such a file would be valid UTF-8.
            raise InputError(f"{opened.path} is UTF-16: {_REMEDY}")
        if isinstance(data, LongLine):
            yield _Block(b"", first, offset, data)
            first, offset = first + 1, offset + data.size
            continue
        if offset == 0 and data.startswith(_BOM):
            data, offset = data.removeprefix(_BOM), len(_BOM)
            # A file of a mark alone has no line, where the rest would be an empty one.
            if not data:
                return
        yield _Block(data, first, offset)
        first += data.count(b"\n")
        offset += len(data)


def _is_utf16(data: bytes) -> bool:
    """Return whether data is UTF-16: by its mark, or if every other byte of the text is NUL."""
    even, odd = data[:_PROBE_BYTES:2], data[1:_PROBE_BYTES:2]
    nuls = sorted([even.count(0), odd.count(0)])
    return data.startswith(_UTF16) or (nuls[0] == 0 and nuls[1] > max(2, 3 * len(even) // 4))


def _bytes_of_split(opened: OpenSource, at: int) -> Iterator[bytes]:
    """Yield the bytes of a split from `at`, the start of a line, to the end of its last line."""
    stop = opened.split.stop
    if stop is None:
        while data := opened.stream.read(BLOCK_BYTES):
            yield data
        return
    ended = True
    while at < stop and (data := opened.stream.read(min(BLOCK_BYTES, stop - at))):
        at += len(data)
        yield data
        ended = data.endswith(b"\n")
    if at != stop or ended:
        return
    while data := opened.stream.read(_PROBE_BYTES):
        end = data.find(b"\n") + 1
        yield data[: end or len(data)]
        if end:
            return


def _cut_after_lines(opened: OpenSource, at: int) -> Iterator[bytes | LongLine]:
    held: list[bytes] = []
    size = 0
    long: LongLine | None = None
    for data in _bytes_of_split(opened, at):
        end = data.find(b"\n") + 1
        piece = data[: end or len(data)]
        if long is not None or size + len(piece) > MOST_RECORD_BYTES:
            long, held, size = LongLine.of([*held, piece], long), [], 0
            if not end:
                continue
            yield long
            long, data = None, data[end:]
        end = data.rfind(b"\n") + 1
        if end:
            yield b"".join([*held, data[:end]])
            held, size = [], 0
        if end < len(data):
            held.append(data[end:])
            size += len(data) - end
    if long is not None:
        yield long
    if held:
        yield b"".join(held)


def _split(data: bytes) -> pa.LargeStringArray:
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if data and not data.endswith(b"\n"):
        data += b"\n"
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, dtype=np.int64)
    # Each earlier by the line ends before it, which are taken out below.
    offsets[1:] = ends - np.arange(len(ends))
    text = pa.py_buffer(data.replace(b"\n", b""))
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), text)


def _without_bad_lines(block: _Block) -> Lines:
    good: list[str] = []
    bad: dict[int, BadRecord] = {}
    offset = block.offset
    lines = block.data.removesuffix(b"\n").split(b"\n")
    for i, line in enumerate(lines):
        try:
            good.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError as error:
            message = not_utf8(offset + error.start, line[error.start])
            bad[i] = BadRecord("not_utf8", message)
            good.append("")
        offset += len(line) + 1
    return Lines(pa.array(good, pa.large_string()), block.first, bad)


def not_utf8(at: int, byte: int) -> str:
    """Return the message for a byte that is not UTF-8, at offset `at` of the file."""
    return f"byte {at} is not UTF-8 (0x{byte:02x}): {_REMEDY}"
