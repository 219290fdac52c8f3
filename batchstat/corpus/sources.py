"""Find the files of a corpus, and their sizes and formats."""

import glob
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any

from batchstat.corpus.data_files import (
    COMPRESSED_ENDINGS,
    ENDINGS,
    data_files,
    ending,
    saved_dataset_files,
    visible_files,
    without_duplicates,
)
from batchstat.errors import LEFT_OUT, InputError, OptionError, SourceError, named_part, short
from batchstat.parameters import described
from batchstat.records import Count, Record, allowed, among, told
from batchstat.storage.addresses import as_path, etag_in, etag_of_identity, identity, size_in
from batchstat.storage.shown import Address, as_shown, full_address, is_remote, one_line

STANDARD_INPUT = "-"
FORMATS = (*dict.fromkeys(ENDINGS.values()), "alpaca")
"""Names of the formats, whose readers load only where a corpus is read; one without an ending of
its own is read where it is named."""


@described("A file of the corpus.")
class Source(Record):
    # `-` for standard input. Before it is read, the size may be 0 for one that is not known, and
    # the digest empty: `batchstat.corpus.digests.digest_of` of a file, else `etag:` and a value of
    # its storage that changes with the content.
    path: str = told("As given, with /; an address with … for its user, query and fragment.")
    bytes: Count = told("Size of the file on disk.")
    digest: Annotated[str, allowed(pattern=r"^(sha256:[0-9a-f]{64}|etag:.+|)$")] = told(
        "SHA-256 of the file's bytes; above 64 MiB, that of the SHA-256s of every 64 MiB; at an "
        "address its ETag, where there is one, and a digest of the address under a key of the "
        "machine where not all of it is shown; empty where splits of the file are not counted."
    )
    format: Annotated[str, among(FORMATS)] = told("How the file was read.")

    @property
    def shown(self) -> str:
        """Name in messages."""
        return "standard input" if self.is_standard_input else self.path

    @property
    def is_standard_input(self) -> bool:
        """Whether it is read from standard input, once."""
        return self.path == STANDARD_INPUT

    @property
    def is_compressed_by_name(self) -> bool:
        """Whether its name has the ending of a compressed file."""
        return named_part(self.path).lower().endswith(COMPRESSED_ENDINGS)

    @property
    def etag(self) -> str:
        """What its storage said of its content; empty if nothing."""
        return etag_of_identity(self.digest) if self.digest.startswith("etag:") else ""

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
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise OptionError(f"corpus={short(path)}: must be a path or an address")
    if any(not os.fspath(path).strip() for path in paths):
        raise OptionError("a path of the corpus is empty: name a file, or . for this folder")
    if [os.fspath(path) for path in paths].count(STANDARD_INPUT) > 1:
        raise OptionError("standard input (-) can be read only once")
    found = [source for each in paths for source in _sources_at(each, input_format, on_warning)]
    for source, is_empty in found:
        if is_empty and not allow_empty:
            raise source.emptiness()
    return tuple(_with_numbers(source for source, _ in found))


def _with_numbers(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield sources, those of other addresses that are shown alike with a number."""
    alike: dict[str, list[str]] = {}
    for source in sources:
        path = source.path
        if not isinstance(path, Address):
            yield source
            continue
        known = alike.setdefault(path, [])
        if path.full not in known:
            known.append(path.full)
        yield replace(source, path=Address(path.full, known.index(path.full) + 1))


def _sources_at(
    given: str | os.PathLike[str], input_format: str | None, on_warning: Callable[[str], object]
) -> Iterator[tuple[Source, bool]]:
    """Yield each source, and whether it is known to be empty."""
    if is_remote(given):
        yield from _at_address(os.fspath(given), input_format, on_warning)
        return
    try:
        for path in _on_disk(Path(given), on_warning):
            source = _source(path, input_format)
            yield source, source.bytes == 0 and not source.is_standard_input
    except OSError as error:
        shown = Path(error.filename or given).as_posix()
        raise InputError(f"{shown} cannot be read: {error.strerror or error}") from None


def _at_address(
    address: str, input_format: str | None, on_warning: Callable[[str], object]
) -> Iterator[tuple[Source, bool]]:
    """Yield the files at an address, listed once, with what the listing says of them."""
    here, full = as_path(address), full_address(address)
    address = as_shown(address)
    from fsspec.core import url_to_fs

    try:
        storage, path = url_to_fs(full)
        storage.invalidate_cache()  # of earlier listings in this process
        is_pattern = _is_pattern(storage, path)
        if is_pattern:
            found = storage.glob(path, detail=True)
        elif storage.isdir(path):
            found = storage.find(path, detail=True)
        else:
            found = {path: storage.info(path)}
        files = {n: info for n, info in found.items() if info.get("type") != "directory"}
        if list(files) == [path]:
            names = [path]
        elif not is_pattern and (saved := saved_dataset_files(here, address)):
            names = [f"{path.rstrip('/')}/{name}" for name in saved]
        else:
            names = _in_listing(files, storage, None if is_pattern else path, address, on_warning)
        sizes = [size_in(files.get(name, {})) for name in names]
    except InputError:
        raise
    except FileNotFoundError:
        raise SourceError(f"no such file: {address}") from None
    except Exception as error:  # a remote file system may raise anything
        raise SourceError(f"{address} cannot be read: {one_line(error)}") from None
    for name, size in zip(names, sizes, strict=True):
        info = files.get(name, {})
        # Where its storage keeps the query in the name, only the address says where that begins.
        full = storage.unstrip_protocol(name)
        kind = input_format or format_by_name(full) or "txt"
        given = address if names == [path] else as_shown(full)
        digest = identity(given, etag_in(info))
        yield Source(given, size, digest, kind), info.get("size") == 0


def _is_pattern(storage: Any, path: str) -> bool:
    """Return whether a path is a pattern: not if it exists, as locally; `?` starts a web query."""
    if not glob.has_magic(path):
        return False
    if path.startswith(("http://", "https://")):
        return "?" not in path
    return not storage.exists(path)


def _in_listing(
    files: dict[str, Any],
    storage: Any,
    folder: str | None,
    address: str,
    on_warning: Callable[[str], object],
) -> list[str]:
    """Return the names of the data files among those listed in a folder, or for a pattern."""
    names: dict[PurePath, str] = {PurePosixPath(name): name for name in files}
    there = {parent for each in names for parent in each.parents}.union(names)

    # Files that make others batchstat's own results need not match a pattern.
    def is_listed(wanted: PurePath) -> bool:
        return wanted in there or bool(storage.exists(str(wanted)))

    def is_visible(path: PurePath) -> bool:
        if folder is None:
            return not path.name.startswith(".")
        is_marker = files[names[path]].get("size") == 0 and not path.suffix  # of a folder
        below = path.relative_to(folder).parts
        return not is_marker and not any(part.startswith(".") for part in below)

    visible = filter(is_visible, names)
    chosen = data_files(visible, address, is_listed, on_warning, is_pattern=folder is None)
    return [names[path] for path in chosen]


def _on_disk(path: Path, on_warning: Callable[[str], object]) -> Iterable[Path]:
    """Return the files that a path of this machine names. Raises OSError."""
    shown = path.as_posix()
    is_folder = path.is_dir()
    if is_folder:
        if saved := saved_dataset_files(path, shown):
            return [path / name for name in saved]
        files: Iterable[Path] = visible_files(path)
    # A file may have brackets in its name; a name without a file fails where it is opened.
    elif path.exists() or not glob.has_magic(str(path)):
        return [path]
    else:
        # Path.glob does not accept absolute patterns.
        names = glob.glob(str(path), recursive=True)  # noqa: PTH207
        files = [Path(name) for name in names if Path(name).is_file()]
        if "**" in path.parts:  # two of them find the same file several times
            files = without_duplicates(files)

    def is_there(file: PurePath) -> bool:
        return Path(file).exists()

    # It leaves out batchstat's own results, which it knows by the files that lie beside them: these
    # need not match the pattern, so that it looks for them on the disk.
    return data_files(files, shown, is_there, on_warning, is_pattern=not is_folder)


def _source(path: Path, input_format: str | None) -> Source:
    shown = path.as_posix()
    kind = input_format or ENDINGS.get(ending(path), "txt")
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
        raise InputError(f"no such file: {_not_on_disk(path)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{shown} cannot be read: {reason}") from None


def format_by_name(path: str) -> str | None:
    """Return the format that a file's name says it has; None if it says none."""
    return ENDINGS.get(ending(PurePath(path)))


def _not_on_disk(path: Path) -> str:
    """Return a path that does not exist, with what to do if it may be something else."""
    name = path.as_posix()
    if name.startswith("data:"):
        return f"data:{LEFT_OUT}: the content of a data: address is not read: write it to a file"
    if re.match(r"[A-Za-z][\w+.-]+:", name):
        return f"{name}: an address has :// after its scheme, as in s3://bucket/key"
    if path.suffix or len(path.parts) != 2 or path.is_absolute() or path.parent.exists():
        return name
    return (
        f"{name}; a dataset of the Hugging Face Hub is read from local files: run hf download "
        f"--repo-type dataset {name} --local-dir {path.name}, and name that folder"
    )
