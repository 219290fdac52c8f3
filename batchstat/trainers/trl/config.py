"""`SFTConfig` of TRL, as JSON or YAML, also as `trl sft --config` takes it. Checked against TRL
1.16: `SFTTrainer.__init__` and `SFTTrainer._prepare_dataset` in trl/trainer/sft_trainer.py,
`pack_dataset` in trl/data_utils.py; arguments of the command in trl/scripts/sft.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import Any

from batchstat.corpus.files.sources import format_by_name
from batchstat.findings import Finding
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.base.rules import CorpusRules, TrainingRules
from batchstat.trainers.base.setup import Framework
from batchstat.trainers.transformers import config as base
from batchstat.trainers.transformers.keys import RANDOM
from batchstat.trainers.trl.keys import SftConfig
from batchstat.trainers.trl.samples import columns, prepare, refused_columns
from batchstat.trainers.trl.templates import answers_template, check_tokens
from batchstat.words import short

_ONLY_CHATS = (
    "has no chats in a column messages, for which alone assistant_only_loss=true is modelled (TRL "
    "takes it also where prompt and completion are chats): remove that key, name the column of the "
    "chats messages, or pass token ids with labels, --tokens-column and --trained-column"
)
_HIDDEN_EOS = "<EOS_TOKEN>"  # what transformers writes for `eos_token`, even if that is null
_MAX_LENGTH = 1024  # TRL's default; that of the key here is another: null removes the limit

_BUILDERS = {
    "json": ("json", "jsonl"),
    "csv": ("csv",),
    "parquet": ("parquet",),
    "arrow": ("arrow",),
    "text": ("txt",),
}
"""Formats that `path` of the datasets library names, with batchstat's names of these."""


def read_config(config: SftConfig) -> TrainingRules:
    """Return what `SFTConfig` means: `TrainingArguments`, and what TRL does to samples."""
    if "max_length" not in config.given_keys:
        config = replace(config, max_length=_MAX_LENGTH)
    if config.eos_token == _HIDDEN_EOS:  # the token is not in the file: taken for the default
        config = replace(config, eos_token=None)
    sampling = base.sampling_strategy(config)
    _check(config)
    rules = base.read_arguments(config)
    settings = {**rules.batching.settings, "max_length": config.max_length}
    if config.average_tokens_across_devices:
        settings["loss"] = "trl"  # num-items-in-batch, but 0 for a step without a trained token
    if config.num_processes is not None:
        settings["world_size"] = config.num_processes
    strategy = rules.batching.strategy
    if config.packing or config.padding_free:
        strategy = _packing_strategy(config, sampling)
    if config.packing and config.packing_strategy != "bfd":
        # bfd truncates samples above max_length; bfd_split and wrapped pack the rest of them, too.
        settings["overflow"] = "split"
    if config.pad_to_multiple_of:
        settings["pad_to_multiple_of"] = config.pad_to_multiple_of
    return replace(
        rules,
        corpus=_corpus_rules(config),
        batching=replace(
            rules.batching,
            strategy=strategy,
            settings=settings,
            max_length_of_corpus=config.max_length is None,
            prepare=partial(prepare, config),
        ),
        warnings=(*rules.warnings, *_warnings(config)),
    )


def _corpus_rules(config: SftConfig) -> CorpusRules:
    """Return how the corpus, the tokenizer and the chat template are read."""
    files, unreadable = _named_files(config)
    reading: dict[str, Any] = {"corpus": files} if files else {}
    if config.model_name_or_path is not None:
        reading["tokenizer"] = config.model_name_or_path
    if config.eos_token is not None:
        reading["append"] = config.eos_token
    check = None
    if config.chat_template_path is not None:
        # The file of a template, or a tokenizer that has one: in a file or tokenizer_config.json.
        template = Path(config.chat_template_path)
        in_folder = template / "chat_template.jinja"
        reading["chat_template"] = in_folder if in_folder.is_file() else template
        # With the template of another tokenizer, TRL also adds that one's tokens.
        if not (template.is_file() or template.suffix in (".jinja", ".j2")):
            check = partial(check_tokens, template)
    return CorpusRules(
        reading=reading,
        unreadable=unreadable,
        columns=columns(config),
        refused_columns=partial(refused_columns, config),
        no_columns=_ONLY_CHATS if config.assistant_only_loss else "",
        check_tokens=check,
        answers_template=answers_template if config.assistant_only_loss else None,
        appends_eos=config.eos_token is None,
        eos_column=config.dataset_text_field,
    )


def _packing_strategy(config: SftConfig, sampling: str) -> StrategySpec:
    """Return the strategy of `packing`, or of `padding_free` alone: samples end to end."""
    if sampling != RANDOM:
        key = "packing" if config.packing else "padding_free"
        raise config.error(
            f"{key}=true with train_sampling_strategy={sampling} is not modelled: remove one"
        )
    if not base.has_even_batches(config):
        raise config.error(
            "accelerator_config.even_batches=false with packing or padding_free is not "
            "modelled: remove one"
        )
    method, parameters = "padding-free", {"batch_size": config.per_device_train_batch_size}
    if config.packing:
        # bfd_split packs as bfd does: the setting overflow=split makes the difference.
        method = "wrapped" if config.packing_strategy == "wrapped" else "bfd"
        # Each process packs its own part of the dataset.
        parameters["dataset_num_proc"] = config.dataset_num_proc or 1
        if config.shuffle_dataset:  # the packed rows are shuffled, too
            parameters["shuffle_seed"] = config.seed
    return StrategySpec.of("trl", packing=method, **parameters)


def _check(config: SftConfig) -> None:
    """Raise OptionError for keys that contradict each other, or that are not modelled."""
    packing, longest = config.packing, config.max_length
    if packing and longest is None:  # TRL raises ValueError
        raise config.error("packing=true needs max_length, which is null: set it")
    if config.padding_free and not packing and longest is not None:
        raise config.error(
            f"padding_free=true without packing does not enforce "
            f"max_length={longest}, so TRL refuses it: set packing, or max_length to null"
        )
    if config.padding_free and packing and config.packing_strategy == "wrapped":
        raise config.error(
            "padding_free=true with packing_strategy=wrapped is not modelled: remove one"
        )
    if (config.dataset_kwargs or {}).get("skip_prepare_dataset"):
        raise config.error(
            "dataset_kwargs.skip_prepare_dataset=true trains on samples prepared "
            "elsewhere: pass their file as CORPUS, without this key"
        )


def _named_files(config: SftConfig) -> tuple[tuple[str, ...], str]:
    """Return the files of the dataset and an empty text; or no files, and why they are not read."""
    files: list[str] = []
    for entry in config.datasets or []:
        if unread := _find_unread(entry):
            return (), f"has datasets with {unread}: pass the files as CORPUS"
        files += _data_files(entry)
    name = config.dataset_name
    if files or name is None:
        return tuple(files), ""
    return (), (
        f"names the dataset {name!r}, whose split {config.dataset_train_split!r} is not loaded "
        "here: pass its files as CORPUS"
    )


def _find_unread(entry: object) -> str:
    """Return, in words, the first thing in an entry of `datasets` that is not read; else empty."""
    if not isinstance(entry, dict):
        return f"{short(entry)}, not read here"
    if not isinstance(path := entry.get("path"), str) or path not in _BUILDERS:
        return f"path={short(path)}, which is not loaded here: only {', '.join(_BUILDERS)} are"
    for key, value in entry.items():
        if value is not None and key not in ("path", "data_files", "split"):
            return f"{key}={short(value)}, not read here"
    if entry.get("split") not in (None, "train"):
        return f"split={short(entry['split'])}, not read here"
    files = _data_files(entry)
    if not files or not all(isinstance(file, str) for file in files):
        return f"data_files={short(entry.get('data_files'))}, not read here"
    for file in files:
        kind = format_by_name(file)
        # A pattern such as data/* may have no ending: it is taken for files of the right format.
        if kind not in _BUILDERS[path] and not (kind is None and has_magic(file)):
            return f"data_files={short(file)}, whose ending is not of {path}, not read here"
    return ""


def _data_files(entry: Mapping[str, Any]) -> list[Any]:
    files = entry.get("data_files")
    return files if isinstance(files, list) else [files]


def _warnings(config: SftConfig) -> Iterator[Finding]:
    """Yield the warnings of a report that TRL's own keys cause."""
    if config.accelerate_config is not None and config.num_processes is None:
        yield Finding(
            "config/unread-file",
            "accelerate_config decides the number of ranks, which is not read: pass its "
            "num_processes with --world-size",
        )
    if config.packing and config.packing_strategy == "wrapped":
        yield Finding(
            "packing/shared-attention",
            "packing_strategy=wrapped cuts samples, and those of a row see each other: bfd keeps "
            "them whole and apart",
        )


def alternatives(config: SftConfig) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute: grouping by length, or packing."""
    if config.packing:
        return
    yield from base.alternatives(config)
    if config.max_length is not None:  # packing needs a row length
        yield {"packing": True}


SFT_CONFIG = Framework(
    title="TRL's SFTConfig",
    python="SFTConfig",
    config=SftConfig,
    own_keys=base.OWN_KEYS,
    stands_for=("trl",),
    weight_remedy=base.weight_remedy,
    read=read_config,
    alternatives=alternatives,
)
