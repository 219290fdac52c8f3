"""Where files lie: on this machine, or at an address such as s3://bucket/key.

Whatever goes with a `Path` goes with what `as_path` gives for an address too.
"""

import glob
import os
import re
from pathlib import Path
from typing import Any, cast

from batchstat.errors import InputError

_ETAGS = ("ETag", "etag", "blob_id", "md5Hash", "content_md5", "mtime", "created")
"""What file systems call that which changes with a file's content, the best first."""

_PASSWORD = re.compile(r"(://[^/@:\[]*):(?!\d*(?:/|$)).*@")


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether it is an address, and no path of this machine."""
    return "://" in os.fspath(path) if isinstance(path, str) else not isinstance(path, Path)


def as_path(address: str | os.PathLike[str]) -> Path:
    """A path of this machine, or the like of it for an address.

    Raises:
        InputError: an address whose kind nothing is installed for, that holds a password, or that
            is none.
    """
    if not isinstance(address, str) or not is_remote(address):
        return cast(Path, address) if hasattr(address, "open") else Path(address)
    shown = _PASSWORD.sub(r"\1:***@", address)
    if shown != address:
        raise InputError(
            f"{shown} holds a password, which results would show: leave "
            "it out, and give it in fsspec's configuration or its environment variables"
        )
    try:
        from upath import UPath

        path = UPath(address)
        _ = path.fs
    except ImportError:
        raise InputError(
            f"{address} is an address, and what reads it is not installed: run "
            "pip install 'batchstat[remote]'"
        ) from None
    except Exception as error:  # whatever a file system raises on its address or its credentials
        raise InputError(f"{address} cannot be reached: {one_line(error)}") from None
    return cast(Path, path)


def check_no_pattern(address: str | os.PathLike[str]) -> None:
    """Raises InputError: an address to write to that file systems would take for a pattern."""
    if is_remote(address) and glob.has_magic(str(address)):
        raise InputError(
            f"{address} is a pattern: what is written to cannot have *, ? or [ in its address"
        )


def move(path: Path, target: Path) -> None:
    """Gives a file another name, also one that another file has. Raises OSError."""
    if is_remote(path):
        remote = cast(Any, path)
        remote.fs.mv(remote.path, cast(Any, target).path)
    else:
        path.replace(target)


def etag_of(path: Path) -> str:
    """What changes with the content of a file at an address, after `etag:`; empty where nothing
    is known to.

    Raises:
        OSError: it cannot be asked.
    """
    return etag_in(info_of(path))


def info_of(path: Path) -> dict[str, Any]:
    """What a file system says of a file at an address, now.

    Raises:
        OSError: it cannot be asked.
    """
    remote = cast(Any, path)
    # What it said before is of no use: whether that has changed is the question.
    remote.fs.invalidate_cache(remote.parent.path)
    info: dict[str, Any] = remote.fs.info(remote.path)
    return info


def etag_in(info: dict[str, Any]) -> str:
    """The same from what a file system says of a file; empty where it says nothing of the kind."""
    found = next((info[name] for name in _ETAGS if info.get(name)), None)
    return "" if found is None else f"etag:{str(found).strip(chr(34))}"


def one_line(error: BaseException) -> str:
    """What an exception says, short."""
    if isinstance(error, NotImplementedError) and not str(error):
        return "its kind of storage does not do that"
    text = " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"
