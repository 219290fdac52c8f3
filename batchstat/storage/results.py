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

_TEMPORARY = re.compile(r"\.batchstat-[0-9a-f]{8}\.tmp")


def check_file(path: Path, remedy: str) -> None:
    """Raise InputError, before any work is done, if a file that a user named cannot be written."""
    if path.is_dir():
        raise InputError(_refusal(path, "it is a folder", remedy))
    check_writable(path.parent, remedy)


def check_writable(folder: Path, remedy: str = "pass another folder with -o") -> None:
    """Raise InputError, before any work is done, if the folder cannot be written."""
    with _refused(folder, remedy):
        if is_remote(folder):
            try_writing(folder)
            return
        whole = folder.absolute()
        nearest = next((each for each in (whole, *whole.parents) if each.exists()), whole)
        if not nearest.is_dir():
            raise InputError(_refusal(folder, f"{nearest.as_posix()} is not a folder", remedy))
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise InputError(_refusal(folder, "Permission denied", remedy))


def check_results(folder: Path) -> None:
    """Raise InputError, before any work is done, if a results folder cannot be written, or has a
    folder where results have a file, or the reverse.
    """
    check_writable(folder)
    if is_remote(folder):
        return
    for name in sorted(set(chain(*WRITTEN_TOGETHER.values()))):
        path = folder / name
        if path.is_dir():
            raise InputError(_refusal(path, "it is a folder"))
        if os.path.lexists(path.parent) and not path.parent.is_dir():
            raise InputError(_refusal(path.parent, "it is not a folder"))


@contextmanager
def only_writer(folder: Path, remedy: str = "pass another folder with -o") -> Iterator[None]:
    """Create the folder if needed, and let no other run write into it meanwhile.

    Other runs wait, so that all files of a folder come from one run. Where the system has no
    advisory locks, or at an address, runs that finish in the same instant may mix their files; each
    file is complete all the same.

    Raises:
        InputError: the folder cannot be written.
    """
    if is_remote(folder):
        yield
        return
    made: list[Path] = []
    lock = None
    try:
        with _refused(folder, remedy):
            lock = _locked(folder, made, remedy)
        yield
    finally:
        if lock is not None:
            os.close(lock)
        _remove_empty(made)


def _locked(folder: Path, made: list[Path], remedy: str) -> int | None:
    """Create the folder and lock it; return None if locking is impossible. Adds to `made`."""
    while True:
        made += _make_folder(folder, remedy)
        try:
            import fcntl

            lock = os.open(folder, os.O_RDONLY)
        # Windows has no fcntl.
        except (ImportError, OSError):
            return None
        with ExitStack() as closing:  # on every way out but the one that returns the lock
            closing.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # A run that failed may have removed the folder, and another one made it, while this
                # one waited.
                if os.path.samestat(os.fstat(lock), folder.stat()):
                    _remove_leftovers(folder)
                    closing.pop_all()
                    return lock
            except FileNotFoundError:
                pass  # a run that failed removed it again while this one waited
            except OSError:
                return None


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed runs left behind: nobody else is writing in a locked folder."""
    for within in (folder, folder / "plots"):
        with suppress(OSError):
            for path in within.iterdir():
                if _TEMPORARY.fullmatch(path.name):
                    path.unlink()


def write_files(
    folder: Path,
    files: Mapping[str, bytes | Writer],
    *,
    remove: Iterable[str] = (),
    remedy: str = "pass another folder with -o",
) -> None:
    """Write each file under a temporary name, then move all of them into place.

    Call it inside `only_writer`. Files to be removed or replaced are deleted first, then the file
    that the others are about is moved into place, then the others: at no moment, whatever ends the
    run, is a file of an earlier run beside a new one. A failure or an interrupt before that leaves
    the folder as it was.

    Raises:
        InputError: the folder cannot be written.
    """
    head = next((name for name in WRITTEN_TOGETHER if name in files), next(iter(files)))
    temporary: dict[Path, Path] = {}
    made: list[Path] = []
    with _refused(folder, remedy), ExitStack() as stack:
        stack.callback(_remove_empty, made)
        for name, content in {head: files[head], **files}.items():
            path = folder / name
            if path.is_dir():
                raise InputError(_refusal(path, "it is a folder", remedy))
            made += _make_folder(path.parent, remedy)
            temporary[path] = stack.enter_context(temporary_beside(path))
            _write_temporary(temporary[path], content, path)
        first, *others = temporary
        with _undisturbed():
            for path in (*(folder / name for name in remove), *others):
                _remove(path)
            for path in (first, *others):
                move(temporary[path], path)


def _write_temporary(temporary: Path, content: bytes | Writer, path: Path) -> None:
    with temporary.open("wb") as file:
        if not is_remote(path) and path.exists():
            # A file that is replaced keeps its mode, as one that is written over.
            shutil.copymode(path, temporary)
        if callable(content):
            content(cast(BinaryIO, file))
        else:
            file.write(content)


def _remove(path: Path) -> None:
    """Remove a file; a folder of that name was not written by batchstat."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if is_remote(path) and not path.exists():
            return
        if not path.is_dir() or path.is_symlink():
            path.unlink()


@contextmanager
def _refused(folder: Path, remedy: str) -> Iterator[None]:
    """Turn whatever a file system raises into an InputError that names the folder."""
    try:
        with as_os_errors(folder):
            yield
    except OSError as error:
        raise InputError(_refusal(folder, one_line(error), remedy)) from None


def encoded(json_text: str) -> bytes:
    """Return JSON text as UTF-8; lone surrogates, as in an undecodable file name, become JSON
    escapes.
    """
    return json_text.encode("utf-8", "backslashreplace")


def write_file(path: Path, content: bytes, remedy: str) -> None:
    """Write a file that the user named, completely or not at all; a device is written directly.

    Raises:
        InputError: it cannot be written.
    """
    if not is_remote(path):
        try:
            path = path.resolve()  # a link remains a link
            if path.exists() and not path.is_file():
                with path.open("wb") as file:
                    file.write(content)
                return
        except (OSError, RuntimeError) as error:
            raise InputError(_refusal(path, one_line(error), remedy)) from None
    with only_writer(path.parent, remedy):
        write_files(path.parent, {path.name: content}, remedy=remedy)


def _make_folder(folder: Path, remedy: str) -> list[Path]:
    """Create a folder and its parents; return the ones that did not exist, outermost first."""
    if is_remote(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return []
    missing = list(takewhile(lambda each: not each.exists(), (folder, *folder.parents)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(_refusal(folder, "it is not a folder", remedy)) from None
    return missing[::-1]


def _remove_empty(made: list[Path]) -> None:
    """Remove folders that were made, outermost first, and hold nothing."""
    for folder in reversed(made):
        with suppress(OSError):  # a folder that holds a file stays
            folder.rmdir()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Block signals while files are moved into place."""
    held = {number: signal.signal(number, signal.SIG_IGN) for number in (SIGINT, SIGTERM)}
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)


def _refusal(folder: Path, reason: str, remedy: str = "pass another folder with -o") -> str:
    return f"{folder.as_posix()} cannot be written: {reason}: {remedy}"
