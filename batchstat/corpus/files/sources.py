"""Find the files of a corpus, and their sizes and formats."""

import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any

from batchstat.corpus.files.data_files import (
    COMPRESSED_ENDINGS,
    ENDINGS,
    data_files,
    ending,
    saved_dataset_files,
    visible_files,
    without_duplicates,
)
from batchstat.errors import InputError, MissingError, OptionError, SourceError
from batchstat.findings import Finding, warn_in_python
from batchstat.hidden_secrets import LEFT_OUT, named_part
from batchstat.parameters import described
from batchstat.records import Count, Record, allowed, among, told
from batchstat.storage.addresses import as_path, etag_in, etag_of_identity, identity, size_in
from batchstat.storage.shown import Address, as_shown, full_address, is_remote, one_line
from batchstat.words import short

STANDARD_INPUT = "-"
FORMATS = (*dict.fromkeys(ENDINGS.values()), "fasttext", "alpaca")
"""Names of the formats, whose readers load late; one without an ending is read if it is named."""


@described("A file of the corpus.")
class Source(Record):
    # The path is `-` for standard input. Before the file is read, the size may be 0, if it is not
    # known, and the digest empty. The digest is that of `digests.digest_of`, or at an address
    # `etag:` and a value of the storage that changes with the content.
    path: str = told("As given, with /; an address with … for its user, query and fragment.")
    bytes: Count = told("Size of the file on disk.")
    digest: Annotated[str, allowed(pattern=r"^(sha256:[0-9a-f]{64}|etag:.+|)$")] = told(
        "SHA-256 of the file's bytes; above 64 MiB, that of the SHA-256s of every 64 MiB; at an "
        "address its ETag, where there is one, and a digest of the address under a key of the "
        "machine where not all of it is shown; empty where splits of the file are not counted."
    )
    format: Annotated[str, among(FORMATS)] = told("How the file was read.")
    samples: Count | None = told(
        "Samples that it has; null where they were not counted file by file.", default=None
    )
    tokens: Count | None = told("Their tokens, whole; null as samples.", default=None)

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
    on_warning: Callable[[Finding], object] = warn_in_python,
    *,
    allow_empty: bool = False,
) -> tuple[Source, ...]:
    """Find the named files, in that order, without reading any: a file, a folder (its data files,
    sorted, or those of a saved Dataset), a glob pattern, `-` for standard input, or an address of
    these. Other files in a folder are skipped with a warning, results of batchstat without one.
    Raises OptionError: no file, an empty path, or standard input twice; InputError: a file is
    missing, empty (unless allowed) or unreadable; no data files.
    """
    if not paths:
        raise OptionError("no corpus", "name at least one file")
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise OptionError(f"corpus={short(path)}", "must be a path or an address")
    if any(not os.fspath(path).strip() for path in paths):
        raise OptionError("a path of the corpus is empty", "name a file, or . for this folder")
    if [os.fspath(path) for path in paths].count(STANDARD_INPUT) > 1:
        raise OptionError("standard input (-) can be read only once")
    pairs = [pair for path in paths for pair in _sources_at(path, input_format, on_warning)]
    for source, is_empty in pairs:
        if is_empty and not allow_empty:
            raise source.emptiness()
    return tuple(_with_numbers(source for source, _ in pairs))


def _with_numbers(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield the sources, with a number for addresses that would be shown alike in messages."""
    # Addresses that differ only in their query, which may be a secret, look the same: the second
    # one is shown with (2). By what is shown of an address: all of which this is shown.
    shown_alike: dict[str, list[str]] = {}
    for source in sources:
        path = source.path
        if isinstance(path, Address):
            addresses = shown_alike.setdefault(path, [])
            if path.full not in addresses:
                addresses.append(path.full)
            number = addresses.index(path.full) + 1
            source = replace(source, path=Address(path.full, number))
        yield source


def _sources_at(
    path_or_address: str | os.PathLike[str],
    input_format: str | None,
    on_warning: Callable[[Finding], object],
) -> Iterator[tuple[Source, bool]]:
    """Yield each file that one argument of the user names, and whether it is known to be empty."""
    if is_remote(path_or_address):
        yield from _at_address(os.fspath(path_or_address), input_format, on_warning)
        return
    try:
        for path in _on_disk(Path(path_or_address), on_warning):
            source = _source(path, input_format)
            _warn_of_ending(source, input_format, on_warning)
            yield source, source.bytes == 0 and not source.is_standard_input
    except OSError as error:
        # An error in a folder names the subfolder or file.
        shown = Path(error.filename or path_or_address).as_posix()
        raise InputError(f"{shown} cannot be read: {error.strerror or error}") from None


def _at_address(
    address: str, input_format: str | None, on_warning: Callable[[Finding], object]
) -> Iterator[tuple[Source, bool]]:
    """Yield the files at an address, and whether each is known to be empty."""
    # The storage is asked once for a listing, with sizes and ETags: not by a request for each file.
    location, full = as_path(address), full_address(address)
    address = as_shown(address)  # from here on, what messages may show of it
    from fsspec.core import url_to_fs

    try:
        storage, path = url_to_fs(full)
        storage.invalidate_cache()  # of earlier listings in this process
        # `?` starts the query of a web address, and a file may have * or [ in its name.
        is_web = path.startswith(("http://", "https://"))
        is_pattern = glob.has_magic(path) and (
            "?" not in path if is_web else not storage.exists(path)
        )
        if is_pattern:
            listing = storage.glob(path, detail=True)
        elif storage.isdir(path):
            listing = storage.find(path, detail=True)
        else:
            listing = {path: storage.info(path)}
        files = {name: info for name, info in listing.items() if info.get("type") != "directory"}
        # A single file is read whatever its name is.
        if list(files) == [path]:
            names = [path]
        # A folder of the datasets library says itself which of its files are data.
        elif not is_pattern and (saved_names := saved_dataset_files(location, address)):
            names = [f"{path.rstrip('/')}/{name}" for name in saved_names]
        else:
            folder = None if is_pattern else path
            names = _data_files_in_listing(files, storage, folder, address, on_warning)
        # Nothing is known of a data file that a saved dataset names but the listing lacks.
        sizes = [size_in(files.get(name, {})) for name in names]
    except InputError:
        raise
    except FileNotFoundError:  # no MissingError: a storage may show what is new only later
        raise SourceError(f"no such file: {address}") from None
    except Exception as error:  # a remote file system may raise anything
        raise SourceError(f"{address} cannot be read: {one_line(error)}") from None
    for name, size in zip(names, sizes, strict=True):
        info = files.get(name, {})
        file_address = storage.unstrip_protocol(name)
        file_format = input_format or format_by_name(file_address) or "txt"
        # The name of a single file may hold a query, of which only the given address says where.
        shown = address if names == [path] else as_shown(file_address)
        digest = identity(shown, etag_in(info))
        # A size that is not known is no sign of an empty file.
        source = Source(shown, size, digest, file_format)
        _warn_of_ending(source, input_format, on_warning)
        yield source, info.get("size") == 0


_OF_TEXT = (".text", ".raw", ".tokens")
"""Endings of text, as of WikiText; files in folders may have them for other reasons."""
_OF_ARCHIVES = (".tar", ".tgz", ".zip", ".7z", ".rar")  # endings of files that are refused


def _warn_of_ending(
    source: Source, input_format: str | None, on_warning: Callable[[Finding], object]
) -> None:
    """Warn of a file that is read as lines of text because its ending says nothing."""
    known = ending(PurePath(source.path))
    if input_format is None and known and known not in {*ENDINGS, *_OF_TEXT, *_OF_ARCHIVES}:
        on_warning(
            Finding(
                "corpus/read-as-lines",
                f"{source.shown} is read as lines of text, since no format has the ending {known}: "
                "name its format with --input-format, txt if it is text",
            )
        )


def _data_files_in_listing(
    files: dict[str, Any],
    storage: Any,
    folder: str | None,
    address: str,
    on_warning: Callable[[Finding], object],
) -> list[str]:
    """Return the names of the data files in a listing of a storage."""
    name_of: dict[PurePath, str] = {PurePosixPath(name): name for name in files}
    folders = {parent for path in name_of for parent in path.parents}

    # Results of batchstat are recognized by files beside them, which a pattern need not match: the
    # storage is asked for those that are not in the listing.
    def is_there(path: PurePath) -> bool:
        return path in name_of or path in folders or bool(storage.exists(str(path)))

    def is_visible(path: PurePath) -> bool:
        # A pattern says itself which folders are meant: only the name of the file may be hidden.
        if folder is None:
            return not path.name.startswith(".")
        # Object stores have no folders: some tools write an empty file for each.
        is_folder_marker = files[name_of[path]].get("size") == 0 and not path.suffix
        parts_below = path.relative_to(folder).parts
        return not is_folder_marker and not any(part.startswith(".") for part in parts_below)

    visible = filter(is_visible, name_of)
    chosen = data_files(visible, address, is_there, on_warning, is_pattern=folder is None)
    return [name_of[path] for path in chosen]


def _on_disk(path: Path, on_warning: Callable[[Finding], object]) -> Iterable[Path]:
    """Return the files that a path of this machine stands for. Raises OSError."""
    shown = path.as_posix()
    is_folder = path.is_dir()
    if is_folder:
        if saved_names := saved_dataset_files(path, shown):
            return [path / name for name in saved_names]
        files: Iterable[Path] = visible_files(path)
    # A file may have brackets in its name; a name without a file fails where it is opened.
    elif path.exists() or not glob.has_magic(str(path)):
        return [path]
    else:
        # Path.glob does not accept absolute patterns.
        names = glob.glob(str(path), recursive=True)  # noqa: PTH207
        files = [Path(name) for name in names if Path(name).is_file()]
        if "**" in path.parts:  # two `**` find the same file several times
            files = without_duplicates(files)

    def is_there(file: PurePath) -> bool:
        return Path(file).exists()

    # Results of batchstat are recognized by files beside them, which a pattern need not match.
    return data_files(files, shown, is_there, on_warning, is_pattern=not is_folder)


def _source(path: Path, input_format: str | None) -> Source:
    """Return a file of this machine, or standard input, as a source with its size and format."""
    shown = path.as_posix()
    file_format = input_format or ENDINGS.get(ending(path), "txt")
    # Size and digest of standard input, and the digest of a file, are known only once it is read.
    if shown == STANDARD_INPUT:
        return Source(path=shown, bytes=0, digest="", format=file_format)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{shown} is not a regular file: redirect it to batchstat profile -")
        if not os.access(path, os.R_OK):
            raise InputError(f"{shown} cannot be read: Permission denied")
        return Source(path=shown, bytes=status.st_size, digest="", format=file_format)
    except FileNotFoundError:
        raise MissingError(f"no such file: {_not_on_disk(path)}") from None
    except (OSError, ValueError) as error:
        # A ValueError is about the name itself, such as a NUL in it.
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{shown} cannot be read: {reason}") from None


def format_by_name(path: str) -> str | None:
    """Return the format that a file's name says it has; None if it says none."""
    return ENDINGS.get(ending(PurePath(path)))


def _not_on_disk(path: Path) -> str:
    """Return a path that does not exist, with a hint if it looks like something else."""
    name = path.as_posix()
    if name.startswith("data:"):
        return f"data:{LEFT_OUT}: the content of a data: address is not read: write it to a file"
    # Addresses with :// are no paths, and were read before: this one was written with fewer
    # slashes, as s3:/bucket. A scheme has at least two letters, and a drive of Windows has one.
    if re.match(r"[A-Za-z][\w+.-]+:", name):
        return f"{name}: an address has :// after its scheme, as in s3://bucket/key"
    # A dataset of the Hub is named owner/dataset, unless there is a folder of the owner's name.
    is_on_hub = len(path.parts) == 2 and not (path.suffix or path.is_absolute())
    if not is_on_hub or path.parent.exists():
        return name
    return (
        f"{name}; a dataset of the Hugging Face Hub is read from local files: run hf download "
        f"--repo-type dataset {name} --local-dir {path.name}, and name that folder"
    )
