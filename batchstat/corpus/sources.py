"""Find the files of a corpus, and their sizes and formats."""

import glob
import json
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from batchstat.errors import InputError, OptionError, SourceError
from batchstat.storage.addresses import as_path, etag_in, is_remote, one_line
from batchstat.storage.result_files import PLOT_FORMATS

STANDARD_INPUT = "-"
COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst")

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".txt": "txt",
}


@dataclass(frozen=True)
class Source:
    """One file of a corpus.

    Attributes:
        path: as the user wrote it, with `/`; `-` for standard input.
        bytes: its size on disk; 0 if unknown before reading.
        digest: for a local file, `batchstat.corpus.digests.digest_of` of it; for one at an address,
            `etag:` and a value of its storage that changes with the content, if there is one;
            empty before it is read.
        format: format it is read in.
    """

    path: str
    bytes: int
    digest: str
    format: str

    @property
    def shown(self) -> str:
        """Name in messages."""
        return "standard input" if self.path == STANDARD_INPUT else self.path

    def emptiness(self) -> InputError:
        """Return the error for a source without a single byte."""
        return InputError(f"{self.shown} is empty: a corpus needs at least one sample")


def find_sources(
    paths: Sequence[str | os.PathLike[str]],
    input_format: str | None = None,
    on_warning: Callable[[str], object] = warnings.warn,
    *,
    allow_empty: bool = False,
) -> tuple[Source, ...]:
    """Find the named files, in that order, without reading any.

    A path is a file, a folder (its data files, sorted, or those of a saved `datasets` Dataset), a
    glob pattern, or `-` for standard input; or an address of these, such as s3://bucket/*.jsonl.
    Other files in a folder are skipped with a warning, results of batchstat without one. An empty
    file is an error, here or where it is counted.

    Raises:
        OptionError: no file is named, a path is empty, or standard input appears twice.
        InputError: a file is missing, empty or unreadable; a folder or pattern without data files.
    """
    if not paths:
        raise OptionError("no corpus: name at least one file")
    if any(not os.fspath(path).strip() for path in paths):
        raise OptionError("a path of the corpus is empty: name a file, or . for this folder")
    if [os.fspath(path) for path in paths].count(STANDARD_INPUT) > 1:
        raise OptionError("standard input (-) can be read only once")
    found = [source for each in paths for source in _found(each, input_format, on_warning)]
    for source, is_empty in found:
        if is_empty and not allow_empty:
            raise source.emptiness()
    return tuple(source for source, _ in found)


def _found(
    given: str | os.PathLike[str],
    input_format: str | None,
    on_warning: Callable[[str], object],
) -> Iterator[tuple[Source, bool]]:
    """Yield each source, and whether it is known to be empty."""
    if is_remote(given):
        yield from _at_address(os.fspath(given), input_format, on_warning)
        return
    for path in _expand(given, on_warning):
        source = _source(path, input_format)
        yield source, source.bytes == 0 and source.path != STANDARD_INPUT


def _at_address(
    address: str, input_format: str | None, on_warning: Callable[[str], object]
) -> Iterator[tuple[Source, bool]]:
    """Yield the files at an address, listed once, with what the listing says of them."""
    as_path(address)
    from fsspec.core import url_to_fs

    try:
        storage, path = url_to_fs(address)
        storage.invalidate_cache()  # of earlier listings in this process
        is_pattern = _is_pattern(storage, path)
        if is_pattern:
            found = storage.glob(path, detail=True)
        elif storage.isdir(path):
            found = storage.find(path, detail=True)
        else:
            found = {path: storage.info(path)}
        files = {n: info for n, info in sorted(found.items()) if info.get("type") != "directory"}
        is_one = list(files) == [path]
        if not is_one:
            below = None if is_pattern else PurePosixPath(path)
            files = _data_files(files, storage, below, address, on_warning)
    except InputError:
        raise
    except FileNotFoundError:
        raise SourceError(f"no such file: {address}") from None
    except Exception as error:  # a remote file system may raise anything
        raise SourceError(f"{address} cannot be read: {one_line(error)}") from None
    for name, info in files.items():
        shown = address if is_one else storage.unstrip_protocol(name)
        size = info.get("size")
        kind = input_format or _ENDINGS.get(_ending(PurePosixPath(name)), "txt")
        yield Source(shown, int(size or 0), etag_in(info), kind), size == 0


def _is_pattern(storage: Any, path: str) -> bool:
    """Return whether a path is a pattern: not if it exists, as locally; `?` starts a web query."""
    if not glob.has_magic(path):
        return False
    if path.startswith(("http://", "https://")):
        return "?" not in path
    return not storage.exists(path)


def _data_files(
    found: dict[str, Any],
    storage: Any,
    folder: PurePosixPath | None,
    address: str,
    on_warning: Callable[[str], object],
) -> dict[str, Any]:
    """Return the data files of a folder, or of a pattern (folder None), as for a local one."""
    listed = {PurePosixPath(name) for name in found}
    listed |= {parent for each in listed for parent in each.parents}

    def is_there(wanted: PurePath) -> bool:
        return wanted in listed or (folder is None and bool(storage.exists(str(wanted))))

    kept: list[str] = []
    others: list[PurePosixPath] = []
    for name, info in found.items():
        each = PurePosixPath(name)
        below = each.parts[-1:] if folder is None else each.parts[len(folder.parts) :]
        is_marker = folder is not None and info.get("size") == 0 and not each.suffix  # of a folder
        is_hidden = any(part.startswith(".") for part in below)
        if is_hidden or is_marker or _is_result(each, is_there):
            continue
        if folder is None or _ending(each) in _ENDINGS:
            kept.append(name)
        else:
            others.append(each)
    _warn_of_left(address, others, on_warning)
    if not kept:
        raise InputError(f"no data files at {address} (known: {', '.join(_ENDINGS)})")
    return {name: found[name] for name in kept}


def _warn_of_left(
    shown: str, left: Sequence[PurePath], on_warning: Callable[[str], object]
) -> None:
    if left:
        on_warning(
            f"skipped files in {shown} with unsupported extensions: "
            f"{', '.join(path.name for path in left[:3])}"
            f"{f' and {len(left) - 3:,} more' if len(left) > 3 else ''} (name a file to read it)"
        )


def _expand(path: str | os.PathLike[str], on_warning: Callable[[str], object]) -> Iterator[Path]:
    try:
        yield from _expanded(Path(path), on_warning)
    except OSError as error:
        shown = Path(error.filename or path).as_posix()
        raise InputError(f"{shown} cannot be read: {error.strerror or error}") from None


def _expanded(path: Path, on_warning: Callable[[str], object]) -> Iterator[Path]:
    if path.is_dir():
        yield from _in_folder(path, on_warning)
    elif not path.exists() and glob.has_magic(str(path)):
        # Path.glob does not accept absolute patterns.
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207
        files = [each for each in found if each.is_file() and not _is_result(each, _is_there)]
        if not files:
            raise InputError(f"no files match {path.as_posix()}")
        yield from files
    else:
        yield path


def _in_folder(folder: Path, on_warning: Callable[[str], object]) -> Iterator[Path]:
    shown = folder.as_posix()
    if (folder / "dataset_dict.json").exists():
        splits = sorted(each.name for each in folder.iterdir() if each.is_dir())
        raise InputError(f"{shown} has several splits: name one of them: {', '.join(splits)}")
    state = folder / "state.json"
    if state.exists() and (folder / "dataset_info.json").exists():
        try:
            files = json.loads(state.read_text(encoding="utf-8"))["_data_files"]
            yield from (folder / file["filename"] for file in files)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise InputError(f"{state.as_posix()} is not from a saved dataset: {error}") from None
        return
    found = sorted(_visible(folder))
    files = [path for path in found if _ending(path) in _ENDINGS]
    if not files:
        raise InputError(f"no data files in {shown} (known: {', '.join(_ENDINGS)})")
    _warn_of_left(shown, [path for path in found if _ending(path) not in _ENDINGS], on_warning)
    yield from files


def _visible(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, except hidden ones. Raise OSError."""

    def fail(error: OSError) -> None:
        raise error

    for below, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (Path(below, name) for name in files if not name.startswith("."))
        yield from (path for path in paths if not _is_result(path, _is_there))


_RESULTS = {
    *("lengths.parquet", "profile.json", "compare.json", "balance.json", "buckets.json"),
    *("shard.json", "profile.log"),
}


_BELOW = {"plots": tuple(f".{each}" for each in PLOT_FORMATS), "splits": (".counts", ".job")}
"""Files that batchstat writes in subfolders of its results."""


def _is_result(path: PurePath, is_there: Callable[[PurePath], bool]) -> bool:
    """Return whether batchstat wrote the file, so that a folder can be profiled into itself."""
    below = path.suffix in _BELOW.get(path.parent.name, ())
    if not below and path.name not in _RESULTS:
        return False
    folder = path.parent.parent if below else path.parent
    pairs = ("shard.json", "splits"), ("lengths.parquet", "profile.json")
    return any(is_there(folder / one) and is_there(folder / other) for one, other in pairs)


def _is_there(path: PurePath) -> bool:
    return Path(path).exists()


def _source(path: Path, input_format: str | None) -> Source:
    shown = path.as_posix()
    kind = input_format or _ENDINGS.get(_ending(path), "txt")
    if shown == STANDARD_INPUT:
        return Source(shown, 0, "", kind)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{shown} is not a regular file: redirect it to batchstat profile -")
        if not os.access(path, os.R_OK):
            raise InputError(f"{shown} cannot be read: Permission denied")
        return Source(shown, status.st_size, "", kind)
    except FileNotFoundError:
        raise InputError(f"no such file: {shown}{_of_hub(path)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{shown} cannot be read: {reason}") from None


def _ending(path: PurePath) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_ENDINGS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _of_hub(path: Path) -> str:
    """Return what to do if a path that does not exist may be the name of a hub dataset."""
    name = path.as_posix()
    if path.suffix or len(path.parts) != 2 or path.is_absolute() or path.parent.exists():
        return ""
    return (
        f"; a dataset of the Hugging Face Hub is read from local files: run hf download "
        f"--repo-type dataset {name} --local-dir {path.name}, and name that folder"
    )
