"""A tokenizer from what the user wrote: `builtin`, a tokenizer.json, a folder, or a hub name."""

import json
import os
import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tokenizers

from batchstat.errors import InputError, OptionError
from batchstat.tokens import builtin
from batchstat.tokens.pieces import find_cuts
from batchstat.tokens.piecewise import PieceCounter
from batchstat.tokens.tokenizer import Tokenizer

_NO_MAXIMUM = 10**9
"""transformers states an astronomical `model_max_length` where a tokenizer has none."""

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer called `name`; never another in its place.

    Raises:
        InputError: it cannot be loaded; the message says how to come by one.
    """
    if name == builtin.NAME:
        return _from_definition(
            name, builtin.definition(), builtin.MAX_LENGTH, builtin.CHAT_TEMPLATE
        )
    path = Path(name)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"tokenizer {name!r} cannot be loaded: {reason}: check the path") from None
    if is_file:
        return _from_file(name, path)
    is_name = _HUB_NAME.fullmatch(name) and path.suffix != ".json"
    if not name or not (is_folder or is_name):
        raise InputError(
            f"tokenizer {name!r}: no such file or folder: check the path, or use the one built in: "
            f"--tokenizer {builtin.NAME}"
        )
    return _from_transformers(name)


def _from_file(name: str, path: Path) -> Tokenizer:
    """A bare tokenizer.json: its maximum is that of the truncation stored in it, if any."""
    try:
        backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        max_length = (backend.truncation or {}).get("max_length")
        return _from_backend(name, backend, max_length)
    except Exception as error:  # tokenizers raises bare Exception for a malformed definition
        raise InputError(
            f"tokenizer {name!r} cannot be loaded: {_one_line(error)}: pass a tokenizer.json, or "
            "the folder of a saved tokenizer"
        ) from None


def _from_definition(
    name: str, definition: str, max_length: int | None, chat_template: str | None = None
) -> Tokenizer:
    backend = tokenizers.Tokenizer.from_str(definition)
    return _from_backend(name, backend, max_length, chat_template=chat_template)


def _as_transformers(
    backend: tokenizers.Tokenizer, chat_template: str | None = None
) -> Callable[[], Any]:
    return lambda: _import_quietly("PreTrainedTokenizerFast")(
        tokenizer_object=backend, chat_template=chat_template
    )


def _from_backend(
    name: str,
    backend: tokenizers.Tokenizer,
    max_length: int | None,
    loaded: Any = None,
    chat_template: str | None = None,
) -> Tokenizer:
    """Of a backend to change; `loaded` is what it is the backend of, as transformers has it."""
    backend.no_truncation()
    backend.no_padding()
    cuts = find_cuts(backend)
    origin = (backend.encode_special_tokens, name, max_length, loaded, chat_template)
    return Tokenizer(
        name=name,
        define=backend.to_str,
        special_tokens_per_sample=backend.num_special_tokens_to_add(False),
        special_tokens_per_pair=backend.num_special_tokens_to_add(True),
        max_length=max_length,
        library=f"tokenizers {tokenizers.__version__}",
        encode=backend.encode_batch_fast,
        as_transformers=_as_transformers(backend, chat_template)
        if loaded is None
        else lambda: loaded,
        made_by=(_again, (backend, *origin)),
        pieces=None if cuts is None else PieceCounter(backend, cuts),
    )


def _again(
    backend: tokenizers.Tokenizer,
    encode_special_tokens: bool,
    name: str,
    max_length: int | None,
    *origin: Any,
) -> Tokenizer:
    """What pickling leaves out of a backend is the one setting that its definition does."""
    backend.encode_special_tokens = encode_special_tokens
    return _from_backend(name, backend, max_length, *origin)


def _from_transformers(name: str) -> Tokenizer:
    """Through AutoTokenizer, without running code from the tokenizer's own repository."""
    auto_tokenizer = _import_quietly("AutoTokenizer")
    local = Path(name).is_dir()
    offline = local or not _hub_answers()
    try:
        tokenizer = auto_tokenizer.from_pretrained(
            name, trust_remote_code=False, local_files_only=offline
        )
    except Exception as error:  # transformers lets through whatever a file or the hub made it raise
        raise _not_loaded(name, local, offline, error) from None
    return _from_loaded(name, tokenizer)


def as_tokenizer(given: Any) -> Tokenizer:
    """A tokenizer by its name or path, or as tokenizers or transformers has it; unchanged.

    Raises:
        OptionError: something else.
        InputError: it cannot be loaded.
    """
    if isinstance(given, str | os.PathLike):
        return load_tokenizer(os.fspath(given))
    if isinstance(given, tokenizers.Tokenizer):
        as_it_is = given.truncation is None and given.padding is None
        backend = given if as_it_is else _copy(given, given.encode_special_tokens)
        return _from_backend(type(given).__name__, backend, None)
    if hasattr(given, "get_vocab") and hasattr(given, "init_kwargs"):
        return _from_loaded(type(given).__name__, given)
    raise OptionError(
        f"a tokenizer of type {type(given).__name__}: give a name, a path, or one of tokenizers or "
        "transformers"
    )


def _from_loaded(name: str, tokenizer: Any) -> Tokenizer:
    stated = getattr(tokenizer, "model_max_length", None)
    max_length = int(stated) if stated is not None and stated < _NO_MAXIMUM else None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if isinstance(backend, tokenizers.Tokenizer):
        own = _copy(backend, getattr(tokenizer, "split_special_tokens", False))
        return _from_backend(name, own, max_length, tokenizer)
    return _from_python(name, tokenizer, max_length)


def _copy(backend: tokenizers.Tokenizer, encode_special_tokens: bool) -> tokenizers.Tokenizer:
    """A tokenizer to change, with the one setting that its definition leaves out."""
    own = tokenizers.Tokenizer.from_str(backend.to_str())
    own.encode_special_tokens = encode_special_tokens
    return own


def _import_quietly(name: str) -> Any:
    """A name of transformers, which without torch would say so; here that is as it should be."""
    before = os.environ.get("TRANSFORMERS_VERBOSITY")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        return getattr(import_module("transformers"), name)
    finally:
        if before is None:
            del os.environ["TRANSFORMERS_VERBOSITY"]


def _from_python(name: str, tokenizer: Any, max_length: int | None) -> Tokenizer:
    """A tokenizer written in Python, such as ByT5's, which has no tokenizer.json."""
    paths = ("name_or_path", "tokenizer_file", "vocab_file")
    settings = {key: str(value) for key, value in tokenizer.init_kwargs.items() if key not in paths}
    definition = {
        "class": type(tokenizer).__name__,
        "vocabulary": tokenizer.get_vocab(),
        "settings": settings,
    }

    def encode(samples: list[Any]) -> list[list[int]]:
        pairs = list(zip(*samples, strict=True)) if isinstance(samples[0], tuple) else [samples]
        encoded = tokenizer(
            *map(list, pairs),
            padding=False,
            truncation=False,
            verbose=False,
            return_attention_mask=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    return Tokenizer(
        name=name,
        define=lambda: json.dumps(definition, sort_keys=True),
        special_tokens_per_sample=len(encode([""])[0]),
        special_tokens_per_pair=len(encode([("", "")])[0]),
        max_length=max_length,
        library=f"transformers {version('transformers')}",
        encode=encode,
        as_transformers=lambda: tokenizer,
        made_by=(_from_python, (name, tokenizer, max_length)),
    )


def _hub_answers() -> bool:
    """Whether Hugging Face's hub can be reached: asked once, where its client would retry 46 s."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=10)
    except Exception:  # any failure to connect, of whichever HTTP library the client uses
        return False
    return True


def _not_loaded(name: str, local: bool, offline: bool, error: Exception) -> InputError:
    if "trust_remote_code" in str(error):
        reason = "it wants to run code of its own, which batchstat never does"
        remedy = "pass a tokenizer.json"
    elif local:
        reason, remedy = _local_reason(Path(name), error), "pass the folder of a saved tokenizer"
    elif offline:
        reason = (
            "no such file or folder, not in the local cache, and Hugging Face's hub not reached"
        )
        remedy = (
            f"where there is a network, run hf download {name} --include '*token*' '*.json' "
            "--local-dir FOLDER and pass --tokenizer FOLDER"
        )
    else:
        reason, remedy = _one_line(error), "check the name, or set HF_TOKEN for a gated one"
    return InputError(
        f"tokenizer {name!r} cannot be loaded: {reason}: {remedy}, or use the one built in: "
        f"--tokenizer {builtin.NAME}"
    )


def _local_reason(folder: Path, error: Exception) -> str:
    patterns = ("*token*", "*vocab*", "*.model")
    if not any(match for pattern in patterns for match in folder.glob(pattern)):
        return "the folder holds no tokenizer, such as a tokenizer.json"
    definition = folder / "tokenizer.json"
    try:
        if definition.exists():
            tokenizers.Tokenizer.from_file(str(definition))
    except Exception as broken:  # tokenizers raises bare Exception for a malformed definition
        return f"tokenizer.json is malformed: {_one_line(broken)}"
    return _one_line(error)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"
