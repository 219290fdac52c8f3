"""The results folder: files written whole or not at all."""

import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import BinaryIO, cast

from batchstat.errors import InputError
from batchstat.storage import check_no_pattern, is_remote, move, one_line

Writer = Callable[[BinaryIO], object]


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


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def write_files(
    folder: Path,
    files: Mapping[str, bytes | Writer],
    *,
    remove: Iterable[str] = (),
    remedy: str = "pass another folder with -o",
) -> None:
    """Writes each file under a temporary name, then renames all of them, then removes others.

    A failure or an interrupt before the renaming leaves the folder's files as they were.

    Raises:
        InputError: the folder cannot be written.
    """
    if is_remote(folder):
        _write_to_address(folder, files, remove, remedy)
        return
    temporary: dict[Path, Path] = {}
    made: list[Path] = []
    try:
        for name, content in files.items():
            path = folder / name
            made += _make(path.parent)
            temporary[path] = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            with temporary[path].open("wb") as file:
                if path.exists():
                    shutil.copymode(path, temporary[path])
                if callable(content):
                    content(file)
                else:
                    file.write(content)
        with _alone_and_undisturbed(folder):
            for path, written in temporary.items():
                written.replace(path)
            for name in remove:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(_refusal(folder, error.strerror or str(error), remedy)) from None
    finally:
        for written in temporary.values():
            written.unlink(missing_ok=True)
        for empty in reversed(made):
            with suppress(OSError):  # what holds a file stays
                empty.rmdir()


def _try_address(folder: Path) -> None:
    check_no_pattern(folder)
    probe = folder / f".{secrets.token_hex(4)}.tmp"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except Exception as error:  # whatever a file system of an address raises
        raise InputError(_refusal(folder, one_line(error))) from None


def _write_to_address(
    folder: Path, files: Mapping[str, bytes | Writer], remove: Iterable[str], remedy: str
) -> None:
    """As in a folder, but that nothing there can be held: each file is whole or not there."""
    temporary: dict[Path, Path] = {}
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary[path] = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            with temporary[path].open("wb") as file:
                if callable(content):
                    content(cast(BinaryIO, file))
                else:
                    file.write(content)
        for path, written in temporary.items():
            move(written, path)
        for name in remove:
            if (folder / name).exists():
                (folder / name).unlink()
    except Exception as error:  # whatever a file system of an address raises
        raise InputError(_refusal(folder, one_line(error), remedy)) from None
    finally:
        for written in temporary.values():
            with suppress(Exception):
                written.unlink(missing_ok=True)


def write_file(path: Path, content: bytes, remedy: str) -> None:
    """Writes a file that the user named: whole, or not at all; what is none, as a device, as it is.

    Raises:
        InputError: it cannot be written.
    """
    if is_remote(path):
        write_files(path.parent, {path.name: content}, remedy=remedy)
        return
    try:
        target = path.resolve()  # a link stays one
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                file.write(content)
            return
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(_refusal(path, reason, remedy)) from None
    write_files(target.parent, {target.name: content}, remedy=remedy)


def _make(folder: Path) -> list[Path]:
    """Makes a folder with those above it; the ones that were not there, outermost first."""
    nearest = _nearest(folder)
    missing = [each for each in (folder, *folder.parents) if each.is_relative_to(nearest)]
    folder.mkdir(parents=True, exist_ok=True)
    return [each for each in reversed(missing) if each != nearest]


@contextmanager
def _alone_and_undisturbed(folder: Path) -> Iterator[None]:
    """While files are put in place no signal stops that, and another run waits for its turn.

    So all files of a folder come from one run. Where the system has no advisory locks, runs that
    finish in the same instant may mix theirs; each file is whole all the same.
    """
    held = {number: signal.signal(number, signal.SIG_IGN) for number in (SIGINT, SIGTERM)}
    lock = None
    try:
        with suppress(ImportError):
            import fcntl

            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        if lock is not None:
            os.close(lock)
        for number, handler in held.items():
            signal.signal(number, handler)


def _refusal(folder: Path, reason: str, remedy: str = "pass another folder with -o") -> str:
    return f"{folder.as_posix()} cannot be written: {reason}: {remedy}"
