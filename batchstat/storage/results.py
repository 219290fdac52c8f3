"""The results folder: files written completely or not at all, all of them about one profile."""

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, takewhile
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import BinaryIO, cast

from batchstat.errors import InputError
from batchstat.storage.addresses import as_os_errors, move, temporary_beside, try_writing
from batchstat.storage.result_files import WRITTEN_TOGETHER
from batchstat.storage.shown import is_remote, one_line

Writer = Callable[[BinaryIO], object]

_TEMPORARY = re.compile(r"\.batchstat-[0-9a-f]{8}\.tmp")  # names of `temporary_beside`


def check_file(path: Path, remedy: str) -> None:
    """Raise InputError, before any work is done, if a file that a user named cannot be written."""
    with _refused(path, remedy):  # such as a name that is too long
        if path.is_dir():
            raise _refusal(path, "it is a folder", remedy)
    check_writable(path.parent, remedy)


def check_writable(folder: Path, remedy: str = "pass another folder with -o") -> None:
    """Raise InputError, before any work, unless a folder can be written; nothing is made here."""
    with _refused(folder, remedy):
        # At an address, permissions are only known by trying.
        if is_remote(folder):
            try_writing(folder)
            return
        # The folder, or the one in which it would be created.
        absolute = folder.absolute()
        nearest = next((path for path in (absolute, *absolute.parents) if path.exists()), absolute)
        if not nearest.is_dir():
            raise _refusal(folder, f"{nearest.as_posix()} is not a folder", remedy)
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise _refusal(folder, "Permission denied", remedy)


def check_results(folder: Path) -> None:
    """Raise InputError, before any work is done, if results cannot be written to a folder."""
    check_writable(folder)
    # A storage of objects has no folders whose names could be in the way.
    if is_remote(folder):
        return
    for name in sorted(set(chain(*WRITTEN_TOGETHER.values()))):
        path = folder / name
        if path.is_dir():
            raise _refusal(path, "it is a folder")
        if os.path.lexists(path.parent) and not path.parent.is_dir():
            raise _refusal(path.parent, "it is not a folder")


@contextmanager
def only_writer(folder: Path, remedy: str = "pass another folder with -o") -> Iterator[None]:
    """Create the folder, and let other runs wait, so that all its files are of one. Raises
    InputError. At an address, or without advisory locks, runs may mix whole files.
    """
    if is_remote(folder):
        yield
        return
    created: list[Path] = []
    with ExitStack() as ending:
        # Last of all: if nothing was written, the run leaves no empty folders behind.
        ending.callback(_remove_empty, created)
        with _refused(folder, remedy):
            ending.enter_context(_lock_folder(folder, created, remedy))
        yield


def _lock_folder(folder: Path, created: list[Path], remedy: str) -> ExitStack:
    """Create the folder and lock it, waiting for other runs."""
    while True:
        created += _make_folder(folder, remedy)
        try:
            import fcntl

            lock = os.open(folder, os.O_RDONLY)
        # Windows has no fcntl, and a folder that may not be read cannot be opened.
        except (ImportError, OSError):
            return ExitStack()
        # Closing its descriptor releases the lock, unless `pop_all` moves that to the caller.
        with ExitStack() as closing:
            closing.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # While this run waited, a run that failed may have removed the folder, and another
                # run made a new one: then the lock is on a folder that is gone, so lock again.
                if os.path.samestat(os.fstat(lock), folder.stat()):
                    _remove_leftovers(folder)
                    return closing.pop_all()
            except FileNotFoundError:
                pass  # removed while this run waited, and not made again: create it again
            # The file system of the folder cannot lock.
            except OSError:
                return ExitStack()


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files that killed runs left: no other run is writing in a locked folder."""
    for parent in (folder, folder / "plots"):
        with suppress(OSError):
            for path in parent.iterdir():
                if _TEMPORARY.fullmatch(path.name):
                    path.unlink()


def write_files(
    folder: Path,
    files: Mapping[str, bytes | Writer],
    *,
    remove: Iterable[str] = (),
    remedy: str = "pass another folder with -o",
) -> None:
    """Write each file under a temporary name, then move all into place, inside `only_writer`. A
    failure to write leaves the folder as it was. Earlier files are deleted before the new ones are
    moved, the main one first: never is an earlier file beside a new one. Raises InputError.
    """
    # The file that the others are about, such as the profile beside its plots.
    main_file = next((name for name in WRITTEN_TOGETHER if name in files), next(iter(files)))
    temporary: dict[Path, Path] = {}  # by the path of each file: its temporary path
    created: list[Path] = []
    with _refused(folder, remedy), ExitStack() as stack:
        stack.callback(_remove_empty, created)
        # The main file comes first: a key that appears again keeps its first place.
        for name, content in {main_file: files[main_file], **files}.items():
            path = folder / name
            if path.is_dir():
                raise _refusal(path, "it is a folder", remedy)
            created += _make_folder(path.parent, remedy)
            temporary[path] = stack.enter_context(temporary_beside(path))
            with temporary[path].open("wb") as file:
                # A file that is replaced keeps its permissions, as one that is written over does.
                if not is_remote(path) and path.exists():
                    shutil.copymode(path, temporary[path])
                if callable(content):
                    content(cast(BinaryIO, file))
                else:
                    file.write(content)
        main_path, *other_paths = temporary
        removed_paths = [folder / name for name in remove]
        with _undisturbed():
            # Not the main file: moving the new one to its place replaces it in one step.
            for path in (*removed_paths, *other_paths):
                _remove(path)
            for path in (main_path, *other_paths):
                move(temporary[path], path)


def _remove(path: Path) -> None:
    """Remove a file if it exists. A folder of that name stays: batchstat did not write it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        # A remote file system may raise something else for a file that does not exist.
        if is_remote(path) and not path.exists():
            return
        # A link to a folder is a file here.
        if not path.is_dir() or path.is_symlink():
            path.unlink()


@contextmanager
def _refused(folder: Path, remedy: str) -> Iterator[None]:
    """Turn whatever a file system raises into an InputError that names the folder and a remedy."""
    try:
        with as_os_errors(folder):
            yield
    except OSError as error:
        raise _refusal(folder, one_line(error), remedy) from None


def encoded(json_text: str) -> bytes:
    """Return JSON text as UTF-8; lone surrogates, as of a file name, become JSON escapes."""
    return json_text.encode("utf-8", "backslashreplace")


def write_file(path: Path, content: bytes, remedy: str) -> None:
    """Write a file that the user named, whole; a device is written directly. Raises InputError."""
    if not is_remote(path):
        try:
            path = path.resolve()  # a link stays, and the file that it points to is replaced
            # A device or a pipe, such as /dev/stdout, cannot be replaced.
            if path.exists() and not path.is_file():
                with path.open("wb") as file:
                    file.write(content)
                return
        # RuntimeError: links that lead back to themselves.
        except (OSError, RuntimeError) as error:
            raise _refusal(path, one_line(error), remedy) from None
    with only_writer(path.parent, remedy):
        write_files(path.parent, {path.name: content}, remedy=remedy)


def _make_folder(folder: Path, remedy: str) -> list[Path]:
    """Create a folder and its parents; return those that did not exist before, outermost first."""
    if is_remote(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return []
    missing = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _refusal(folder, "it is not a folder", remedy) from None
    return missing[::-1]


def _remove_empty(created: list[Path]) -> None:
    for folder in reversed(created):
        with suppress(OSError):  # a folder that holds a file stays
            folder.rmdir()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore interrupts while files are moved into place, so that all of them are."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (SIGINT, SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _refusal(path: Path, reason: str, remedy: str = "pass another folder with -o") -> InputError:
    return InputError(f"{path.as_posix()} cannot be written: {reason}", remedy)
