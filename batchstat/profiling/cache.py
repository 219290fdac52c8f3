"""Cache of the counts of splits, keyed by everything that could change them.

Several processes on several machines may use a folder at once. An entry is written under a
temporary name and renamed, and begins with a digest of itself: a damaged entry is treated as
missing.
"""

import errno
import hashlib
import io
import os
import secrets
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from batchstat.errors import BatchstatError, InputError, SourceError, StorageFullError
from batchstat.profiling.parquet import read_counts, save_lengths
from batchstat.profiling.profile import Profile
from batchstat.storage.addresses import (
    as_os_errors,
    as_path,
    check_regular,
    move,
    read_bytes,
    temporary_beside,
    try_writing,
)
from batchstat.storage.sealed_records import decoded
from batchstat.storage.shown import as_shown, is_remote, one_line

MOST_BYTES = 1 << 30
"""Size limit of the cache folder; beyond it, the least recently used entries are evicted."""

TASK_ENDING = ".job"

_TRIES, _PAUSE_SECONDS = 3, 1.0

_ENDING = ".counts"


@dataclass(frozen=True)
class SplitFacts:
    """What is stored of a split beside its profile.

    Attributes:
        digests: SHA-256 of its bytes: see `batchstat.corpus.digests.content_digests`.
        label_seen: whether any record has the label; None if no record could be read.
        difference: why a shortcut of counting was found wrong and not used; empty if it was not.
    """

    digests: tuple[str, ...]
    label_seen: bool | None
    difference: str = ""


@dataclass(frozen=True)
class SplitCounts:
    """Counts of a split.

    Attributes:
        profile: profile of its samples, numbered from the split's first record.
        facts: what else is stored.
    """

    profile: Profile
    facts: SplitFacts

    @property
    def bytes(self) -> int:
        """Approximate memory that they take."""
        profile = self.profile
        size = profile.records.nbytes + profile.lengths.nbytes
        if profile.labels is not None:
            size += profile.labels.codes.nbytes + sum(map(sys.getsizeof, profile.labels.names))
            size += 0 if profile.labels.offsets is None else profile.labels.offsets.nbytes
        return size + sum(
            each.edges.nbytes + each.offsets.nbytes for each in profile.kinds.values()
        )


@dataclass(frozen=True)
class CountCache:
    """Folder with the counts of splits.

    Attributes:
        address: a path, or an address that all workers can reach.
        is_optional: whether the cache may be full or lose entries, so that counting goes on without
            it, and is kept below a limit.
    """

    address: str
    is_optional: bool = False

    @classmethod
    def at(cls, folder: str | os.PathLike[str]) -> "CountCache":
        """Return the cache in a folder, as an absolute path for all workers, or at an address."""
        written = os.fspath(folder) if isinstance(folder, str | Path) else str(folder)
        return cls(as_shown(written) if is_remote(written) else str(as_path(written).absolute()))

    @cached_property
    def folder(self) -> Path:
        """Path of the folder, which need not exist yet."""
        return as_path(self.address)

    def try_writing(self, remedy: str) -> None:
        """Raise InputError if nothing can be written to the folder."""
        try:
            try_writing(self.folder)
        except InputError:
            raise
        except Exception as error:  # a remote file system may raise anything
            reason = one_line(error)
            raise InputError(f"{self.address} cannot be written: {reason}; {remedy}") from None

    def get(self, key: str) -> SplitCounts | None:
        """Return the counts stored under a key; None if they are missing or damaged.

        Raises:
            InputError: an address that cannot be read after several attempts.
        """
        path = self.folder / f"{key}{_ENDING}"
        try:
            digest, _, content = self._read(path).partition(b"\n")
            # The digest covers the key, too: files may have been renamed.
            if digest != _digest(key, content):
                return None
            profile, more = read_counts(io.BytesIO(content), path)
            counts = SplitCounts(profile, decoded(SplitFacts, more))
        except SourceError:
            raise
        except (OSError, InputError, ValueError):
            return None
        with suppress(OSError):  # for example in a read-only folder
            if isinstance(path, Path):
                os.utime(path)  # eviction depends on the time of last use
        return counts

    def _read(self, path: Path) -> bytes:
        """Read a file, retrying at an address. Raise OSError if it does not exist."""
        for left in reversed(range(_TRIES)):
            try:
                check_regular(path)
                return read_bytes(path)
            except OSError as error:
                if isinstance(error, FileNotFoundError) or not is_remote(path):
                    raise
                reason = error
            if left:
                time.sleep(_PAUSE_SECONDS)
        raise SourceError(f"{self.address} cannot be read: {one_line(reason)}")

    def put(self, key: str, counts: SplitCounts) -> None:
        """Store the counts of a split. Raise OSError after several failed attempts."""
        sink = io.BytesIO()
        save_lengths(counts.profile, sink, asdict(counts.facts))
        content = sink.getvalue()
        for left in reversed(range(_TRIES)):
            try:
                self.write(f"{key}{_ENDING}", _digest(key, content) + b"\n" + content)
                return
            except OSError:
                if not left:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def write(self, name: str, content: bytes) -> None:
        """Write a file completely or not at all. Raise OSError on failure."""
        target = self.folder / name
        with as_os_errors(self.address):
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary_beside(target) as temporary:
                temporary.write_bytes(content)
                if not is_remote(target) and target.is_dir():
                    # Nothing can be renamed to a folder's name; it is moved aside, not deleted.
                    target.rename(target.with_name(f"{name}.{secrets.token_hex(4)}.aside"))
                move(temporary, target)

    def refusal(self, what: str, error: OSError) -> BatchstatError:
        """Return the error that says that something cannot be stored."""
        text = f"{what} cannot be stored in {self.address}: {one_line(error)}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFullError(
                text,
                "free some space there and run again, which counts what is missing, or name "
                "another folder with --count-cache",
            )
        return SourceError(f"{text}: name another folder with --count-cache")

    def remove(self, key: str) -> None:
        """Delete the counts of a split."""
        with suppress(OSError):
            (self.folder / f"{key}{_ENDING}").unlink(missing_ok=True)

    def make_room(self, most_bytes: int = MOST_BYTES) -> None:
        """Evict the least recently used entries, and what killed processes left unfinished."""
        entries = []
        try:
            for path in self.folder.iterdir():
                if path.name.endswith((_ENDING, TASK_ENDING, ".tmp")):
                    with suppress(OSError):  # another process may delete it in the meantime
                        state = path.stat()
                        entries.append((state.st_mtime_ns, state.st_size, path))
        except OSError:
            return
        excess = sum(size for _, size, _ in entries) - most_bytes
        for _, size, path in sorted(entries):
            if excess <= 0:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
                excess -= size


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).hexdigest().encode()
