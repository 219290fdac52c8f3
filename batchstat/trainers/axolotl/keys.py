"""The keys of axolotl's configuration: which decide about batches, and which do not.

All fields of `AxolotlInputConfig` of src/axolotl/utils/schemas/config.py, and of the arguments of
its plugins that change no batches, in axolotl 0.19; and old keys that it ignores.
"""

from dataclasses import dataclass
from typing import Any

from batchstat.parameters import MOST_SEED
from batchstat.trainers.base.keys import TrainerConfig, key

ATTENTION = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Old keys for `attn_implementation`, and what they set; the first one counts."""


@dataclass(frozen=True, kw_only=True)
class AxolotlConfig(TrainerConfig):
    """axolotl's keys."""

    base_model: str | None = key(None)
    tokenizer_config: str | None = key(None)
    tokenizer_type: str | None = key(None)
    tokenizer_legacy: bool | None = key(None)
    tokens: list[Any] | None = key(None)
    chat_template: str | None = key(None)
    chat_template_jinja: str | None = key(None)
    datasets: list[Any] | None = key(None)
    sequence_len: int = key(512, least=1)
    train_on_inputs: bool | None = key(None)
    excess_length_strategy: str | None = key(None, values=("drop", "truncate", "raise"))
    min_sample_len: int | None = key(None)
    sample_packing: bool | None = key(None)
    sample_packing_group_size: int = key(100_000, least=1)
    sample_packing_bin_size: int = key(200, least=1)
    sample_packing_sequentially: bool | None = key(None)
    multipack_real_batches: bool | None = key(None)
    eval_sample_packing: bool | None = key(None)
    ddp: bool | None = key(None)
    pad_to_sequence_len: bool | None = key(None)
    pad_to_multiple_of: int | None = key(None, least=1)
    micro_batch_size: int = key(1, least=1)
    gradient_accumulation_steps: int = key(1, least=1)
    batch_size: int | None = key(None, least=1)
    num_epochs: float = key(1.0)
    max_steps: int | None = key(None, least=-1)
    warmup_steps: int | None = key(None)
    warmup_ratio: float | None = key(None)
    seed: int | None = key(None, most=MOST_SEED)
    val_set_size: float = key(0.0)
    shuffle_merged_datasets: bool = key(True)
    curriculum_sampling: bool | None = key(None)
    group_by_length: bool | None = key(None)
    dataloader_drop_last: bool | None = key(None)
    attn_implementation: str | None = key(None)
    auto_find_batch_size: bool | None = key(None)
    context_parallel_size: int | None = key(None, least=1)
    sequence_parallel_degree: int | None = key(None, least=1)
    tensor_parallel_size: int | None = key(None, least=1)
    plugins: list[Any] | None = key(None)
    special_tokens: dict[str, Any] | None = key(None)
    eot_tokens: list[Any] | None = key(None)
    xformers_attention: bool | None = key(None)
    sage_attention: bool | None = key(None)
    flex_attention: bool | None = key(None)
    flash_attention: bool | None = key(None)
    sdp_attention: bool | None = key(None)
    eager_attention: bool | None = key(None)
    accelerator_config: object = key(None, refused="remove it")
    added_tokens_overrides: object = key(
        None, refused="save a tokenizer that has them, and name it in tokenizer_config"
    )
    batch_flattening: object = key(None, refused="remove it, or set sample_packing")
    chat_template_kwargs: object = key(
        None, refused="write them into a template, and pass it with --chat-template"
    )
    dataset_exact_deduplication: object = key(
        None, refused="remove duplicates beforehand, and this key"
    )
    dataset_shard_num: object = key(
        None, refused="pass the part of the corpus as CORPUS, without this key"
    )
    default_system_message: object = key(
        None, refused="write it into a template, and pass it with --chat-template"
    )
    dpo_padding_free: object = key(None, refused="it is not for supervised training")
    ebft: object = key(None, refused="only supervised training is read")
    max_packed_sequence_len: object = key(None, refused="axolotl no longer has it: remove it")
    preprocess_iterable: object = key(None, refused="remove it")
    pretraining_dataset: object = key(
        None, refused="pass its files as CORPUS, with datasets of type completion instead"
    )
    process_reward_model: object = key(None, refused="only supervised training is read")
    processor_type: object = key(None, refused="only texts are read")
    push_dataset_to_hub: object = key(
        None, refused="it may load samples prepared elsewhere: remove it"
    )
    reward_model: object = key(None, refused="only supervised training is read")
    rl: object = key(None, refused="only supervised training is read")
    sample_packing_eff_est: object = key(None, refused="remove it, and axolotl counts the steps")
    shuffle_before_merging_datasets: object = key(
        None, refused="remove it, or pass the files in that sequence"
    )
    skip_prepare_dataset: object = key(
        None, refused="pass the prepared samples as CORPUS, without this key"
    )
    streaming: object = key(None, refused="remove it")
    tokenizer_use_mistral_common: object = key(
        None, refused="pass the tokenizer of the library tokenizers"
    )
    total_num_tokens: object = key(None, refused="remove it, and axolotl counts them")
    trainer_cls: object = key(None, refused="remove it")
    use_pose: object = key(None, refused="remove it")
    use_ray: object = key(None, refused="remove it, and pass the number of ranks with --world-size")

    @property
    def attention_flags(self) -> list[str]:
        """The old keys for `attn_implementation` that are set; the first one counts."""
        return [name for name in ATTENTION if getattr(self, name)]


_UNUSED = """
activation_offloading adam_beta1 adam_beta2 adam_beta3 adam_epsilon adam_epsilon2 adapter
auto_resume_from_checkpoints axolotl_config_path base_model_config bench_dataset bench_split bf16
bfloat16 bnb_config_kwargs center_rewards_coefficient chunked_cross_entropy
chunked_cross_entropy_num_chunks cls_model_config comet_api_key comet_experiment_config
comet_experiment_key comet_mode comet_online comet_project_name comet_workspace
cosine_constant_lr_ratio cosine_min_lr_ratio cpo_alpha cut_cross_entropy dataloader_num_workers
dataloader_pin_memory dataloader_prefetch_factor dataset_keep_in_memory dataset_num_proc
dataset_prepared_path dataset_processes dataset_shard_idx ddp_broadcast_buffers
ddp_bucket_cap_mb ddp_find_unused_parameters ddp_timeout debug deepcompile deepspeed device
device_map dion_lr dion_momentum dion_rank_fraction dion_rank_multiple_of do_bench_eval
do_causal_lm_eval dp_replicate_size dp_shard_size dpo_beta dpo_generate_during_eval
dpo_label_smoothing dpo_loss_type dpo_loss_weights dpo_norm_loss dpo_use_liger_kernel
dpo_use_logits_to_keep dpo_use_weighting dsv4_bf16_all dsv4_fp4_grouped_mode dsv4_fp8_lora_kernel
dsv4_fp8_nonexpert_mode dsv4_shared_mlp_lora_kernel dynamic_checkpoint eaft_alpha eaft_k
early_stopping_patience embedding_lr embedding_lr_scale embeddings_skip_upcast eta_min
eval_batch_size eval_causal_lm_metrics eval_max_new_tokens eval_sequence_len
eval_steps eval_strategy eval_table_size evals_per_epoch evaluation_strategy
experimental_skip_move_to_device expert_backend experts_implementation fix_untrained_tokens
flash_attn_cross_entropy flash_attn_d512 flash_attn_fuse_mlp flash_attn_rms_norm flash_optimum
flex_attn_compile_kwargs float16 float32 fp16 fp32_norm_classes fp32_norms fp8 fp8_config
fp8_enable_fsdp_float8_all_gather freeze_mm_modules fsdp fsdp_config fsdp_final_state_dict_type
fsdp_version full_finetune fused_attn_kernel gc_collect_steps gc_steps gemma4_fp8_nonexpert
gemma4_hybrid_attn_impl gemma4_nf4_nonexpert generate_samples generation_do_sample
generation_max_new_tokens generation_prompt_ratio generation_temperature generation_top_k
generation_top_p gptq gptq_disable_exllama gptq_groupsize gptq_model_v1 gpu_memory_limit
gradient_checkpointing gradient_checkpointing_kwargs gradio_max_new_tokens gradio_server_name
gradio_server_port gradio_share gradio_temperature gradio_title greater_is_better heads_k_stride
hf_mlflow_log_artifacts hf_use_auth_token hub_model_id hub_revision hub_strategy
image_resize_algorithm image_size include_tkps include_tokens_per_second is_falcon_derived_model
is_llama_derived_model is_mistral_derived_model is_preprocess is_qwen_derived_model
jagged_restart_anneal_steps jagged_restart_steps jagged_restart_warmup_steps kto_desirable_weight
kto_undesirable_weight large_head_attention layer_offloading learning_rate liger_cross_entropy
liger_fused_linear_cross_entropy liger_glu_activation liger_kernel_impl liger_layer_norm
liger_rms_norm liger_rms_norm_gated liger_rope liger_swiglu liger_use_token_scaling
lisa_layers_attribute lisa_n_layers lisa_step_interval llama4_linearized_experts
lm_eval_batch_size lm_eval_model lm_eval_post_train lm_eval_tasks load_best_model_at_end
load_in_4bit load_in_8bit local_rank logging_steps lora_alpha lora_alpha_pattern lora_dropout
lora_embedding_kernel lora_fan_in_fan_out lora_mlp_kernel lora_model_dir lora_modules_to_save
lora_o_kernel lora_on_cpu lora_qkv_kernel lora_r lora_rank_pattern lora_target_linear
lora_target_modules lora_target_parameters loraplus_lr_embedding loraplus_lr_ratio
loss_watchdog_patience loss_watchdog_threshold low_cpu_mem_usage lr_div_factor lr_groups
lr_quadratic_warmup lr_scheduler lr_scheduler_kwargs max_grad_norm max_memory max_prompt_len
mean_resizing_embeddings merge_lora merge_method metric_for_best_model mlflow_experiment_name
mlflow_run_name mlflow_tracking_uri model_config model_kwargs model_quantization_config
model_quantization_config_kwargs model_revision model_type moe_bnb_fast moe_dequant_chunk_size
moe_grouped_backend neftune_noise_alpha noisy_embedding_alpha nonexpert_quantization
num_dataset_shards_to_save num_generation_samples num_labels nvfp4_merge_aware
nvfp4_merge_aware_start_step optim_args optim_target_modules optimizer orpo_alpha
otel_metrics_host otel_metrics_port output_dir overrides_of_model_config overrides_of_model_kwargs
peft peft_autocast_adapter_dtype peft_ensure_weight_tying peft_init_lora_weights
peft_layer_replication peft_layers_pattern peft_layers_to_transform peft_trainable_token_indices
peft_use_dora peft_use_rslora ple_cpu_offload pose_max_context_len pose_num_chunks
pose_split_on_token_ids precompute_ref_log_probs pretrain_multipack_attn
pretrain_multipack_buffer_size pretraining_sample_concatenation processor_kwargs profiler_steps
profiler_steps_start project_name qat qgalore_cos_threshold qgalore_gamma_proj qgalore_proj_bits
qgalore_proj_group_size qgalore_proj_quant qgalore_proj_type qgalore_queue_size qgalore_rank
qgalore_scale qgalore_update_proj_gap qlora_sharded_model_loading quantization
quantize_moe_experts ray_num_workers ray_run_name reinit_weights relora relora_cpu_offload
relora_prune_method relora_prune_ratio remove_unused_columns resize_token_embeddings_to_32x
resources_per_worker resume_from_checkpoint revision_of_model ring_attn_func rl_beta
role_boundaries rope_scaling rpo_alpha s2_attention sample_packing_mp_start_method save_first_step
save_only_model save_safetensors save_steps save_strategy save_total_limit saves_per_epoch
scaling_softmax scaling_softmax_bias scaling_softmax_factor sdpa_varlen selective_checkpointing
shrink_embeddings simpo_gamma spectrum_model_name spectrum_top_fraction
streaming_multipack_buffer_size strict swanlab_api_host swanlab_api_key
swanlab_completion_log_interval swanlab_completion_max_buffer swanlab_description
swanlab_experiment_name swanlab_lark_secret swanlab_lark_webhook_url swanlab_log_completions
swanlab_log_model swanlab_mode swanlab_project swanlab_web_host swanlab_workspace test_datasets
tf32 tiled_mlp tiled_mlp_num_shards tiled_mlp_use_original_mlp tokenizer_save_jinja_files
tokenizer_use_fast torch_compile torch_compile_backend torch_compile_mode
torch_compile_options torch_dtype torch_empty_cache_steps torchdistx_path
total_supervised_tokens trackio_project_name trackio_run_name trackio_space_id trl
trust_remote_code type_of_model unfrozen_parameters use_comet use_dsv4_kernels use_eaft
use_glm_dsa_kernels use_kernels use_mlflow use_onebitllms use_otel_metrics use_scattermoe
use_sonicmoe use_swanlab use_tensorboard use_trackio use_wandb vllm wandb_entity wandb_log_model
wandb_mode wandb_name wandb_project wandb_run_id wandb_watch weight_decay world_size
"""
UNUSED = frozenset(_UNUSED.split())
