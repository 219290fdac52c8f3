"""Limit on the samples of an epoch, so that a mistyped number does not exhaust the memory."""

import os

from batchstat.errors import InputError

_BYTES = 192  # memory per sample of an epoch: some two dozen numbers while it is planned


def check_room(what: str, samples: int, remedy: str) -> None:
    """Check that an epoch fits into memory.

    Raises:
        InputError: they do not fit into this machine's memory.
    """
    memory = _memory()
    if memory is not None and samples * _BYTES > memory:
        raise InputError(
            f"{what} {samples:,} samples per epoch, but at most {memory // _BYTES:,} fit into this "
            f"machine's {memory >> 20:,} MB of memory",
            remedy,
        )


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
