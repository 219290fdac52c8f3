"""Lines of a byte stream in blocks, as Arrow text: what .txt, .tsv and .jsonl files are made of."""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from batchstat.corpus.sources import OpenSource
from batchstat.errors import InputError

BLOCK_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of a file.

    Attributes:
        texts: (n,) large_string, without the line ends.
        first: number of the first line, from 1.
    """

    texts: pa.LargeStringArray
    first: int


def read_lines(opened: OpenSource) -> Iterator[Lines]:
    r"""The lines of a source in blocks of about 8 MiB. A line ends with \n or \r\n only.

    A byte-order mark at the start is not part of the text. A line is never cut, however long.

    Raises:
        InputError: bytes that are not UTF-8, with their line and offset.
    """
    for block in _blocks(opened):
        texts = _split(block.data)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            block.decoded(opened.path)
            raise
        yield Lines(texts, block.first)


def read_raw_lines(opened: OpenSource) -> Iterator[str]:
    r"""The lines of a source one by one, each with its \n or \r\n; otherwise as `read_lines`."""
    for block in _blocks(opened):
        yield from io.StringIO(block.decoded(opened.path), newline="\n")


@dataclass(frozen=True)
class _Block:
    data: bytes
    first: int
    offset: int

    def decoded(self, path: str) -> str:
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            line = self.first + self.data.count(b"\n", 0, error.start)
            raise InputError(
                f"{path}, line {line}, byte {self.offset + error.start}: not UTF-8 "
                f"(0x{self.data[error.start]:02x}): convert it, for example with iconv"
            ) from None


def _blocks(opened: OpenSource) -> Iterator[_Block]:
    """Blocks that end after a line's end, but for the last."""
    first, offset = 1, 0
    for data in _cut_after_lines(opened):
        if offset == 0 and data.startswith(_BOM):
            data, offset = data.removeprefix(_BOM), len(_BOM)
        yield _Block(data, first, offset)
        first += data.count(b"\n")
        offset += len(data)


def _cut_after_lines(opened: OpenSource) -> Iterator[bytes]:
    held: list[bytes] = []
    while data := opened.stream.read(BLOCK_BYTES):
        end = data.rfind(b"\n") + 1
        if end == 0:
            held.append(data)
            continue
        yield b"".join([*held, data[:end]])
        held = [data[end:]] if end < len(data) else []
    if held:
        yield b"".join(held)


def _split(data: bytes) -> pa.LargeStringArray:
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if data and not data.endswith(b"\n"):
        data += b"\n"
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, dtype=np.int64)
    offsets[1:] = ends - np.arange(len(ends))
    text = pa.py_buffer(data.translate(None, b"\n"))
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), text)
