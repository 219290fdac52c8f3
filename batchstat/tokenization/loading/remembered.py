"""Tokenizers that were loaded before, in the cache folder, so that a run whose counts are cached
loads none, and another does not import transformers. An entry is of one state of the files of a
tokenizer and of the libraries that read them.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path

from batchstat._version import __version__
from batchstat.storage.addresses import write_whole
from batchstat.storage.machine import cache_folder, installed_versions
from batchstat.tokenization.loading.backend import Known
from batchstat.tokenization.tokenizer import ChatFacts

ENDING = ".tokenizer"  # ending of the files of entries in the cache folder

_LIBRARIES = ("transformers", "tokenizers", "sentencepiece", "protobuf", "tiktoken")
"""Libraries that turn the files of a tokenizer into one."""

_KINDS = (".json", ".jinja", ".model", ".py", ".tiktoken", ".txt")
"""Endings of the files that tokenizers are made of."""
_MORE_TEMPLATES = "additional_chat_templates"
"""The folder of chat templates beside the default one, in that of a tokenizer."""
_READ_WHOLE, _MOST_OF_OTHERS = 64 << 20, 1 << 20
"""Bytes of the largest file, of these endings and of others, whose content decides whether anything
has changed. Of larger ones, such as weights or data beside a tokenizer, the size and the time of
change do."""


def state_of_files(path: Path) -> str | None:
    """Return a digest of all that decides which tokenizer a path gives; None if not known."""
    digest = hashlib.blake2b(digest_size=32)
    try:
        # The path, since transformers guesses the kind of some old tokenizers from it.
        for part in (__version__, *_versions(), str(path.resolve()), *_contents(path)):
            digest.update(f"{len(part)}:{part}".encode(errors="surrogateescape"))
    except (OSError, _UnderDevelopmentError):
        return None
    return digest.hexdigest()


def recall(state: str | None) -> Known | None:
    """Return what is known of the tokenizer with this state; None without an entry."""
    file = _file(state)
    if file is None:
        return None
    try:
        digest, facts, definition = file.read_bytes().split(b"\n", 2)
        if digest != _digest(facts, definition):
            return None
        fields = json.loads(facts)
        chats = fields.pop("chats")
        known = Known(definition.decode(), **fields, chats=chats and ChatFacts(**chats))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    with suppress(OSError):  # the least recently used entries are evicted
        os.utime(file)
    return known


def remember(state: str | None, known: Known) -> None:
    """Store what is known of the tokenizer with this state, unless that fails."""
    file = _file(state)
    if file is None:
        return
    facts = asdict(known)
    definition = facts.pop("definition").encode()
    facts_line = json.dumps(facts).encode()
    with suppress(OSError):
        lines = (_digest(facts_line, definition), facts_line, definition)
        write_whole(file, b"\n".join(lines))


class _UnderDevelopmentError(Exception):
    """A library whose version does not say what it does."""


@cache
def _versions() -> tuple[str, ...]:
    versions = installed_versions(_LIBRARIES)
    if any(".dev" in version for version in versions.values()):
        raise _UnderDevelopmentError
    return tuple(f"{library} {version}" for library, version in versions.items())


def _contents(path: Path) -> Iterator[str]:
    """Yield what identifies the content of a file, or of each file in a folder, after its name."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in (*files, *sorted((path / _MORE_TEMPLATES).glob("*"))):
        if not file.is_file():
            continue
        state = file.stat()
        yield file.name
        if state.st_size > (_READ_WHOLE if file.suffix in _KINDS else _MOST_OF_OTHERS):
            yield f"{state.st_size} {state.st_mtime_ns}"
        else:
            yield hashlib.blake2b(file.read_bytes()).hexdigest()


def _file(state: str | None) -> Path | None:
    folder = None if state is None else cache_folder()
    return None if folder is None else folder / f"{state}{ENDING}"


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=32).hexdigest().encode()
