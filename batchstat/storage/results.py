"""The results folder: files written whole or not at all, and all of them about one profile."""

import os
import re
import secrets
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import BinaryIO, cast

from batchstat.errors import InputError
from batchstat.storage.addresses import check_no_pattern, is_remote, move, one_line
from batchstat.storage.result_files import WRITTEN_TOGETHER, together

Writer = Callable[[BinaryIO], object]

_TEMPORARY = re.compile(r"\.batchstat-[0-9a-f]{8}\.tmp")


def check_writable(folder: Path) -> None:
    """Raises InputError, before any work is done, where the folder cannot be written."""
    if is_remote(folder):
        _try_address(folder)
        return
    try:
        place = _nearest(folder.absolute())
        if not place.is_dir():
            raise InputError(_refusal(folder, f"{place.as_posix()} is not a folder"))
    except OSError as error:
        raise InputError(_refusal(folder, error.strerror or str(error))) from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(_refusal(folder, "Permission denied"))


def check_results(folder: Path) -> None:
    """Raise InputError, before any work is done, where a results folder cannot be written, or what
    stands in it is no file or no folder where results have one.
    """
    check_writable(folder)
    if is_remote(folder):
        return
    for name in sorted({each for head in WRITTEN_TOGETHER for each in together(head)}):
        path = folder / name
        if path.is_dir():
            raise InputError(_refusal(path, "it is a folder"))
        if os.path.lexists(path.parent) and not path.parent.is_dir():
            raise InputError(_refusal(path.parent, "it is not a folder"))


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    return folder


@contextmanager
def only_writer(folder: Path, remedy: str = "pass another folder with -o") -> Iterator[None]:
    """Make the folder where there is none, and let no other run write into it meanwhile.

    Other runs wait for their turn, so that all files of a folder come from one run. Where the
    system has no advisory locks, or at an address, runs that finish in the same instant may mix
    theirs; each file is whole all the same.

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
        for empty in reversed(made):
            with suppress(OSError):  # what holds a file stays
                empty.rmdir()


def _locked(folder: Path, made: list[Path], remedy: str) -> int | None:
    """Make the folder and lock it; None where nothing can be locked. Adds to `made`."""
    while True:
        made += _make(folder, remedy)
        try:
            import fcntl

            lock = os.open(folder, os.O_RDONLY)
        except (ImportError, OSError):
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock), folder.stat()):
                _remove_leftovers(folder)
                return lock
        except FileNotFoundError:
            pass  # a run that failed removed it again, while this one waited
        except OSError:
            os.close(lock)
            return None
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed runs left behind: in a locked folder nobody else is writing."""
    for place in (folder, folder / "plots"):
        with suppress(OSError):
            for path in place.iterdir():
                if _TEMPORARY.fullmatch(path.name):
                    path.unlink()


def write_files(
    folder: Path,
    files: Mapping[str, bytes | Writer],
    *,
    remove: Iterable[str] = (),
    remedy: str = "pass another folder with -o",
) -> None:
    """Write each file under a temporary name, then put all of them in place; call it inside
    `only_writer`.

    What is removed and what is replaced goes first, then the file that the others are about is put
    in place, then the others: so that at no moment, whatever ends the run, a file of an earlier run
    stands beside a new one. A failure or an interrupt before that leaves the folder as it was.

    Raises:
        InputError: the folder cannot be written.
    """
    head = next((name for name in WRITTEN_TOGETHER if name in files), next(iter(files)))
    temporary: dict[Path, Path] = {}
    made: list[Path] = []
    with _refused(folder, remedy):
        try:
            for name, content in {head: files[head], **files}.items():
                path = folder / name
                if path.is_dir():
                    raise InputError(_refusal(path, "it is a folder", remedy))
                made += _make(path.parent, remedy)
                temporary[path] = path.with_name(f".batchstat-{secrets.token_hex(4)}.tmp")
                _write(temporary[path], content, path)
            first, *others = temporary
            with _undisturbed():
                for path in (*(folder / name for name in remove), *others):
                    _remove(path)
                for path in (first, *others):
                    move(temporary[path], path)
        finally:
            for written in temporary.values():
                with suppress(Exception):  # whatever a file system of an address raises
                    written.unlink(missing_ok=True)
            for empty in reversed(made):
                with suppress(OSError):  # what holds a file stays
                    empty.rmdir()


def _write(temporary: Path, content: bytes | Writer, path: Path) -> None:
    with temporary.open("wb") as file:
        if not is_remote(path) and path.exists():
            shutil.copymode(path, temporary)
        if callable(content):
            content(cast(BinaryIO, file))
        else:
            file.write(content)


def _remove(path: Path) -> None:
    """Remove a file; a folder of its name is nothing that batchstat wrote."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if is_remote(path) and not path.exists():
            return
        if not path.is_dir() or path.is_symlink():
            path.unlink()


@contextmanager
def _refused(folder: Path, remedy: str) -> Iterator[None]:
    """Whatever a file system raises becomes an InputError that names the folder."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(_refusal(folder, one_line(error), remedy)) from None
    except Exception as error:
        if not is_remote(folder):
            raise
        raise InputError(_refusal(folder, one_line(error), remedy)) from None


def _try_address(folder: Path) -> None:
    check_no_pattern(folder)
    probe = folder / f".{secrets.token_hex(4)}.tmp"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except Exception as error:  # whatever a file system of an address raises
        raise InputError(_refusal(folder, one_line(error))) from None


def write_file(path: Path, content: bytes, remedy: str) -> None:
    """Writes a file that the user named: whole, or not at all; what is none, as a device, as it is.

    Raises:
        InputError: it cannot be written.
    """
    if not is_remote(path):
        try:
            path = path.resolve()  # a link stays one
            if path.exists() and not path.is_file():
                with path.open("wb") as file:
                    file.write(content)
                return
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(_refusal(path, reason, remedy)) from None
    with only_writer(path.parent, remedy):
        write_files(path.parent, {path.name: content}, remedy=remedy)


def _make(folder: Path, remedy: str) -> list[Path]:
    """Makes a folder with those above it; the ones that were not there, outermost first."""
    if is_remote(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return []
    nearest = _nearest(folder)
    missing = [each for each in (folder, *folder.parents) if each.is_relative_to(nearest)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(_refusal(folder, "it is not a folder", remedy)) from None
    return [each for each in reversed(missing) if each != nearest]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """While files are put in place no signal stops that."""
    held = {number: signal.signal(number, signal.SIG_IGN) for number in (SIGINT, SIGTERM)}
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)


def _refusal(folder: Path, reason: str, remedy: str = "pass another folder with -o") -> str:
    return f"{folder.as_posix()} cannot be written: {reason}: {remedy}"
