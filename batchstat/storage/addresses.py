"""Where files lie: on this machine, or at an address such as s3://bucket/key.

Whatever goes with a `Path` goes with what `as_path` gives for an address too.
"""

import glob
import os
import re
from pathlib import Path
from typing import Any, cast

from batchstat.errors import InputError, install_extra

_ETAGS = ("ETag", "etag", "blob_id", "md5Hash", "content_md5", "mtime", "created")
"""What file systems call that which changes with a file's content, the best first."""

_PASSWORD = re.compile(r"(://[^/@:\[]*):(?!\d*(?:/|$)).*@")
_CREDENTIAL = re.compile(
    r"([?&](?:sig|[^=&#\s]*(?:token|signature|secret|passw|credential|api.?key|access.?key|auth)"
    r"[^=&#\s]*)=)[^&#\s'\"]+",
    re.IGNORECASE,
)
"""In the query of an address, as of one that is signed beforehand."""
_CHAIN = "::"


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether it is an address, and no path of this machine."""
    return "://" in os.fspath(path) if isinstance(path, str) else not isinstance(path, Path)


def as_path(address: str | os.PathLike[str]) -> Path:
    """A path of this machine, or the like of it for an address.

    Raises:
        InputError: an address whose kind nothing is installed for, that holds a password or a
            credential, that is a chain of several, or that is none.
    """
    if not isinstance(address, str) or not is_remote(address):
        return cast(Path, address) if hasattr(address, "open") else Path(address)
    shown = _PASSWORD.sub(r"\1:***@", address)
    if shown != address:
        raise InputError(
            f"{shown} holds a password, which results would show: leave "
            "it out, and give it in fsspec's configuration or its environment variables"
        )
    shown = _CREDENTIAL.sub(r"\1***", address)
    if shown != address:
        raise InputError(
            f"{shown} holds a credential, which results would show: download the file, or read it "
            "from standard input, as in curl ... | batchstat profile -"
        )
    if _CHAIN in address:
        raise InputError(
            f"{address} is a chain of addresses ({_CHAIN}), of which only some would be read: "
            "unpack or copy the files, and name where they are"
        )
    try:
        from upath import UPath

        path = UPath(address)
        _ = path.fs
    except ImportError:
        raise InputError(
            f"{address} is an address, and what reads it is not installed: "
            f"{install_extra('remote')}"
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


def check_regular(path: Path) -> None:
    """Raises OSError: a folder, pipe or device, of which reading has no answer or no end."""
    if not is_remote(path) and path.exists() and not path.is_file():
        raise OSError("it is not a regular file: move it away")


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
    try:
        text = " ".join(str(getattr(error, "strerror", None) or error).split())
    except Exception:  # one from elsewhere may not even say what it is
        text = ""
    text = text or type(error).__name__
    text = _CREDENTIAL.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text))
    return text if len(text) <= 200 else f"{text[:200]}…"
