"""The YAML of torchtune's recipes that fine-tune with supervision, on one device or several.

Checked against torchtune at commit bd2a0fc of pytorch/torchtune: `_setup_data` of recipes/
full_finetune_single_device.py, full_finetune_distributed.py, lora_finetune_single_device.py and
lora_finetune_distributed.py, whose sampler has the seed 0 whatever `seed` is; the builders of
torchtune/datasets; `padded_collate_sft` of torchtune/data/_collate.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchstat.errors import InputError, OptionError, short
from batchstat.frameworks.keys import Key
from batchstat.frameworks.samples import TrainedSamples, without_ids
from batchstat.frameworks.setup import EpochSize, Framework, Schedule, TrainingSetup
from batchstat.profiling.profile import Profile

_DATASETS = "torchtune.datasets."
_COMPLETION = f"{_DATASETS}text_completion_dataset"
_BUILDERS = (
    *("chat_dataset", "instruct_dataset", "alpaca_dataset", "alpaca_cleaned_dataset"),
    *("samsum_dataset", "grammar_dataset", "slimorca_dataset", "text_completion_dataset"),
)
"""Builders of torchtune.datasets whose samples are texts to train on."""

_COLLATE = ("torchtune.data.padded_collate_sft",)
_REQUIRED = ("batch_size", "epochs", "gradient_accumulation_steps", "shuffle")

KEYS: dict[str, Key] = {
    "batch_size": Key(None, int, 1),
    "epochs": Key(None, int, 1),
    "gradient_accumulation_steps": Key(None, int, 1),
    "shuffle": Key(None, bool),
    "max_steps_per_epoch": Key(None, int, 1),
    "collate_fn": Key(_COLLATE[0], str, values=_COLLATE),
    "dataset": Key(None, list),
    "dataset._component_": Key(None, str),
    "dataset.packed": Key(False, bool),
    "dataset.split_across_pack": Key(None, bool),
    "tokenizer.max_seq_len": Key(None, int, 2),
    "lr_scheduler.num_warmup_steps": Key(0, int),
    "loss._component_": Key(None, str),
    "optimizer_in_bwd": Key(False, bool),
    "tensor_parallel_dim": Key(1, int, 1),
    "context_parallel_dim": Key(1, int, 1),
}

_OF_DATASETS = """
source data_files split column conversation_column conversation_style column_map train_on_input
new_system_prompt name subset data_dir revision filter_fn add_eos
"""
"""Keys of a dataset that say which samples it has: these are passed as token ids."""

_UNUSED = """
output_dir seed device dtype compile resume_from_checkpoint save_every_n_steps log_level
log_every_n_steps log_peak_memory_stats clip_grad_norm enable_activation_checkpointing
enable_activation_offloading activation_offloading_use_streams enable_async_checkpointing
cudnn_deterministic_mode fsdp_cpu_offload fsdp_reshard_after_forward data_parallel_shard_dim
data_parallel_replicate_dim custom_sharded_layers tensor_parallel_plan ac_mode ac_option
context_parallel_rotate_method enable_fp8_training fp8_recipe_name resize_token_embeddings
save_adapter_weights_only low_cpu_ram memory_efficient_fsdp_wrap batch_size_val
run_val_every_n_steps
"""

_TABLES = (
    *("model", "optimizer", "loss", "checkpointer", "metric_logger", "profiler", "tokenizer"),
    *("lr_scheduler", "dataset_val", "tensor_parallel_plan", "compile", "fsdp"),
)

_LOSSES = tuple(
    f"torchtune.modules.loss.{name}"
    for name in ("LinearCrossEntropyLoss", "CEWithChunkedOutputLoss")
)
_TOKENIZES = (
    "torchtune tokenizes with tokenizers of its own: pass what its dataset makes as CORPUS, with "
    "the columns input_ids (its tokens) and labels ([-100] + its labels without the last)"
)


@dataclass(frozen=True, kw_only=True)
class TorchtuneSchedule(Schedule):
    """How long torchtune trains: an epoch's last batches, too few for a step, make none.

    Source: `setup` of the recipes.

    Attributes:
        accumulation: batches per step on each rank.
        most: steps of an epoch at most; None if its batches decide.
        warmup_given: steps of the warm-up.
    """

    accumulation: int
    most: int | None = None
    warmup_given: int = 0

    def steps_per_epoch(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps of an epoch."""
        whole = epoch.batches // self.accumulation
        return whole if self.most is None else min(whole, self.most)

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps."""
        return int(self.epochs) * self.steps_per_epoch(epoch)

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up."""
        del epoch
        return self.warmup_given


@dataclass(frozen=True, kw_only=True)
class TorchtuneSamples:
    """torchtune's samples: all, as long as its tokenizer makes them.

    Source: `truncate` of torchtune/data/_utils.py: which of the tokens that are left carry loss
    differs between tokenizers, so samples are truncated by them, and longer ones refused here.

    Attributes:
        longest: tokens that a sample may have; None for any number.
    """

    longest: int | None

    def __call__(self, profile: Profile, max_length: int) -> TrainedSamples:
        """Return all samples.

        Raises:
            InputError: one is longer than torchtune makes any.
        """
        del max_length
        longest = profile.stats.max
        if self.longest is not None and longest > self.longest:
            raise InputError(
                f"a sample of {longest:,} tokens is longer than torchtune makes any "
                f"({self.longest:,}): tokenize with tokenizer.max_seq_len, which truncates"
            )
        warnings = () if profile.tokenizer is None else (f"counts may differ: {_TOKENIZES}",)
        return TrainedSamples(profile=profile, warnings=warnings)


def read_config(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of a recipe's configuration."""
    del given
    _check(values, where)
    size, accumulation = values["batch_size"], values["gradient_accumulation_steps"]
    length, component = values["tokenizer.max_seq_len"], values["dataset._component_"]
    settings: dict[str, Any] = {
        "seed": 0,
        "drop_last": True,
        "gradient_accumulation_steps": accumulation,
        "loss": _loss(values),
    }
    if length is not None:
        settings["max_length"] = length
    if values["dataset.packed"]:
        across = values["dataset.split_across_pack"]
        across = component == _COMPLETION if across is None else across
        strategy = f"torchtune:batch_size={size},split_across_pack={str(across).lower()}"
    else:
        strategy = f"static:batch_size={size}"
        order = "torch" if values["shuffle"] else "file"
        settings |= {"order": order, "distribute": "samples"}
    components = _components(values)
    # Of texts, torchtune leaves one token less than max_seq_len.
    shorter = components == {_COMPLETION}
    return TrainingSetup(
        values=values,
        strategy=strategy,
        settings=settings,
        own_keys={"max_length": "tokenizer.max_seq_len"},
        reading={},
        columns=({"tokens_column": "input_ids", "trained_column": "labels"},),
        no_columns=without_ids(_TOKENIZES),
        unreadable=f"names texts: {_TOKENIZES}",
        max_length_of_corpus=length is None,
        schedule=TorchtuneSchedule(
            epochs=values["epochs"],
            accumulation=accumulation,
            most=values["max_steps_per_epoch"],
            warmup_given=values["lr_scheduler.num_warmup_steps"],
        ),
        prepare=TorchtuneSamples(longest=None if length is None else length - shorter),
        warnings=tuple(_warnings(values)),
        **facts,
    )


def _components(values: Mapping[str, Any]) -> set[Any]:
    """Return the builders of all data sets."""
    if values["dataset"] is None:
        return {values["dataset._component_"]}
    return {entry["_component_"] for entry in values["dataset"]}


def _loss(values: Mapping[str, Any]) -> str | None:
    if values["loss._component_"] not in _LOSSES:
        return None
    return "mean-per-batch" if values["optimizer_in_bwd"] else "token-sum"


def _check(values: Mapping[str, Any], where: str) -> None:
    """Raise OptionError for what is missing, contradictory, or not modelled."""
    for key in _REQUIRED:
        if values[key] is None:
            raise OptionError(f"{where} has no {key}, which torchtune needs: add it")
    for key in ("tensor_parallel_dim", "context_parallel_dim"):
        if values[key] > 1:
            raise OptionError(
                f"{where}: {key}={values[key]} is not modelled: remove it, and pass the number of "
                "data-parallel ranks with --world-size"
            )
    _check_datasets(values, where)
    if values["optimizer_in_bwd"] and values["gradient_accumulation_steps"] > 1:
        raise OptionError(
            f"{where}: optimizer_in_bwd=true contradicts gradient_accumulation_steps="
            f"{values['gradient_accumulation_steps']}: set it to 1"
        )
    if values["dataset.packed"] and values["tokenizer.max_seq_len"] is None:
        raise OptionError(f"{where}: dataset.packed=true needs tokenizer.max_seq_len: add it")
    if values["dataset.packed"] and not values["shuffle"]:
        raise OptionError(
            f"{where}: dataset.packed=true with shuffle=false is not modelled: set shuffle to true"
        )


def _check_datasets(values: Mapping[str, Any], where: str) -> None:
    if values["dataset"] is None:
        entries = [{"_component_": values["dataset._component_"]}]
    else:
        entries = values["dataset"]
    known = {"_component_", "packed", *_OF_DATASETS.split()}
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) - known:
            unread = sorted(set(entry) - known)[0] if isinstance(entry, dict) else short(entry)
            raise OptionError(
                f"{where}: dataset has {unread!r}, which may decide batches: remove it"
            )
        component = str(entry.get("_component_"))
        if component.removeprefix(_DATASETS) not in _BUILDERS:
            raise OptionError(
                f"{where}: dataset._component_={component} is not modelled: name one of "
                f"{', '.join(_BUILDERS)} of torchtune.datasets"
            )
        if entry.get("packed", False) is not False:
            raise OptionError(
                f"{where}: dataset has several, with packed={short(entry['packed'])}, which are "
                "packed each by itself and not modelled: name one dataset"
            )
    across = values["dataset.split_across_pack"]
    if across is not None and values["dataset._component_"] != _COMPLETION:
        raise OptionError(
            f"{where}: dataset.split_across_pack={str(across).lower()} is only for "
            f"{_COMPLETION}: remove it"
        )


def _warnings(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the report may not be true of."""
    if values["max_steps_per_epoch"]:
        yield (
            "samples, batches and padding are those of a whole epoch, which max_steps_per_epoch="
            f"{values['max_steps_per_epoch']} may end earlier"
        )
    if values["loss._component_"] not in _LOSSES:
        yield "how the loss weighs tokens is only known of torchtune's own cross entropy"


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    values = setup.values
    if not values["dataset.packed"] and values["dataset"] is None:
        yield {"dataset.packed": True}


TORCHTUNE = Framework(
    title="torchtune's configuration",
    version="bd2a0fc",
    keys=KEYS,
    unused=frozenset(_UNUSED.split()) | {f"dataset.{key}" for key in _OF_DATASETS.split()},
    unused_tables=_TABLES,
    is_nested=True,
    dtypes={("dtype", "bf16"): "bfloat16", ("dtype", "fp32"): "float32"},
    checkpointing="enable_activation_checkpointing",
    read=read_config,
    alternatives=alternatives,
)
