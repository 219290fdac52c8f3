"""Which files of a folder, or of a pattern, belong to a corpus."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import TypeVar

from batchstat.errors import InputError, MissingError
from batchstat.findings import Finding
from batchstat.hidden_secrets import named_part
from batchstat.storage.addresses import check_regular
from batchstat.storage.result_files import is_result
from batchstat.storage.sealed_records import parse
from batchstat.words import short

FilePath = TypeVar("FilePath", bound=PurePath)

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
    **dict.fromkeys((".conll", ".conllu", ".bio", ".iob", ".iob2"), "conll"),
}
"""Format of a file by the ending of its name."""


def ending(path: PurePath) -> str:
    """Return the ending of a file's name in lower case: `.jsonl` for `a.JSONL` and `a.jsonl.gz`."""
    name = PurePath(named_part(path.as_posix()))
    suffixes = [suffix.lower() for suffix in name.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_ENDINGS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def without_duplicates(paths: list[Path]) -> list[Path]:
    """Return each file once, by its shortest path: `**` follows links, and finds some again."""
    # Each folder is resolved once, however many files it has.
    real_folders = {folder: folder.resolve() for folder in {path.parent for path in paths}}
    path_of_file: dict[tuple[Path, str], Path] = {}
    # Longest first, so that a shorter path of the same file takes the place of a longer one.
    for path in sorted(paths, key=lambda path: len(path.parts), reverse=True):
        path_of_file[real_folders[path.parent], path.name] = path
    return list(path_of_file.values())


def saved_dataset_files(folder: Path, shown: str) -> list[str]:
    """Return the names of a saved Dataset's data files; none elsewhere. Raises InputError."""
    # A DatasetDict has a folder for each of its splits, such as train and test.
    if (folder / "dataset_dict.json").exists():
        splits = sorted(path.name for path in folder.iterdir() if path.is_dir())
        raise InputError(f"{shown} has several splits", f"name one of them: {', '.join(splits)}")
    state = folder / "state.json"
    if not state.exists() or not (folder / "dataset_info.json").exists():
        return []
    try:
        # Reading would wait forever if the name belonged to a pipe.
        check_regular(state)
        names = [file["filename"] for file in parse(state.read_bytes())["_data_files"]]
        for name in names:
            # datasets writes its files beside the state. Another, as /etc/passwd, would be read.
            if PurePath(name).name != name or ending(PurePath(name)) != ".arrow":
                raise ValueError(f"{short(name)} is not the name of an Arrow file in this folder")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{state.as_posix()} is not from a saved dataset: {error}") from None
    if not names:
        raise InputError(f"{shown} is a saved dataset without data files", "name another corpus")
    return names


def data_files(
    paths: Iterable[FilePath],
    shown: str,
    is_there: Callable[[PurePath], bool],
    on_warning: Callable[[Finding], object],
    *,
    is_pattern: bool,
) -> list[FilePath]:
    """Return the files of a corpus, sorted: no results, no unknown endings. Raises InputError."""
    files = sorted(path for path in paths if not is_result(path, is_there))
    corpus_files = [path for path in files if is_pattern or ending(path) in ENDINGS]
    if not files and is_pattern:
        raise MissingError(f"no files match {shown}")
    if not corpus_files:
        raise MissingError(f"no data files in {shown} (known: {', '.join(ENDINGS)})")
    if not is_pattern:
        _refuse_splits(shown, corpus_files)
    # Only of a folder: all files that match a pattern are wanted.
    if len(corpus_files) < len(files):
        skipped = [path.name for path in files if ending(path) not in ENDINGS]
        more = f" and {len(skipped) - 3:,} more" if len(skipped) > 3 else ""
        on_warning(
            Finding(
                "corpus/skipped-files",
                f"skipped files in {shown} with unsupported extensions: "
                f"{', '.join(skipped[:3])}{more} (name a file to read it)",
            )
        )
    return corpus_files


_SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
_SPLITS |= dict.fromkeys(("validation", "valid", "val", "dev", "eval"), "validation")
"""Splits of a data set by the words in names of their files, as the datasets library has them."""


def _refuse_splits(shown: str, files: Iterable[PurePath]) -> None:
    """Raise InputError for the splits of a data set: nobody trains on all of them together."""
    # The first file of each split, such as train, and where it is.
    folder, found = shown.rstrip("/"), dict[str, str]()
    for file in files:
        parent = file.parent.as_posix()
        # Names from a storage begin with its bucket, where the user's address has a scheme.
        place = parent if parent.startswith(folder) else folder
        names = {file.name.partition(".")[0]: f"{place}/{{}}*"}
        if place != folder:
            names[file.parent.name] = f"{file.parent.parent.as_posix()}/{{}}"
        for name, pattern in names.items():
            word = re.split(r"[-_.\d]", name, maxsplit=1)[0]
            if word.lower() in _SPLITS:
                found.setdefault(_SPLITS[word.lower()], pattern.format(word))
                break
    if "train" in found and len(found) > 1:
        raise InputError(
            f"{shown} has several splits", f"name one of them: {', '.join(found.values())}"
        )


def visible_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and below, except hidden ones. Raises OSError."""

    def fail(error: OSError) -> None:
        raise error

    # Without `onerror`, os.walk would silently skip a folder that it cannot read.
    for subfolder, folder_names, file_names in os.walk(folder, onerror=fail):
        # os.walk descends into the folders that are left in its list.
        folder_names[:] = [name for name in folder_names if not name.startswith(".")]
        yield from (Path(subfolder, name) for name in file_names if not name.startswith("."))
