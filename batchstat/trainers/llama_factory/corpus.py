"""The data sets and the chat template that a configuration of LLaMA-Factory names.

Checked against LLaMA-Factory 0.9.5: `get_dataset_list` of src/llamafactory/data/parser.py,
`_load_single_dataset` of loader.py, the converters of converter.py, templates of template.py.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchstat.errors import short
from batchstat.trainers.base.rules import CorpusRules, TurnRules
from batchstat.trainers.llama_factory.keys import LlamaFactoryArguments

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
"""Templates that are here, in templates, and the special tokens that they write."""

EFFICIENT_EOS = ("gemma2",)
"""Of these, the ones of which the token that follows each answer is trained."""

_WITH_THOUGHTS = ("deepseekr1", "qwen3")
"""Those that begin answers without a thought by an empty one."""

_THOUGHT = "<think>\n\n</think>\n\n"
_BEGINS = {"mistral": " "}
"""What others write before each answer."""

_OTHERS = """
alpaca chatml_de cohere cpm4 dbrx deepseek hy3 deepseekcoder default empty ernie ernie_nothink
exaone falcon_h1 granite3 granite4 hunyuan hunyuan_small intern2 lfm2 llama2 llama2_zh moonlight
mimo mimo_v2 minimax1 minimax2 ministral olmo openchat openchat-3.6 opencoder phi_small sailor
seed_coder seed_oss smollm smollm2 starchat telechat2 vicuna xuanyuan youtu yuan zephyr
"""
_NEEDS_TEMPLATE = frozenset(_OTHERS.split())
"""Templates of texts that write the end of an answer themselves."""

_CHATS = {"assistant_only_loss": True}
ALPACA = {"messages_column": "messages", "input_format": "alpaca", **_CHATS}
_PASSED: tuple[Mapping[str, Any], ...] = (
    {"tokens_column": "input_ids", "trained_column": "labels"},
    {"messages_column": "messages", **_CHATS},
    {"messages_column": "conversations", **_CHATS},
)
"""Columns that a corpus may have where the configuration names none that can be read."""
_AS_CHATS = (
    "pass the chats that LLaMA-Factory makes of it as CORPUS, system messages included, in a "
    "column of messages"
)
_AS_TEXTS = "pass the texts as CORPUS, with --text-column"
_IN_SYSTEM_MESSAGES = {"system", "tools"}
"""Keys for columns with which LLaMA-Factory begins chats."""
_ALPACA_COLUMNS = {"prompt": "instruction", "query": "input", "response": "output"}
_TAGS = (
    {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"},
    {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
    },
)
_NO_SYSTEM_TAGS = ("observation_tag", "function_tag")
"""Tags of messages that are refused where they occur."""

_ALPACA_ENDINGS = (".json", ".jsonl")
_TEXT_ENDINGS = (*_ALPACA_ENDINGS, ".csv", ".parquet", ".arrow", ".txt")
TEXTS = "pt"
"""The stage that trains on texts, in the column that is the prompt of a data set."""


def named_template(config: LlamaFactoryArguments) -> tuple[dict[str, Any], TurnRules]:
    """Return the chat template, as keywords of `profile`, and how turns are tokenized.

    Raises:
        OptionError: a template that is unknown, or whose batches are not modelled.
    """
    name = config.template
    passed = "pass what it renders with --chat-template"
    if name is not None and name not in _TEMPLATES and name not in _NEEDS_TEMPLATE:
        raise config.error(
            f"template={str(name)[:40]} is not modelled: it is unknown, adds images or "
            "sounds to batches, or ends answers by efficient_eos; name another, such as "
            f"{', '.join(_TEMPLATES)}"
        )
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
    if config.default_system is not None:
        why = f"has default_system={short(config.default_system)}: {passed}"
        return {}, TurnRules(begin=begin, thought=thought, unknown_template=why)
    if name is None:
        return {}, TurnRules(reads_slots=True)
    if name in _NEEDS_TEMPLATE:
        why = f"has template={name}, which is LLaMA-Factory's own and not known here: {passed}"
        return {}, TurnRules(unknown_template=why)
    file, tokens = _TEMPLATES[name]
    path = Path(__file__).parent / "templates" / f"{file}.jinja"
    return {"chat_template": path}, TurnRules(special_tokens=tokens, begin=begin, thought=thought)


def with_data(config: LlamaFactoryArguments, rules: CorpusRules) -> CorpusRules:
    """Return rules with the data sets and the tokenizer that the configuration names, and the
    columns that a corpus may have that is passed.
    """
    corpus, unreadable = _named_data(config)
    reading = {**corpus, **rules.reading}
    if config.model_name_or_path is not None:
        reading["tokenizer"] = config.model_name_or_path
    passed = replace(rules, reading=reading, unreadable=unreadable)
    return _with_passed_columns(config, passed)


def _named_data(config: LlamaFactoryArguments) -> tuple[dict[str, Any], str]:
    """Return the corpus and its columns, as keywords of `profile`; or why it is not read, and the
    remedy.
    """
    names, folder = _names(config), config.dataset_dir
    if not names:
        return {}, "names no dataset: set dataset, or pass its files as CORPUS"
    of_texts = config.stage == TEXTS
    info, why = _info(folder)
    files, found = list[str](), list[dict[str, Any]]()
    # `_get_merged_dataset` keeps data sets by their names, so that one named twice is read once.
    for name in dict.fromkeys(names) if not why else ():
        entry = info.get(name)
        if not isinstance(entry, dict):
            why = f"has the dataset {name!r}, which is not in dataset_info.json"
            break
        file = Path(str(folder), str(entry.get("file_name")))
        problem = _no_texts(entry) if of_texts else _problem(entry)
        if not problem and not file.is_file():
            problem = f"is {file.as_posix()}, which is not a file"
        if problem:
            why = f"has the dataset {name!r}, which {problem}"
            break
        files.append(file.as_posix())
        found.append(_texts(entry) if of_texts else _reading(entry))
    if not why and any(each != found[0] for each in found):
        why = "has datasets of several formats or columns"
    if why:
        return {}, f"{why}: {_AS_TEXTS if of_texts else _AS_CHATS}"
    return {"corpus": tuple(files), **found[0]}, ""


def _with_passed_columns(config: LlamaFactoryArguments, rules: CorpusRules) -> CorpusRules:
    """Return rules with the columns of a corpus that is passed.

    Alpaca's columns are not those of a data set that has others; where those of chats are system
    messages or tools, they are refused.
    """
    if config.stage == TEXTS:
        columns = ({"tokens_column": "input_ids"}, {"text_column": ("text",)})
        return replace(rules, columns=columns)
    info, _ = _info(config.dataset_dir)
    passed, no_columns, refused = (*_PASSED, ALPACA), "", dict[str, str]()
    for name in _names(config):
        entry = info.get(name)
        columns_of_set = _named(entry.get("columns")) if isinstance(entry, dict) else {}
        if columns_of_set and columns_of_set != _ALPACA_COLUMNS:
            passed = _PASSED
            no_columns = f"has no chats, and the data set {name!r} has other columns: {_AS_CHATS}"
            more = {str(columns_of_set[key]) for key in _IN_SYSTEM_MESSAGES & columns_of_set.keys()}
            refused |= dict.fromkeys(more, f"LLaMA-Factory begins chats with it: {_AS_CHATS}")
    return replace(
        rules,
        columns=passed,
        no_columns=no_columns,
        refused_columns=lambda kind: refused if kind == "messages" else {},
    )


def _names(config: LlamaFactoryArguments) -> list[str]:
    named = config.dataset
    found = named.split(",") if isinstance(named, str) else named or []
    if not isinstance(found, list):  # as YAML reads 2020-01-01
        found = [found]
    return [str(each).strip() for each in found]


def _info(folder: Any) -> tuple[dict[str, Any], str]:
    """Return the content of dataset_info.json, and why it is not known, if that is so."""
    path = Path(str(folder), "dataset_info.json")
    # `get_dataset_list` takes ONLINE for the hub, and REMOTE: for a data set there.
    if not isinstance(folder, str) or folder == "ONLINE" or folder.startswith("REMOTE:"):
        return {}, f"has dataset_dir={short(folder)}, which is not a folder here"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not JSON"
        return {}, f"has dataset_dir={folder}, but {path.as_posix()} cannot be read ({reason})"
    return (found, "") if isinstance(found, dict) else ({}, f"needs a table in {path.as_posix()}")


def _no_file(entry: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return what of an entry has a value, and why it is not one file; empty if it is."""
    given = {key: value for key, value in entry.items() if value not in (None, False)}
    more = set(given) - {"file_name", "formatting", "columns", "tags"}
    # DatasetAttr has it by default.
    if given.get("split") == "train":
        more -= {"split"}
    if more or "file_name" not in given:
        return given, f"is not a file alone (it has {', '.join(sorted(more)) or 'no file_name'})"
    return given, ""


def _no_texts(entry: Mapping[str, Any]) -> str:
    """Return why a data set is not read as texts; empty if it is."""
    given, why = _no_file(entry)
    if why:
        return why
    if given.get("formatting", "alpaca") != "alpaca":
        return f"has formatting={short(given['formatting'])}, with stage=pt"
    named = _named(given.get("columns", _ALPACA_COLUMNS))
    if set(named) - {"response"} != {"prompt"}:
        return f"has texts of several columns ({', '.join(named)}), with stage=pt"
    if not str(given["file_name"]).endswith(_TEXT_ENDINGS):
        return f"does not end in {', '.join(_TEXT_ENDINGS)}"
    if str(given["file_name"]).endswith(".txt") and named["prompt"] != "text":
        return f"is plain text and has no column {named['prompt']}, but text"
    return ""


def _texts(entry: Mapping[str, Any]) -> dict[str, Any]:
    if str(entry["file_name"]).endswith(".txt"):  # lines, which have no column to name
        return {}
    return {"text_column": (str(entry["columns"]["prompt"]),)}


def _problem(entry: Mapping[str, Any]) -> str:
    """Return why a data set is not read; empty if it is."""
    given, why = _no_file(entry)
    if why:
        return why
    formatting, columns = given.get("formatting", "alpaca"), given.get("columns")
    if formatting == "alpaca":
        if not str(given["file_name"]).endswith(_ALPACA_ENDINGS):
            return f"is in alpaca format, but does not end in {' or '.join(_ALPACA_ENDINGS)}"
        if columns is not None and _named(columns) != _ALPACA_COLUMNS:
            return f"has other columns than {', '.join(_ALPACA_COLUMNS.values())}"
        return ""
    if formatting != "sharegpt":
        return f"has formatting={short(formatting)}, to which LLaMA-Factory adds a system message"
    if columns is not None and set(_named(columns)) != {"messages"}:
        return "has other columns than messages"
    tags = given.get("tags")
    if _knows_tags({"system_tag": "system", **tags} if isinstance(tags, dict) else tags):
        # `DatasetAttr.join` leaves a tag unset that is not among those given.
        if tags is None or tags.get("system_tag"):
            return ""
        return (
            "has tags without system_tag, so that LLaMA-Factory drops chats that begin with a "
            "system message (set system_tag, or leave these chats out)"
        )
    return "has tags that are not read here"


def _named(table: Any) -> dict[str, Any]:
    """Return the keys of a table that have a value."""
    items = table.items() if isinstance(table, dict) else ()
    return {key: value for key, value in items if value is not None}


def _knows_tags(tags: Any) -> bool:
    if tags is None:
        return True
    named = {key: value for key, value in _named(tags).items() if key not in _NO_SYSTEM_TAGS}
    return any(named == {**known, "system_tag": "system"} for known in _TAGS)


def _reading(entry: Mapping[str, Any]) -> dict[str, Any]:
    if entry.get("formatting", "alpaca") == "alpaca":
        return dict(ALPACA)
    column = _named(entry.get("columns")).get("messages", "conversations")
    return {"messages_column": column, **_CHATS}
