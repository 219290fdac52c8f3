"""What is shown of an address: never its user, query and fragment, which may be secrets."""

import os
import re
from pathlib import Path

from batchstat.errors import LEFT_OUT, left_out_of, shown_address, without_secrets

_QUERY = re.compile(r"(/[^\s?'\"]*\?)[^\s'\"]+")
_LEAST_SECRET = 4
"""Characters; fewer stand in any message."""

_left_out: set[str] = set()
"""What is not shown of the addresses of this process, and foreign exceptions may repeat."""


class Address(str):
    """An address that holds what is not shown: as text it is the shown one, whatever it goes to.

    Attributes:
        full: the address as it is read.
        number: 1, or which of several that are shown alike it is.
    """

    __slots__ = ("full", "number")

    full: str
    number: int

    def __new__(cls, full: str, number: int = 1) -> "Address":
        """Return the address `full`, shown with its number where that is not 1."""
        again = f" ({number})" if number > 1 else ""
        address = super().__new__(cls, shown_address(full) + again)
        address.full, address.number = full, number
        _left_out.update(each for each in left_out_of(full) if len(each) >= _LEAST_SECRET)
        return address

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (self.full, self.number)


def as_shown(address: str) -> str:
    """Return an address, or a path, as it may be shown and stored."""
    if isinstance(address, Address) or not is_remote(address) or shown_address(address) == address:
        return address
    return Address(address)


def full_address(address: str) -> str:
    """Return an address as it is read."""
    return address.full if isinstance(address, Address) else address


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether it is an address rather than a path of this machine."""
    return "://" in os.fspath(path) if isinstance(path, str) else not isinstance(path, Path)


def one_line(error: BaseException) -> str:
    """Return what an exception says, in short."""
    if isinstance(error, NotImplementedError) and not str(error):
        return "its kind of storage does not support that"
    try:
        text = " ".join(str(getattr(error, "strerror", None) or error).split())
    except Exception:  # a foreign exception may fail even to describe itself
        text = ""
    text = text or type(error).__name__
    for secret in sorted(_left_out, key=len, reverse=True):
        text = text.replace(secret, LEFT_OUT)
    text = _QUERY.sub(rf"\1{LEFT_OUT}", without_secrets(text))
    return text if len(text) <= 200 else f"{text[:200]}…"
