"""Choose which columns of a file are read."""

from collections.abc import Sequence
from difflib import get_close_matches

from batchstat.corpus.chat import SETTINGS_COLUMN, TOOLS_COLUMN
from batchstat.corpus.chunk import Columns
from batchstat.corpus.options import SINGLE_COLUMNS, CorpusOptions
from batchstat.errors import ColumnError, InputError

TEXT_NAMES = ("text", "content", "sentence", "review", "prompt")
COMPLETION_NAMES = ("prompt", "completion")
CHAT_NAMES = ("messages", "conversations", "conversation")
_TOKENS_NAME = "input_ids"


def choose_columns(
    path: str, names: Sequence[str], texts: Sequence[str], options: CorpusOptions
) -> Columns:
    """Choose the columns to read from the columns `names` of a file, of which `texts` hold text.

    If no content column is requested, it is the only column that holds text, or the one with a
    usual name.

    Raises:
        InputError: a column is missing or appears twice, or the text column is ambiguous.
    """
    for flag in SINGLE_COLUMNS:
        column = getattr(options, flag)
        if column is not None:
            _require(path, column, names, f"--{flag.replace('_', '-')}")
    for column in options.text_column:
        _require(path, column, names, "--text-column")
    single = options.messages_column or options.tokens_column or options.length_column
    content = (single,) if single else options.text_column
    if options.prompt_column and options.completion_column:
        content = (options.prompt_column, options.completion_column)
    has_tools = options.may_hold_chats and TOOLS_COLUMN in names
    has_settings = options.chats_as_written and SETTINGS_COLUMN in names
    return Columns(
        content or (_find_text(path, names, texts, options),),
        options.label_column,
        TOOLS_COLUMN if has_tools else None,
        SETTINGS_COLUMN if has_settings else None,
        options.trained_column,
    )


def _find_text(
    path: str, names: Sequence[str], texts: Sequence[str], options: CorpusOptions
) -> str:
    others = (options.label_column, options.trained_column)
    candidates = [name for name in dict.fromkeys(texts) if name not in others]
    usual = [name for name in candidates if name.lower() in TEXT_NAMES]
    chats = [name for name in names if name in CHAT_NAMES and name not in texts]
    chosen = candidates if len(candidates) == 1 and not chats else usual
    # `prompt` is a usual name of texts, but beside a completion it is half of one.
    completes = set(COMPLETION_NAMES) <= set(names)
    if len(chosen) == 1 and not completes:
        _require(path, chosen[0], names, "--text-column")
        return chosen[0]
    remedy = f"--messages-column {chats[0]}" if chats else "--text-column NAME"
    if not texts and _TOKENS_NAME in names:
        remedy = f"--tokens-column {_TOKENS_NAME}"
    if completes:
        remedy = "--prompt-column prompt --completion-column completion"
    raise InputError(
        f"{path}: cannot tell the text column (has: {_listed(names)}): pass {remedy}"
        f"{_data_for_names(path, names)}"
    )


def _require(path: str, column: str, names: Sequence[str], flag: str) -> None:
    count = list(names).count(column)
    if count > 1:
        raise InputError(f"{path}: column {column!r} appears {count} times: rename one")
    if count == 0:
        near = get_close_matches(column, names, n=1, cutoff=0.5) or names
        example = near[0] if len(near) == 1 else "NAME"
        # Two columns in one flag, as other tools take them.
        pair = [each.strip() for each in column.split(",")]
        if len(pair) == 2 and set(pair) <= set(names):
            example = f" {flag} ".join(pair)
        raise ColumnError(
            f"column {column!r} not in {path} (has: {_listed(names)}): pass {flag} {example}"
            f"{_data_for_names(path, names)}",
            names,
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20]) if names else "no columns"
    return f"{shown}, … {len(names) - 20} more" if len(names) > 20 else shown


def _data_for_names(path: str, names: Sequence[str]) -> str:
    """Return what to do if the first row of a table seems to be data."""
    is_text = any(ending in path for ending in (".csv", ".tsv"))
    if is_text and any(len(name) > _LONGEST_NAME and " " in name for name in names):
        return "; its first row looks like data: if it is, pass --no-header"
    return ""


_LONGEST_NAME = 30
