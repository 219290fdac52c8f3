"""Messages for tokenizers that cannot be loaded, and the check of their `model_max_length`."""

import math
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers

from batchstat.errors import InputError
from batchstat.tokenization import builtin

_SENTENCEPIECE = {"sentencepiece": "sentencepiece", "google.protobuf": "protobuf"}
"""Modules that read a SentencePiece model, and the packages that provide them."""

_SPACES = "▁Ġ \t\n"
"""How spaces are written in vocabularies. A class that finds no vocabulary makes one that has such
an entry and special tokens only."""


def stated_maximum(value: object, what: str) -> int | None:
    """Return the maximum length that a tokenizer states; None for none. Raises InputError."""
    # A value that is no number becomes nan: both comparisons with it below are false.
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    # transformers sets an astronomical number for a tokenizer that has no maximum.
    if value is None or number >= 10**9:
        return None
    if not (number >= 1 and number == int(number)):
        raise InputError(
            f"{what} is {_shortened(repr(value), 80)}, not an integer of at least 1",
            "correct or remove it there",
        )
    return int(number)


def check_complete(name: str, tokenizer: Any) -> None:
    """Raise InputError if a transformers tokenizer has no vocabulary: from a folder that lacks its
    files, transformers makes, without an error, one that knows only special tokens.
    """
    added = {str(token) for token in tokenizer.added_tokens_decoder.values()}
    excluded = added.union(map(str, tokenizer.all_special_tokens))
    # It has a vocabulary if any other entry has more than spaces.
    if any(entry.strip(_SPACES) for entry in tokenizer.get_vocab() if entry not in excluded):
        return
    # The class may name tokenizer.json too: each file is listed once.
    files = dict.fromkeys([*tokenizer.vocab_files_names.values(), "tokenizer.json"])
    reason = _lacks_library(Path(name)) or (
        f"{type(tokenizer).__name__} finds no vocabulary there (looks for {', '.join(files)})"
    )
    raise _refusal(name, reason, "pass the folder of a saved tokenizer")


def not_loaded(name: str, offline: bool, error: Exception) -> InputError:
    """Return the error for a name from which transformers could not load a tokenizer."""
    if "trust_remote_code" in str(error):
        reason = "it requires trust_remote_code, which batchstat never enables"
        remedy = "pass a tokenizer.json"
    elif Path(name).is_dir():
        reason, remedy = _local_reason(Path(name), error), "pass the folder of a saved tokenizer"
    elif offline:
        reason = (
            "no such file or folder, not in the local cache, and Hugging Face's hub not reachable"
        )
        remedy = (
            f"on a machine with network, run hf download {name} --include '*token*' '*.json' "
            "--local-dir FOLDER and pass --tokenizer FOLDER"
        )
    else:
        reason, remedy = one_line(error), "check the name, or set HF_TOKEN for a gated one"
        # If a library for SentencePiece models is missing, the message of transformers names it.
        packages = _missing(_SENTENCEPIECE)
        if packages and any(word in reason for word in ("sentencepiece", "tiktoken", "protobuf")):
            remedy = f"if it is a SentencePiece model, pip install {' '.join(packages)}"
    # A folder of that name up to two levels below the working folder may be what the user means.
    if not Path(name).is_dir():
        with suppress(OSError):
            paths = (path for stars in ("*", "*/*") for path in Path().glob(f"{stars}/{name}"))
            folder = next((path for path in paths if (path / "tokenizer.json").is_file()), None)
            if folder is not None:
                remedy = f"pass --tokenizer {folder.as_posix()}, a folder of that name"
    return _refusal(name, reason, remedy)


def one_line(error: Exception) -> str:
    """Return an error's text without line breaks, shortened."""
    return _shortened(" ".join(str(error).split()) or type(error).__name__, 200)


def _refusal(name: str, reason: str, remedy: str) -> InputError:
    return InputError(
        f"tokenizer {name!r} cannot be loaded: {reason}",
        f"{remedy}, or use the built-in one: --tokenizer {builtin.NAME}",
    )


def _local_reason(folder: Path, error: Exception) -> str:
    """Return why a tokenizer could not be loaded from a folder."""
    patterns = ("*token*", "*vocab*", "*.model")
    if not any(match for pattern in patterns for match in folder.glob(pattern)):
        return "the folder has no tokenizer files, such as a tokenizer.json"
    definition = folder / "tokenizer.json"
    # The file is parsed by itself, to find out whether it is at fault.
    try:
        if definition.exists():
            tokenizers.Tokenizer.from_file(str(definition))
    except Exception as broken:  # tokenizers raises bare Exception for a malformed definition
        return f"tokenizer.json is malformed: {one_line(broken)}"
    return _lacks_library(folder) or one_line(error)


def _lacks_library(folder: Path) -> str:
    """Return which library is missing for a folder's model file; empty if none is."""
    # transformers reads a tokenizer.json without these libraries.
    if (folder / "tokenizer.json").exists():
        return ""
    for model in sorted(folder.glob("*.model")):
        is_tiktoken = _begins_as_text(model)  # otherwise a SentencePiece model, which is binary
        packages = _missing({"tiktoken": "tiktoken"} if is_tiktoken else _SENTENCEPIECE)
        if packages:
            kind = "tiktoken" if is_tiktoken else "SentencePiece"
            return (
                f"{model.name} is a {kind} model, which requires {' and '.join(packages)}: "
                f"pip install {' '.join(packages)}"
            )
    return ""


def _missing(packages: dict[str, str]) -> list[str]:
    return [package for module, package in packages.items() if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # its parent package is missing
        return False


def _begins_as_text(path: Path) -> bool:
    """Return whether the first bytes of a file are ASCII text; not so if it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:
        return False
    return bool(head) and all(0x20 <= byte < 0x7F or byte in b"\r\n" for byte in head)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
