"""How many samples an epoch may visit: what a mistyped number asks for does not fill a machine."""

import os

from batchstat.errors import InputError

_BYTES = 192
"""Of memory for each visit: some two dozen numbers while it is made, planned and dealt."""


def check_room(what: str, visits: int, remedy: str) -> None:
    """Check that an epoch can be held.

    Args:
        what: asks for them, with its verb: `balance draws`.
        visits: how many.
        remedy: what asks for fewer.

    Raises:
        InputError: they do not fit into the memory of this machine.
    """
    memory = _memory()
    if memory is not None and visits * _BYTES > memory:
        raise InputError(
            f"{what} {visits:,} samples per epoch, and the {memory >> 20:,} MB of memory of this "
            f"machine are enough for {memory // _BYTES:,}: {remedy}"
        )


def _memory() -> int | None:
    """Bytes of memory of this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
