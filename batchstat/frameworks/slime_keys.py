"""The keys of slime's arguments: which decide about batches, and which do not.

All arguments of slime/utils/arguments.py, and those of Megatron that the scripts and examples of
slime pass, at 624b824.
"""

from batchstat.frameworks.keys import Key

SFT_ROLLOUT = "slime.rollout.sft_rollout.generate_rollout"
RL_ROLLOUTS = (
    "slime.rollout.sglang_rollout.generate_rollout",
    "slime.rollout.fully_async_rollout.generate_rollout_fully_async",
)
DATA_SOURCE = "slime.rollout.data_source.RolloutDataSourceWithBuffer"
MASKS = ("qwen", "qwen3", "qwen3_5", "distill_qwen")

REFUSED = {
    "allgather_cp": "remove it",
    "balance_by_flops": "remove it",
    "buffer_filter_path": "remove it",
    "custom_config_path": "write its keys into this file",
    "custom_convert_samples_to_train_data_path": "remove it",
    "debug_rollout_only": "it trains nothing",
    "disable_rollout_global_dataset": "remove it",
    "load_debug_rollout_data": "remove it",
    "megatron_config_path": "write its keys into this file",
    "multimodal_keys": "only texts are read",
    "num_layers_per_virtual_pipeline_stage": "remove it",
    "num_virtual_stages_per_pipeline_rank": "remove it",
    "rollout_all_samples_process_path": "remove it",
    "rollout_data_postprocess_path": "remove it",
    "rollout_sample_hook_path": "remove it",
    "rollout_sample_filter_path": "remove it",
}
"""Keys whose batches are not modelled, unless they are false or empty, and the remedies."""

REFUSED_FOR_SFT = {"apply_chat_template": "remove it: its SFT renders chats itself"}
REFUSED_FOR_RL = {"num_critic_only_steps": "remove it"}

KEYS_OF_WORK: dict[str, Key] = {
    "hidden_size": Key(None, int, 1),
    "ffn_hidden_size": Key(None, int, 1),
    "num_layers": Key(None, int, 1),
    "num_attention_heads": Key(None, int, 1),
    "num_query_groups": Key(None, int, 1),
    "kv_channels": Key(None, int, 1),
    "vocab_size": Key(None, int, 1),
    "multi_latent_attention": Key(False, bool),
    "q_lora_rank": Key(None, int, 1),
    "kv_lora_rank": Key(None, int, 1),
    "qk_head_dim": Key(None, int, 1),
    "qk_pos_emb_head_dim": Key(None, int, 1),
    "v_head_dim": Key(None, int, 1),
    "num_experts": Key(None, int, 1),
    "moe_ffn_hidden_size": Key(None, int, 1),
    "moe_router_topk": Key(None, int, 1),
    "moe_shared_expert_intermediate_size": Key(None, int),
    "moe_layer_freq": Key(1, object),
}
"""The shape of the model, by which balance_data estimates work."""

KEYS: dict[str, Key] = {
    "rollout_function_path": Key("slime.rollout.sglang_rollout.generate_rollout", str),
    "loss_type": Key("policy_loss", str),
    "loss_mask_type": Key("qwen", str, values=MASKS),
    "calculate_per_token_loss": Key(False, bool),
    "hf_checkpoint": Key(None, str),
    "prompt_data": Key(None, str),
    "input_key": Key("input", str),
    "tool_key": Key("tools", str),
    "data_source_path": Key(DATA_SOURCE, str),
    "rollout_global_dataset": Key(True, bool),
    "rollout_shuffle": Key(False, bool),
    "rollout_seed": Key(42, int),
    "num_rollout": Key(None, int, 1),
    "num_epoch": Key(None, int, 1),
    "rollout_batch_size": Key(None, int, 1),
    "n_samples_per_prompt": Key(1, int, 1),
    "global_batch_size": Key(None, int, 1),
    "num_steps_per_rollout": Key(None, int, 1),
    "use_dynamic_batch_size": Key(False, bool),
    "max_tokens_per_gpu": Key(None, int, 1),
    "data_pad_size_multiplier": Key(128, int, 1),
    "actor_num_nodes": Key(1, int, 1),
    "actor_num_gpus_per_node": Key(8, int, 1),
    "tensor_model_parallel_size": Key(1, int, 1),
    "pipeline_model_parallel_size": Key(1, int, 1),
    "context_parallel_size": Key(1, int, 1),
    "lr_warmup_fraction": Key(None, float),
    "lr_warmup_iters": Key(0, int),
    "lr_decay_iters": Key(None, int, 1),
    "balance_data": Key(False, bool),
    "custom_generate_function_path": Key(None, str),
    **KEYS_OF_WORK,
    **{key: Key(None, object) for key in (*REFUSED, *REFUSED_FOR_SFT, *REFUSED_FOR_RL)},
}

_UNUSED = """
accumulate_allreduce_grads_in_fp32 adam_beta1 adam_beta2 add_qkv_bias advantage_estimator
apply_chat_template_kwargs apply_layernorm_1p async_save attention_backend attention_dropout
attention_output_gate attention_softmax_in_fp32 check_weight_update_equal ci_disable_kl_checker
ci_load_grad_norm ci_save_grad_norm ci_test ci_train_rollout_logprob_abs_diff_threshold clip_grad
colocate compute_advantages_and_returns custom_advantage_function_path
custom_eval_rollout_log_function_path custom_loss_function_path
custom_megatron_before_log_prob_hook_path custom_megatron_before_train_step_hook_path
custom_megatron_init_path custom_model_provider_path custom_pg_loss_reducer_function_path
custom_reward_post_process_path custom_rm_path custom_rollout_log_function_path
custom_tis_function_path custom_update_weight_post_write_path debug_train_only
decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers deterministic_mode
disable_bias_linear disable_compute_advantages_and_returns disable_grpo_std_normalization
disable_rewards_normalization disable_wandb_random_suffix distributed_backend
distributed_timeout_minutes dump_details dynamic_sampling_filter_path enable_experimental
enable_mtp_training entropy_coef eps_clip eps_clip_c eps_clip_high eval_config eval_function_path
eval_input_key eval_interval eval_label_key eval_max_context_len eval_max_prompt_len
eval_max_response_len eval_min_new_tokens eval_prompt_data eval_reward_key eval_temperature
eval_tool_key eval_top_k eval_top_p expert_model_parallel_size expert_tensor_parallel_size
fetch_trajectory_retry_times foo_bar freeze_indexer freeze_params_name_list gamma
get_mismatch_metrics group_query_attention group_rm grpo_std_normalization hidden_dropout http_proxy
keep_old_actor kl_coef kl_loss_coef kl_loss_type label_key lambd load
load_debug_rollout_data_subsample load_forge_rollout_data log_correct_samples log_multi_turn
log_passrate log_probs_chunk_size log_probs_max_tokens_per_gpu log_reward_category lr lr_decay_style
make_vocab_size_divisible_by mask_offpolicy_in_partial_rollout max_position_embeddings
megatron_deepgemm_forward_layers megatron_deepgemm_forward_modules
megatron_deepgemm_moe_forward_layers megatron_deepgemm_moe_forward_modules memory_recorder
memory_snapshot_dir memory_snapshot_num_steps metadata_key micro_batch_size
min_batch_collection_ratio min_lr model_name moe_aux_loss_coeff moe_enable_deepep moe_grouped_gemm
moe_permute_fusion moe_router_bias_update_rate moe_router_dtype moe_router_enable_expert_bias
moe_router_group_topk moe_router_load_balancing_type moe_router_num_groups moe_router_pre_softmax
moe_router_score_function moe_router_topk_scaling_factor moe_shared_expert_gate
moe_token_dispatcher_type moe_token_drop_policy mscale mscale_all_dim mtp_loss_scaling_factor
mtp_num_layers n_samples_per_eval_prompt no_check_for_nan_in_loss_and_grad
no_gradient_accumulation_fusion no_masked_softmax_fusion no_offload_rollout no_offload_train
no_position_embedding no_rope_fusion no_save_optim norm_epsilon normalization normalize_advantages
num_gpus_per_node offload offload_rollout offload_train
only_train_params_name_list opd_kl_coef opd_teacher_ckpt_step opd_teacher_load opd_type opsm_delta
optimizer optimizer_cpu_offload over_sampling_batch_size overlap_cpu_optimizer_d2h_h2d
padded_vocab_size partial_rollout position_embedding_type post_mlp_layernorm
post_self_attn_layernorm prefill_num_servers profile_target qk_layernorm qwen_gdn_backend
recompute_granularity recompute_loss_function recompute_method recompute_num_layers
record_memory_history ref_ckpt_step ref_load ref_update_interval release_train
reset_optimizer_states reward_key rewards_normalization rm_type rm_url rollout_buffer_url
rollout_data_transport rollout_external_engine_addrs rollout_health_check_first_wait
rollout_health_check_interval rollout_health_check_timeout rollout_max_context_len
rollout_max_prompt_len rollout_max_response_len rollout_num_gpus rollout_num_gpus_per_engine
rollout_skip_special_tokens rollout_stop rollout_stop_token_ids rollout_task_type
rollout_temperature rollout_top_k rollout_top_p rotary_base rotary_interleaved rotary_percent
rotary_scaling_factor save save_debug_rollout_data save_debug_train_data save_hf save_interval seed
seq_length sequence_parallel sglang_attention_backend sglang_chunked_prefill_size sglang_config
sglang_cuda_graph_bs sglang_cuda_graph_max_bs sglang_deepep_mode sglang_disable_overlap_schedule
sglang_disaggregation_ib_device sglang_disaggregation_transfer_backend sglang_dp_size
sglang_enable_deterministic_inference sglang_enable_dp_attention sglang_enable_dp_lm_head
sglang_ep_size sglang_foo_bar sglang_kv_cache_dtype sglang_mamba_scheduler_strategy
sglang_max_running_requests sglang_mem_fraction_static sglang_moe_a2a_backend
sglang_moe_dense_tp_size sglang_nsa_decode_backend sglang_nsa_prefill_backend sglang_page_size
sglang_pipeline_parallel_size sglang_pp_size sglang_reasoning_parser sglang_router_ip
sglang_router_port sglang_router_request_timeout_secs sglang_server_concurrency
sglang_speculative_algorithm sglang_speculative_draft_attention_backend
sglang_speculative_eagle_topk sglang_speculative_num_draft_tokens sglang_speculative_num_steps
sglang_tool_call_parser sglang_watchdog_timeout skip_eval_before_train start_rollout_id swiglu
tb_experiment_name tb_project_name tis_clip tis_clip_low train_backend train_env_vars
untie_embeddings_and_output_weights update_weight_buffer_size update_weight_delta_checksum
update_weight_delta_encoding update_weight_disk_dir update_weight_disk_keep_files
update_weight_local_checkpoint_dir update_weight_mode update_weight_transport
update_weights_interval use_distributed_optimizer use_distributed_post use_fault_tolerance
use_gated_attention use_kl_loss use_opd use_opsm use_precision_aware_optimizer use_rollout_entropy
use_rollout_logprobs use_rollout_routing_replay use_rope_scaling use_rotary_position_embeddings
use_routing_replay use_stateless_adam use_tensorboard use_tis use_unbiased_kl use_wandb value_clip
wandb_always_use_train_step wandb_dir wandb_group wandb_host wandb_key wandb_mode wandb_project
wandb_random_suffix wandb_run_id wandb_team weight_decay
"""
UNUSED = frozenset(_UNUSED.split())
