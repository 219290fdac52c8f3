"""`SFTConfig` of TRL, as JSON or YAML, also as `trl sft --config` takes it.

Checked against TRL 1.16: `SFTTrainer.__init__` and `SFTTrainer._prepare_dataset` in
trl/trainer/sft_trainer.py, `pack_dataset` in trl/data_utils.py; arguments of the command in
trl/scripts/sft.py. What `TrainingArguments` decide is in `transformers`, and which samples are
left of the corpus in `samples`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import Any

from batchstat.corpus.sources import format_by_name
from batchstat.errors import OptionError, short
from batchstat.trainers.base.keys import Key, refuse
from batchstat.trainers.base.setup import Framework, TrainingSetup
from batchstat.trainers.transformers import config as base
from batchstat.trainers.trl.samples import KEEP_END, columns, preparation, refused_columns
from batchstat.trainers.trl.templates import answers_template

_PACKINGS = ("bfd", "bfd_split", "bfd-requeue", "wrapped")

KEYS: dict[str, Key] = {
    **base.KEYS,
    "max_length": Key(None, int, 1),
    "truncation_mode": Key("keep_start", str, values=("keep_start", KEEP_END)),
    "packing": Key(False, bool),
    "packing_strategy": Key("bfd", str, values=_PACKINGS),
    "padding_free": Key(False, bool),
    "pad_to_multiple_of": Key(None, int, 1, values=("auto", "none", "null", "None")),
    "dataset_num_proc": Key(None, int),
    "shuffle_dataset": Key(False, bool),
    "dataset_text_field": Key("text", str),
    "dataset_kwargs": Key(None, dict),
    "chat_template_path": Key(None, str),
    "eos_token": Key(None, str),
    "completion_only_loss": Key(None, bool),
    "assistant_only_loss": Key(False, bool),
    # Of the command: what it trains, and on what.
    "model_name_or_path": Key(None, str),
    "dataset_name": Key(None, str),
    "dataset_config": Key(None, str),
    "dataset_train_split": Key("train", str),
    "dataset_streaming": Key(False, bool),
    "streaming": Key(False, bool),
    "datasets": Key(None, list),
    "test_split_size": Key(None, float),
    # Of accelerate, which starts the command.
    "num_processes": Key(None, int, 1),
    "accelerate_config": Key(None, object),
}
_ONLY_CHATS = (
    "has no chats in a column messages, for which alone assistant_only_loss=true is modelled (TRL "
    "takes it also where prompt and completion are chats): remove that key, name the column of the "
    "chats messages, or pass token ids with labels, --tokens-column and --trained-column"
)
_HIDDEN_EOS = "<EOS_TOKEN>"
"""What `to_json_string` and `to_dict` of transformers write in place of `eos_token`, also if it is
null."""
_MAX_LENGTH = 1024
"""Of `max_length` where the configuration does not have it; null removes the limit."""

_BUILDERS = {
    "json": ("json", "jsonl"),
    "csv": ("csv",),
    "parquet": ("parquet",),
    "arrow": ("arrow",),
    "text": ("txt",),
}
"""Formats of the datasets library, which `path` may name where `data_files` has the files, and what
they are called here."""

_NOT_MODELLED = dict.fromkeys(("streaming", "dataset_streaming", "test_split_size"), "remove it")
"""Keys that are refused if they have a value, with the remedy."""

_UNUSED = """
model_init_kwargs trust_remote_code router_aux_loss_coef eval_packing loss_type
activation_offloading pad_token dataset_test_split ignore_bias_buffers model_revision dtype
torch_dtype attn_implementation use_peft lora_r lora_alpha lora_dropout lora_target_modules
lora_target_parameters lora_modules_to_save lora_task_type use_rslora use_dora load_in_8bit
load_in_4bit bnb_4bit_quant_type use_bnb_nested_quant bnb_4bit_quant_storage env
"""


def read_config(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of `SFTConfig`."""
    if "max_length" not in given:
        values = {**values, "max_length": _MAX_LENGTH}
    if values["eos_token"] == _HIDDEN_EOS:
        values = {**values, "eos_token": None}
    sampling = base.sampling_strategy(values, where)
    _check(values, where)
    setup = base.read_arguments(values, where, given, **facts)
    settings = {**setup.settings, "max_length": values["max_length"]}
    if values["average_tokens_across_devices"]:
        settings["loss"] = "trl"
    if values["num_processes"] is not None:
        settings["world_size"] = values["num_processes"]
    strategy = setup.strategy
    if values["packing"] or values["padding_free"]:
        strategy = _rows(values, sampling, where)
    if values["packing"] and values["packing_strategy"] != "bfd":
        settings["overflow"] = "split"
    if values["pad_to_multiple_of"]:
        settings["pad_to_multiple_of"] = values["pad_to_multiple_of"]
    files, unreadable = _named_files(values)
    return TrainingSetup(
        **{
            **vars(setup),
            "strategy": strategy,
            "settings": settings,
            "reading": {**_reading(values), **({"corpus": files} if files else {})},
            "unreadable": unreadable,
            "columns": columns(values),
            "refused_columns": partial(refused_columns, values),
            "no_columns": _ONLY_CHATS if values["assistant_only_loss"] else "",
            "max_length_of_corpus": values["max_length"] is None,
            "prepare": preparation(values),
            "template_of": _template_of(values),
            "answers_template": answers_template if values["assistant_only_loss"] else None,
            "appends_eos": values["eos_token"] is None,
            "eos_column": values["dataset_text_field"],
            "warnings": (*setup.warnings, *_warnings(values)),
        }
    )


def _rows(values: Mapping[str, Any], sampling: str, where: str) -> str:
    """Return the strategy whose rows are packed, or laid end to end."""
    if sampling != base.RANDOM:
        key = "packing" if values["packing"] else "padding_free"
        raise OptionError(
            f"{where}: {key}=true with train_sampling_strategy={sampling} is not modelled: "
            "remove one"
        )
    base.check_even(values, where)
    size, method = values["per_device_train_batch_size"], "padding-free"
    parameters = {"batch_size": size}
    if values["packing"]:
        method = "wrapped" if values["packing_strategy"] == "wrapped" else "bfd"
        parameters["dataset_num_proc"] = values["dataset_num_proc"] or 1
        if values["shuffle_dataset"]:
            parameters["shuffle_seed"] = values["seed"]
    given = ",".join(f"{key}={value}" for key, value in parameters.items())
    return f"trl:packing={method},{given}"


def _check(values: Mapping[str, Any], where: str) -> None:
    """Raise OptionError for keys that contradict each other, or that are not modelled."""
    packing, longest = values["packing"], values["max_length"]
    if packing and longest is None:
        raise OptionError(f"{where}: packing=true needs max_length, which is null: set it")
    if values["padding_free"] and not packing and longest is not None:
        raise OptionError(
            f"{where}: padding_free=true without packing does not enforce "
            f"max_length={longest}, so TRL refuses it: set packing, or max_length to null"
        )
    if values["padding_free"] and packing and values["packing_strategy"] == "wrapped":
        raise OptionError(
            f"{where}: padding_free=true with packing_strategy=wrapped is not modelled: remove one"
        )
    refuse(where, values, _NOT_MODELLED)
    if (values["dataset_kwargs"] or {}).get("skip_prepare_dataset"):
        raise OptionError(
            f"{where}: dataset_kwargs.skip_prepare_dataset=true trains on samples prepared "
            "elsewhere: pass their file as CORPUS, without this key"
        )


def _reading(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the samples are read, as keywords of `profile`."""
    found: dict[str, Any] = {}
    if values["model_name_or_path"] is not None:
        found["tokenizer"] = values["model_name_or_path"]
    if values["chat_template_path"] is not None:
        found["chat_template"] = _template(Path(values["chat_template_path"]))
    if values["eos_token"] is not None:
        found["append"] = values["eos_token"]
    return found


def _template_of(values: Mapping[str, Any]) -> Path | None:
    """Return the tokenizer that `chat_template_path` names, if it is not a template."""
    path = values["chat_template_path"]
    is_file = path is None or Path(path).is_file() or Path(path).suffix in (".jinja", ".j2")
    return None if is_file else Path(path)


def _template(path: Path) -> Path:
    """Return the file of a chat template; where a tokenizer's folder is named, the one in it."""
    inside = path / "chat_template.jinja"
    return inside if path.is_dir() and inside.is_file() else path


def _named_files(values: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Return the files of the dataset, and why they are not known, if that is so."""
    files: list[str] = []
    for each in values["datasets"] or []:
        if why := _unread(each):
            return (), f"has datasets with {why}: pass the files as CORPUS"
        files += _data_files(each)
    name = values["dataset_name"]
    if files or name is None:
        return tuple(files), ""
    return (), (
        f"names the dataset {name!r}, whose split {values['dataset_train_split']!r} is not loaded "
        "here: pass its files as CORPUS"
    )


def _unread(entry: object) -> str:
    """Return what of an entry of `datasets` is not read; empty if all is."""
    if not isinstance(entry, dict):
        return f"{short(entry)}, not read here"
    if not isinstance(path := entry.get("path"), str) or path not in _BUILDERS:
        return f"path={short(path)}, which is not loaded here: only {', '.join(_BUILDERS)} are"
    for key, value in entry.items():
        if value is not None and key not in ("path", "data_files", "split"):
            return f"{key}={short(value)}, not read here"
    if entry.get("split") not in (None, "train"):
        return f"split={short(entry['split'])}, not read here"
    if not all(isinstance(each, str) for each in _data_files(entry) or [None]):
        return f"data_files={short(entry.get('data_files'))}, not read here"
    for each in _data_files(entry):
        kind = format_by_name(each)
        if kind not in _BUILDERS[path] and not (kind is None and has_magic(each)):
            return f"data_files={short(each)}, whose ending is not of {path}, not read here"
    return ""


def _data_files(entry: Mapping[str, Any]) -> list[Any]:
    named = entry.get("data_files")
    return named if isinstance(named, list) else [named]


def _warnings(values: Mapping[str, Any]) -> Iterator[str]:
    if values["accelerate_config"] is not None and values["num_processes"] is None:
        yield (
            "accelerate_config decides the number of ranks, and is not read: pass its "
            "num_processes with --world-size"
        )
    if values["packing"] and values["packing_strategy"] == "wrapped":
        yield (
            "packing_strategy=wrapped cuts samples, and those of a row see each other: bfd keeps "
            "them whole and apart"
        )


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    values = setup.values
    if values["packing"]:
        return
    yield from base.alternatives(setup)
    if values["max_length"] is not None:
        yield {"packing": True}


SFT_CONFIG = Framework(
    title="TRL's SFTConfig",
    version="1.16",
    package="trl",
    python="SFTConfig",
    keys=KEYS,
    unused=base.TRAINING_ARGUMENTS.unused | frozenset(_UNUSED.split()),
    read=read_config,
    alternatives=alternatives,
)
