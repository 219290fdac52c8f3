"""Load a tokenizer by what the user wrote: `builtin`, a tokenizer.json, a folder, or a hub name."""

import os
from contextlib import suppress
from functools import cache
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
"""Methods between calling a transformers tokenizer and its backend."""

_REFUSES_WORDS = frozenset(
    (
        *("bart", "blenderbot", "bloom", "codegen", "cohere", "deberta"),
        *("gpt2", "led", "longformer", "mvp", "roberta", "whisper"),
    )
)
"""Modules in which transformers 4 overrides them only to reject texts already split into words."""


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
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"tokenizer {name!r} cannot be loaded: {reason}: check the path") from None
    if is_file:
        return _from_file(name, path)
    # tokenizer.json could be a name of the hub, but is a file that is missing.
    is_name = HUB_NAME.fullmatch(name) and path.suffix != ".json"
    if not name or not (is_folder or is_name):
        raise InputError(
            f"tokenizer {name!r}: no such file or folder: check the path, or use the built-in one: "
            f"--tokenizer {builtin.NAME}"
        )
    return _from_transformers(name)


def _from_file(name: str, path: Path) -> Tokenizer:
    """Load a bare tokenizer.json; its maximum is that of its stored truncation, if any."""
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
    """Return the built-in tokenizer, all of whose settings are known before it is loaded."""
    definition = builtin.definition()
    return Tokenizer(
        name=builtin.NAME,
        define=lambda: full_definition(definition, splits_special_tokens=False),
        special_tokens_per_sample=0,
        special_tokens_per_pair=0,
        max_length=builtin.MAX_LENGTH,
        library=_LIBRARY,
        load=lambda: _encoder(
            tokenizers.Tokenizer.from_str(definition), None, builtin.CHAT_TEMPLATE
        ),
        made_by=(_builtin, ()),
    )


def _from_backend(
    name: str, backend: tokenizers.Tokenizer, max_length: int | None, loaded: Any = None
) -> Tokenizer:
    """Wrap a backend that may be modified; `loaded` is the transformers tokenizer it belongs to."""
    backend.no_truncation()
    backend.no_padding()
    with panics_as_errors():  # some post-processors make it panic
        special = len(backend.encode("").ids), len(backend.encode("", "").ids)
    return Tokenizer(
        name=name,
        define=lambda: definition_of(backend),
        special_tokens_per_sample=special[0],
        special_tokens_per_pair=special[1],
        max_length=max_length,
        library=_LIBRARY,
        load=lambda: _encoder(backend, loaded, None),
        made_by=(_again, (backend, backend.encode_special_tokens, name, max_length, loaded)),
    )


def _encoder(backend: tokenizers.Tokenizer, loaded: Any, chat_template: str | None) -> Encoder:
    """Return what counts by a backend, and faster where that is exact; `loaded`: the transformers
    object, None where it is made, with the chat template, when it is asked for.
    """

    @cache  # transformers copies the backend
    def as_transformers() -> Any:
        if loaded is not None:
            return loaded
        return import_quietly("PreTrainedTokenizerFast")(
            tokenizer_object=backend, chat_template=chat_template
        )

    cuts = find_cuts(backend)

    def shortcuts(*, special_tokens: bool) -> dict[str, Any]:
        is_bpe = isinstance(backend.model, BPE)
        return {
            "pieces": cuts and PieceCounter(backend, cuts, special_tokens=special_tokens),
            "engine": EngineCounter(backend, special_tokens=special_tokens) if is_bpe else None,
        }

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


def _again(
    backend: tokenizers.Tokenizer,
    encode_special_tokens: bool,
    name: str,
    max_length: int | None,
    loaded: Any,
) -> Tokenizer:
    """Rebuild a tokenizer after pickling; a backend's pickle omits one setting."""
    backend.encode_special_tokens = encode_special_tokens
    return _from_backend(name, backend, max_length, loaded)


def _from_transformers(name: str) -> Tokenizer:
    """Load with AutoTokenizer, without running code from the tokenizer's own repository."""
    auto_tokenizer = import_quietly("AutoTokenizer")
    local = Path(name).is_dir()
    offline = local or not hub_answers()
    file = "tokenizer_config.json"
    origin = (Path(name) / file).as_posix() if local else f"{file} of {name}"
    try:
        tokenizer = auto_tokenizer.from_pretrained(
            name, trust_remote_code=False, local_files_only=offline
        )
        check_complete(name, tokenizer)
        return _from_loaded(name, tokenizer, origin)
    except InputError:
        raise
    # transformers passes on anything that a file or the hub causes, and a tokenizer may raise on an
    # empty text.
    except Exception as error:
        raise not_loaded(name, offline, error) from None


def as_tokenizer(given: Any) -> Tokenizer:
    """Wrap a tokenizer given by name or path, or as a tokenizers or transformers object.

    The object itself is not modified.

    Raises:
        OptionError: something else.
        InputError: it cannot be loaded.
    """
    if isinstance(given, Tokenizer):
        return given
    if isinstance(given, str | os.PathLike):
        return load_tokenizer(os.fspath(given))
    if isinstance(given, tokenizers.Tokenizer):
        is_plain = given.truncation is None and given.padding is None
        backend = given if is_plain else _copy(given, given.encode_special_tokens)
        return _from_backend(type(given).__name__, backend, None)
    if hasattr(given, "get_vocab") and hasattr(given, "init_kwargs"):
        kind = type(given).__name__
        # Where it was loaded from is what a recipe loads again.
        return _from_loaded(given.name_or_path or kind, given, f"the {kind}")
    raise OptionError(
        f"unsupported tokenizer type {type(given).__name__}: pass a name, a path, or a tokenizer "
        "of tokenizers or transformers"
    )


def _from_loaded(name: str, tokenizer: Any, origin: str) -> Tokenizer:
    """Wrap a transformers tokenizer; `origin` is where its settings come from, for messages."""
    stated = getattr(tokenizer, "model_max_length", None)
    max_length = stated_maximum(stated, f"{origin}: model_max_length")
    backend = getattr(tokenizer, "backend_tokenizer", None)
    copied = None
    if isinstance(backend, tokenizers.Tokenizer) and _encodes_by_backend(tokenizer):
        with suppress(Exception):  # tokenizers raises it for components written in Python
            copied = _copy(backend, getattr(tokenizer, "split_special_tokens", False))
    if copied is None:
        return from_callable(name, tokenizer, max_length)
    return _from_backend(name, copied, max_length, tokenizer)


def _encodes_by_backend(tokenizer: Any) -> bool:
    """Return whether calling it does nothing but pass texts to its backend."""
    kind, usual = type(tokenizer), import_quietly("PreTrainedTokenizerFast")
    calls = [(getattr(kind, name, None), getattr(usual, name, None)) for name in _CALLS]
    modules = [own.__module__ for own, inherited in calls if own is not inherited]
    return all(_REFUSES_WORDS.intersection(module.split(".")) for module in modules)


def _copy(backend: tokenizers.Tokenizer, encode_special_tokens: bool) -> tokenizers.Tokenizer:
    """Return a copy that may be modified, with the one setting that its definition omits."""
    copied = tokenizers.Tokenizer.from_str(backend.to_str())
    copied.encode_special_tokens = encode_special_tokens
    return copied
