"""The keys of verl's PPO configuration: which decide about batches, and which do not.

All keys of verl/trainer/config/ppo_trainer.yaml with each of its engines, in verl 0.9.1.
"""

from batchstat.frameworks.keys import Key

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
FSDP = f"{ACTOR}.fsdp_config"
MEGATRON = f"{ACTOR}.megatron"

AGGREGATIONS = (
    *("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean"),
    "seq-mean-token-sum-norm",
)

REFUSED = {
    "defaults": "save what `--cfg job --resolve` prints, which has all keys",
    "algorithm.use_pf_ppo": "it draws rollouts at random",
    f"{ACTOR}.shuffle": "it shuffles the rollouts of each rank",
    f"{ACTOR}.use_prefix_grouper": "remove it",
    f"{MODEL}.mtp.enable": "remove it",
    f"{MEGATRON}.dynamic_context_parallel": "remove it",
    f"{MEGATRON}.override_transformer_config.fp8": "remove it",
    f"{MEGATRON}.virtual_pipeline_model_parallel_size": "remove it",
    "trainer.v1.sampler.custom_sampler.path": "remove it",
}
"""Keys whose batches are not modelled, unless they are false or empty, and the remedies."""

KEYS: dict[str, Key] = {
    "data.train_batch_size": Key(1024, int, 1),
    "data.gen_batch_size": Key(None, int, 1),
    "actor_rollout_ref.rollout.n": Key(1, int, 1),
    f"{ACTOR}.ppo_mini_batch_size": Key(256, int, 1),
    f"{ACTOR}.ppo_epochs": Key(1, int, 1),
    f"{ACTOR}.use_dynamic_bsz": Key(False, bool),
    f"{ACTOR}.ppo_max_token_len_per_gpu": Key(16_384, int, 1),
    f"{ACTOR}.strategy": Key(None, str),
    f"{ACTOR}.loss_agg_mode": Key("token-mean", str, values=AGGREGATIONS),
    f"{ACTOR}.ulysses_sequence_parallel_size": Key(1, int, 1),
    f"{ACTOR}.optim.lr_warmup_steps": Key(-1, int, -1),
    f"{ACTOR}.optim.lr_warmup_steps_ratio": Key(0.0, float),
    f"{FSDP}.ulysses_sequence_parallel_size": Key(1, int, 1),
    f"{ACTOR}.pad_to_length": Key(False, bool),
    f"{FSDP}.pad_to_length": Key(None, bool),
    f"{FSDP}.pad_to_length_bucket": Key(1024, int, 1),
    f"{MEGATRON}.tensor_model_parallel_size": Key(1, int, 1),
    f"{MEGATRON}.pipeline_model_parallel_size": Key(1, int, 1),
    f"{MEGATRON}.context_parallel_size": Key(1, int, 1),
    f"{MEGATRON}.pad_to_length": Key(False, bool),
    f"{MEGATRON}.pad_to_length_bucket": Key(512, int, 1),
    f"{ACTOR}.optim.lr_decay_steps": Key(None, int, 1),
    f"{MODEL}.path": Key(None, str),
    f"{MODEL}.tokenizer_path": Key(None, str),
    f"{MODEL}.use_remove_padding": Key(True, bool),
    "model_engine": Key("dp", str),
    "algorithm.adv_estimator": Key("gae", str),
    "algorithm.filter_groups.enable": Key(False, bool),
    "critic.enable": Key(None, bool),
    "critic.ppo_mini_batch_size": Key(None, int, 1),
    "trainer.nnodes": Key(1, int, 1),
    "trainer.n_gpus_per_node": Key(8, int, 1),
    "trainer.balance_batch": Key(True, bool),
    "trainer.use_v1": Key(True, bool),
    "trainer.v1.trainer_mode": Key("sync", str),
    "trainer.critic_warmup": Key(0, int),
    "trainer.total_epochs": Key(30, int, 1),
    "trainer.total_training_steps": Key(None, int, 1),
    **{key: Key(None, object) for key in REFUSED},
}

UNUSED_TABLES = (
    *("algorithm", "critic", "custom_reward_function", "distillation", "global_profiler", "hydra"),
    *("ray_kwargs", "reward", "reward_model", "sandbox_fusion", "skip", "transfer_queue"),
    *("data.apply_chat_template_kwargs", "data.custom_cls", "data.mm_processor_kwargs"),
    *("actor_rollout_ref.ref", "trainer.v1.colocate_async", "trainer.v1.separate_async"),
    *("trainer.v1.sampler.sampler_kwargs", "trainer.v1.sampler.custom_sampler"),
    *(f"{MODEL}.{name}" for name in ("fused_kernel_options", "lora", "mtp", "override_config")),
    f"{MODEL}.tiled_mlp",
    *(f"{ACTOR}.{name}" for name in ("checkpoint", "optim", "policy_loss", "profiler", "qat")),
    *(f"{ACTOR}.{name}" for name in ("torchtitan", "veomni")),
    *(f"{FSDP}.{name}" for name in ("mixed_precision", "qat", "turbo_config", "wrap_policy")),
    *(f"{MEGATRON}.{name}" for name in ("override_ddp_config", "override_mcore_model_config")),
    *(f"{MEGATRON}.{name}" for name in ("override_transformer_config", "qat", "router_replay")),
    *(
        f"actor_rollout_ref.rollout.{name}"
        for name in (
            *("agent", "checkpoint_engine", "custom", "disaggregation", "engine_kwargs", "mtp"),
            *("multi_turn", "profiler", "prometheus", "qat", "trace", "val_kwargs"),
        )
    ),
)

_ACTOR = """
_target_ calculate_entropy calculate_sum_pi_squared clip_ratio clip_ratio_c clip_ratio_high
clip_ratio_low data_loader_seed entropy_checkpointing entropy_coeff entropy_from_logits_chunk_size
entropy_from_logits_with_chunking freeze_vision_tower grad_clip kl_loss_coef kl_loss_type
loss_scale_factor ppo_micro_batch_size ppo_micro_batch_size_per_gpu
rollout_n tau_neg tau_pos use_fused_kernels use_kl_loss use_remove_padding use_rollout_log_probs
use_torch_compile
"""

_FSDP = """
_target_ dtype entropy_checkpointing entropy_from_logits_chunk_size
entropy_from_logits_with_chunking forward_only forward_prefetch fsdp_size full_determinism
model_dtype offload_policy optimizer_offload param_offload reshard_after_forward seed strategy
use_no_sync_for_gradient_accumulation use_orig_params use_torch_compile
"""

_MEGATRON = """
_target_ dist_checkpointing_path dist_checkpointing_prefix dist_ckpt_optim_fully_reshardable
distrib_optim_fully_reshardable_mem_efficient dtype entropy_from_logits_chunk_size
entropy_from_logits_with_chunking expert_model_parallel_size expert_tensor_parallel_size
forward_only max_seqlen_per_dp_cp_rank optimizer_offload pad_bshd_to_minibatch_max param_offload
seed sequence_parallel use_dist_checkpointing use_distributed_optimizer use_mbridge
use_megatron_fsdp use_remove_padding vanilla_mbridge
"""

_MODEL = """
_target_ custom_chat_template enable_activation_offload enable_gradient_checkpointing
exclude_modules external_lib hf_config_path lora_adapter_path lora_alpha lora_rank target_modules
trust_remote_code use_fused_kernels use_liger use_shm
"""

_ROLLOUT = """
_target_ calculate_log_probs cudagraph_capture_sizes data_parallel_size disable_log_stats do_sample
dtype enable_chunked_prefill enable_prefix_caching enable_rollout_routing_replay enforce_eager
expert_parallel_size free_cache_engine full_determinism gpu_memory_utilization ignore_eos
layered_summon load_format log_prob_max_token_len_per_gpu log_prob_micro_batch_size
log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz logprobs_mode max_model_len
max_num_batched_tokens max_num_seqs mode moe_load_balance_metrics_interval multi_stage_wake_up
n_gpus_per_node name nnodes over_sample_rate pipeline_model_parallel_size prompt_length
quantization quantization_config_file response_length router_config_path scheduling_policy seed
skip_tokenizer_init temperature tensor_model_parallel_size top_k top_p
"""

_DATA = """
audio_key dataloader_num_workers filter_overlong_prompts filter_overlong_prompts_workers
function_tool_path image_key image_patch_size max_prompt_length max_response_length prompt_key
return_full_prompt return_multi_modal_inputs return_raw_chat return_raw_input_ids reward_fn_key
seed shuffle tokenizer tool_config_path train_files train_max_samples truncation
trust_remote_code use_shm val_batch_size val_files val_max_samples validation_shuffle video_key
"""

_TRAINER = """
checkpoint_callback_class default_hdfs_dir default_local_dir del_local_ckpt_after_load device
esi_redundant_time experiment_name log_val_generations logger max_actor_ckpt_to_keep
max_critic_ckpt_to_keep project_name ray_wait_register_center_timeout resume_from_path resume_mode
rollout_data_dir save_freq test_freq val_before_train val_only validation_data_dir v1.sync
v1.sampler.max_off_policy_strategy v1.sampler.max_off_policy_threshold
v1.sampler.sync_refill_failed_groups
"""

UNUSED = frozenset(
    f"{table}.{name}"
    for table, names in {
        ACTOR: _ACTOR,
        FSDP: _FSDP,
        MEGATRON: _MEGATRON,
        MODEL: _MODEL,
        "actor_rollout_ref": "hybrid_engine nccl_timeout",
        "actor_rollout_ref.rollout": _ROLLOUT,
        "data": _DATA,
        "trainer": _TRAINER,
    }.items()
    for name in names.split()
)
