"""`TrainingArguments` of transformers, as JSON (`to_json_string`) or YAML.

Checked against transformers 5.24 with accelerate 1.15: `Trainer._get_train_sampler` chooses the
sampler and `Trainer.set_initial_training_values` counts steps in src/transformers/trainer.py,
`TrainingArguments.get_warmup_steps` counts those of the warm-up in training_args.py, and
accelerate's `BatchSamplerShard` distributes batches in src/accelerate/data_loader.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from batchstat.errors import OptionError, short
from batchstat.parameters import MOST_SEED
from batchstat.trainers.base.keys import Key, refuse
from batchstat.trainers.base.setup import Framework, Schedule, TrainingSetup

RANDOM, SEQUENTIAL, GROUPED = "random", "sequential", "group_by_length"
_REBALANCED = "batch_rebalance"

KEYS: dict[str, Key] = {
    "per_device_train_batch_size": Key(8, int, 1),
    "gradient_accumulation_steps": Key(1, int, 1),
    "num_train_epochs": Key(3.0, float),
    "max_steps": Key(-1, int, -1),
    "warmup_steps": Key(0, float),
    "seed": Key(42, int, most=MOST_SEED),
    "data_seed": Key(None, int, most=MOST_SEED),
    "train_sampling_strategy": Key(RANDOM, str, values=(RANDOM, SEQUENTIAL, GROUPED, _REBALANCED)),
    "dataloader_drop_last": Key(False, bool),
    "average_tokens_across_devices": Key(True, bool),
    "auto_find_batch_size": Key(False, bool),
    "accelerator_config": Key(None, dict),
    "parallelism_config": Key(None, dict),
    # Of transformers 4.
    "group_by_length": Key(False, bool),
    "warmup_ratio": Key(0.0, float),
    "per_gpu_train_batch_size": Key(None, int),
}

_UNUSED = """
output_dir learning_rate lr_scheduler_type lr_scheduler_kwargs optim optim_args weight_decay
adam_beta1 adam_beta2 adam_epsilon optim_target_modules max_grad_norm label_smoothing_factor
bf16 fp16 bf16_full_eval fp16_full_eval tf32 activation_checkpointing
activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs
torch_compile torch_compile_backend torch_compile_mode use_liger_kernel liger_kernel_config
use_cache neftune_noise_alpha torch_empty_cache_steps logging_strategy logging_steps
logging_first_step log_on_each_node logging_nan_inf_filter include_num_input_tokens_seen
log_level log_level_replica disable_tqdm report_to run_name project trackio_space_id
trackio_bucket_id trackio_static_space_id eval_strategy eval_steps eval_delay
per_device_eval_batch_size prediction_loss_only eval_on_start eval_do_concat_batches
eval_use_gather_object eval_accumulation_steps include_for_metrics batch_eval_metrics
save_only_model save_strategy save_steps save_on_each_node save_total_limit
enable_jit_checkpoint push_to_hub hub_token hub_private_repo hub_model_id hub_strategy
hub_always_push hub_revision load_best_model_at_end metric_for_best_model greater_is_better
ignore_data_skip restore_callback_states_from_checkpoint full_determinism use_cpu
dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers
dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order
remove_unused_columns label_names length_column_name ddp_find_unused_parameters
ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph ddp_backend ddp_timeout fsdp
fsdp_config deepspeed debug skip_memory_metrics do_train do_eval do_predict
resume_from_checkpoint local_rank
"""

_OLD = """
adafactor evaluation_strategy fp16_backend fp16_opt_level fsdp_min_num_params
fsdp_transformer_layer_cls_to_wrap half_precision_backend include_inputs_for_metrics
include_tokens_per_second jit_mode_eval logging_dir mp_parameters
no_cuda overwrite_output_dir past_index per_gpu_eval_batch_size push_to_hub_model_id
push_to_hub_organization push_to_hub_token ray_scope save_safetensors torchdynamo
tpu_metrics_debug tpu_num_cores use_ipex use_legacy_prediction_loop use_mps_device
"""
_OF_VERSION_4 = {*_OLD.split(), "group_by_length", "warmup_ratio", "per_gpu_train_batch_size"}
"""Keys that transformers 5 no longer has."""

_NOW = {
    "group_by_length": " in favour of train_sampling_strategy: group_by_length",
    "warmup_ratio": " in favour of warmup_steps, which may be a share",
}
"""What takes the place of those that decide about batches or steps."""

_RENAMED = {"per_gpu_train_batch_size": "name it per_device_train_batch_size"}
"""Keys that are refused if they have a value, with the remedy."""

_ACCELERATOR: dict[str, tuple[tuple[bool | None, ...], str]] = {
    "split_batches": (
        (False,),
        "remove it, and divide per_device_train_batch_size by the number of ranks",
    ),
    "dispatch_batches": ((None, False), "remove it"),
    "even_batches": ((True, False), "set it to true or false"),
    "use_seedable_sampler": ((True,), "remove it"),
    "non_blocking": ((), ""),
    "use_configured_state": ((), ""),
    "gradient_accumulation_kwargs": ((), ""),
}
"""Keys of `accelerator_config`, with the values that are modelled, none for any, and the remedy."""


def read_arguments(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of `TrainingArguments`."""
    refuse(where, values, _RENAMED)
    sampling = sampling_strategy(values, where)
    size = values["per_device_train_batch_size"]
    settings = shared_settings(values)
    is_even = evens_batches(values)
    if not is_even and sampling == GROUPED:
        raise OptionError(
            f"{where}: accelerator_config.even_batches=false with group_by_length is not modelled: "
            "remove one"
        )
    strategy = f"hf-trainer:batch_size={size}"
    if sampling == GROUPED:
        strategy = f"hf-group-by-length:batch_size={size}"
    elif sampling == SEQUENTIAL or not is_even:
        strategy = f"static:batch_size={size}"
        settings |= {
            "order": "file" if sampling == SEQUENTIAL else "torch",
            "distribute": "batches",
            "remainder": "fill" if is_even else "uneven",
        }
    return TrainingSetup(
        values=values,
        strategy=strategy,
        settings=settings,
        own_keys={
            "batch_size": "per_device_train_batch_size",
            "drop_last": "dataloader_drop_last",
        },
        reading={},
        schedule=schedule_of(values, given, where),
        warnings=tuple(warnings_of(values, sampling, given)),
        **facts,
    )


def evens_batches(values: Mapping[str, Any]) -> bool:
    """Return whether all ranks get as many whole batches."""
    config = values["accelerator_config"] or {}
    # By truth, as accelerate reads it: 0 is false.
    return bool(values["dataloader_drop_last"] or config.get("even_batches", True))


def _check_accumulation(config: Mapping[str, Any], where: str) -> None:
    kwargs = config.get("gradient_accumulation_kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise OptionError(
            f"{where}: accelerator_config.gradient_accumulation_kwargs={short(kwargs)}: must be a "
            "table of keys"
        )
    if "num_steps" in kwargs:
        raise OptionError(
            f"{where}: accelerator_config.gradient_accumulation_kwargs.num_steps="
            f"{short(kwargs['num_steps'])} is not modelled: set gradient_accumulation_steps instead"
        )


def check_even(values: Mapping[str, Any], where: str) -> None:
    """Raise OptionError where rows that are packed or laid end to end need even batches."""
    if not evens_batches(values):
        raise OptionError(
            f"{where}: accelerator_config.even_batches=false with packing or padding_free is not "
            "modelled: remove one"
        )


def sampling_strategy(values: Mapping[str, Any], where: str) -> str:
    """Return how samples are drawn. Raises OptionError for what is not modelled."""
    config = values["accelerator_config"] or {}
    _check_accelerator(config, where)
    _check_accumulation(config, where)
    if values["parallelism_config"]:
        raise OptionError(
            f"{where}: parallelism_config is not modelled: remove it, and pass the number of "
            "data-parallel ranks with --world-size"
        )
    sampling: str = values["train_sampling_strategy"]
    if sampling == _REBALANCED:
        raise OptionError(
            f"{where}: train_sampling_strategy={sampling} is not modelled: record what it trains "
            "on with batchstat run --dry-run, or set another"
        )
    if values["group_by_length"]:
        if sampling == SEQUENTIAL:
            raise OptionError(
                f"{where}: group_by_length=true contradicts train_sampling_strategy={sampling}: "
                "remove one"
            )
        return GROUPED
    return sampling


def _check_accelerator(config: Mapping[str, Any], where: str) -> None:
    for key, value in config.items():
        if key not in _ACCELERATOR:
            raise OptionError(f"{where}: accelerator_config has an unknown key {key!r}: remove it")
        modelled, remedy = _ACCELERATOR[key]
        if modelled and value not in modelled:
            raise OptionError(
                f"{where}: accelerator_config.{key}={short(value)} is not modelled: {remedy}"
            )


def shared_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that all trainers of transformers have in common."""
    across = values["average_tokens_across_devices"]
    return {
        "gradient_accumulation_steps": values["gradient_accumulation_steps"],
        "seed": values["seed"] if values["data_seed"] is None else values["data_seed"],
        "drop_last": values["dataloader_drop_last"],
        "loss": "num-items-in-batch" if across else "num-items-per-rank",
    }


def schedule_of(values: Mapping[str, Any], given: frozenset[str], where: str) -> Schedule:
    """Return how long a trainer of transformers trains. Raises OptionError for max_steps=0."""
    warmup = values["warmup_steps"]
    if "warmup_ratio" in given and not warmup:
        warmup = values["warmup_ratio"]
    steps = values["max_steps"]
    if steps == 0:
        raise OptionError(f"{where}: max_steps=0 is not modelled: set 1 or more, or -1 for epochs")
    return Schedule(
        epochs=values["num_train_epochs"], max_steps=steps if steps > 0 else None, warmup=warmup
    )


def warnings_of(values: Mapping[str, Any], sampling: str, given: frozenset[str]) -> Iterator[str]:
    """Yield what the report may not be true of."""
    old = sorted(given & _OF_VERSION_4)
    if old:
        yield (
            f"{old[0]} is a key of transformers 4; these are the rules of transformers "
            f"{TRAINING_ARGUMENTS.version}, which refuses it{_NOW.get(old[0], '')}"
        )
    if sampling == GROUPED:
        yield (
            "group_by_length draws unseeded random numbers: which samples meet differs between "
            "runs; the numbers of batches and steps do not"
        )
    if values["auto_find_batch_size"]:
        yield "auto_find_batch_size may halve the batch size when memory runs out"


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute, by keys of the version of the configuration."""
    values = setup.values
    if values["train_sampling_strategy"] == GROUPED or values["group_by_length"]:
        return
    is_old = setup.given & _OF_VERSION_4 and "train_sampling_strategy" not in setup.given
    yield {"group_by_length": True} if is_old else {"train_sampling_strategy": GROUPED}


TRAINING_ARGUMENTS = Framework(
    title="transformers' TrainingArguments",
    version="5.24",
    package="transformers",
    python="TrainingArguments",
    keys=KEYS,
    unused=frozenset(_UNUSED.split()) | _OF_VERSION_4 - set(KEYS),
    read=read_arguments,
    alternatives=alternatives,
)
