"""How the corpus of a trainer's configuration is read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, short
from batchstat.frameworks.files import check_files
from batchstat.frameworks.setup import TrainingSetup
from batchstat.profiling.inputs import has_columns, is_plain_text, path_holds_chats
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.loading import load_tokenizer
from batchstat.tokenization.template_slots import check_slots
from batchstat.tokenization.turns_apart import check_turns

_CONTENTS = ("text_column", "prompt_column", "tokens_column", "length_column")
_OF_CHATS = (
    "messages_column",
    "assistant_only_loss",
    "keep_roles",
    "chat_template",
    "input_format",
)
"""Keywords of a configuration that those for another content replace."""
_OF_TEXTS = {"append", "min_chars", "tokenizer"}
_WITHOUT_EFFECT = {
    "messages_column": _OF_TEXTS - {"tokenizer"},
    "tokens_column": _OF_TEXTS,
    "length_column": _OF_TEXTS,
    "prompt_column": {"min_chars"},
}
"""Keywords of a configuration for texts that have no effect on other contents."""
_OF_PLAIN_TEXT = {"text_column": ("text",)}
"""The column that lines of plain text have as the datasets library reads them."""


def profile_keywords(setup: TrainingSetup, **given: Any) -> dict[str, Any]:
    """Return the keywords of `batchstat.profile` for the corpus of a configuration.

    Args:
        setup: what the configuration means.
        given: keywords that override it.

    Raises:
        InputError: it names no corpus, one that cannot be read or lacks the trainer's columns, a
            tokenizer without an end-of-sequence token, or another chat template than the trainer's.
    """
    others = set(_CONTENTS) & set(given)
    own = {key: value for key, value in setup.reading.items() if key not in _OF_CHATS}
    found = {**(own if others else setup.reading), **given}
    if not found.get("corpus"):
        raise InputError(setup.no_corpus)
    if "corpus" not in given:
        check_files(setup, found["corpus"])
    if isinstance(found["corpus"], str | Path):
        found["corpus"] = (found["corpus"],)
    if not any(key.endswith("_column") for key in found):
        found |= _columns(setup, found["corpus"][0], found.get("input_format"))
    for name in _without_effect(found) - set(given):
        found.pop(name, None)
    is_text = not {"messages_column", "tokens_column", "length_column", "append"} & set(found)
    if setup.appends_eos and is_text and (named := found.get("tokenizer")):
        found["append"] = _end_of_sequence(named)
    if "messages_column" in found:
        _check_turns(setup, found)
        _check_columns(setup, found["corpus"])
    if "chat_template" not in given:
        _settle_template(setup, found)
    return found


def _without_effect(found: Mapping[str, Any]) -> set[str]:
    """Return the keywords that have no effect on the content of a corpus."""
    return set[str]().union(*(_WITHOUT_EFFECT.get(name, ()) for name in found))


def _settle_template(setup: TrainingSetup, found: dict[str, Any]) -> None:
    """Remove the chat template of a configuration where there are no chats; else check that the
    tokenizer has its tokens.
    """
    if "messages_column" not in found and not _has_chat_pairs(found):
        found.pop("chat_template", None)
    elif setup.template_of is not None:
        _check_tokens(setup.template_of, found.get("tokenizer"))


def _check_tokens(path: Path, tokenizer: str | None) -> None:
    """Raise InputError if a tokenizer lacks tokens of the one whose chat template it gets."""
    if not path.is_dir():
        raise InputError(
            f"the chat template of {path.as_posix()} is not loaded here: pass a tokenizer with its "
            "tokens, --tokenizer, and the file of its template, --chat-template"
        )
    own = load_tokenizer(tokenizer or BUILTIN).encoder.as_transformers().get_vocab()
    theirs = load_tokenizer(path.as_posix()).encoder.as_transformers().added_tokens_decoder
    lacks = [token.content for token in theirs.values() if token.content not in own]
    if lacks:
        raise InputError(
            f"TRL adds the tokens of {path.as_posix()} to the tokenizer {tokenizer or BUILTIN}, "
            f"which lacks {short(lacks[0])}: pass one that has them, as TRL saves it, --tokenizer"
        )


def _has_chat_pairs(found: Mapping[str, Any]) -> bool:
    """Whether prompts and completions are chats."""
    names = ("prompt_column", "completion_column", "input_format")
    options = CorpusOptions(**{name: found[name] for name in names if name in found})
    return options.content == "completion" and path_holds_chats(found["corpus"][0], options)


def _check_turns(setup: TrainingSetup, found: Mapping[str, Any]) -> None:
    """Raise InputError if a trainer tokenizes turns of chats otherwise than the whole."""
    if setup.turns is None:
        return
    template = found.get("chat_template")
    if setup.turns.unknown_template and template is None:
        raise InputError(f"{setup.path.as_posix()} {setup.turns.unknown_template}")
    file = None if template is None else Path(template)
    rules = setup.turns
    if rules.reads_slots and template is None:
        check_slots(found.get("tokenizer"))
    check_turns(found.get("tokenizer"), file, rules.special_tokens, rules.begin, rules.thought)


def _check_columns(setup: TrainingSetup, paths: Sequence[str]) -> None:
    """Raise InputError if a corpus has a column that changes its samples."""
    for name, why in setup.refused_columns.items():
        for path in paths:
            if has_columns(path, CorpusOptions(text_column=(name,))):
                raise InputError(f"{path} has the column {name!r}; {why}")


def _columns(setup: TrainingSetup, path: str, input_format: str | None) -> Mapping[str, Any]:
    """Return those of the trainer's columns that a corpus has."""
    if _OF_PLAIN_TEXT in setup.columns and is_plain_text(path, input_format):
        return {}
    lacks_columns = []
    for columns in setup.columns:
        found = has_columns(path, CorpusOptions(**{"input_format": input_format, **columns}))
        if found:
            return columns
        lacks_columns.append(found is None)
    if setup.no_columns and all(lacks_columns):
        raise InputError(f"{path} {setup.no_columns}")
    # What is wrong with the last of them is the message.
    return setup.columns[-1] if setup.columns else {}


def _end_of_sequence(tokenizer: str) -> str:
    token = load_tokenizer(tokenizer).encoder.as_transformers().eos_token
    if not token:
        raise InputError(
            f"tokenizer {tokenizer!r} has no end-of-sequence token, which the trainer appends to "
            "texts: pass one with --append"
        )
    return str(token)
