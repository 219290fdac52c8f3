"""The keys of transformers' `TrainingArguments`: which decide about batches, and which do not."""

from dataclasses import dataclass
from typing import Any

from batchstat.parameters import MOST_SEED
from batchstat.trainers.base.keys import TrainerConfig, key

RANDOM, SEQUENTIAL, GROUPED = "random", "sequential", "group_by_length"
REBALANCED = "batch_rebalance"


@dataclass(frozen=True, kw_only=True)
class TrainingArguments(TrainerConfig):
    """The keys of `TrainingArguments`."""

    per_device_train_batch_size: int = key(8, least=1)
    gradient_accumulation_steps: int = key(1, least=1)
    num_train_epochs: float = key(3.0)
    max_steps: int = key(-1, least=-1)
    warmup_steps: float = key(0)
    seed: int = key(42, most=MOST_SEED)
    data_seed: int | None = key(None, most=MOST_SEED)
    train_sampling_strategy: str = key(RANDOM, values=(RANDOM, SEQUENTIAL, GROUPED, REBALANCED))
    dataloader_drop_last: bool = key(False)
    average_tokens_across_devices: bool = key(True)
    auto_find_batch_size: bool = key(False)
    accelerator_config: dict[str, Any] | None = key(None)
    parallelism_config: dict[str, Any] | None = key(None)
    # Of transformers 4.
    group_by_length: bool = key(False)
    warmup_ratio: float = key(0.0)
    per_gpu_train_batch_size: int | None = key(None, refused="name it per_device_train_batch_size")


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
OF_VERSION_4 = {*_OLD.split(), "group_by_length", "warmup_ratio", "per_gpu_train_batch_size"}
"""Keys that transformers 5 no longer has."""

UNUSED = frozenset(_UNUSED.split()) | OF_VERSION_4 - TrainingArguments.keys().keys()
