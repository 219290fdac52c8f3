"""What this machine has: a folder between runs, a secret of its own, and libraries."""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

BASE_ENDING = ".base"  # ending of the files in the cache folder that hold checks of other revisions
_SECRET_BYTES = 32


def cache_folder() -> Path | None:
    """Return the folder of batchstat's cache; None if the user has no home folder."""
    if folder := os.environ.get("BATCHSTAT_CACHE_DIR"):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "batchstat"
    try:
        return Path.home() / ".cache" / "batchstat"
    except RuntimeError:
        return None


def machine_secret() -> bytes:
    """Return 32 random bytes that only this machine, or this process if none is stored, knows."""
    folder = cache_folder()
    return _secret_of_process() if folder is None else _secret_in(folder)


@cache
def _secret_in(folder: Path) -> bytes:
    """Read the secret of this machine from a folder, or make it there."""
    file = folder / "secret"
    temporary = folder / f".batchstat-{secrets.token_hex(4)}.tmp"
    try:
        if not file.exists() or file.stat().st_size != _SECRET_BYTES:
            folder.mkdir(parents=True, exist_ok=True)
            # Readable for this user only, before anything is in it.
            temporary.touch(mode=0o600, exist_ok=False)
            temporary.write_bytes(secrets.token_bytes(_SECRET_BYTES))
            temporary.replace(file)
        # Read back: if two processes made one at once, both take that of the last.
        secret = file.read_bytes()
    except OSError:
        secret = b""  # not a secret: that of this process takes its place
    return secret if len(secret) == _SECRET_BYTES else _secret_of_process()


@cache
def _secret_of_process() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def installed_versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of those libraries that are installed, by their names."""
    versions: dict[str, str] = {}
    for library in libraries:
        with suppress(PackageNotFoundError):
            versions[library] = version(library)
    return versions
