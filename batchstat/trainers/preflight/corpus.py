"""How the corpus of a trainer's configuration is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchstat.corpus.files.sources import find_sources, format_by_name
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.profiling.inputs import begins_with_chats, column_names, has_columns
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.chats.chat import template_of
from batchstat.tokenization.loading.load import load_tokenizer
from batchstat.trainers.base.files import check_files
from batchstat.trainers.base.setup import TrainingSetup

_CONTENTS = ("text_column", "prompt_column", "tokens_column", "length_column")  # not chats
_WITHOUT_EFFECT = {
    "messages_column": {"append"},
    "tokens_column": {"append", "tokenizer"},
    "length_column": {"append", "tokenizer"},
}
"""Keywords for texts without effect on other contents, by the keyword of the content."""


def profile_keywords(setup: TrainingSetup, **given: Any) -> dict[str, Any]:
    """Return the keywords with which `batchstat.profile` counts the corpus of a configuration as
    its trainer does. Raises InputError: the configuration names no corpus, or one that cannot be
    read, lacks the trainer's columns, or the tokenizer or chat template is not the trainer's.
    """
    keywords = {**setup.corpus.reading, **given}
    # The configuration's template does not count where the user chooses a content other than chats.
    if set(_CONTENTS) & set(given) and "chat_template" not in given:
        keywords.pop("chat_template", None)
    if not keywords.get("corpus"):
        raise InputError(setup.no_corpus)
    if "corpus" not in given:  # the message of `check_files` is about a configuration's files
        check_files(setup, keywords["corpus"])
    if isinstance(keywords["corpus"], str | Path):
        keywords["corpus"] = (keywords["corpus"],)
    # The trainer's columns that the first file has; all other files are read the same way.
    keywords = {**_column_keywords(setup, keywords), **keywords}
    # Those that the user passes stay, so that `profile` refuses them.
    without_effect = {name for column in keywords for name in _WITHOUT_EFFECT.get(column, ())}
    for name in without_effect - set(given):
        keywords.pop(name, None)
    # Only texts and completions get a token at their end, if nobody names one.
    is_text = not {"messages_column", "tokens_column", "length_column", "append"} & set(keywords)
    if is_text and (token := _appended(setup, keywords)) is not None:
        keywords["append"] = token
    _check_columns(setup, keywords)
    if "chat_template" not in given:
        if "messages_column" not in keywords and not _has_chat_pairs(keywords):
            keywords.pop("chat_template", None)
        elif setup.corpus.check_tokens is not None:
            setup.corpus.check_tokens(keywords.get("tokenizer") or BUILTIN)
    _mark_answers(setup, keywords)
    return keywords


def _mark_answers(setup: TrainingSetup, keywords: dict[str, Any]) -> None:
    """Set the template that marks answers in chats, where these alone carry loss."""
    marked = setup.corpus.answers_template
    if marked is None or not keywords.get("assistant_only_loss"):
        return
    file = keywords.get("chat_template")
    loaded = load_tokenizer(keywords.get("tokenizer") or BUILTIN)
    template = template_of(loaded, None if file is None else Path(file))
    if template and (marked_file := marked(template)) is not None:  # the same template, with marks
        keywords["chat_template"] = marked_file


def _has_chat_pairs(keywords: Mapping[str, Any]) -> bool:
    """Return whether the corpus has pairs of prompts and completions that are chats."""
    names = ("prompt_column", "completion_column", "chat_format", "input_format")
    options = CorpusOptions(**{name: keywords[name] for name in names if name in keywords})
    if options.content != "completion":
        return False
    return begins_with_chats(find_sources(keywords["corpus"][:1], options.input_format)[0], options)


def _check_columns(setup: TrainingSetup, keywords: Mapping[str, Any]) -> None:
    """Raise InputError for a column that makes the trainer treat samples differently."""
    named = _named_columns(keywords)
    # A column that is named is read, whatever it is called.
    refused = setup.corpus.refused_columns(CorpusOptions(**named).content)
    refused = {name: why for name, why in refused.items() if name not in named.values()}
    # Files are opened only if a column could be refused.
    for path in keywords["corpus"] if refused else ():
        for name in column_names(path, keywords.get("input_format")):
            if name in refused:
                raise InputError(f"{path} has the column {name!r}; {refused[name]}")


def _column_keywords(setup: TrainingSetup, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return keywords for the first of the trainer's columns that the first file has."""
    path, input_format = keywords["corpus"][0], keywords.get("input_format")
    # Keywords of `profile`: each candidate names columns, and may have further keywords for them.
    candidates, named = setup.corpus.columns, _named_columns(keywords)
    if named:  # only the further keywords are missing, if the trainer has any
        return next((each for each in candidates if _named_columns(each) == named), {})
    # The datasets library calls the lines of a .txt file `text`: they need no column.
    is_plain_text = (input_format or format_by_name(path)) == "txt"
    if {"text_column": ("text",)} in candidates and is_plain_text:
        return {}
    unreadable = []
    for columns in candidates:
        # True: the file has them; False: it has them, but cannot be read; None: it lacks them.
        has_them = has_columns(path, CorpusOptions(**{"input_format": input_format, **columns}))
        if has_them:
            return columns
        if has_them is not None:
            unreadable.append(columns)
    if unreadable:
        return unreadable[0]  # counting then stops with a message about what is wrong with them
    if setup.corpus.no_columns:  # the message of a trainer that cannot do without them
        raise InputError(f"{path} {setup.corpus.no_columns}")
    # The last ones are the trainer's fallback: counting stops with a message that they are missing.
    return candidates[-1] if candidates else {}


def _named_columns(keywords: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in keywords.items() if k.endswith("_column") and k != "label_column"}


def _appended(setup: TrainingSetup, keywords: Mapping[str, Any]) -> str | None:
    """Return the tokenizer's end-of-sequence token if the trainer appends it; else None."""
    # The built-in tokenizer, which counts if none is named, has no such token.
    tokenizer = keywords.get("tokenizer")
    if not (setup.corpus.appends_eos and tokenizer):
        return None
    # Beside a column of texts TRL appends the token to those, not to completions.
    if "completion_column" in keywords:
        names = column_names(keywords["corpus"][0], keywords.get("input_format"))
        if setup.corpus.eos_column in names:
            return None
    token = load_tokenizer(tokenizer).encoder.as_transformers().eos_token
    if not token:
        raise InputError(
            f"tokenizer {tokenizer!r} has no end-of-sequence token, which the trainer appends to "
            "texts",
            "pass one with --append",
        )
    return str(token)
