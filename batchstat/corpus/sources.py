"""The files of a corpus: which they are, what they hold, and their bytes after decompression."""

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from batchstat.errors import InputError, OptionError

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Source:
    """One file of a corpus.

    Attributes:
        path: as the user wrote it, with `/`.
        bytes: its size as it lies on disk.
        digest: SHA-256 of those bytes, in hexadecimal after `sha256:`.
    """

    path: str
    bytes: int
    digest: str


def find_sources(paths: Sequence[str | os.PathLike[str]]) -> tuple[Source, ...]:
    """The files named, in that order, each read once for its digest.

    Raises:
        OptionError: no file is named.
        InputError: a file is missing, is a folder, is empty or cannot be read.
    """
    if not paths:
        raise OptionError("no corpus: name at least one file")
    return tuple(_source(Path(path)) for path in paths)


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes. Raises OSError."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _source(path: Path) -> Source:
    shown = path.as_posix()
    if path.is_dir():
        raise InputError(f"{shown} is a folder: name the files in it")
    try:
        size = path.stat().st_size
        if size == 0:
            raise InputError(f"{shown} is empty: a corpus needs at least one sample")
        return Source(shown, size, digest_of(path))
    except FileNotFoundError:
        raise InputError(f"no such file: {shown}") from None
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class OpenSource:
    """A source being read.

    Attributes:
        path: how errors name it.
        stream: its bytes, decompressed.
        raw: the file itself, whose position says how far the reading has come.
    """

    path: str
    stream: BinaryIO
    raw: BinaryIO


@contextmanager
def open_source(source: Source) -> Iterator[OpenSource]:
    """The source's bytes, decompressed where its first bytes say that they are compressed.

    Raises:
        InputError: it cannot be read, is cut short, or is damaged: also while it is being read.
    """
    try:
        with Path(source.path).open("rb") as raw:
            compressed = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if compressed else raw
            yield OpenSource(source.path, stream, raw)
    except EOFError:
        raise InputError(f"{source.path} is cut short: the compressed data ends early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{source.path} is damaged: {error}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{source.path} cannot be read: {reason}") from None


def seekable(opened: OpenSource) -> BinaryIO:
    """The source for readers that jump about in it: decompressed into memory where need be."""
    return opened.raw if opened.stream is opened.raw else io.BytesIO(opened.stream.read())


def format_name(path: str) -> str:
    """The format that the file's name tells: `txt` for any ending that is none of ours."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    ending = suffixes[-1][1:] if suffixes else ""
    return ending if ending in ("csv", "tsv", "jsonl", "parquet") else "txt"
