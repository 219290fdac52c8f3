"""Names of result files, and which of them belong to a profile that was replaced."""

import json
from collections.abc import Callable, Mapping
from itertools import chain
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
    """Return the path of a plot in the results folder."""
    return f"plots/{name}.{plot_format}"


WRITTEN_TOGETHER: Mapping[str, tuple[str, ...]] = {
    head: (
        head,
        *([PROFILE_FILE] if head == LENGTHS_FILE else []),
        *(plot_file(name, each) for name in names for each in PLOT_FORMATS),
    )
    for head, names in PLOTS.items()
}
"""By the main file of each command's results: it and those beside it; no other is ever removed."""


_SUBFOLDERS = {"plots": tuple(f".{each}" for each in PLOT_FORMATS), "splits": (".counts",)}
"""Subfolders of a results folder, and the endings of the files that batchstat writes there."""
_NAMES = {PROFILE_FILE, *PLOTS}  # files that batchstat writes in a results folder itself


def is_result(path: PurePath, is_there: Callable[[PurePath], bool]) -> bool:
    """Return whether batchstat wrote a file, by two files that only results have together."""
    in_subfolder = path.suffix in _SUBFOLDERS.get(path.parent.name, ())
    if not in_subfolder and path.name not in _NAMES:
        return False
    folder = path.parent.parent if in_subfolder else path.parent
    return is_there(folder / LENGTHS_FILE) and is_there(folder / PROFILE_FILE)


def profile_version(folder: Path) -> str:
    """Return a value that changes when a folder's profile is replaced; empty without one."""
    try:
        if not (folder / PROFILE_FILE).exists():
            return ""
        # Every new profile replaces the lengths.
        return str(state_of(folder / LENGTHS_FILE))
    except Exception:  # a remote file system may raise anything
        return ""


def outdated_files(folder: Path, files: Mapping[str, object]) -> set[str]:
    """Return the earlier results that go when `files` are written: those of the same command that
    it does not write again, or if the profile changes, those of all commands.
    """
    # None for a command that writes no profile, such as `compare`.
    new_profile = files.get(PROFILE_FILE)
    if isinstance(new_profile, bytes) and not _has_content(folder / PROFILE_FILE, new_profile):
        main_files = list(WRITTEN_TOGETHER)
    else:
        main_files = [name for name in WRITTEN_TOGETHER if name in files]
    return set(chain.from_iterable(WRITTEN_TOGETHER[name] for name in main_files)) - set(files)


def _has_content(path: Path, new: bytes) -> bool:
    """Return whether a JSON file has the same content as `new`, apart from its creation time."""
    try:
        before, after = json.loads(path.read_bytes()), json.loads(new)
        return bool({**before, "created": ""} == {**after, "created": ""})
    except Exception:  # missing, not JSON, not an object, or anything a remote file system raises
        return False
