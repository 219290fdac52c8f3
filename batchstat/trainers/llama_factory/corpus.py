"""The data sets and the chat template that a configuration of LLaMA-Factory names.

Checked against LLaMA-Factory 0.9.5: `get_dataset_list` of src/llamafactory/data/parser.py,
`_load_single_dataset` of loader.py, the converters of converter.py, templates of template.py.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchstat.trainers.base.rules import CorpusRules, TurnRules
from batchstat.trainers.llama_factory.keys import LlamaFactoryArguments
from batchstat.words import short

_CHATML = ("<|im_start|>", "<|im_end|>")
_GEMMA = ("<start_of_turn>", "<end_of_turn>")
_DEEPSEEK = ("<｜User｜>", "<｜Assistant｜>")
_PHI = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
_TEMPLATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "chatml": ("chatml", _CHATML),
    "qwen": ("qwen", _CHATML),
    "qwen3_nothink": ("chatml", _CHATML),
    "llama3": ("llama3", ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")),
    "phi4": ("phi4", (*_CHATML, "<|im_sep|>")),
    "deepseek3": ("deepseek3", _DEEPSEEK),
    "deepseekr1": ("deepseekr1", _DEEPSEEK),
    "gemma": ("gemma", _GEMMA),
    "gemma2": ("gemma", _GEMMA),
    "mistral": ("mistral", ()),
    "phi": ("phi", _PHI),
    "phi4_mini": ("phi4_mini", _PHI),
    "qwen3": ("qwen3", _CHATML),
    "yi": ("chatml", _CHATML),
}
"""Templates of LLaMA-Factory that batchstat has copies of: by their names, the file in templates/,
and the special tokens that the template writes."""

EFFICIENT_EOS = ("gemma2",)
"""Of these templates, those where the token that follows each answer is trained."""

_WITH_THOUGHTS = ("deepseekr1", "qwen3")
"""Of these templates, those that put an empty thought before answers without one."""

_THOUGHT = "<think>\n\n</think>\n\n"
"""The empty thought."""
_BEGINS = {"mistral": " "}
"""What other templates write before each answer."""

_OTHERS = """
alpaca chatml_de cohere cpm4 dbrx deepseek hy3 deepseekcoder default empty ernie ernie_nothink
exaone falcon_h1 granite3 granite4 hunyuan hunyuan_small intern2 lfm2 llama2 llama2_zh moonlight
mimo mimo_v2 minimax1 minimax2 ministral olmo openchat openchat-3.6 opencoder phi_small sailor
seed_coder seed_oss smollm smollm2 starchat telechat2 vicuna xuanyuan youtu yuan zephyr
"""
_NEEDS_TEMPLATE = frozenset(_OTHERS.split())
"""Further templates of LLaMA-Factory, which the user has to pass. They are for texts alone, and
write the end of an answer themselves; others are refused."""

_CHATS = {"assistant_only_loss": True}
ALPACA = {"messages_column": "messages", "input_format": "alpaca", **_CHATS}
"""Keywords of `profile` for alpaca's columns, which batchstat reads as chats in `messages`."""
_PASSED: tuple[Mapping[str, Any], ...] = (
    {"tokens_column": "input_ids", "trained_column": "labels"},
    {"messages_column": "messages", **_CHATS},
    {"messages_column": "conversations", **_CHATS},
)
"""Columns to look for in a corpus that the user passes, as keywords of `profile`."""
# Remedies for data sets that are not read.
_FOR_CHATS = (
    "pass the chats that LLaMA-Factory makes of it as CORPUS, system messages included, in a "
    "column of messages"
)
_FOR_TEXTS = "pass the texts as CORPUS, with --text-column"
_IN_SYSTEM_MESSAGES = {"system", "tools"}
"""Keys of `columns` for columns whose content LLaMA-Factory puts before the messages."""
_ALPACA_COLUMNS = {"prompt": "instruction", "query": "input", "response": "output"}
"""`columns` of a data set in alpaca's format, which are also the default."""
_TAG_NAMES = ("role_tag", "content_tag", "user_tag", "assistant_tag", "system_tag")
# `tags` of a data set that are read: names of keys and roles, as ShareGPT or OpenAI has them.
_TAGS = tuple(
    dict(zip(_TAG_NAMES, tags, strict=True))
    for tags in (
        ("from", "value", "human", "gpt", "system"),
        ("role", "content", "user", "assistant", "system"),
    )
)
_TOOL_TAGS = ("observation_tag", "function_tag")
"""Tags of messages for tools. A chat that has such messages is refused, so their names are free."""

_ALPACA_ENDINGS = (".json", ".jsonl")
_TEXT_ENDINGS = (*_ALPACA_ENDINGS, ".csv", ".parquet", ".arrow", ".txt")
TEXTS = "pt"
"""The stage that trains on texts, which are in the column that a data set calls its prompt."""


def corpus_of_chats(config: LlamaFactoryArguments) -> CorpusRules:
    """Return how chats are read: the chat template, and how turns are tokenized.

    Raises:
        OptionError: a template that is unknown, or whose batches are not modelled.
    """
    name = config.template
    remedy = "pass what it renders with --chat-template"
    if name is not None and name not in _TEMPLATES and name not in _NEEDS_TEMPLATE:
        raise config.error(
            f"template={str(name)[:40]} is not modelled: it is unknown, adds images or "
            "sounds to batches, or ends answers by efficient_eos; name another, such as "
            f"{', '.join(_TEMPLATES)}"
        )
    # Not modelled: mask_history takes the thoughts out of all answers but the last, and without
    # enable_thinking they are taken out of all, and the empty ones are not trained.
    if name in _WITH_THOUGHTS and (config.mask_history or config.enable_thinking is not True):
        key = "mask_history" if config.mask_history else "enable_thinking"
        raise config.error(
            f"template={name} with {key}={short(getattr(config, key))} is not modelled: remove "
            f"{key}"
        )
    if name in EFFICIENT_EOS and config.train_on_prompt:
        raise config.error(
            f"template={name} contradicts train_on_prompt=true, which LLaMA-Factory "
            "refuses: remove one"
        )
    if name in EFFICIENT_EOS and config.mask_history:
        raise config.error(f"template={name} with mask_history=true is not modelled: remove one")
    begin = _BEGINS.get(name or "", "")
    thought = _THOUGHT if name in _WITH_THOUGHTS else ""
    # The copies of templates have LLaMA-Factory's own system messages.
    if config.default_system is not None:
        why = f"has default_system={short(config.default_system)}: {remedy}"
        return CorpusRules(turns=TurnRules(begin=begin, thought=thought, unknown_template=why))
    if name is None:  # LLaMA-Factory then takes the tokenizer's chat template apart
        return CorpusRules(turns=TurnRules(reads_slots=True))
    if name in _NEEDS_TEMPLATE:
        why = f"has template={name}, which is LLaMA-Factory's own and not known here: {remedy}"
        return CorpusRules(turns=TurnRules(unknown_template=why))
    file, tokens = _TEMPLATES[name]
    return CorpusRules(
        reading={"chat_template": Path(__file__).parent / "templates" / f"{file}.jinja"},
        turns=TurnRules(special_tokens=tokens, begin=begin, thought=thought),
    )


def with_data(config: LlamaFactoryArguments, rules: CorpusRules) -> CorpusRules:
    """Add to rules the data sets and the tokenizer that the configuration names, and the columns to
    look for in a corpus that the user passes instead.
    """
    data, unreadable = _named_data(config)
    # Keywords of `profile`: files and columns, then the template, then the tokenizer.
    reading = {**data, **rules.reading}
    if config.model_name_or_path is not None:
        reading["tokenizer"] = config.model_name_or_path
    rules = replace(rules, reading=reading, unreadable=unreadable)
    return _with_passed_columns(config, rules)


def _named_data(config: LlamaFactoryArguments) -> tuple[dict[str, Any], str]:
    """Return the files of the data sets and their columns, as keywords of `profile`, and an empty
    text; or nothing, and why they are not read, with the remedy.
    """
    names, folder = _names(config), config.dataset_dir
    if not names:
        return {}, "names no dataset: set dataset, or pass its files as CORPUS"
    of_texts = config.stage == TEXTS
    remedy = _FOR_TEXTS if of_texts else _FOR_CHATS
    info, why = _read_dataset_info(folder)
    if why:
        return {}, f"{why}: {remedy}"
    files, readings = list[str](), list[dict[str, Any]]()
    # `_get_merged_dataset` keeps data sets by their names, so that one named twice is read once.
    for name in dict.fromkeys(names):
        entry = info.get(name)
        if not isinstance(entry, dict):
            return {}, f"has the dataset {name!r}, which is not in dataset_info.json: {remedy}"
        file = Path(str(folder), str(entry.get("file_name")))
        # Null and false are the defaults of all keys of an entry.
        facts = {key: value for key, value in entry.items() if value not in (None, False)}
        # Keywords of `profile`, or a text that says why the data set is not read.
        reading = _why_no_file(facts) or (_as_texts(facts) if of_texts else _as_chats(facts))
        if not isinstance(reading, str) and not file.is_file():
            reading = f"is {file.as_posix()}, which is not a file"
        if isinstance(reading, str):
            return {}, f"has the dataset {name!r}, which {reading}: {remedy}"
        files.append(file.as_posix())
        readings.append(reading)
    if any(reading != readings[0] for reading in readings):
        return {}, f"has datasets of several formats or columns: {remedy}"
    return {"corpus": tuple(files), **readings[0]}, ""


def _with_passed_columns(config: LlamaFactoryArguments, rules: CorpusRules) -> CorpusRules:
    """Add to rules the columns to look for in a corpus that the user passes.

    If a data set of the configuration has other columns than alpaca's, alpaca's are not looked for,
    and columns with its system messages or tools are refused, since they are not read.
    """
    if config.stage == TEXTS:
        columns = ({"tokens_column": "input_ids"}, {"text_column": ("text",)})
        return replace(rules, columns=columns)
    info, _ = _read_dataset_info(config.dataset_dir)  # empty where it cannot be read
    columns_to_find, no_columns, refused = (*_PASSED, ALPACA), "", dict[str, str]()
    for name in _names(config):
        entry = info.get(name)
        own_columns = _without_nulls(entry.get("columns")) if isinstance(entry, dict) else {}
        if own_columns and own_columns != _ALPACA_COLUMNS:
            # LLaMA-Factory reads other columns of this data set: alpaca's would be the wrong ones.
            columns_to_find = _PASSED
            no_columns = f"has no chats, and the data set {name!r} has other columns: {_FOR_CHATS}"
            unread = {str(own_columns[key]) for key in _IN_SYSTEM_MESSAGES & own_columns.keys()}
            refused |= dict.fromkeys(unread, f"LLaMA-Factory begins chats with it: {_FOR_CHATS}")
    return replace(
        rules,
        columns=columns_to_find,
        no_columns=no_columns,
        refused_columns=lambda kind: refused if kind == "messages" else {},
    )


def _names(config: LlamaFactoryArguments) -> list[str]:
    """Return the names of data sets under `dataset`: a list, or a text with commas."""
    value = config.dataset
    names = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(names, list):  # YAML reads the name 2020-01-01 as a date
        names = [names]
    return [str(name).strip() for name in names]


def _read_dataset_info(folder: Any) -> tuple[dict[str, Any], str]:
    """Return the content of dataset_info.json, and an empty text; or nothing, and why it cannot be
    read.
    """
    path = Path(str(folder), "dataset_info.json")
    # `get_dataset_list` takes ONLINE for the hub, and REMOTE: for a data set there.
    if not isinstance(folder, str) or folder == "ONLINE" or folder.startswith("REMOTE:"):
        return {}, f"has dataset_dir={short(folder)}, which is not a folder here"
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        # Only an OSError has strerror.
        reason = getattr(error, "strerror", None) or "not JSON"
        return {}, f"has dataset_dir={folder}, but {path.as_posix()} cannot be read ({reason})"
    return (info, "") if isinstance(info, dict) else ({}, f"needs a table in {path.as_posix()}")


def _why_no_file(entry: Mapping[str, Any]) -> str:
    """Return why an entry of dataset_info.json is not read as one whole file: it names no file, or
    has further keys, such as a subset; empty if it is read.
    """
    further_keys = set(entry) - {"file_name", "formatting", "columns", "tags"}
    # train is the default of DatasetAttr, as if there were no split.
    if entry.get("split") == "train":
        further_keys -= {"split"}
    if further_keys or "file_name" not in entry:
        return f"is not a file alone (it has {', '.join(sorted(further_keys)) or 'no file_name'})"
    return ""


def _as_texts(entry: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return keywords of `profile` that read a data set as texts; or why it is not read.

    Args:
        entry: its entry of dataset_info.json.
    """
    if entry.get("formatting", "alpaca") != "alpaca":
        return f"has formatting={short(entry['formatting'])}, with stage=pt"
    file, columns = str(entry["file_name"]), _without_nulls(entry.get("columns", _ALPACA_COLUMNS))
    # LLaMA-Factory joins prompt and query to one text; stage pt leaves the response out.
    if set(columns) - {"response"} != {"prompt"}:
        return f"has texts of several columns ({', '.join(columns)}), with stage=pt"
    if not file.endswith(_TEXT_ENDINGS):
        return f"does not end in {', '.join(_TEXT_ENDINGS)}"
    if not file.endswith(".txt"):
        return {"text_column": (str(columns["prompt"]),)}
    # datasets puts the lines of a .txt file into a column text.
    if columns["prompt"] != "text":
        return f"is plain text and has no column {columns['prompt']}, but text"
    return {}  # batchstat reads lines without the name of a column


def _as_chats(entry: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return keywords of `profile` that read a data set as chats; or why it is not read.

    Args:
        entry: its entry of dataset_info.json.
    """
    formatting, columns, tags = entry.get("formatting"), entry.get("columns"), entry.get("tags")
    column_names = _without_nulls(columns)
    if formatting in (None, "alpaca"):
        if not str(entry["file_name"]).endswith(_ALPACA_ENDINGS):
            return f"is in alpaca format, but does not end in {' or '.join(_ALPACA_ENDINGS)}"
        if columns is not None and column_names != _ALPACA_COLUMNS:
            return f"has other columns than {', '.join(_ALPACA_COLUMNS.values())}"
        return ALPACA
    if formatting != "sharegpt":
        return f"has formatting={short(formatting)}, to which LLaMA-Factory adds a system message"
    if columns is not None and set(column_names) != {"messages"}:
        return "has other columns than messages"
    if tags is not None:
        # A missing system_tag has a message of its own, below: here it counts as the usual one.
        all_tags = {"system_tag": "system", **tags} if isinstance(tags, dict) else {}
        chat_tags = {k: tag for k, tag in _without_nulls(all_tags).items() if k not in _TOOL_TAGS}
        if chat_tags not in _TAGS:
            return "has tags that are not read here"
        # If any tags are given, `DatasetAttr.join` has no default for the others.
        if not tags.get("system_tag"):
            return (
                "has tags without system_tag, so that LLaMA-Factory drops chats that begin with a "
                "system message (set system_tag, or leave these chats out)"
            )
    return {"messages_column": column_names.get("messages", "conversations"), **_CHATS}


def _without_nulls(table: Any) -> dict[str, Any]:
    """Return the keys of a table that have a value; nothing for anything but a table."""
    items = table.items() if isinstance(table, dict) else ()
    return {key: value for key, value in items if value is not None}
