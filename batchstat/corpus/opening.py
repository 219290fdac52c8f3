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
"""Bytes that are fetched at once from an address."""
_PROBE_BYTES = 1 << 16
"""Bytes that are read at once to find the end of a line."""
_TAR_HEAD = 262
"""Bytes at the start of a tar archive up to the end of the word `ustar`, its magic."""
_CUT_SHORT = ("Truncated compressed stream", "end-of-stream marker", "ended before")
"""Words of the exceptions for compressed data that end early: of pyarrow, and of Python."""


class _Hashing(InputStream):
    """A stream that is hashed and counted as it is read.

    Attributes:
        sha256: hash of the bytes read so far.
        bytes_read: their number.
    """

    def __init__(self, raw: "BinaryIO | Rereadable") -> None:
        self._raw, self.sha256, self.bytes_read = raw, hashlib.sha256(), 0

    def next_bytes(self, size: int) -> bytes:
        data = self._raw.read(size) or b""
        self.sha256.update(data)
        self.bytes_read += len(data)
        return data


class _Fetched(InputStream):
    """A file at an address, whose end is an error if it comes before the listed size.

    A storage that answered with fewer bytes than it lists would lose samples without a word.
    """

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

    If there is no space for the copy, the copy is given up: the first reading goes on, and `rewind`
    raises an error.
    """

    def __init__(self, raw: BinaryIO) -> None:
        """`raw`: a stream of which nothing has been read."""
        self._raw, self._was_read, self._reads_copy = raw, False, False
        # None if there is no space for it, now or while it is written.
        self._copy: IO[bytes] | None = None
        with suppress(OSError):
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115

    def close(self) -> None:
        """Remove the copy; the stream itself stays open."""
        if self._copy is not None:
            self._copy.close()
        super().close()

    def rewind(self) -> None:
        """Go back to the start: what was read is read again from the copy, then the stream goes on.

        Raises:
            InputError: the copy could not be made.
        """
        if not self._was_read:
            return
        if self._copy is not None:
            # Before it seeks, the file writes what it has buffered, for which space may lack.
            with suppress(OSError):
                self._copy.seek(0)
                self._reads_copy = True
                return
        raise InputError(
            "standard input must be read again, but the folder for temporary files has no space "
            "for a copy of it: pass a file"
        )

    def next_bytes(self, size: int) -> bytes:
        """Return the next bytes, at most `size`.

        After `rewind`, they come from the copy until it ends; otherwise they come from the stream,
        and are added to the copy.
        """
        self._was_read = True
        if self._reads_copy and self._copy is not None:
            if data := self._copy.read(size):
                return data
            self._reads_copy = False  # the copy ends here, and the stream may go on
        data = self._raw.read(size)
        if self._copy is not None:
            try:
                # The copy is at its end here, so this appends.
                self._copy.write(data)
            except OSError:  # no space: the reading itself goes on, and rewind raises
                self._copy = None
        return data


@dataclass(frozen=True)
class OpenSource:
    """A source being read, or a split of one.

    Attributes:
        split: split being read; all of a compressed source is in its first split.
        stream: the source's bytes, decompressed; the same object as `raw` if not compressed.
        raw: the bytes as they are on disk.
        hashing: stream below `raw` that hashes standard input; None for files.
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
        return self.hashing.bytes_read if self.hashing else self.raw.tell() - self.split.first

    def head(self) -> "OpenSource":
        """Return the first `HEAD_BYTES` of the file as a split, in which a later split looks up the
        names of its columns. Both share the stream, which is now at the start of the file.
        """
        self.raw.seek(0)
        return replace(self, split=replace(self.split, first=0, stop=HEAD_BYTES))

    @cached_property
    def lines_before(self) -> Callable[[], int]:
        """Function that returns how many lines precede the split, reading the file at most once.

        For the first split it is `int`, which returns 0.
        """
        return cache(partial(count_lines_before, self.split)) if self.split.first else int

    def source(self, listed: Source) -> Source:
        """Return the source with its size and digest, after all samples are read.

        Those of a file were listed before; those of standard input are known only now.
        """
        if self.hashing is None:
            return listed
        # A reader may stop before the end, and the digest is of all bytes.
        self.raw.read()
        digest = f"sha256:{self.hashing.sha256.hexdigest()}"
        return Source(listed.path, self.hashing.bytes_read, digest, listed.format)


@contextmanager
def open_source(split: Split, standard_input: Rereadable | None = None) -> Iterator[OpenSource]:
    """Open the source's bytes, decompressed if its first bytes say that they are compressed.

    Args:
        split: the source, or the part of it that is read.
        standard_input: what is read if the source is standard input; by default Python's.

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
        state_before = state_of(path)
        # `content`: an ETag at an address, the time of change on this machine.
        size, content, *_ = state_before
        # What the listing did not say (0 or empty) is not compared.
        if source.bytes not in (0, size) or source.etag not in ("", content):
            raise SourceError(f"{source.shown} changed since it was listed: run again")
        with _buffered(path, source) as file:
            unpacked = _unpacked(source, file)
            # A compressed file whose name did not say so was divided into splits, but can only be
            # read from its start: the first split becomes the whole file, the others are empty.
            if unpacked is not file and split.first == 0:
                split = replace(split, stop=None)
            elif unpacked is not file:
                split = replace(split, first=source.bytes, stop=source.bytes)
            yield OpenSource(split, unpacked, file)
            if state_before != state_of(path):
                raise SourceError(f"{source.shown} changed while it was being read: run again")


@contextmanager
def as_source_errors(source: Source) -> Iterator[None]:
    """Turn what is raised while a source is read into a `SourceError` that names the source.

    A mistake in the code stays as it is, so that its traceback is seen.
    """
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
    """Return where the first line begins that does not begin before byte `at` of a file.

    This is `at` itself if a line begins there, and the end of the file if no line begins after it.
    """
    # The byte before tells whether a line begins at `at`: then it is a line end.
    position = file.seek(max(at - 1, 0))
    while data := file.read(_PROBE_BYTES):
        end = data.find(b"\n") + 1
        if end:
            return position + end
        position += len(data)
    return position


def count_lines_before(split: Split) -> int:
    """Return how many lines of a file begin before its split does; this reads the file up to it."""
    with split.location.open("rb") as file:
        lines = 1  # the one that begins at byte 0
        # A line end begins another line; one in the last byte before the split begins a line of
        # the split.
        bytes_left = split.first - 1
        while bytes_left > 0 and (data := file.read(min(bytes_left, 1 << 20))):
            lines += data.count(b"\n")
            bytes_left -= len(data)
        return lines


def _buffered(path: Path, source: Source) -> "io.BufferedReader[Any]":
    """Open the bytes of a file as they are on disk, or at an address."""
    if not is_remote(path):
        return path.open("rb")
    # Fetch in the blocks that readers ask for, so that a split fetches little more than itself.
    file = cast(Any, path).open("rb", block_size=_BLOCK_BYTES, cache_type="readahead")
    return io.BufferedReader(_Fetched(file, source.bytes), 1 << 20)


@contextmanager
def seekable(opened: OpenSource) -> Iterator[BinaryIO]:
    """Yield the decompressed source as a file that can seek, as readers of Parquet need it.

    Compressed data and standard input, which is hashed as it is read, can only be read in sequence:
    they are copied to a temporary file.
    """
    if opened.stream is opened.raw and opened.hashing is None:
        yield cast(BinaryIO, opened.raw)
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(opened.stream, unpacked, 1 << 20)
        unpacked.seek(0)
        yield cast(BinaryIO, unpacked)


def _unpacked(source: Source, raw: "io.BufferedReader[Any]") -> BinaryIO:
    """Return the decompressed bytes of a source; `raw` itself if it is not compressed.

    Raises:
        InputError: its name says that it is compressed, but it is not; or it is a tar archive.
    """
    unpacked = decompressed(raw)
    if unpacked is None and source.is_compressed_by_name:
        raise InputError(
            f"{source.path} has a compressed extension but is not compressed: rename it"
        )
    stream = cast(BinaryIO, raw) if unpacked is None else unpacked
    head = stream.peek(_TAR_HEAD) if hasattr(stream, "peek") else b""
    # The magic of POSIX's tar, with which GNU's begins. Text may have the word there, but no NUL.
    if head[257:262] == b"ustar" and b"\0" in head[:257]:
        raise InputError(f"{source.path} is a tar archive: unpack it, and pass the files in it")
    return stream
