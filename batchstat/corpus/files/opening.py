"""Open a source's bytes: decompressed by content, and hashed if they can be read only once."""

import codecs
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, BinaryIO, cast

from batchstat.corpus.files.compression import DAMAGE, decompressed
from batchstat.corpus.files.sources import Source
from batchstat.corpus.files.splits import Split
from batchstat.corpus.files.streams import Fetched, Hashing, Recoded, Rereadable
from batchstat.errors import BatchstatError, InputError, SourceError
from batchstat.storage.addresses import state_of
from batchstat.storage.shown import is_remote, one_line

HEAD_BYTES = 1 << 20
"""Bytes at the start of a file, from which the columns of its other splits are determined."""
_TAR_HEAD = 262  # bytes at the start of a tar archive up to the end of the word `ustar`, its magic
_CUT_SHORT = ("Truncated compressed stream", "end-of-stream marker", "ended before")
"""Words of the exceptions for compressed data that end early: of pyarrow, and of Python."""

_LFS = b"version https://git-lfs.github.com/spec/"
_ANNEX = re.compile(rb"/annex/objects/|\.?\.?/?\.git/annex/objects/").match

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b\x1c\x1d\x1e\x1f"))
_MOST_CONTROLS = 20  # one control character in so many bytes is the most that a text has
_FEW = 20  # fewer control characters than this say nothing of a short text

_UNPACK = "unpack it, and pass the files in it"
_TOKENS = "pass the lengths of its documents, as .npy, or its token ids, as .parquet"
_MAGICS = {
    b"PK\x03\x04": (
        f"a zip archive, as of Office, NumPy or torch: {_UNPACK}, or save it as .csv or .npy"
    ),
    b"PK\x05\x06": "an empty zip archive",
    b"Rar!\x1a\x07": f"a RAR archive: {_UNPACK}",
    b"7z\xbc\xaf\x27\x1c": f"a 7z archive: {_UNPACK}",
    b"MMIDIDX\x00\x00": f"an index of Megatron's token ids: {_TOKENS}",
    b"%PDF-": "a PDF: pass its text",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file: save it as .parquet",
    b"SQLite format 3\x00": "an SQLite database: save the table as .csv or .parquet",
    b"\x80\x02}": "a pickle: save it as .parquet",
    **{
        bytes([0x80, protocol, 0x95]): "a pickle: save it as .parquet"  # a frame follows
        for protocol in (4, 5)
    },
}
"""What files are by their first bytes, and what to do."""


@dataclass(frozen=True)
class OpenSource:
    """A source being read, or a split of one."""

    split: Split
    stream: BinaryIO  # the source's bytes, decompressed; the same object as `raw` if not compressed
    raw: "io.BufferedReader[Any]"  # the bytes as they are on disk
    hashing: Hashing | None = None  # stream below `raw` that hashes standard input; None for files

    @property
    def path(self) -> str:
        """Name in messages."""
        return self.split.source.shown

    @property
    def size(self) -> int:
        """Bytes of the source; 0 if unknown."""
        return self.split.source.bytes

    @property
    def position(self) -> int:
        """Bytes of the split read so far, as they are on disk."""
        return self.hashing.bytes_read if self.hashing else self.raw.tell() - self.split.first

    def head(self) -> "OpenSource":
        """Return the first `HEAD_BYTES` of the file as a split, and go to the start of the file."""
        self.raw.seek(0)
        return replace(self, split=replace(self.split, first=0, stop=HEAD_BYTES))

    @cached_property
    def lines_before(self) -> Callable[[], int]:
        """Function that returns how many lines precede the split, reading the file at most once."""
        return cache(partial(count_lines_before, self.split)) if self.split.first else int

    def source(self, listed: Source) -> Source:
        """Return the source with its size and digest: those of standard input are known now."""
        if self.hashing is None:
            return listed
        # A reader may stop before the end, and the digest is of all bytes.
        self.raw.read()
        digest = f"sha256:{self.hashing.sha256.hexdigest()}"
        return Source(listed.path, self.hashing.bytes_read, digest, listed.format)


@contextmanager
def open_source(
    split: Split, standard_input: Rereadable | None = None, encoding: str | None = None
) -> Iterator[OpenSource]:
    """Open the source's bytes, decompressed. Raises SourceError: here, or while it is read."""
    source = split.source
    with as_source_errors(source):
        if source.is_standard_input:
            hashing = Hashing(standard_input or sys.stdin.buffer)
            raw = io.BufferedReader(hashing, buffer_size=1 << 20)
            yield OpenSource(
                split, _as_utf8(source, _unpacked(source, raw), encoding), raw, hashing
            )
            return
        path = split.location
        state_before = state_of(path)
        # `content`: an ETag at an address, the time of change on this machine.
        size, content, *_ = state_before
        # What the listing did not say (0 or empty) is not compared.
        if source.bytes not in (0, size) or source.etag not in ("", content):
            raise SourceError(f"{source.shown} changed since it was listed", "run again")
        if is_remote(path):
            # In the blocks that readers ask for, so that a split fetches little more than itself.
            there = cast(Any, path).open("rb", block_size=8 << 20, cache_type="readahead")
            file: io.BufferedReader[Any] = io.BufferedReader(Fetched(there, source.bytes), 1 << 20)
        else:
            file = path.open("rb")
        with file:
            unpacked = _unpacked(source, file)
            # A compressed file whose name did not say so was divided into splits, but can only be
            # read from its start: the first split becomes the whole file, the others are empty.
            if unpacked is not file and split.first == 0:
                split = replace(split, stop=None)
            elif unpacked is not file:
                split = replace(split, first=source.bytes, stop=source.bytes)
            yield OpenSource(split, _as_utf8(source, unpacked, encoding), file)
            if state_before != state_of(path):
                raise SourceError(f"{source.shown} changed while it was being read", "run again")


@contextmanager
def as_source_errors(source: Source) -> Iterator[None]:
    """Turn what reading a source raises into a `SourceError`, but for mistakes in the code."""
    shown, is_local = source.shown, not is_remote(source.path)
    try:
        yield
    except BatchstatError:
        raise
    except FileNotFoundError:
        raise SourceError(f"{shown} no longer exists") from None
    except Exception as error:
        is_os_error = isinstance(error, OSError)
        # pyarrow raises an OSError for data that end early: only its words tell it from others.
        is_cut = is_os_error and any(words in str(error) for words in _CUT_SHORT)
        if is_cut or isinstance(error, EOFError):
            raise SourceError(f"{shown} is cut short: the compressed data ends early") from None
        # bz2 and pyarrow's zstd raise an OSError for damaged data, but without the number that one
        # of the operating system has. Errors of a remote file system may lack the number, too.
        is_damage = is_local and isinstance(error, OSError) and error.errno is None
        if is_damage or isinstance(error, DAMAGE):
            raise SourceError(f"{shown} is damaged: {error}") from None
        if is_local and not is_os_error:
            raise
        # A remote file system may raise anything.
        raise SourceError(f"{shown} cannot be read: {one_line(error)}") from None


def next_line(file: BinaryIO, at: int) -> int:
    """Return where the first line begins at or after byte `at`; else the end of the file."""
    # The byte before tells whether a line begins at `at`: then it is a line end.
    position = file.seek(max(at - 1, 0))
    while data := file.read(1 << 16):
        end = data.find(b"\n") + 1
        if end:
            return position + end
        position += len(data)
    return position


def count_lines_before(split: Split) -> int:
    """Return how many lines of a file begin before its split does; this reads the file up to it."""
    with split.location.open("rb") as file:
        lines = 1  # the one that begins at byte 0
        # A line end in the last byte before the split begins a line of the split.
        bytes_left = split.first - 1
        while bytes_left > 0 and (data := file.read(min(bytes_left, 1 << 20))):
            lines += data.count(b"\n")
            bytes_left -= len(data)
        return lines


@contextmanager
def seekable(opened: OpenSource) -> Iterator[BinaryIO]:
    """Yield the decompressed source as a file that can seek, as Parquet's readers need it: a
    temporary copy of what can only be read in sequence.
    """
    if opened.stream is opened.raw and opened.hashing is None:
        yield cast(BinaryIO, opened.raw)
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(opened.stream, unpacked, 1 << 20)
        unpacked.seek(0)
        yield cast(BinaryIO, unpacked)


def _unpacked(source: Source, raw: "io.BufferedReader[Any]") -> BinaryIO:
    """Return the decompressed bytes of a source; `raw` itself if it is not compressed."""
    unpacked = decompressed(raw)
    if unpacked is None and source.is_compressed_by_name:
        raise InputError(
            f"{source.path} has a compressed extension but is not compressed", "rename it"
        )
    stream = cast(BinaryIO, raw) if unpacked is None else unpacked
    head = cast(Any, stream).peek(_TAR_HEAD)
    if fault := fault_of_head(head):
        raise InputError(f"{source.shown} is {fault}")
    return stream


def _as_utf8(source: Source, stream: BinaryIO, encoding: str | None) -> BinaryIO:
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return stream
    return cast(BinaryIO, io.BufferedReader(Recoded(stream, encoding, source.shown), 1 << 20))


def fault_of_head(head: bytes) -> str:
    """Return what a file without data is by its first 262 bytes, and what to do; else empty."""
    if head.startswith(_LFS):
        return (
            "a Git LFS pointer, not the data: run git lfs pull, or check out with lfs: true on "
            "GitHub"
        )
    if _ANNEX(head):
        return "a git-annex pointer, not the data: run git annex get"
    # The magic of POSIX's tar, with which GNU's begins. Text may have the word there, but no NUL.
    if head[257:262] == b"ustar" and b"\0" in head[:257]:
        return f"a tar archive: {_UNPACK}"
    return next((words for magic, words in _MAGICS.items() if head.startswith(magic)), "")


def fault_of_text(head: bytes) -> str:
    """Return what is wrong with the start of a text file; empty if nothing is. Token ids of 16 or
    32 bits are control characters by a tenth or more; texts have hardly any.
    """
    controls = len(head) - len(head.translate(None, _CONTROLS))
    is_text = controls < _FEW or _MOST_CONTROLS * controls <= len(head)
    return "" if is_text else f"binary, not text: if it holds token ids, {_TOKENS}"
