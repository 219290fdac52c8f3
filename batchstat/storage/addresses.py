"""Locations of files, as paths: on this machine, or at an address such as s3://bucket/key."""

import glob
import hashlib
import hmac
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from batchstat.errors import BatchstatError, InputError, MissingError, OptionError, install_extra
from batchstat.hidden_secrets import has_cut_user, is_shortened
from batchstat.storage.machine import machine_secret
from batchstat.storage.shown import Address, as_shown, full_address, is_remote, one_line
from batchstat.words import short

_ETAGS = ("ETag", "etag", "blob_id", "md5Hash", "content_md5", "mtime", "created")
"""Keys under which file systems report something that changes with the content, best first."""

_CHAIN = "::"  # between the addresses of a chain of fsspec, as in zip://a.txt::s3://bucket/key
_ADDRESS_MARK = " address:"  # between the etag and the digest of the address in an `identity`
_WRAPPING_SCHEMES = {
    *("async_wrapper", "blockcache", "cached", "dir", "filecache", "generic", "libarchive"),
    *("reference", "simplecache", "tar", "zip"),
}
"""Schemes of fsspec that read another file system, or what is in its files."""
_MOST_BYTES = 1 << 47
"""Several times the largest object of any store; a size that is a lie makes work without end."""


def as_path(address: str | os.PathLike[str]) -> Path:
    """Return a path of this machine, or an object of upath, which as text is what may be shown.
    Raises OptionError: neither text nor a path; InputError: an address that is invalid, shortened,
    chained, or of no file system that is installed.
    """
    # A path stays as it is, also one that this function returned for an address.
    if hasattr(address, "open"):
        return cast(Path, address)
    if not isinstance(address, str) or not is_remote(address):
        if not isinstance(address, str | os.PathLike):
            raise OptionError(short(address), "must be a path or an address")
        on_disk = Path(address)
        # `s3:/bucket` lacks a slash. A folder may have such a name, too: then the path is meant.
        has_scheme = re.match(r"[A-Za-z][\w+.\-]+:/", str(address))
        if has_scheme and not Path(on_disk.parts[0]).exists():
            raise InputError(
                f"{address}: an address has :// after its scheme, as in s3://bucket/key"
            )
        return on_disk
    full, shown = full_address(address), as_shown(address)
    _check_address(full, shown)
    try:
        from upath import UPath

        from batchstat.storage.hidden_paths import HiddenPath

        # upath warns, with a line of its own source, about file systems that it knows nothing of.
        warnings.filterwarnings("ignore", message="UPath .* filesystem not explicitly implemented")
        # A `HiddenPath` shows itself without what may be secret.
        path: Any = UPath(full) if shown == full else HiddenPath(full)
        # upath makes the file system when it is first asked for, and raises only then.
        _ = path.fs
        return cast(Path, path)
    # upath, or the library for this scheme, is not installed.
    except ImportError:
        raise InputError(
            f"{shown} is an address, and the library that reads it is not installed",
            install_extra("remote"),
        ) from None
    except (TypeError, AttributeError):  # for arguments that a file system lacks
        raise InputError(
            f"{shown} cannot be reached: its file system needs settings that no address has",
            "copy the files, and pass where they are",
        ) from None
    except Exception as error:  # a file system may raise anything for an address or credentials
        raise InputError(f"{shown} cannot be reached: {one_line(error)}") from None


def _check_address(full: str, shown: str) -> None:
    """Raise InputError for an address that no file system would read as the user means it."""
    # The user copied it from a screen or a report, where … stands for a query.
    if is_shortened(full):
        raise InputError(
            f"{full} was shortened when it was shown or stored, which leaves out what may be a "
            "secret",
            "pass the whole address",
        )
    scheme = full.partition(":")[0].strip().lower()
    if scheme == "data":
        raise InputError(
            f"{scheme}://… is content, not a place", "write it to a file, and name that"
        )
    # zip://a.txt says which file in an archive is meant, but not which archive.
    if _CHAIN not in full and scheme in _WRAPPING_SCHEMES:
        raise InputError(
            f"{shown} does not name the file system that {scheme}:// reads",
            "decompress or copy the files, and pass where they are",
        )
    if _CHAIN in full:
        raise InputError(
            f"{shown} chains several addresses ({_CHAIN}), of which only some would be read",
            "decompress or copy the files, and pass where they are",
        )
    # Only of an address with a user or query, which is not shown. Such a character would end it too
    # early, so that the rest of a secret is shown, or the file system reads another address.
    if shown != full and (re.search(r"[\s'\"<>]", full) or has_cut_user(full)):
        raise InputError(
            f"{shown} contains a character that its user, password or query cannot",
            "write a space as %20, / as %2F, ? as %3F, # as %23",
        )


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return a path of this machine. Raise InputError for an address, where none is read."""
    if is_remote(path):
        raise InputError(f"{path} is an address", "download it, and name it on this machine")
    return Path(path)


@contextmanager
def as_os_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever the file system of an address raises into OSError, as on this machine."""
    try:
        yield
    except Exception as error:
        # Anything but an OSError about a path of this machine is a mistake in the code.
        if isinstance(error, OSError | BatchstatError) or not is_remote(path):
            raise
        raise OSError(one_line(error)) from None


def read_bytes(path: Path) -> bytes:
    """Return what is in a small file. Raise OSError."""
    with as_os_errors(path):
        return path.read_bytes()


def check_regular(path: Path) -> None:
    """Raise OSError for a folder, pipe or device, which cannot be read or never ends."""
    if not is_remote(path) and path.exists() and not path.is_file():
        raise OSError("it is not a regular file: move it away")


def unreadable(what: str, error: OSError, remedy: str = "") -> InputError:
    """Return the error for a file that cannot be read: a MissingError where there is none."""
    if isinstance(error, FileNotFoundError):
        return MissingError(f"no such file: {what}", remedy)
    return InputError(f"{what} cannot be read: {one_line(error)}", remedy)


def move(path: Path, target: Path) -> None:
    """Rename a file, replacing a file of the new name. Raise OSError."""
    if is_remote(path):
        remote = cast(Any, path)
        remote.fs.mv(remote.path, cast(Any, target).path)
    else:
        path.replace(target)


@contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, to be moved to `path`; else it is removed."""
    temporary = path.with_name(f".batchstat-{os.urandom(4).hex()}.tmp")
    try:
        yield temporary
    finally:
        with suppress(Exception):  # a remote file system may raise anything
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_beside(path) as temporary:
        temporary.write_bytes(content)
        move(temporary, path)


def try_writing(folder: Path) -> None:
    """Create a folder and, for a moment, a file in it. Raises whatever the file system does."""
    # fsspec takes such a name for a pattern where it moves a file into place.
    if is_remote(folder) and glob.has_magic(str(folder)):
        raise InputError(f"{folder} is a pattern: an address to write to cannot contain *, ? or [")
    folder.mkdir(parents=True, exist_ok=True)
    # Any name would do: the temporary file gets another one.
    with temporary_beside(folder / "probe") as probe:
        probe.write_bytes(b"")


def state_of(path: Path) -> tuple[object, ...]:
    """Return what changes with a file's content: size, then ETag or times. Raises OSError."""
    if is_remote(path):
        info = info_of(path)
        return size_in(info), etag_in(info)
    status = path.stat()
    # The inode tells a file from another one of the same size and times, moved to its path.
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def info_of(path: Path) -> dict[str, Any]:
    """Return what a remote file system now says of a file: its size, ETag, … Raises OSError."""
    remote = cast(Any, path)
    # A cached answer is useless: the question is whether the file has changed.
    with as_os_errors(path):
        remote.fs.invalidate_cache(remote.parent.path)
        return dict(remote.fs.info(remote.path))


def size_in(info: dict[str, Any]) -> int:
    """Return a file's bytes by its `info_of`; 0 if unknown. Raises OSError if impossible."""
    size = info.get("size") or 0
    if not (isinstance(size, int | float) and 0 <= size <= _MOST_BYTES):
        raise OSError(f"its storage says that its size is {short(size)} bytes")
    return int(size)


def etag_in(info: dict[str, Any]) -> str:
    """Return `etag:` and a value that changes with the content, by `info_of`; empty if none."""
    value = next((info[name] for name in _ETAGS if info.get(name)), None)
    # HTTP puts quotes (character 34) around an ETag, which some file systems leave there.
    return "" if value is None else f"etag:{str(value).strip(chr(34))}"


def identity(address: str, etag: str) -> str:
    """Return the etag of a file as it is stored. Addresses that differ in their query are stored
    alike, so a digest of the full address, keyed with this machine's secret, tells them apart.
    """
    # Any other address is stored completely.
    if not isinstance(address, Address) or not etag:
        return etag
    digest = hmac.new(machine_secret(), address.full.encode(), hashlib.sha256)
    return f"{etag}{_ADDRESS_MARK}{digest.hexdigest()}"


def etag_of_identity(identity: str) -> str:
    """Return the etag in an `identity`."""
    return identity.partition(_ADDRESS_MARK)[0]
