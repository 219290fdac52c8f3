"""Counts of files that were counted before, by everything that could change them."""

import hashlib
import io
import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from batchstat import __version__
from batchstat.corpus import CorpusOptions, Source
from batchstat.errors import InputError
from batchstat.profiling.record import Profile
from batchstat.profiling.store import SCHEMA, read_profile, save_lengths
from batchstat.tokens import Tokenizer

MOST_BYTES = 1 << 30
"""What the folder may hold; beyond it goes what was not used for longest."""

_ENDING = ".counts"


def default_folder() -> Path | None:
    """`BATCHSTAT_CACHE_DIR`, else `batchstat` in XDG's cache folder; None where there is none."""
    if given := os.environ.get("BATCHSTAT_CACHE_DIR"):
        return Path(given)
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "batchstat"
    try:
        return Path.home() / ".cache" / "batchstat"
    except RuntimeError:
        return None


def key_of(source: Source, options: CorpusOptions, tokenizer: Tokenizer | None) -> str:
    """What the counts of a source depend on, and its path, which messages name: as a digest."""
    counts = None
    if tokenizer is not None:
        counts = (
            tokenizer.name,
            tokenizer.digest,
            tokenizer.library,
            tokenizer.max_length,
            tokenizer.special_tokens_per_sample,
            tokenizer.special_tokens_per_pair,
        )
    parts = (SCHEMA, __version__, asdict(source), asdict(options), counts)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Cache:
    """Profiles of single sources in a folder, which several processes may use at once.

    An entry is written whole under another name and renamed, and begins with a digest of itself:
    one that is damaged is as good as none. Whatever goes wrong with the folder, there is no entry.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        """The folder need not be there yet."""
        self._folder, self._most_bytes = folder, most_bytes

    def get(self, key: str) -> Profile | None:
        """The profile kept under a key; None where there is none, or it is damaged."""
        path = self._folder / f"{key}{_ENDING}"
        try:
            digest, _, content = path.read_bytes().partition(b"\n")
            if digest != _digest(key, content):
                return None
            profile = read_profile(io.BytesIO(content), path)
        except (OSError, InputError):
            return None
        with suppress(OSError):  # as where the folder is for reading only
            os.utime(path)  # the last use decides what goes first
        return profile

    def put(self, key: str, profile: Profile) -> None:
        """Keeps a profile, if that can be done."""
        sink = io.BytesIO()
        save_lengths(profile, sink)
        content = sink.getvalue()
        if len(content) > self._most_bytes:
            return
        temporary = self._folder / f".{key}.{secrets.token_hex(4)}.tmp"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(_digest(key, content) + b"\n" + content)
            temporary.replace(self._folder / f"{key}{_ENDING}")
            self._make_room()
        except OSError:
            pass
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _make_room(self) -> None:
        """Removes what was not used for longest, also what a killed process left half written."""
        found = []
        for path in self._folder.iterdir():
            if path.name.endswith((_ENDING, ".tmp")):
                with suppress(OSError):  # another process may remove it meanwhile
                    state = path.stat()
                    found.append((state.st_mtime_ns, state.st_size, path))
        excess = sum(size for _, size, _ in found) - self._most_bytes
        for _, size, path in sorted(found):
            if excess <= 0:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
                excess -= size


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).hexdigest().encode()
