"""The corpus of axolotl's configuration: `datasets`, the tokenizer and the chat template."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from batchstat.findings import Finding
from batchstat.trainers.axolotl.keys import AxolotlConfig
from batchstat.trainers.base.rules import CorpusRules, TokenizerRules
from batchstat.words import short

_FORMATS = {
    ".jsonl": "json",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}
"""Endings of files, and what axolotl calls their formats in ds_type."""
_OF_FILES = {"path", "type", "ds_type", "data_files", "split", "trust_remote_code"}
"""Keys of an entry that name its files and its type."""
_SAME = {"role": "role", "content": "content"}
"""axolotl's default of message_property_mappings."""
_OF_CHATS = {
    "field_messages": str,
    # ChatTemplatePrompter takes gpt for assistant.
    "roles_to_train": (["assistant"], ["gpt", "assistant"]),
    "train_on_eos": ("turn",),
    "train_on_eot": ("turn",),
    "chat_template": object,
    "chat_template_jinja": object,
    "message_property_mappings": (_SAME, {"role": "from", "content": "value"}),
    "drop_system_message": (False,),
    "split_thinking": (False,),
}
"""Keys of an entry with chats, and the values that are read: str for any text, object for any
value, else one of several."""
_TEMPLATES = Path(__file__).parent / "templates"
_TURN_ENDS = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>"}
"""Templates of axolotl that batchstat has a copy of, and the token with which each ends a turn."""
_OWN_TEMPLATES = {name: _TEMPLATES / f"{name}.jinja" for name in _TURN_ENDS}
"""Files of these copies, where {% generation %} marks what axolotl trains of assistants' turns;
chatml_all.jinja and llama3_all.jinja mark every message."""
_TOKENIZERS_OWN = "tokenizer_default"
"""The value of chat_template for the tokenizer's own template."""
_TYPES: dict[str, dict[str, Any]] = {
    "chat_template": _OF_CHATS,
    "completion": {"field": str},
    "alpaca": {},
}
"""Types of samples that are read; for each, the further keys of an entry, with values as above."""
_INSTRUCTIONS = {
    "input_format": "alpaca",
    "prompt_column": "prompt",
    "completion_column": "completion",
    "tokenize_apart": True,
}
_REMEDY = "pass the files as CORPUS, with the flags for their columns"


def corpus_of(config: AxolotlConfig) -> CorpusRules:
    """Return how the corpus, the tokenizer and the chat template are read.

    Raises:
        OptionError: prompts of chats are trained in a way that is not modelled, or a chat template
            is missing.
    """
    entries = config.datasets or []
    # The configuration itself and each of its entries may set a template.
    for level in (config.values(), *entries):
        keys = level if isinstance(level, Mapping) else {}
        if keys.get("chat_template") == "jinja" and not keys.get("chat_template_jinja"):
            raise config.error(
                "chat_template=jinja needs chat_template_jinja, a template or its file: add it"
            )
    reading: dict[str, Any] = {}
    if tokenizer := config.tokenizer_config or config.base_model:
        reading["tokenizer"] = tokenizer
    if not entries:
        return CorpusRules(reading=reading)
    # The first thing that is not read in any entry, in words; empty if all is read.
    unread = next(filter(None, map(_find_unread, entries)), "")
    kinds = set() if unread else {_kind_of_entry(entry) for entry in entries}
    # The user has to pass the files; for chats, the template of the configuration still counts.
    if unread or len(kinds) > 1:
        reading |= _shared_template(config, entries)
        why = f"has datasets with {unread or 'entries that differ'}, not read here: {_REMEDY}"
        return CorpusRules(reading=reading, unreadable=why)
    entry_type, column, *_ = kinds.pop()  # all entries are of this kind
    files, unread = _files(entries)
    if files:
        reading["corpus"] = files
    unreadable = f"has datasets with {unread}: {_REMEDY}" if unread else ""
    if entry_type == "chat_template":
        return _chat_rules(config, reading, column, unreadable)
    if entry_type == "alpaca":
        return CorpusRules(reading=reading, columns=(_INSTRUCTIONS,), unreadable=unreadable)
    # Type completion: texts.
    reading["min_chars"] = 1  # axolotl makes no sample of an empty text
    # Texts end with the eos_token that the configuration names, or else with the tokenizer's own.
    if eos := (config.special_tokens or {}).get("eos_token"):
        reading["append"] = eos
    return CorpusRules(
        reading=reading,
        columns=({"text_column": (column,)},),
        unreadable=unreadable,
        appends_eos=not eos,
    )


def loading_of(config: AxolotlConfig, template: Path | None) -> TokenizerRules:
    """Return how axolotl loads the tokenizer: its class and options, the tokens that are added, and
    its end-of-sequence token.

    Args:
        config: the keys.
        template: the file of the chat template; None if it is not known, or there is none.
    """
    legacy, special = config.tokenizer_legacy, dict(config.special_tokens or {})
    special.pop("pad_token", None)  # no text has it, so it changes no length
    further = special.pop("additional_special_tokens", None) or []
    eos_token = ""
    # batchstat's copies of axolotl's templates mark the token that ends a turn as trained. axolotl
    # trains it only if it is the tokenizer's eos_token or one of eot_tokens: unless the
    # configuration names it, the tokenizer must have it as its eos_token.
    if template is not None and _is_own(template):
        turn_end = _TURN_ENDS[template.stem.removesuffix("_all")]
        named_ends = [*(config.eot_tokens or []), special.get("eos_token")]
        eos_token = "" if turn_end in named_ends else turn_end
    return TokenizerRules(
        kind=config.tokenizer_type or TokenizerRules.kind,
        options={} if legacy is None else {"legacy": legacy},
        # The special tokens that have a value, and those of two lists.
        added=tuple(map(str, (*filter(None, special.values()), *(config.tokens or []), *further))),
        eos_token=eos_token,
        set_eos_token=str(special.get("eos_token") or ""),
    )


def _chat_rules(
    config: AxolotlConfig, reading: dict[str, Any], column: str, unreadable: str
) -> CorpusRules:
    """Return how chats are read, and with which template.

    Args:
        config: the keys.
        reading: keywords of `profile` so far; the template is added here.
        column: the column with the messages.
        unreadable: why the files are not read, and the remedy; empty if they are.
    """
    # All entries have the same template here: entries that differ are not read.
    template, own_name = _template_of(config, (config.datasets or [{}])[0])
    if config.train_on_inputs:
        # Every message is trained, which only batchstat's copies of templates can say: each has a
        # second file, `_all`, that marks every message.
        if template not in _OWN_TEMPLATES.values():
            raise config.error(
                f"train_on_inputs=true is not modelled for chats without chat_template="
                f"{' or '.join(_OWN_TEMPLATES)}: remove it, and pass a template with "
                "{% generation %} around every message with --chat-template"
            )
        assert template is not None
        template = template.with_stem(f"{template.stem}_all")
    if template is not None:
        reading["chat_template"] = template
    warnings: tuple[Finding, ...] = ()
    if own_name:
        warnings = (
            Finding(
                "chat/own-template",
                f"{own_name} is a template of axolotl's own: pass its text with --chat-template, "
                "or chats are counted by the template of the tokenizer",
            ),
        )
        # Without its template, the corpus would be counted wrongly: it has to be passed.
        reading.pop("corpus", None)
        unreadable = (
            f"names {own_name}, a template of axolotl's own: pass its text with --chat-template, "
            "and the files as CORPUS"
        )
    refused = {
        "system": "axolotl begins chats with it: write it into the messages, as a message of role "
        "system, and remove the column"
    }
    return CorpusRules(
        reading=reading,
        columns=({"messages_column": column, "assistant_only_loss": True},),
        # In other templates, axolotl itself looks for the contents of assistants.
        turn_ends=None if _is_own(template) else tuple(config.eot_tokens or ()),
        unreadable=unreadable,
        refused_columns=lambda content: refused if content == "messages" else {},
        warnings=warnings,
    )


def _is_own(template: Path | None) -> bool:
    """Whether a file is batchstat's copy of a template of axolotl, which marks what is trained."""
    return template is not None and template.parent == _TEMPLATES


def _further_keys(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an entry that do not name its files or type, with
    message_property_mappings completed by its defaults and by its old names, as axolotl does.
    """
    keys = {k: value for k, value in entry.items() if value is not None and k not in _OF_FILES}
    mappings = keys.get("message_property_mappings") or {}
    if not isinstance(mappings, dict):  # `_find_unread` refuses it
        return keys
    # Values under old names move from the keys into the mappings.
    mapped = mappings | {name: keys.pop(old) for name, old in _OLD_NAMES.items() if old in keys}
    if mapped:
        keys["message_property_mappings"] = {**_SAME, **mapped}
    return keys


# Deprecated in axolotl, which writes their values into message_property_mappings.
_OLD_NAMES = {"role": "message_field_role", "content": "message_field_content"}


def _find_unread(entry: object) -> str:
    """Return the first thing in an entry of `datasets` that is not read; empty if all of it is."""
    if not isinstance(entry, dict):
        return short(entry)
    kind = entry.get("type")  # a table if the user writes the prompt's format into the file
    if not isinstance(kind, str | None) or kind not in _TYPES:
        return f"type {short(kind)}"
    for key, value in _further_keys(entry).items():
        # The values that are read: a type, or one of several; of an unknown key, no value is.
        known = _TYPES[kind].get(key, ())
        is_read = isinstance(value, known) if isinstance(known, type) else value in known
        if not is_read:
            return f"{key}={short(value)}"
    return ""


def _kind_of_entry(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what all entries must share to be read together: the type, the column, and for chats
    the two keys of the template, as text, since the entries are compared in a set.
    """
    keys = _further_keys(entry)
    if entry["type"] != "chat_template":
        return (entry["type"], keys.get("field", "text"))
    templates = (str(keys.get(name)) for name in ("chat_template", "chat_template_jinja"))
    return ("chat_template", keys.get("field_messages", "messages"), *templates)


def _template_of(config: AxolotlConfig, entry: Mapping[str, Any]) -> tuple[Path | None, str]:
    """Return the file of the chat template of an entry and an empty text; or None and what names
    the template, where its text is not known here. For the template of the tokenizer, None and an
    empty text.
    """
    # As `extract_chat_template_args` of axolotl: both keys of the entry, or both of the file.
    keys = entry if entry.get("chat_template") else config.values()
    name, text = keys.get("chat_template"), keys.get("chat_template_jinja")
    if name in (None, "jinja") and text is not None:
        # The text of a template, or the path of its file, which axolotl then reads.
        is_file = "\n" not in text and "{" not in text
        return (Path(text), "") if is_file else (None, "chat_template_jinja")
    # With a fallback, too, the tokenizer's template counts; a tokenizer without one is an error.
    if name in (None, _TOKENIZERS_OWN) or str(name).startswith(f"{_TOKENIZERS_OWN}_fallback_"):
        return None, ""
    if name in _OWN_TEMPLATES:
        return _OWN_TEMPLATES[name], ""
    return None, f"chat_template {str(name)!r}"


def _shared_template(config: AxolotlConfig, entries: Sequence[object]) -> dict[str, Any]:
    """Return the keyword of `profile` for the chat template, if all entries are chats with the same
    known template; else nothing. A corpus that is passed instead of these entries is read with it.
    """
    chats = [
        each
        for each in entries
        if isinstance(each, Mapping) and each.get("type") == "chat_template"
    ]
    templates = {_template_of(config, each)[0] for each in chats}
    is_known = len(chats) == len(entries) and len(templates) == 1 and None not in templates
    return {"chat_template": templates.pop()} if is_known else {}


def _files(entries: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], str]:
    """Return the files of all entries and an empty text; or no files, and why they are not read."""
    files: list[str] = []
    for entry in entries:
        if entry.get("split") not in (None, "train"):
            return (), f"split={short(entry['split'])}, not read here"
        path = entry.get("path")
        # If `path` is a file, axolotl loads it, whatever data_files says.
        paths = path if Path(str(path)).is_file() else entry.get("data_files") or path
        for name in paths if isinstance(paths, list) else [paths]:
            kind = _FORMATS.get(PurePath(str(name)).suffix)
            if kind is None or "://" in str(name):
                return (), f"{short(name)}, which is not a local file"
            if entry.get("ds_type") not in (None, kind):
                return (), f"ds_type={short(entry['ds_type'])}, which {short(name)} does not end in"
            files.append(str(name))
    return tuple(files), ""
