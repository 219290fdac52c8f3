"""The keys of ms-swift's training arguments: which decide about batches, and which do not.

All fields of `SftArguments` of swift/arguments/sft_args.py in ms-swift 4.6.0. What its template and
its preprocessors make of a text decides the samples, which are passed as token ids.
"""

from batchstat.frameworks.keys import Key

REFUSED = {
    "streaming": "remove it",
    "cached_dataset": "pass the files with token ids as CORPUS, without this key",
    "interleave_prob": "remove it",
    "group_by_length": "remove it",
    "max_epochs": "set num_train_epochs instead",
    "parallelism_config": "remove it, and pass the number of ranks with --world-size",
    "accelerator_config": "remove it",
    "deepspeed_autotp_size": "remove it, and pass the number of ranks with --world-size",
    "use_ray": "remove it, and pass the number of ranks with --world-size",
    "load_args": "write the arguments into this file",
    "load_data_args": "write the arguments into this file",
}
"""Keys whose batches are not modelled, unless they are false or empty, and the remedies."""

KEYS: dict[str, Key] = {
    "dataset": Key(None, object),
    "val_dataset": Key(None, object),
    "split_dataset_ratio": Key(0.0, float),
    "eval_strategy": Key(None, str),
    "save_strategy": Key("steps", str),
    "data_seed": Key(42, int),
    "dataset_shuffle": Key(True, bool),
    "train_dataloader_shuffle": Key(True, bool),
    "max_length": Key(None, int, 1),
    "truncation_strategy": Key(None, str, values=("delete", "left", "right", "split")),
    "packing": Key(False, bool),
    "packing_length": Key(None, int, 1),
    "packing_num_proc": Key(1, int, 1),
    "packing_strategy": Key("binpack", str, values=("binpack", "sequential")),
    "padding_free": Key(False, bool),
    "attn_impl": Key(None, str),
    "lazy_tokenize": Key(None, bool),
    "strict": Key(False, bool),
    "per_device_train_batch_size": Key(1, int, 1),
    "gradient_accumulation_steps": Key(None, int, 1),
    "num_train_epochs": Key(3.0, float),
    "max_steps": Key(-1, int, -1),
    "warmup_ratio": Key(0.0, float),
    "warmup_steps": Key(0, float),
    "dataloader_drop_last": Key(False, bool),
    "average_tokens_across_devices": Key(True, bool),
    "auto_find_batch_size": Key(False, bool),
    "loss_scale": Key("default", str),
    "loss_type": Key(None, str),
    "enable_dft_loss": Key(False, bool),
    "label_smoothing_factor": Key(0.0, float),
    "sequence_parallel_size": Key(1, int, 1),
    "deepspeed": Key(None, object),
    "task_type": Key(None, str, values=("causal_lm",)),
    **{name: Key(None, object) for name in REFUSED},
}

_ENVIRONMENT = "ENV"
"""A table of variables, which its command takes out of the file."""

_UNUSED = """
acc_strategy adalora_beta1 adalora_beta2 adalora_deltaT adalora_init_r adalora_orth_reg_weight
adalora_target_r adalora_tfinal adalora_tinit adam_beta1 adam_beta2 adam_epsilon adapter_act
adapter_length adapters add_non_thinking_prefix add_version agent_template aligner_lr
batch_eval_metrics bf16 bf16_full_eval bnb_4bit_compute_dtype bnb_4bit_quant_storage
bnb_4bit_quant_type bnb_4bit_use_double_quant boft_block_num boft_block_size boft_dropout
boft_n_butterfly_factor cached_val_dataset callbacks check_model columns create_checkpoint_symlink
custom_dataset_info custom_register_path dataloader_in_order dataloader_multiprocessing_context
dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory
dataloader_prefetch_factor dataset_num_proc ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb
ddp_find_unused_parameters ddp_static_graph ddp_timeout debug decision_drop_instructions
decision_shuffle_fields decision_state_as_text decision_subsample_options device_groups device_map
disable_auto_column_mapping disable_ignore_empty_think disable_tqdm do_eval do_predict do_train
download_mode ds3_gather_for_generation early_stop_interval enable_channel_loss
enable_jit_checkpoint enable_npu_model_patch enable_thinking eval_accumulation_steps eval_dataset
eval_dataset_args eval_delay eval_do_concat_batches eval_generation_config eval_limit eval_metric
eval_on_start eval_steps eval_use_evalscope eval_use_gather_object experts_impl external_plugins
extra_eval_args fourier_n_frequency fourier_scaling fp16 fp16_full_eval freeze_aligner freeze_llm
freeze_parameters freeze_parameters_ratio freeze_parameters_regex freeze_vit fsdp fsdp_config
full_determinism galore_cos_threshold galore_gamma_proj galore_optim_per_parameter galore_proj_bits
galore_proj_group_size galore_proj_quant galore_proj_type galore_quantization galore_queue_size
galore_rank galore_scale galore_target_modules galore_update_proj_gap galore_with_embedding
generation_config generation_max_length generation_num_beams gradient_checkpointing
gradient_checkpointing_kwargs greater_is_better hqq_axis hub_always_push hub_model_id
hub_private_repo hub_revision hub_strategy hub_token ignore_args_error ignore_data_skip
include_for_metrics include_num_input_tokens_seen init_strategy init_weights is_binary_loss_scale
label_names learning_rate length_column_name liger_kernel_config lisa_activated_layers
lisa_step_interval llamapro_num_groups llamapro_num_new_blocks load_best_model_at_end
load_from_cache_file local_rank local_repo_path log_level log_level_replica log_on_each_node
logging_dir logging_first_step logging_nan_inf_filter logging_steps logging_strategy logprobs
lora_alpha lora_bias lora_dropout lora_dtype lora_ga_batch_size lora_ga_direction lora_ga_iters
lora_ga_max_length lora_ga_scale lora_ga_stable_gamma lora_rank lorap_lr_ratio lr_scheduler_kwargs
lr_scheduler_type max_grad_norm max_memory max_model_len max_new_tokens max_pixels max_shard_size
metric_for_best_model model model_author model_kwargs model_name model_revision model_type
modules_to_save mrl_dims neftune_noise_alpha new_special_tokens norm_bbox num_beams num_labels optim
optim_args optim_target_modules optimizer output_dir padding_side per_device_eval_batch_size
predict_with_generate prediction_loss_only preserve_thinking problem_type project push_to_hub
quant_bits quant_method ray_exp_name reft_args reft_intervention_type reft_layer_key reft_layers
reft_rank remove_unused_columns repetition_penalty report_to response_prefix
restore_callback_states_from_checkpoint resume_from_checkpoint resume_only_model rope_scaling
router_aux_loss_coef run_name safe_serialization save_on_each_node save_only_model save_steps
save_total_limit seed shuffle_buffer_size skip_memory_metrics sortish_sampler stop_words
stopping_strategy stream structured_outputs_regex swanlab_email_language swanlab_exp_name
swanlab_mode swanlab_notification_method swanlab_project swanlab_receiver_email swanlab_secret
swanlab_sender_email swanlab_smtp_port swanlab_smtp_server swanlab_token swanlab_webhook_url
swanlab_workspace system target_modules target_parameters target_regex temperature template
template_backend tf32 top_k top_logprobs top_p torch_compile torch_compile_backend
torch_compile_mode torch_dtype torch_empty_cache_steps trackio_bucket_id trackio_space_id
trackio_static_space_id train_sampling_strategy trainable_parameters trainable_parameters_regex
tuner_backend tuner_type use_cache use_chat_template use_cpu use_dora use_flash_ckpt use_galore
use_hf use_liger_kernel use_logits_to_keep use_rslora use_swift_lora val_dataset_shuffle
vera_d_initial vera_dropout vera_projection_prng_key vera_rank vit_gradient_checkpointing vit_lr
weight_decay zero_hpz_partition_size
"""
UNUSED = frozenset(_UNUSED.split()) | {_ENVIRONMENT}
