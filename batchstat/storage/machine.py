"""What this machine keeps between runs: where, and a secret of its own."""

import os
import secrets
from functools import cache
from pathlib import Path

_FILE = "secret"
_SECRET_BYTES = 32


def cache_folder() -> Path | None:
    """Return `BATCHSTAT_CACHE_DIR`, else `batchstat` in the XDG cache folder, else None."""
    if folder := os.environ.get("BATCHSTAT_CACHE_DIR"):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "batchstat"
    try:
        return Path.home() / ".cache" / "batchstat"
    except RuntimeError:
        return None


def machine_secret() -> bytes:
    """Return 32 random bytes of this machine, made when they are first needed; where they cannot be
    stored, some of this process, so that nothing that they key is recognised later.
    """
    folder = cache_folder()
    return _secret_of_process() if folder is None else _secret_in(folder)


@cache
def _secret_in(folder: Path) -> bytes:
    file = folder / _FILE
    temporary = folder / f".batchstat-{secrets.token_hex(4)}.tmp"
    try:
        if not file.exists() or file.stat().st_size != _SECRET_BYTES:
            folder.mkdir(parents=True, exist_ok=True)
            temporary.touch(mode=0o600, exist_ok=False)
            temporary.write_bytes(secrets.token_bytes(_SECRET_BYTES))
            temporary.replace(file)
        found = file.read_bytes()  # of two processes that begin together, that of the last
    except OSError:
        found = b""
    return found if len(found) == _SECRET_BYTES else _secret_of_process()


@cache
def _secret_of_process() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)
