"""Which files results have, and which of them are about a profile that is no longer there."""

import json
from collections.abc import Mapping
from pathlib import Path

from batchstat.storage.addresses import etag_of, is_remote

PROFILE_FILE = "profile.json"
LENGTHS_FILE = "lengths.parquet"

WRITTEN_TOGETHER: Mapping[str, tuple[str, ...]] = {
    LENGTHS_FILE: (
        PROFILE_FILE,
        "plots/lengths.png",
        "plots/classes.png",
        "plots/lengths_by_class.png",
    ),
    "compare.json": (
        "plots/padding.png",
        "plots/batch_lengths.png",
        "plots/read_ahead.png",
        "plots/ranks.png",
    ),
    "balance.json": ("plots/balance.png", "plots/coverage.png"),
    "buckets.json": ("plots/buckets.png",),
}
"""The file that each command's results begin with, and those that may stand beside it: all that
batchstat writes about a profile, and so all that it ever removes.
"""


def together(head: str) -> set[str]:
    """The file that a command's results begin with, and those that may stand beside it."""
    return {head, *WRITTEN_TOGETHER[head]}


def profile_version(folder: Path) -> str:
    """What changes whenever the profile in a folder is replaced; empty where it is not whole."""
    try:
        if not (folder / PROFILE_FILE).exists():
            return ""
        if is_remote(folder):
            return etag_of(folder / LENGTHS_FILE)
        found = (folder / LENGTHS_FILE).stat()
    except Exception:  # whatever a file system of an address raises
        return ""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def outdated(folder: Path, files: Mapping[str, object]) -> set[str]:
    """The known files in a folder that do not belong beside new `files`: those of an earlier run of
    the same command and, where the profile there becomes another, those of every command.
    """
    new = files.get(PROFILE_FILE)
    if isinstance(new, bytes) and not _says_the_same(folder / PROFILE_FILE, new):
        heads = set(WRITTEN_TOGETHER)
    else:
        heads = {head for head in WRITTEN_TOGETHER if head in files}
    return {name for head in heads for name in together(head)} - set(files)


def _says_the_same(path: Path, new: bytes) -> bool:
    """Whether a JSON file has the same content as `new`, but for when it was made."""
    try:
        before, after = json.loads(path.read_bytes()), json.loads(new)
        return bool({**before, "created": ""} == {**after, "created": ""})
    except Exception:  # no file, no JSON, no object, or whatever an address raises
        return False
