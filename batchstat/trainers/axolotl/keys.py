"""The keys of axolotl's configuration: which decide about batches, and which do not.

All fields of `AxolotlInputConfig` of src/axolotl/utils/schemas/config.py, and of the arguments of
its plugins that change no batches, in axolotl 0.19; and old keys that it ignores.
"""

from batchstat.parameters import MOST_SEED
from batchstat.trainers.base.keys import Key

ATTENTION = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Old keys for `attn_implementation`, and what they set; the first one counts."""

REFUSED = {
    "accelerator_config": "remove it",
    "added_tokens_overrides": "save a tokenizer that has them, and name it in tokenizer_config",
    "batch_flattening": "remove it, or set sample_packing",
    "chat_template_kwargs": "write them into a template, and pass it with --chat-template",
    "dataset_exact_deduplication": "remove duplicates beforehand, and this key",
    "dataset_shard_num": "pass the part of the corpus as CORPUS, without this key",
    "default_system_message": "write it into a template, and pass it with --chat-template",
    "dpo_padding_free": "it is not for supervised training",
    "ebft": "only supervised training is read",
    "max_packed_sequence_len": "axolotl no longer has it: remove it",
    "preprocess_iterable": "remove it",
    "pretraining_dataset": "pass its files as CORPUS, with datasets of type completion instead",
    "process_reward_model": "only supervised training is read",
    "processor_type": "only texts are read",
    "push_dataset_to_hub": "it may load samples prepared elsewhere: remove it",
    "reward_model": "only supervised training is read",
    "rl": "only supervised training is read",
    "sample_packing_eff_est": "remove it, and axolotl counts the steps",
    "shuffle_before_merging_datasets": "remove it, or pass the files in that sequence",
    "skip_prepare_dataset": "pass the prepared samples as CORPUS, without this key",
    "streaming": "remove it",
    "tokenizer_use_mistral_common": "pass the tokenizer of the library tokenizers",
    "total_num_tokens": "remove it, and axolotl counts them",
    "trainer_cls": "remove it",
    "use_pose": "remove it",
    "use_ray": "remove it, and pass the number of ranks with --world-size",
}
"""Keys whose batches are not modelled, unless they are false or empty, and the remedies."""

KEYS: dict[str, Key] = {
    "base_model": Key(None, str),
    "tokenizer_config": Key(None, str),
    "tokenizer_type": Key(None, str),
    "tokenizer_legacy": Key(None, bool),
    "tokens": Key(None, list),
    "chat_template": Key(None, str),
    "chat_template_jinja": Key(None, str),
    "datasets": Key(None, list),
    "sequence_len": Key(512, int, 1),
    "train_on_inputs": Key(None, bool),
    "excess_length_strategy": Key(None, str, values=("drop", "truncate", "raise")),
    "min_sample_len": Key(None, int),
    "sample_packing": Key(None, bool),
    "sample_packing_group_size": Key(100_000, int, 1),
    "sample_packing_bin_size": Key(200, int, 1),
    "sample_packing_sequentially": Key(None, bool),
    "multipack_real_batches": Key(None, bool),
    "eval_sample_packing": Key(None, bool),
    "ddp": Key(None, bool),
    "pad_to_sequence_len": Key(None, bool),
    "pad_to_multiple_of": Key(None, int, 1),
    "micro_batch_size": Key(1, int, 1),
    "gradient_accumulation_steps": Key(1, int, 1),
    "batch_size": Key(None, int, 1),
    "num_epochs": Key(1.0, float),
    "max_steps": Key(None, int, -1),
    "warmup_steps": Key(None, int),
    "warmup_ratio": Key(None, float),
    "seed": Key(None, int, most=MOST_SEED),
    "val_set_size": Key(0.0, float),
    "shuffle_merged_datasets": Key(True, bool),
    "curriculum_sampling": Key(None, bool),
    "group_by_length": Key(None, bool),
    "dataloader_drop_last": Key(None, bool),
    "attn_implementation": Key(None, str),
    "auto_find_batch_size": Key(None, bool),
    "context_parallel_size": Key(None, int, 1),
    "sequence_parallel_degree": Key(None, int, 1),
    "tensor_parallel_size": Key(None, int, 1),
    "plugins": Key(None, list),
    "special_tokens": Key(None, dict),
    "eot_tokens": Key(None, list),
    **{name: Key(None, bool) for name in ATTENTION},
    **{name: Key(None, object) for name in REFUSED},
}

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
