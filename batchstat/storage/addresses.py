"""Locations of files: on this machine, or at an address such as s3://bucket/key.

Whatever works with a `Path` also works with what `as_path` returns for an address.
"""

import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from batchstat.errors import InputError, install_extra

_ETAGS = ("ETag", "etag", "blob_id", "md5Hash", "content_md5", "mtime", "created")
"""Keys under which file systems report something that changes with the content, best first."""

_PASSWORD = re.compile(r"(://[^/@:\[]*):(?!\d*(?:/|$)).*@")
_CREDENTIAL = re.compile(
    r"([?&](?:sig|[^=&#\s]*(?:token|signature|secret|passw|credential|api.?key|access.?key|auth)"
    r"[^=&#\s]*)=)[^&#\s'\"]+",
    re.IGNORECASE,
)
"""A credential in the query of an address, for example of one that was signed beforehand."""
_CHAIN = "::"


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether it is an address rather than a path of this machine."""
    return "://" in os.fspath(path) if isinstance(path, str) else not isinstance(path, Path)


def as_path(address: str | os.PathLike[str]) -> Path:
    """Return a path of this machine, or its equivalent for an address.

    Raises:
        InputError: an address that is invalid, for which no file system is installed, that contains
            a password or a credential, or that chains several.
    """
    if not isinstance(address, str) or not is_remote(address):
        return cast(Path, address) if hasattr(address, "open") else Path(address)
    shown = _PASSWORD.sub(r"\1:***@", address)
    if shown != address:
        raise InputError(
            f"{shown} contains a password, which results would show: remove "
            "it, and set it in fsspec's configuration or environment variables"
        )
    shown = _CREDENTIAL.sub(r"\1***", address)
    if shown != address:
        raise InputError(
            f"{shown} contains a credential, which results would show: download the file, or read "
            "it from standard input, as in curl ... | batchstat profile -"
        )
    if _CHAIN in address:
        raise InputError(
            f"{address} chains several addresses ({_CHAIN}), of which only some would be read: "
            "decompress or copy the files, and pass where they are"
        )
    try:
        from upath import UPath

        path = UPath(address)
        _ = path.fs
    except ImportError:
        raise InputError(
            f"{address} is an address, and the library that reads it is not installed: "
            f"{install_extra('remote')}"
        ) from None
    except Exception as error:  # a file system may raise anything for an address or credentials
        raise InputError(f"{address} cannot be reached: {one_line(error)}") from None
    return cast(Path, path)


def check_no_pattern(address: str | os.PathLike[str]) -> None:
    """Raise InputError for an address to write to that file systems would take for a pattern."""
    if is_remote(address) and glob.has_magic(str(address)):
        raise InputError(f"{address} is a pattern: an address to write to cannot contain *, ? or [")


def check_regular(path: Path) -> None:
    """Raise OSError for a folder, pipe or device, which cannot be read or never ends."""
    if not is_remote(path) and path.exists() and not path.is_file():
        raise OSError("it is not a regular file: move it away")


def move(path: Path, target: Path) -> None:
    """Rename a file, replacing a file of the new name. Raise OSError."""
    if is_remote(path):
        remote = cast(Any, path)
        remote.fs.mv(remote.path, cast(Any, target).path)
    else:
        path.replace(target)


@contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """Yield a path beside another, to write to before moving; what is left there is removed."""
    temporary = path.with_name(f".batchstat-{os.urandom(4).hex()}.tmp")
    try:
        yield temporary
    finally:
        with suppress(Exception):  # a remote file system may raise anything
            temporary.unlink(missing_ok=True)


def try_writing(folder: Path) -> None:
    """Create a folder and a file in it, which is removed. Raise whatever its file system raises."""
    check_no_pattern(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_beside(folder / "probe") as probe:
        probe.write_bytes(b"")


def etag_of(path: Path) -> str:
    """Return `etag:` and a value that changes with the content of a remote file; empty if unknown.

    Raises:
        OSError: the file system cannot be asked.
    """
    return etag_in(info_of(path))


def info_of(path: Path) -> dict[str, Any]:
    """Return what a file system currently says of a remote file.

    Raises:
        OSError: the file system cannot be asked.
    """
    remote = cast(Any, path)
    # A cached answer is useless: the question is whether it has changed.
    remote.fs.invalidate_cache(remote.parent.path)
    info: dict[str, Any] = remote.fs.info(remote.path)
    return info


def etag_in(info: dict[str, Any]) -> str:
    """Return the same from a file system's description of a file; empty if it has none."""
    value = next((info[name] for name in _ETAGS if info.get(name)), None)
    return "" if value is None else f"etag:{str(value).strip(chr(34))}"


def one_line(error: BaseException) -> str:
    """Return what an exception says, in short."""
    if isinstance(error, NotImplementedError) and not str(error):
        return "its kind of storage does not support that"
    try:
        text = " ".join(str(getattr(error, "strerror", None) or error).split())
    except Exception:  # a foreign exception may fail even to describe itself
        text = ""
    text = text or type(error).__name__
    text = _CREDENTIAL.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text))
    return text if len(text) <= 200 else f"{text[:200]}…"
