"""Cache of the counts of splits, by all that could change them; several processes may use it."""

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
    read_bytes,
    try_writing,
    write_whole,
)
from batchstat.storage.machine import BASE_ENDING
from batchstat.storage.sealed_records import decoded
from batchstat.storage.shown import as_shown, is_remote, one_line
from batchstat.tokenization.loading.remembered import ENDING as OF_TOKENIZERS

MOST_BYTES = 1 << 30  # of the cache folder; beyond it, the least recently used entries are evicted

_TRIES, _PAUSE_SECONDS = 3, 1.0
"""Attempts at an entry, and the pause between them: storage over a network fails now and then."""

_ENDING = ".counts"


@dataclass(frozen=True)
class SplitFacts:
    """What is stored of a split beside its profile."""

    digests: tuple[str, ...]
    label_seen: bool | None  # whether any record has the label; None if no record could be read
    difference: str = ""  # why a shortcut of counting was found wrong and not used


@dataclass(frozen=True)
class SplitCounts:
    """Counts of a split."""

    profile: Profile
    facts: SplitFacts

    @property
    def bytes(self) -> int:
        """Approximate memory that the arrays of the profile take."""
        profile = self.profile
        size = profile.records.nbytes + profile.lengths.nbytes
        if profile.labels is not None:
            size += profile.labels.codes.nbytes + sum(map(sys.getsizeof, profile.labels.names))
            # There are offsets only where a sample may have several labels.
            size += 0 if profile.labels.offsets is None else profile.labels.offsets.nbytes
        return size + sum(
            ranges.edges.nbytes + ranges.offsets.nbytes for ranges in profile.kinds.values()
        )


@dataclass(frozen=True)
class CountCache:
    """Folder with the counts of splits."""

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
        """Raise InputError, which ends with `remedy`, if nothing can be written to the folder."""
        try:
            try_writing(self.folder)
        except InputError:
            raise
        except Exception as error:  # a remote file system may raise anything
            reason = one_line(error)
            raise InputError(f"{self.address} cannot be written: {reason}", remedy) from None

    def get(self, key: str) -> SplitCounts | None:
        """Return the counts of a key; None if missing or damaged. Raises SourceError."""
        path = self.folder / f"{key}{_ENDING}"
        try:
            # The first line of an entry is a digest of the rest.
            digest, _, content = self._read(path).partition(b"\n")
            # The digest covers the key, too: files may have been renamed.
            if digest != _digest(key, content):
                return None
            profile, facts = read_counts(io.BytesIO(content), path)
            counts = SplitCounts(profile, decoded(SplitFacts, facts))
        # An address that fails again and again ends the run; it is an InputError, too.
        except SourceError:
            raise
        # No such file, or damaged content: the split is counted again.
        except (OSError, InputError, ValueError):
            return None
        # The time of last use, for eviction: a read-only folder raises, a remote path has none.
        with suppress(OSError):
            if isinstance(path, Path):
                os.utime(path)
        return counts

    def _read(self, path: Path) -> bytes:
        """Read a file, at an address in several attempts. Raises OSError, or SourceError there."""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            try:
                check_regular(path)
                return read_bytes(path)
            except OSError as error:
                # Another attempt only helps against a network that fails for a moment.
                if isinstance(error, FileNotFoundError) or not is_remote(path):
                    raise
                reason = one_line(error)
        raise SourceError(f"{self.address} cannot be read: {reason}")

    def put(self, key: str, counts: SplitCounts) -> None:
        """Store the counts of a split. Raise OSError after several failed attempts."""
        sink = io.BytesIO()
        save_lengths(counts.profile, sink, asdict(counts.facts))
        content = sink.getvalue()
        for tries_left in reversed(range(_TRIES)):
            try:
                self.write(f"{key}{_ENDING}", _digest(key, content) + b"\n" + content)
                return
            except OSError:
                if not tries_left:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def write(self, name: str, content: bytes) -> None:
        """Write a file completely or not at all. Raise OSError on failure."""
        target = self.folder / name
        with as_os_errors(self.address):
            if not is_remote(target) and target.is_dir():
                # Nothing can be renamed to a folder's name; it is moved aside, not deleted.
                target.rename(target.with_name(f"{name}.{secrets.token_hex(4)}.aside"))
            write_whole(target, content)

    def refusal(self, what: str, error: OSError) -> BatchstatError:
        """Return the error that says that `what` cannot be stored, and why."""
        text = f"{what} cannot be stored in {self.address}: {one_line(error)}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFullError(
                text,
                "free some space there and run again, which counts what is missing, or name "
                "another folder with --count-cache",
            )
        return SourceError(text, "name another folder with --count-cache")

    def remove(self, key: str) -> None:
        """Delete the counts of a split."""
        with suppress(OSError):
            (self.folder / f"{key}{_ENDING}").unlink(missing_ok=True)

    def make_room(self, most_bytes: int = MOST_BYTES) -> None:
        """Evict the least recently used files of the cache until the rest fits `most_bytes`."""
        entries = []
        try:
            for path in self.folder.iterdir():
                # Processes that were killed leave temporary files.
                if path.name.endswith((_ENDING, OF_TOKENIZERS, BASE_ENDING, ".tmp")):
                    with suppress(OSError):  # another process may delete it in the meantime
                        state = path.stat()
                        entries.append((state.st_mtime_ns, state.st_size, path))
        except OSError:  # there is no such folder: nothing was stored
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
