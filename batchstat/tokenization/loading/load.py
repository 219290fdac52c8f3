"""Load a tokenizer by what the user wrote: `builtin`, a tokenizer.json, a folder, or a hub name."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers.models import BPE

from batchstat.errors import InputError, OptionError
from batchstat.tokenization import builtin
from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.counting.panics import panics_as_errors
from batchstat.tokenization.counting.piece_counter import PieceCounter
from batchstat.tokenization.counting.safe_cuts import find_cuts
from batchstat.tokenization.encoder import Encoder, TextEncoder
from batchstat.tokenization.loading.hub import HUB_NAME, hub_answers, import_quietly
from batchstat.tokenization.loading.load_errors import (
    check_complete,
    not_loaded,
    one_line,
    stated_maximum,
)
from batchstat.tokenization.loading.python_tokenizer import from_callable
from batchstat.tokenization.loading.state_digest import definition_of, full_definition
from batchstat.tokenization.token_positions import TokenLocator
from batchstat.tokenization.tokenizer import Tokenizer

_LIBRARY = f"tokenizers {tokenizers.__version__}"

_CALLS = ("__call__", "_call_one", "encode_plus", "_encode_plus", "_batch_encode_plus")
"""Methods that a call of a transformers tokenizer runs through before its backend."""

_HARMLESS_MODULES = {
    *("bart", "blenderbot", "bloom", "codegen", "cohere", "deberta"),
    *("gpt2", "led", "longformer", "mvp", "roberta", "whisper"),
}
"""Modules in which transformers 4 overrides these methods only to reject texts that are already
split into words."""


def load_tokenizer(name: str) -> Tokenizer:
    """Load the tokenizer called `name`; never substitute another.

    Raises:
        InputError: it cannot be loaded; the message says how to get one.
    """
    if name == builtin.NAME:
        return _builtin()
    path = Path(name)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError as error:  # a name that is too long, or a folder that must not be read
        reason = error.strerror or str(error)
        raise InputError(f"tokenizer {name!r} cannot be loaded: {reason}: check the path") from None
    if is_file:
        return _from_file(name, path)
    # `tokenizer.json` would be a valid name on the hub, but is meant as a file, which is missing.
    is_hub_name = HUB_NAME.fullmatch(name) and path.suffix != ".json"
    # For an empty name, `path` is the working folder, which nobody meant.
    if not name or not (is_folder or is_hub_name):
        raise InputError(
            f"tokenizer {name!r}: no such file or folder: check the path, or use the built-in one: "
            f"--tokenizer {builtin.NAME}"
        )
    return _from_transformers(name)


def _from_file(name: str, path: Path) -> Tokenizer:
    """Load a tokenizer.json that stands alone, without a tokenizer_config.json.

    Its maximum length is that of the truncation that is stored in it; None without one.
    """
    try:
        backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        stated = (backend.truncation or {}).get("max_length")
        maximum = stated_maximum(stated, f"{path.as_posix()}: max_length of its truncation")
        return _from_backend(name, backend, maximum)
    except InputError:
        raise
    except Exception as error:  # tokenizers raises bare Exception for a malformed definition
        raise InputError(
            f"tokenizer {name!r} cannot be loaded: {one_line(error)}: pass a tokenizer.json, or "
            "the folder of a saved tokenizer"
        ) from None


def _builtin() -> Tokenizer:
    """Return the built-in tokenizer.

    Its settings are known, so the tokenizers library parses it only when something is counted.
    """
    return Tokenizer(
        name=builtin.NAME,
        define=lambda: full_definition(builtin.definition(), splits_special_tokens=False),
        special_tokens_per_sample=0,
        special_tokens_per_pair=0,
        max_length=builtin.MAX_LENGTH,
        library=_LIBRARY,
        load=lambda: _encoder(*_parsed_builtin()),
        made_by=(_builtin, ()),
    )


@cache  # nothing modifies either, and a process may count several corpora
def _parsed_builtin() -> tuple[tokenizers.Tokenizer, Callable[[], Any]]:
    """Return the built-in tokenizer, and what makes the transformers tokenizer of it."""
    backend = tokenizers.Tokenizer.from_str(builtin.definition())
    return backend, cache(partial(_as_transformers, backend, builtin.CHAT_TEMPLATE))


def _from_backend(
    name: str, backend: tokenizers.Tokenizer, max_length: int | None, loaded: Any = None
) -> Tokenizer:
    """Wrap a tokenizer of the tokenizers library.

    Args:
        name: as the user wrote it.
        backend: the tokenizer, which is modified: truncation and padding are switched off.
        max_length: its `model_max_length`; None if it has none.
        loaded: the transformers tokenizer that the backend belongs to; None if there is none.
    """
    backend.no_truncation()
    backend.no_padding()
    with panics_as_errors():  # with some post-processors, it panics on an empty text
        special = len(backend.encode("").ids), len(backend.encode("", "").ids)
    as_transformers = cache(lambda: _as_transformers(backend, None) if loaded is None else loaded)
    return Tokenizer(
        name=name,
        define=lambda: definition_of(backend),
        special_tokens_per_sample=special[0],
        special_tokens_per_pair=special[1],
        max_length=max_length,
        library=_LIBRARY,
        load=lambda: _encoder(backend, as_transformers),
        made_by=(_rebuild, (backend, backend.encode_special_tokens, name, max_length, loaded)),
    )


def _as_transformers(backend: tokenizers.Tokenizer, chat_template: str | None) -> Any:
    """Return a transformers tokenizer with a copy of the backend, which takes time."""
    return import_quietly("PreTrainedTokenizerFast")(
        tokenizer_object=backend, chat_template=chat_template
    )


def _encoder(backend: tokenizers.Tokenizer, as_transformers: Callable[[], Any]) -> Encoder:
    """Return the encoder of a tokenizer of the tokenizers library, with the faster ways of counting
    that are exact for it.

    Args:
        backend: the tokenizer.
        as_transformers: returns the transformers tokenizer that it belongs to, always the same.
    """
    cuts = find_cuts(backend)

    def shortcuts(*, special_tokens: bool) -> dict[str, Any]:
        # The faster ways of counting, as arguments of TextEncoder. The engine counts only BPE.
        is_bpe = isinstance(backend.model, BPE)
        return {
            # `cuts` is None, and so is this, if texts of the tokenizer cannot be cut.
            "pieces": cuts and PieceCounter(backend, cuts, special_tokens=special_tokens),
            "engine": EngineCounter(backend, special_tokens=special_tokens) if is_bpe else None,
        }

    # Chats are texts in which the template has written the special tokens: no others are added.
    rendered = TextEncoder(
        encode=lambda texts: backend.encode_batch_fast(texts, add_special_tokens=False),
        **shortcuts(special_tokens=False),
    )
    return Encoder(
        encode=backend.encode_batch_fast,
        rendered=rendered,
        find_positions=TokenLocator(backend).locate,
        as_transformers=as_transformers,
        **shortcuts(special_tokens=True),
    )


def _rebuild(
    backend: tokenizers.Tokenizer,
    encode_special_tokens: bool,
    name: str,
    max_length: int | None,
    loaded: Any,
) -> Tokenizer:
    """Build a tokenizer again from its pickle, in another process.

    The pickle of a backend omits `encode_special_tokens`, which is set here.
    """
    backend.encode_special_tokens = encode_special_tokens
    return _from_backend(name, backend, max_length, loaded)


def _from_transformers(name: str) -> Tokenizer:
    """Load with AutoTokenizer, without running code from the tokenizer's own repository."""
    auto_tokenizer = import_quietly("AutoTokenizer")
    is_folder = Path(name).is_dir()
    offline = is_folder or not hub_answers()
    file = "tokenizer_config.json"
    # Where a wrong setting is to be found, for messages.
    origin = (Path(name) / file).as_posix() if is_folder else f"{file} of {name}"
    try:
        tokenizer = auto_tokenizer.from_pretrained(
            name, trust_remote_code=False, local_files_only=offline
        )
        check_complete(name, tokenizer)
        return _from_loaded(name, tokenizer, origin)
    except InputError:
        raise
    # The error may be of any class: transformers passes on whatever a file or the hub causes, and a
    # tokenizer may raise on the empty text, on which it is tried.
    except Exception as error:
        raise not_loaded(name, offline, error) from None


def as_tokenizer(given: Any) -> Tokenizer:
    """Return the `Tokenizer` for whatever a user passes as one.

    Args:
        given: a name or path, or a tokenizer of tokenizers or transformers, which is not modified.

    Raises:
        OptionError: `given` is something else.
        InputError: it cannot be loaded.
    """
    if isinstance(given, Tokenizer):
        return given
    if isinstance(given, str | os.PathLike):
        return load_tokenizer(os.fspath(given))
    if isinstance(given, tokenizers.Tokenizer):
        # A copy is needed only where truncation or padding have to be switched off.
        is_plain = given.truncation is None and given.padding is None
        backend = given if is_plain else _copy(given, given.encode_special_tokens)
        return _from_backend(type(given).__name__, backend, max_length=None)
    # A tokenizer of transformers, recognized without importing it.
    if hasattr(given, "get_vocab") and hasattr(given, "init_kwargs"):
        kind = type(given).__name__
        # Its name is where it was loaded from: a recipe loads it from there again.
        return _from_loaded(given.name_or_path or kind, given, f"the {kind}")
    raise OptionError(
        f"unsupported tokenizer type {type(given).__name__}: pass a name, a path, or a tokenizer "
        "of tokenizers or transformers"
    )


def _from_loaded(name: str, tokenizer: Any, origin: str) -> Tokenizer:
    """Wrap a transformers tokenizer.

    Where a call of the tokenizer only passes texts on to its backend, a copy of the backend counts.
    Otherwise the tokenizer is called.

    Args:
        name: as the user wrote it.
        tokenizer: the tokenizer.
        origin: where its settings come from, for messages.
    """
    stated = getattr(tokenizer, "model_max_length", None)
    max_length = stated_maximum(stated, f"{origin}: model_max_length")
    backend = getattr(tokenizer, "backend_tokenizer", None)
    backend_copy = None
    if isinstance(backend, tokenizers.Tokenizer) and _encodes_by_backend(tokenizer):
        # A backend with a component that is written in Python cannot be copied: it raises anything.
        with suppress(Exception):
            backend_copy = _copy(backend, getattr(tokenizer, "split_special_tokens", False))
    if backend_copy is None:
        return from_callable(name, tokenizer, max_length)
    return _from_backend(name, backend_copy, max_length, loaded=tokenizer)


def _encodes_by_backend(tokenizer: Any) -> bool:
    """Return whether a call of a transformers tokenizer only passes texts to its backend.

    That is so if its class overrides none of the methods in between, or only in a harmless way.
    """
    kind, base = type(tokenizer), import_quietly("PreTrainedTokenizerFast")
    # Both are None where this version of transformers has no such method.
    methods = [(getattr(kind, name, None), getattr(base, name, None)) for name in _CALLS]
    # A class overrides a method if it does not have that of the base.
    overriding_modules = [method.__module__ for method, of_base in methods if method is not of_base]
    return all(_HARMLESS_MODULES.intersection(module.split(".")) for module in overriding_modules)


def _copy(backend: tokenizers.Tokenizer, encode_special_tokens: bool) -> tokenizers.Tokenizer:
    """Return a copy that may be modified, with the only setting that its definition omits."""
    copied = tokenizers.Tokenizer.from_str(backend.to_str())
    copied.encode_special_tokens = encode_special_tokens
    return copied
