"""The configuration of verl's SFT trainer, as hydra writes it.

Checked against verl 0.9.1: `SFTTrainer` of verl/trainer/sft_trainer.py (torch's DistributedSampler
with its own seed, 0), `prepare_micro_batches` of verl/workers/engine/utils.py, `FSDPEngine` of
verl/workers/engine/fsdp/transformer_impl.py. Samples and steps are in `verl_samples`, the keys in
`verl_keys`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from batchstat.errors import OptionError, short
from batchstat.frameworks.keys import refuse
from batchstat.frameworks.setup import Framework, TrainingSetup
from batchstat.frameworks.verl_engine import ENGINES, data_parallel_ranks, fsdp_multiple
from batchstat.frameworks.verl_keys import (
    ENGINE_CLASS,
    KEYS,
    OF_OTHER_ENGINES,
    REFUSED,
    UNUSED,
    UNUSED_TABLES,
)
from batchstat.frameworks.verl_samples import VerlSamples, VerlSchedule

_SEED = 0
_WITH_IDS = "pass the files as CORPUS, with token ids: --tokens-column"


def read_config(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of a configuration of verl's SFT trainer."""
    _check_engine(values, where, given)
    _check(values, where)
    ranks, others = _ranks(values, where), values["engine.ulysses_sequence_parallel_size"]
    size = values["data.train_batch_size"]
    reading, unreadable = _corpus(values)
    settings = {
        "tokens_per_batch": values["data.max_token_len_per_gpu"] * others,
        "max_length": values["data.max_length"],
        "overflow": "truncate",
        "order": "torch",
        "seed": _SEED,
        "world_size": ranks,
        "loss": "token-sum",
    }
    if (multiple := fsdp_multiple(values, where, "engine", others)) > 1:
        settings["pad_to_multiple_of"] = multiple
    return TrainingSetup(
        values=values,
        strategy=f"verl:samples_per_step={size},assign=turns,keeps_budget=true",
        settings=settings,
        own_keys={
            "tokens_per_batch": "data.max_token_len_per_gpu",
            "samples_per_step": "data.train_batch_size",
            "max_length": "data.max_length",
        },
        reading=reading,
        columns=({"messages_column": values["data.messages_key"], "assistant_only_loss": True},),
        corpus_key="data.train_files",
        unreadable=unreadable,
        schedule=VerlSchedule(
            epochs=values["trainer.total_epochs"],
            max_steps=values["trainer.total_training_steps"],
            warmup=values["optim.lr_warmup_steps_ratio"],
            warmup_given=values["optim.lr_warmup_steps"],
        ),
        prepare=VerlSamples(
            most=values["data.train_max_samples"],
            seed=values["data.seed"] if values["data.shuffle"] else None,
            refuses_longer=values["data.truncation"] == "error",
            samples_per_step=size,
        ),
        ranks_from=_ranks_from(values, ranks),
        warnings=tuple(_warnings(values)),
        **facts,
    )


def _check_engine(values: Mapping[str, Any], where: str, given: frozenset[str]) -> None:
    """Raise OptionError for another engine, which may be told by its class or its keys alone."""
    found = {f"{key} is a key" for key in sorted(given & OF_OTHER_ENGINES)[:1]}
    if values["engine.strategy"] not in ENGINES:
        found = {f"engine.strategy={values['engine.strategy']!r} is"}
    elif values["engine._target_"] != ENGINE_CLASS:
        found = {f"engine._target_={values['engine._target_']!r} is"}
    for each in found:
        raise OptionError(
            f"{where}: {each} of an engine that is not modelled: only {' and '.join(ENGINES)} are"
        )


def _check(values: Mapping[str, Any], where: str) -> None:
    """Raise OptionError for what is not modelled."""
    refuse(where, values, REFUSED, _MODELLED)
    draws = values["data.shuffle"] and values["data.train_max_samples"] > 0
    if draws and values["data.seed"] is None:
        raise OptionError(
            f"{where}: data.train_max_samples={values['data.train_max_samples']} with data.shuffle "
            "draws other samples in each run: set data.seed"
        )


_MODELLED = {
    "data.use_dynamic_bsz": True,
    "data.pad_mode": "no_padding",
    "model.use_remove_padding": True,
}


def _ranks(values: Mapping[str, Any], where: str) -> int:
    """Return the number of data-parallel ranks."""
    if values["trainer.nnodes"] * values["trainer.n_gpus_per_node"] == 1:
        return 1  # torchrun decides
    key = "engine.ulysses_sequence_parallel_size"
    return data_parallel_ranks(values, where, values[key], key)


def _corpus(values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return keywords of `profile`, and why the corpus cannot be read, with the remedy."""
    reading: dict[str, Any] = {}
    if tokenizer := values["model.tokenizer_path"] or values["model.path"]:
        reading["tokenizer"] = str(Path(tokenizer).expanduser())
    for key, remedy in _UNREADABLE.items():
        if values[key]:
            return reading, f"has {key}={short(values[key])}, {remedy}"
    if values["data.tools_key"] != "tools":
        why = f"has data.tools_key={values['data.tools_key']!r}, not read here: call it 'tools'"
        return reading, why
    if values["data.enable_thinking_default"] is False:
        return reading, f"has data.enable_thinking_default=false, not read here: {_WITH_IDS}"
    named = values["data.train_files"]
    files = [named] if isinstance(named, str) else named or []
    if not all(isinstance(file, str) and _is_local(file) for file in files):
        return reading, "has data.train_files that are not local: pass the files as CORPUS"
    if files:
        reading["corpus"] = tuple(str(Path(file).expanduser()) for file in files)
    return reading, ""


_UNREADABLE = {
    "data.ignore_input_ids_mismatch": f"for chats that differ turn by turn: {_WITH_IDS}",
    "data.apply_chat_template_kwargs": f"not read here: {_WITH_IDS}",
    "model.custom_chat_template": (
        "not read here: pass its text with --chat-template, and the files as CORPUS"
    ),
}


def _is_local(file: str) -> bool:
    return PurePath(file).suffix == ".parquet" and "://" not in file


def _ranks_from(values: Mapping[str, Any], ranks: int) -> str:
    """Return where the number of ranks comes from; nothing for a single one."""
    if ranks == 1:
        return ""
    others = values["engine.ulysses_sequence_parallel_size"]
    by = f" / {others} of sequence parallelism" if others > 1 else ""
    return (
        f"{ranks} data-parallel ranks are trainer.nnodes x trainer.n_gpus_per_node{by}; where "
        "torchrun starts another number, pass --world-size"
    )


def _warnings(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the report may not be true of."""
    others = values["engine.ulysses_sequence_parallel_size"]
    if others > 1:
        yield (
            f"tokens of a batch are those of {others} GPUs together "
            "(engine.ulysses_sequence_parallel_size)"
        )
    yield (
        "verl passes enable_thinking, of that column or data.enable_thinking_default, to the chat "
        "template; counted is what it renders without"
    )
    yield (
        "verl tokenizes messages one by one, and stops where they have other tokens than the whole "
        "chat, which is counted"
    )


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    values = setup.values
    if values["engine.pad_to_length"]:
        yield {"engine.pad_to_length": False}


VERL = Framework(
    title="the configuration of verl's SFT trainer",
    version="0.9.1",
    package="verl",
    keys=KEYS,
    unused=UNUSED,
    unused_tables=UNUSED_TABLES,
    is_nested=True,
    checkpointing="model.enable_gradient_checkpointing",
    read=read_config,
    alternatives=alternatives,
)
