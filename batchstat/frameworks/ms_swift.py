"""ms-swift's training arguments, as `swift sft --config` takes them in YAML or JSON.

Checked against ms-swift 4.6.0: `SwiftSft` of swift/pipelines/train/sft.py, `get_train_dataloader`
of swift/trainers/mixin.py, `BatchSamplerShard` of swift/dataloader/shard.py and `Template` of
swift/template/base.py, which pads to the longest. Which samples are left is in `ms_swift_samples`,
the keys in `ms_swift_keys`; steps are those of `TrainingArguments`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from batchstat.errors import OptionError, short
from batchstat.frameworks import training_arguments as base
from batchstat.frameworks.keys import refuse
from batchstat.frameworks.ms_swift_keys import KEYS, REFUSED, UNUSED
from batchstat.frameworks.ms_swift_samples import TOKENIZES, MsSwiftSamples
from batchstat.frameworks.samples import without_ids
from batchstat.frameworks.setup import Framework, TrainingSetup

_FLASH = ("flash_attn", "flash_attention_2", "flash_attention_3", "flash_attention_4")
_WHOLE_LOSS = {"default", "last_round", "all", "ignore_empty_think", "ignore_think_prefix"}
"""Parts of loss_scale after which a token carries loss or not, and nothing between."""

_SAMPLED = re.compile(r"#(\d+)$")


def read_config(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of ms-swift's arguments."""
    _check(values, where)
    length = values["packing_length"] if values["packing"] else None
    length = values["max_length"] if length is None else length
    if values["packing"]:
        _check_packing(values, length, where)
    settings = base.shared_settings(values)
    if length is not None:
        settings["max_length"] = length
    if _loss_is_unknown(values):
        settings["loss"] = None
    padded = not (values["packing"] or values["padding_free"])
    if padded:
        settings |= {"order": "torch", "distribute": "samples", "remainder": "uneven"}
    return TrainingSetup(
        values=values,
        strategy=_strategy(values),
        settings=settings,
        own_keys={"batch_size": "per_device_train_batch_size"},
        reading={},
        columns=({"tokens_column": "input_ids", "trained_column": "labels"},),
        no_columns=without_ids(TOKENIZES),
        unreadable=f"names data sets: {TOKENIZES}",
        schedule=base.schedule_of(values, given, where),
        max_length_of_corpus=length is None,
        prepare=_samples(values, where),
        leaves_out_remainder=padded,
        warnings=tuple(_warnings(values)),
        **facts,
    )


def _strategy(values: Mapping[str, Any]) -> str:
    size = values["per_device_train_batch_size"]
    if values["packing"]:
        return (
            f"ms-swift:batch_size={size},packing_strategy={values['packing_strategy']},"
            f"packing_num_proc={values['packing_num_proc']}"
        )
    if values["padding_free"]:
        return f"ms-swift:batch_size={size},packing_strategy=none"
    return f"static:batch_size={size}"


def _samples(values: Mapping[str, Any], where: str) -> MsSwiftSamples:
    named = values["dataset"]
    entries = named if isinstance(named, list) else [named]
    for entry in entries:
        if entry is not None and not isinstance(entry, str):
            raise OptionError(f"{where}: dataset has {short(entry)}: it must be text")
    found = [_SAMPLED.search(entry or "") for entry in entries]
    return MsSwiftSamples(
        sampled=tuple(None if each is None else int(each[1]) for each in found),
        held_out_share=_held_out_share(values),
        seed=values["data_seed"],
        shuffles=values["dataset_shuffle"],
        longest=values["max_length"],
        truncation=values["truncation_strategy"] or "delete",
        lazy=bool(values["lazy_tokenize"]),
        strict=values["strict"],
    )


def _held_out_share(values: Mapping[str, Any]) -> float:
    """Return the share of samples to evaluate on, which is none where nothing is evaluated."""
    evaluates = (values["eval_strategy"] or values["save_strategy"]) != "no"
    share = float(values["split_dataset_ratio"])
    return share if evaluates and not values["val_dataset"] else 0.0


def _check(values: Mapping[str, Any], where: str) -> None:
    """Raise OptionError for keys that contradict each other, or that are not modelled."""
    refuse(where, values, REFUSED)
    if values["gradient_accumulation_steps"] is None:
        raise OptionError(
            f"{where} has no gradient_accumulation_steps, which ms-swift then derives from the "
            "number of ranks: add 16 / per_device_train_batch_size / ranks, rounded up"
        )
    if values["sequence_parallel_size"] > 1:
        raise OptionError(
            f"{where}: sequence_parallel_size={values['sequence_parallel_size']} is not modelled: "
            "remove it, and pass the number of data-parallel ranks with --world-size"
        )
    if isinstance(values["deepspeed"], dict) and "tensor_parallel" in values["deepspeed"]:
        raise OptionError(f"{where}: deepspeed with tensor_parallel is not modelled: remove it")
    if not values["train_dataloader_shuffle"]:
        raise OptionError(f"{where}: train_dataloader_shuffle=false is not modelled: remove it")
    if values["truncation_strategy"] == "split":
        raise OptionError(
            f"{where}: truncation_strategy=split is only for pre-training: set delete or right"
        )
    _check_numbers(values, where)
    free = next((key for key in ("packing", "padding_free") if values[key]), None)
    if free is not None and values["attn_impl"] not in _FLASH:
        raise OptionError(f"{where}: {free}=true needs attn_impl, one of {', '.join(_FLASH)}")


def _check_numbers(values: Mapping[str, Any], where: str) -> None:
    if values["split_dataset_ratio"] >= 1:
        raise OptionError(
            f"{where}: split_dataset_ratio={values['split_dataset_ratio']:g} leaves no sample: "
            "lower it"
        )
    if values["warmup_ratio"] and values["warmup_steps"]:
        raise OptionError(
            f"{where}: warmup_ratio contradicts warmup_steps={values['warmup_steps']:g}: remove one"
        )
    if values["warmup_ratio"] >= 1:
        raise OptionError(
            f"{where}: warmup_ratio={values['warmup_ratio']:g} must be below 1: set warmup_steps"
        )


def _check_packing(values: Mapping[str, Any], length: int | None, where: str) -> None:
    if values["lazy_tokenize"]:
        raise OptionError(f"{where}: packing=true contradicts lazy_tokenize=true: remove one")
    if length is None:
        raise OptionError(f"{where}: packing=true without max_length takes the model's: add it")
    if values["max_length"] is not None and length < values["max_length"]:
        raise OptionError(
            f"{where}: packing_length={length} is below max_length={values['max_length']}, which "
            "is not modelled: raise it"
        )


def _loss_is_unknown(values: Mapping[str, Any]) -> bool:
    weighs = set(values["loss_scale"].split("+")) - _WHOLE_LOSS
    return bool(weighs or values["loss_type"] or values["enable_dft_loss"])


def _warnings(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the report may not be true of."""
    if values["max_length"] is None:
        yield (
            "without max_length, ms-swift drops samples that are longer than the model takes: all "
            "are taken to be shorter"
        )
    if _loss_is_unknown(values):
        yield "the loss gives each token a weight of its own, which is not reported"
    if values["packing"] and values["packing_strategy"] == "binpack":
        yield (
            "ms-swift takes any version of binpacking: these are the rows of version 2, and those "
            "of version 1 are --strategy ms-swift:packing_strategy=binpack-1 in compare"
        )
    if values["auto_find_batch_size"]:
        yield "auto_find_batch_size may halve the batch size when memory runs out"


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    values = setup.values
    if values["packing"]:
        return
    attention = {} if values["attn_impl"] in _FLASH else {"attn_impl": "flash_attn"}
    yield {"packing": True, **attention}
    if not values["padding_free"]:
        yield {"padding_free": True, **attention}


MS_SWIFT = Framework(
    title="ms-swift's training arguments",
    version="4.6",
    package="ms-swift",
    keys=KEYS,
    unused=UNUSED,
    read=read_config,
    alternatives=alternatives,
)
