"""Names of result files, and which of them belong to a profile that was replaced."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

from batchstat.storage.addresses import state_of

PROFILE_FILE = "profile.json"
LENGTHS_FILE = "lengths.parquet"
COMPARE_FILE = "compare.json"
PREFLIGHT_FILE = "preflight.json"

PLOT_FORMATS: Mapping[str, str] = {
    "png": "pixels, for screens and chats",
    "svg": "vectors, for web pages",
    "pdf": "vectors, for papers",
}
"""The file formats of plots."""

PLOTS: Mapping[str, tuple[str, ...]] = {
    LENGTHS_FILE: ("lengths", "lengths_by_class"),
    COMPARE_FILE: ("padding", "batches", "tradeoff", "read_ahead", "ranks"),
    "balance.json": ("balance", "coverage"),
    "buckets.json": ("buckets",),
    PREFLIGHT_FILE: (),
}
"""The plots that may accompany the main file of each command's results."""


def plot_file(name: str, plot_format: str) -> str:
    """Return where a plot is in the results folder."""
    return f"plots/{name}.{plot_format}"


WRITTEN_TOGETHER: Mapping[str, tuple[str, ...]] = {
    head: (
        head,
        *([PROFILE_FILE] if head == LENGTHS_FILE else []),
        *(plot_file(name, each) for name in names for each in PLOT_FORMATS),
    )
    for head, names in PLOTS.items()
}
"""By the main file of each command's results: that file, and those that may accompany it.

It is everything that batchstat writes about a profile, and so everything that it ever removes.
"""


_BELOW = {"plots": tuple(f".{each}" for each in PLOT_FORMATS), "splits": (".counts", ".job")}
"""Files that batchstat writes in subfolders of its results."""
_NAMES = {PROFILE_FILE, *PLOTS, "shard.json", "profile.log"}


def is_result(path: PurePath, is_there: Callable[[PurePath], bool]) -> bool:
    """Return whether batchstat wrote the file, so that a folder can be profiled into itself."""
    below = path.suffix in _BELOW.get(path.parent.name, ())
    if not below and path.name not in _NAMES:
        return False
    folder = path.parent.parent if below else path.parent
    pairs = ("shard.json", "splits"), (LENGTHS_FILE, PROFILE_FILE)
    return any(is_there(folder / one) and is_there(folder / other) for one, other in pairs)


def profile_version(folder: Path) -> str:
    """Return a value that changes when a folder's profile is replaced; empty if incomplete."""
    try:
        if not (folder / PROFILE_FILE).exists():
            return ""
        return str(state_of(folder / LENGTHS_FILE))
    except Exception:  # a remote file system may raise anything
        return ""


def outdated(folder: Path, files: Mapping[str, object]) -> set[str]:
    """Return the known files in a folder that do not belong beside new `files`.

    These are the files of an earlier run of the same command and, if the profile there is replaced,
    those of every command.
    """
    new = files.get(PROFILE_FILE)
    if isinstance(new, bytes) and not _says_the_same(folder / PROFILE_FILE, new):
        heads = list(WRITTEN_TOGETHER)
    else:
        heads = [head for head in WRITTEN_TOGETHER if head in files]
    return {name for head in heads for name in WRITTEN_TOGETHER[head]} - set(files)


def _says_the_same(path: Path, new: bytes) -> bool:
    """Return whether a JSON file has the same content as `new`, apart from its creation time."""
    try:
        before, after = json.loads(path.read_bytes()), json.loads(new)
        return bool({**before, "created": ""} == {**after, "created": ""})
    except Exception:  # missing, not JSON, not an object, or anything a remote file system raises
        return False
