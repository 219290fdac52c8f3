"""Open a source's bytes: decompressed by content, and hashed if they can be read only once."""

import hashlib
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from batchstat.corpus.compression import DAMAGE, InputStream, decompressed
from batchstat.corpus.sources import Source
from batchstat.corpus.splits import Split
from batchstat.errors import BatchstatError, InputError, SourceError
from batchstat.storage.addresses import state_of
from batchstat.storage.shown import is_remote, one_line

HEAD_BYTES = 1 << 20
"""Bytes at the start of a file, from which the columns of its other splits are determined."""
_BLOCK_BYTES = 8 << 20
_PROBE_BYTES = 1 << 16
_TAR_HEAD = 262
"""Bytes up to the end of the word that says so."""
_CUT_SHORT = ("Truncated compressed stream", "end-of-stream marker", "ended before")


class _Hashing(InputStream):
    """A stream that is hashed and counted as it is read."""

    def __init__(self, raw: "BinaryIO | Rereadable") -> None:
        self._raw, self.sha256, self.count = raw, hashlib.sha256(), 0

    def next_bytes(self, size: int) -> bytes:
        data = self._raw.read(size) or b""
        self.sha256.update(data)
        self.count += len(data)
        return data


class _Fetched(InputStream):
    """A file at an address, which may answer with less or more than it says that it has."""

    def __init__(self, raw: Any, size: int) -> None:
        self._raw, self._size = raw, size

    def seekable(self) -> bool:
        return bool(self._raw.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._raw.seek(offset, whence))

    def tell(self) -> int:
        return int(self._raw.tell())

    def next_bytes(self, size: int) -> bytes:
        data: bytes = self._raw.read(size)
        if not data and size and self.tell() < self._size:
            raise OSError(f"it ends before the {self._size:,} bytes that its storage says")
        return data

    def close(self) -> None:
        self._raw.close()
        super().close()


class Rereadable(InputStream):
    """A stream that can be read only once, copied to a temporary file so it can be read again.

    If there is no space for the copy, it is given up, and `rewind` raises an error.
    """

    def __init__(self, raw: BinaryIO) -> None:
        """`raw`: a stream of which nothing has been read."""
        self._raw, self._was_read, self._replays = raw, False, False
        self._copy: IO[bytes] | None = None
        with suppress(OSError):
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115

    def close(self) -> None:
        """Remove the copy; the stream itself stays open."""
        if self._copy is not None:
            self._copy.close()
        super().close()

    def rewind(self) -> None:
        """Go back to the start.

        Raises:
            InputError: the copy could not be made.
        """
        if not self._was_read:
            return
        if self._copy is not None:
            with suppress(OSError):
                self._copy.seek(0)
                self._replays = True
                return
        raise InputError(
            "standard input must be read again, but the folder for temporary files has no space "
            "for a copy of it: pass a file"
        )

    def next_bytes(self, size: int) -> bytes:  # noqa: D102
        self._was_read = True
        if self._replays and self._copy is not None:
            if data := self._copy.read(size):
                return data
            self._replays = False
        data = self._raw.read(size)
        if self._copy is not None:
            try:
                # Nothing is read from it meanwhile, which would write what is held back, and raise.
                self._copy.write(data)
            except OSError:  # no space: the reading itself goes on, and rewind raises
                self._copy = None
        return data


@dataclass(frozen=True)
class OpenSource:
    """A source being read, or a split of one.

    Attributes:
        split: split being read; all of a compressed source is in its first split.
        stream: the source's bytes, decompressed.
        raw: the bytes as they are on disk.
        hashing: stream that hashes standard input.
    """

    split: Split
    stream: BinaryIO
    raw: "io.BufferedReader[Any]"
    hashing: _Hashing | None = None

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
        return self.hashing.count if self.hashing else self.raw.tell() - self.split.first

    def head(self) -> "OpenSource":
        """Open the head of the file, for a split that begins later."""
        self.raw.seek(0)
        return replace(self, split=replace(self.split, first=0, stop=HEAD_BYTES))

    @cached_property
    def lines_before(self) -> Callable[[], int]:
        """Function that returns how many lines precede the split, reading the file at most once."""
        return cache(partial(lines_before, self.split)) if self.split.first else int

    def source(self, listed: Source) -> Source:
        """Return the source as it was read, once all of it is read."""
        if self.hashing is None:
            return listed
        # A reader may stop before the end, and the digest is of all bytes.
        self.raw.read()
        digest = f"sha256:{self.hashing.sha256.hexdigest()}"
        return Source(listed.path, self.hashing.count, digest, listed.format)


@contextmanager
def open_source(split: Split, standard_input: Rereadable | None = None) -> Iterator[OpenSource]:
    """Open the source's bytes, decompressed if its first bytes say that they are compressed.

    Standard input is read from `standard_input`, if given.

    Raises:
        SourceError: here, or while it is read: it cannot be read, is cut short, damaged or changes.
    """
    source = split.source
    with as_source_errors(source):
        if source.is_standard_input:
            hashing = _Hashing(standard_input or sys.stdin.buffer)
            raw = io.BufferedReader(hashing, buffer_size=1 << 20)
            yield OpenSource(split, _unpacked(source, raw), raw, hashing)
            return
        path = split.location
        before = state_of(path)
        size, content, *_ = before
        # At an address, the bytes read are those that were listed.
        if (source.bytes or size, source.etag or content) != (size, content):
            raise SourceError(f"{source.shown} changed since it was listed: run again")
        with _buffered(path, source) as file:
            unpacked = _unpacked(source, file)
            if unpacked is not file and not split.is_whole:
                # The first split then is the whole source.
                first, stop = (source.bytes, source.bytes) if split.first else (0, None)
                split = replace(split, first=first, stop=stop)
            yield OpenSource(split, unpacked, file)
            if before != state_of(path):
                raise SourceError(f"{source.shown} changed while it was being read: run again")


@contextmanager
def as_source_errors(source: Source) -> Iterator[None]:
    """Turn what is raised while a source is read into a `SourceError` that names it."""
    shown, is_here = source.shown, not is_remote(source.path)
    try:
        yield
    except BatchstatError:
        raise
    except FileNotFoundError:
        raise SourceError(f"{shown} no longer exists") from None
    except Exception as error:
        # pyarrow raises an OSError without a number, which its words tell apart.
        is_cut = isinstance(error, OSError) and any(words in str(error) for words in _CUT_SHORT)
        if is_cut or isinstance(error, EOFError):
            raise SourceError(f"{shown} is cut short: the compressed data ends early") from None
        # Damaged bz2 and zstd are an OSError without a number, too.
        no_number = isinstance(error, OSError) and error.errno is None and is_here
        if no_number or isinstance(error, DAMAGE):
            raise SourceError(f"{shown} is damaged: {error}") from None
        if is_here and not isinstance(error, OSError):
            raise
        # A remote file system may raise anything.
        raise SourceError(f"{shown} cannot be read: {one_line(error)}") from None


def line_end(file: BinaryIO, at: int) -> int:
    """Return where the line that holds the byte before `at` ends."""
    at = file.seek(max(at - 1, 0))
    while data := file.read(_PROBE_BYTES):
        end = data.find(b"\n") + 1
        if end:
            return at + end
        at += len(data)
    return at


def lines_before(split: Split) -> int:
    """Return how many lines of a file begin before its split does."""
    with split.location.open("rb") as file:
        lines, left = 0, split.first - 1
        while left > 0 and (data := file.read(min(left, 1 << 20))):
            lines += data.count(b"\n")
            left -= len(data)
        return lines + 1


def _buffered(path: Path, source: Source) -> "io.BufferedReader[Any]":
    if not is_remote(path):
        return path.open("rb")
    # Fetch in the blocks that readers ask for, so that a split fetches little more than itself.
    file = cast(Any, path).open("rb", block_size=_BLOCK_BYTES, cache_type="readahead")
    return io.BufferedReader(_Fetched(file, source.bytes), 1 << 20)


@contextmanager
def seekable(opened: OpenSource) -> Iterator[BinaryIO]:
    """Yield the source for readers that need to seek; in a temporary file if it is compressed, or
    hashed while it is read, which takes every byte once and in sequence.
    """
    if opened.stream is opened.raw and opened.hashing is None:
        yield cast(BinaryIO, opened.raw)
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(opened.stream, unpacked, 1 << 20)
        unpacked.seek(0)
        yield cast(BinaryIO, unpacked)


def _unpacked(source: Source, raw: "io.BufferedReader[Any]") -> BinaryIO:
    unpacked = decompressed(raw)
    if unpacked is None and source.is_compressed_by_name:
        raise InputError(
            f"{source.path} has a compressed extension but is not compressed: rename it"
        )
    stream = cast(BinaryIO, raw) if unpacked is None else unpacked
    head = stream.peek(_TAR_HEAD) if hasattr(stream, "peek") else b""
    # The magic of POSIX, and the beginning of GNU's; text may say ustar there, but holds no NUL.
    if head[257:262] == b"ustar" and b"\0" in head[:257]:
        raise InputError(f"{source.path} is a tar archive: unpack it, and pass the files in it")
    return stream
