"""Choose which columns of a file are read."""

from collections.abc import Sequence
from difflib import get_close_matches

from batchstat.corpus.chat import SETTINGS_COLUMN, TOOLS_COLUMN
from batchstat.corpus.chunk import Columns
from batchstat.corpus.options import SINGLE_COLUMNS, CorpusOptions
from batchstat.corpus.records_path import NOTHING_INSIDE, Inside
from batchstat.errors import ColumnError, InputError

_OTHER_NAMES = {
    *("id", "label", "labels", "class", "category", "tag", "target"),
    *("lang", "language", "split", "role", "url"),
}
"""Names of columns that hold something else than the text of a sample."""
TEXT_NAMES = ("text", "content", "sentence", "review", "prompt")
_PREFERENCES = ("chosen", "rejected")  # the answers of preference data, such as DPO trains on
_ANSWER_NAMES = ("completion", *_PREFERENCES)
CHAT_NAMES = ("messages", "conversations", "conversation")
_TOKENS_NAME = "input_ids"


def choose_columns(
    path: str,
    names: Sequence[str],
    texts: Sequence[str],
    options: CorpusOptions,
    inside: Inside = NOTHING_INSIDE,
) -> Columns:
    """Choose which columns of a file are read; without an option, the content is the only text, or
    one named as usual. Raises InputError: a column is missing, there twice, or ambiguous.
    """
    # Every column that an option names must be in the file exactly once.
    for option_name in (*SINGLE_COLUMNS, "text_column", "label_column"):
        named = getattr(options, option_name) or ()
        for column in (named,) if isinstance(named, str) else named:
            _require_once(path, column, names, f"--{option_name.replace('_', '-')}")
    content = options.text_column
    if options.content != "text":
        kinds = ("prompt", "completion") if options.content == "completion" else (options.content,)
        content = tuple(getattr(options, f"{kind}_column") for kind in kinds)
    is_guessed = not content
    if not content:
        content = (_find_text_column(path, names, texts, options, inside),)
    # Tools and template settings have fixed names; they are read where the file has such a column.
    has_tools = options.may_hold_chats and TOOLS_COLUMN in names
    has_settings = options.chats_as_written and SETTINGS_COLUMN in names
    return Columns(
        content=content,
        labels=options.label_column,
        tools=TOOLS_COLUMN if has_tools else None,
        settings=SETTINGS_COLUMN if has_settings else None,
        trained=options.trained_column,
        is_guessed=is_guessed,
    )


def _find_text_column(
    path: str, names: Sequence[str], texts: Sequence[str], options: CorpusOptions, inside: Inside
) -> str:
    """Return the text column of a file for which no option names one."""
    other_columns = (*options.label_column, options.trained_column)
    candidates = [name for name in dict.fromkeys(texts) if name not in other_columns]
    # Columns with chats hold lists, and so are not among `texts`.
    chats = [name for name in names if name in CHAT_NAMES and name not in texts]
    chats += [name for name in inside.chats if name not in chats]
    # A lone text column may have any name but that of a label or an id, except beside a chat, token
    # ids or an object with texts: there it may be a source or a class.
    usual_inside = [name for name in inside.texts if name.rpartition(".")[2].lower() in TEXT_NAMES]
    others = bool(chats or usual_inside) or _TOKENS_NAME in names
    is_other = len(candidates) == 1 and (
        candidates[0].lower() in _OTHER_NAMES or candidates[0].lower().endswith(("_id", "_label"))
    )
    if len(candidates) != 1 or others or is_other:
        candidates = [name for name in candidates if name.lower() in TEXT_NAMES]
    # `prompt` is a usual name of texts, but beside answers it is only a part of the sample.
    answers = [name for name in _ANSWER_NAMES if name in names] if "prompt" in names else []
    if len(candidates) == 1 and not answers:
        # Raises if the column appears twice.
        _require_once(path, candidates[0], names, "--text-column")
        return candidates[0]
    if answers:
        remedy = f"--prompt-column prompt --completion-column {answers[0]}"
        # Chats that begin with the prompt, beside the prompt as a text.
        if "prompt" in texts and answers[0] in set(_PREFERENCES) - set(texts):
            remedy = f"--messages-column {answers[0]}"
        remedy += f", or {answers[1]}" if len(answers) > 1 else ""
    elif not candidates and _TOKENS_NAME in names:
        remedy = f"--tokens-column {_TOKENS_NAME}"
    else:
        remedy = _remedy(names, texts, chats, [*usual_inside, *inside.texts], inside)
    raise InputError(
        f"{path}: cannot tell the text column (has: {_listed(names)})",
        f"pass {remedy}{_first_row_hint(path, names)}",
    )


def _remedy(
    names: Sequence[str],
    texts: Sequence[str],
    chats: Sequence[str],
    texts_inside: Sequence[str],
    inside: Inside,
) -> str:
    """Return the option that fits the columns of a file."""
    if chats:
        beside = [name for name in _PREFERENCES if name in names and name not in chats]
        left_out = f", which leaves out {' and '.join(beside)}" if beside else ""
        return f"--messages-column {chats[0]}{left_out}"
    if texts_inside:
        return f"--text-column {texts_inside[0]}"
    if inside.words and not texts:
        return f"--words-column {inside.words[0]}"
    if inside.may_be_alpaca:
        return "--input-format alpaca --messages-column messages"
    return "--text-column NAME" + (f", or --records '{inside.lists[0]}'" if inside.lists else "")


def _require_once(path: str, column: str, names: Sequence[str], flag: str) -> None:
    """Raise InputError unless the column is among the names of the file, and only once."""
    count = list(names).count(column)
    if count > 1:
        raise InputError(f"{path}: column {column!r} appears {count} times", "rename one")
    if count == 0:
        # Suggest a column of a similar name, or the only column there is.
        suggestions = get_close_matches(column, names, n=1, cutoff=0.5) or names
        example = suggestions[0] if len(suggestions) == 1 and "." not in column else "NAME"
        # Other tools take two columns in one flag, `a,b`: here it is `a --text-column b`.
        both = [name.strip() for name in column.split(",")]
        if len(both) == 2 and set(both) <= set(names):
            example = f"{both[0]} {flag} {both[1]}"
        raise ColumnError(
            f"column {column!r} not in {path} (has: {_listed(names)})",
            f"pass {flag} {example}{_first_row_hint(path, names)}",
            names,
        )


def _listed(names: Sequence[str]) -> str:
    # A first row of data may be taken for names: a text of any length.
    shown = ", ".join(
        name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…" for name in names[:20]
    )
    shown = shown or "no columns"
    return f"{shown}, … {len(names) - 20} more" if len(names) > 20 else shown


def _first_row_hint(path: str, names: Sequence[str]) -> str:
    # Anywhere in the path, as `.gz` may follow.
    is_delimited = any(ending in path for ending in (".csv", ".tsv"))
    # A longer text with a space is data rather than the name of a column.
    if is_delimited and any(len(name) > 30 and " " in name for name in names):
        return "; its first row looks like data: if it is, pass --no-header"
    return ""


_MOST_SHOWN = 60  # characters of a name that a message shows
