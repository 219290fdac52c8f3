"""Which files of a folder, or of a pattern, belong to a corpus."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import TypeVar

from batchstat.errors import InputError, named_part, short
from batchstat.storage.addresses import check_regular
from batchstat.storage.result_files import is_result
from batchstat.storage.sealed_records import parse

Found = TypeVar("Found", bound=PurePath)

COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst")

ENDINGS = {
    ".txt": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
}
"""Formats by the endings of names."""


def ending(path: PurePath) -> str:
    """Return the ending of a file's name in lower case, without that of a compressed one."""
    name = PurePath(named_part(path.as_posix()))
    suffixes = [suffix.lower() for suffix in name.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_ENDINGS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def once_each(found: list[Path]) -> list[Path]:
    """Return each file once, by its shortest path: `**` follows links, even back to where it is."""
    folders = {folder: folder.resolve() for folder in {each.parent for each in found}}
    by_depth = sorted(found, key=lambda each: len(each.parts), reverse=True)
    return list({(folders[each.parent], each.name): each for each in by_depth}.values())


def of_saved_dataset(folder: Path, shown: str) -> list[str]:
    """Return the names of the data files of a saved `datasets` Dataset; none if it is not one."""
    if (folder / "dataset_dict.json").exists():
        splits = sorted(each.name for each in folder.iterdir() if each.is_dir())
        raise InputError(f"{shown} has several splits: name one of them: {', '.join(splits)}")
    state = folder / "state.json"
    if not state.exists() or not (folder / "dataset_info.json").exists():
        return []
    try:
        # A pipe in its place would be waited for.
        check_regular(state)
        names = [file["filename"] for file in parse(state.read_bytes())["_data_files"]]
        for name in names:
            # What datasets writes is beside its state; another file would be read as text.
            if PurePath(name).name != name or ending(PurePath(name)) != ".arrow":
                raise ValueError(f"{short(name)} is not the name of an Arrow file in this folder")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{state.as_posix()} is not from a saved dataset: {error}") from None
    if not names:
        raise InputError(f"{shown} is a saved dataset without data files: name another corpus")
    return names


def data_files(
    found: Iterable[Found],
    shown: str,
    is_there: Callable[[PurePath], bool],
    on_warning: Callable[[str], object],
    *,
    is_pattern: bool,
) -> list[Found]:
    """Return the files of a folder, or of a pattern, that belong to a corpus, sorted."""
    files = sorted(path for path in found if not is_result(path, is_there))
    data = [path for path in files if is_pattern or ending(path) in ENDINGS]
    if not data:
        raise InputError(
            f"no files match {shown}"
            if is_pattern
            else f"no data files in {shown} (known: {', '.join(ENDINGS)})"
        )
    if len(data) < len(files):
        others = [path.name for path in files if ending(path) not in ENDINGS]
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        on_warning(
            f"skipped files in {shown} with unsupported extensions: {', '.join(others[:3])}{more} "
            "(name a file to read it)"
        )
    return data


def visible_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, except hidden ones. Raise OSError."""

    def fail(error: OSError) -> None:
        raise error

    for below, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(below, name) for name in files if not name.startswith("."))
