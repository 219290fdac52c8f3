"""Load a tokenizer by what the user wrote: `builtin`, a tokenizer.json, a folder, or a hub name."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import tokenizers

from batchstat.errors import InputError, MissingError, OptionError
from batchstat.tokenization import builtin
from batchstat.tokenization.loading.backend import (
    Known,
    Transformers,
    from_backend,
    from_known,
    of_known,
)
from batchstat.tokenization.loading.hub import HUB_NAME, hub_answers, import_quietly, snapshot_of
from batchstat.tokenization.loading.load_errors import (
    check_complete,
    not_loaded,
    one_line,
    stated_maximum,
)
from batchstat.tokenization.loading.remembered import recall, remember, state_of_files
from batchstat.tokenization.loading.state_digest import full_definition
from batchstat.tokenization.tokenizer import ChatFacts, Tokenizer

_CALLS = ("__call__", "_call_one", "encode_plus", "_encode_plus", "_batch_encode_plus")
"""Methods that a call of a transformers tokenizer runs through before its backend."""

_HARMLESS_MODULES = {
    *("bart", "blenderbot", "bloom", "codegen", "cohere", "deberta"),
    *("gpt2", "led", "longformer", "mvp", "roberta", "whisper"),
}
"""Modules of transformers 4 that override these only to reject texts that are split into words."""

_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
"""Parts of a tokenizer of the tokenizers library beside its model and its added tokens."""


def load_tokenizer(name: str, *, fresh: bool = False) -> Tokenizer:
    """Load the tokenizer called `name`; never substitute another. Raises InputError."""
    if (name == builtin.NAME or not fresh) and (found := recalled(name)) is not None:
        return found
    path = Path(name)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError as error:  # a name that is too long, or a folder that must not be read
        reason = error.strerror or str(error)
        raise InputError(
            f"tokenizer {name!r} cannot be loaded: {reason}", "check the path"
        ) from None
    # `tokenizer.json` would be a valid name on the hub, but is meant as a file, which is missing.
    is_hub_name = HUB_NAME.fullmatch(name) and path.suffix != ".json"
    # For an empty name, `path` is the working folder, which nobody meant.
    if not name or not (is_file or is_folder or is_hub_name):
        raise MissingError(
            f"tokenizer {name!r}: no such file or folder",
            f"check the path, or use the built-in one: --tokenizer {builtin.NAME}",
        )
    load = _from_file if is_file else _from_transformers
    return load(name) if fresh else _remembered(name, load)


def recalled(name: str) -> Tokenizer | None:
    """Return the built-in tokenizer, or one loaded before whose files are unchanged; else None."""
    if name == builtin.NAME:
        found = from_known(name, _builtin(), _builtin_as_transformers)
        return replace(found, made_by=(load_tokenizer, (name,)))  # every process has its definition
    files = files_of(name)
    known = None if files is None else recall(state_of_files(files))
    if known is None:
        return None
    # A file alone has nothing that only transformers reads, such as a chat template.
    make = None if Path(name).is_file() else Transformers(partial(_auto_tokenizer, name))
    return from_known(name, known, make)


def files_of(name: str) -> Path | None:
    """Return the file or folder that a tokenizer is loaded from, here or in the hub's cache."""
    path = Path(name)
    try:
        if path.exists():
            return path
    except OSError:  # a name that is too long
        return None
    return snapshot_of(name) if HUB_NAME.fullmatch(name) and path.suffix != ".json" else None


def _remembered(name: str, load: Callable[[str], Tokenizer]) -> Tokenizer:
    path = Path(name)
    before = state_of_files(path) if path.exists() else None
    loaded = load(name)
    # Of a name on the hub, all files are in the local cache by now.
    known, files = Known.of(loaded), files_of(name)
    if known is not None and files is not None:
        state = state_of_files(files)
        # The user's own files may have changed while they were read.
        if state == before or not path.exists():
            remember(state, known)
    return loaded


def _from_file(name: str) -> Tokenizer:
    """Load a tokenizer.json that stands alone, without a tokenizer_config.json."""
    try:
        backend = tokenizers.Tokenizer.from_str(Path(name).read_text(encoding="utf-8"))
        stated = (backend.truncation or {}).get("max_length")
        maximum = stated_maximum(stated, f"{Path(name).as_posix()}: max_length of its truncation")
        return from_backend(name, backend, maximum)
    except InputError:
        raise
    except Exception as error:  # tokenizers raises bare Exception for a malformed definition
        raise InputError(
            f"tokenizer {name!r} cannot be loaded: {one_line(error)}",
            "pass a tokenizer.json, or the folder of a saved tokenizer",
        ) from None


@cache
def _builtin() -> Known:
    definition = full_definition(builtin.definition(), splits_special_tokens=False)
    return Known(definition, 0, 0, builtin.MAX_LENGTH)


@cache
def _builtin_as_transformers() -> Any:
    return of_known(_builtin(), builtin.CHAT_TEMPLATE)


def _auto_tokenizer(name: str) -> Any:
    """Return what AutoTokenizer makes of a name, without running code from its repository."""
    auto_tokenizer = import_quietly("AutoTokenizer")
    is_local = Path(name).is_dir() or not hub_answers()
    try:
        tokenizer = auto_tokenizer.from_pretrained(
            name, trust_remote_code=False, local_files_only=is_local
        )
        check_complete(name, tokenizer)
    except InputError:
        raise
    # The error may be of any class: transformers passes on whatever a file or the hub causes.
    except Exception as error:
        raise not_loaded(name, is_local, error) from None
    return tokenizer


def _from_transformers(name: str) -> Tokenizer:
    file = "tokenizer_config.json"
    # Where a wrong setting is to be found, for messages.
    origin = (Path(name) / file).as_posix() if Path(name).is_dir() else f"{file} of {name}"
    tokenizer = _auto_tokenizer(name)
    try:
        return replace(_from_loaded(name, tokenizer, origin), known_chats=ChatFacts.of(tokenizer))
    except InputError:
        raise
    except Exception as error:  # it may raise on the empty text, on which it is tried
        raise not_loaded(name, offline=False, error=error) from None


def as_tokenizer(given: Any, *, fresh: bool = False) -> Tokenizer:
    """Return the `Tokenizer` for whatever a user passes. Raises OptionError or InputError."""
    if isinstance(given, Tokenizer):
        return given
    if isinstance(given, str | os.PathLike):
        return load_tokenizer(os.fspath(given), fresh=fresh)
    if isinstance(given, tokenizers.Tokenizer):
        copied = _copy(given, given.encode_special_tokens)
        return from_backend(type(given).__name__, copied, max_length=None)
    # A tokenizer of transformers, recognized without importing it.
    if hasattr(given, "get_vocab") and hasattr(given, "init_kwargs"):
        kind = type(given).__name__
        # Its name is where it was loaded from: a command to paste loads it from there.
        return _from_loaded(given.name_or_path or kind, given, f"the {kind}")
    raise OptionError(
        f"unsupported tokenizer type {type(given).__name__}",
        "pass a name, a path, or a tokenizer of tokenizers or transformers",
    )


def _from_loaded(name: str, tokenizer: Any, origin: str) -> Tokenizer:
    # A copy of the backend counts where a call only passes texts on to it.
    stated = getattr(tokenizer, "model_max_length", None)
    max_length = stated_maximum(stated, f"{origin}: model_max_length")
    backend = backend_of(tokenizer)
    if backend is None or not _has_definition(backend):
        from batchstat.tokenization.loading.python_tokenizer import from_callable

        return from_callable(name, tokenizer, max_length)
    return from_backend(name, backend, max_length, Transformers(made=tokenizer))


def backend_of(given: Any) -> tokenizers.Tokenizer | None:
    """Return a copy of the backend that alone counts a loaded tokenizer's texts; None without."""
    if isinstance(given, tokenizers.Tokenizer):
        return _copy(given, given.encode_special_tokens)
    backend = getattr(given, "backend_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer):
        return None
    kind, base = type(given), import_quietly("PreTrainedTokenizerFast")
    # Both are None where this version of transformers has no such method.
    methods = [(getattr(kind, name, None), getattr(base, name, None)) for name in _CALLS]
    overriding_modules = [method.__module__ for method, of_base in methods if method is not of_base]
    if not all(_HARMLESS_MODULES.intersection(each.split(".")) for each in overriding_modules):
        return None
    return _copy(backend, getattr(given, "split_special_tokens", False))


def _has_definition(backend: tokenizers.Tokenizer) -> bool:
    """Return whether no part of a tokenizer is written in Python, which no definition has."""
    try:
        for name in _PARTS:
            if (part := getattr(backend, name)) is not None:
                part.__getstate__()
    except Exception:  # tokenizers raises bare Exception
        return False
    return True


def _copy(backend: tokenizers.Tokenizer, encode_special_tokens: bool) -> tokenizers.Tokenizer:
    """Return a tokenizer without truncation and padding, and with this setting."""
    copied = tokenizers.Tokenizer(backend.model)
    for name in _PARTS:
        if (part := getattr(backend, name)) is not None:
            setattr(copied, name, part)
    # In the order of their ids, so that each gets the same one again.
    added = [token for _, token in sorted(backend.get_added_tokens_decoder().items())]
    for is_special, tokens in groupby(added, key=lambda token: token.special):
        (copied.add_special_tokens if is_special else copied.add_tokens)(list(tokens))
    copied.encode_special_tokens = encode_special_tokens
    return copied
