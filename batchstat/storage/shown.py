"""What is shown of an address: never its user, query and fragment, which may be secrets."""

import os
import re
from pathlib import Path

from batchstat.hidden_secrets import LEFT_OUT, possible_secrets, shown_address, without_secrets

_QUERY = re.compile(r"(/[^\s?'\"]*\?)[^\s'\"]+")  # a path and ?, and the query after them
_LEAST_SECRET = 4
"""Characters of what is taken out of messages: a shorter text may be in any message by chance."""

_left_out: set[str] = set()
"""Parts of the addresses of this process that are not shown, but repeated by other libraries."""


class Address(str):
    """An address that may hold a secret: as text, in messages and JSON, it is what may be shown."""

    __slots__ = ("full", "number")

    full: str
    number: int

    def __new__(cls, full: str, number: int = 1) -> "Address":
        """Return the address `full`, which is shown with its number unless this is 1."""
        suffix = f" ({number})" if number > 1 else ""
        address = super().__new__(cls, shown_address(full) + suffix)
        address.full, address.number = full, number
        # `one_line` takes these out of the messages of other libraries.
        _left_out.update(
            secret for secret in possible_secrets(full) if len(secret) >= _LEAST_SECRET
        )
        return address

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (self.full, self.number)


def as_shown(address: str) -> str:
    """Return an address, or a path, as text that may be shown and stored."""
    if isinstance(address, Address) or not is_remote(address) or shown_address(address) == address:
        return address
    return Address(address)


def full_address(address: str) -> str:
    """Return the whole address, by which the file is read."""
    return address.full if isinstance(address, Address) else address


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether it is an address rather than a path of this machine."""
    return "://" in os.fspath(path) if isinstance(path, str) else not isinstance(path, Path)


def one_line(error: BaseException) -> str:
    """Return what an exception says in one line of at most 200 characters, without secrets."""
    # fsspec raises it without a message.
    if isinstance(error, NotImplementedError) and not str(error):
        return "its kind of storage does not support that"
    try:
        text = " ".join(str(getattr(error, "strerror", None) or error).split())
    except Exception:  # a foreign exception may fail even to describe itself
        text = ""
    text = text or type(error).__name__
    # Secrets in the addresses of this process: the longest first, as a short one may be part of it.
    for secret in sorted(_left_out, key=len, reverse=True):
        text = text.replace(secret, LEFT_OUT)
    # All other addresses in the message lose their user and query, too.
    text = _QUERY.sub(rf"\1{LEFT_OUT}", without_secrets(text))
    return text if len(text) <= 200 else f"{text[:200]}…"
