"""The keys of verl's SFT configuration: which decide about batches, and which do not.

All keys of verl/trainer/config/sft_trainer_engine.yaml with each of its engines and optimizers, in
verl 0.9.1.
"""

from batchstat.frameworks.keys import Key

ENGINE_CLASS = "verl.workers.config.FSDPEngineConfig"

TRUNCATIONS = ("error", "left", "right")

REFUSED = {
    "defaults": "save what `--cfg job --resolve` prints, which has all keys",
    "data.custom_cls.path": "pass its samples as CORPUS, without this key",
    "model.mtp.enable": "remove it",
}
"""Keys whose batches are not modelled, unless they are false or empty, and the remedies."""

KEYS: dict[str, Key] = {
    "defaults": Key(None, list),
    "data.train_batch_size": Key(256, int, 1),
    "data.max_token_len_per_gpu": Key(8192, int, 1),
    "data.use_dynamic_bsz": Key(True, bool),
    "data.train_files": Key(None, object),
    "data.train_max_samples": Key(-1, int, -1),
    "data.shuffle": Key(False, bool),
    "data.seed": Key(None, int),
    "data.messages_key": Key("messages", str),
    "data.tools_key": Key("tools", str),
    "data.enable_thinking_key": Key("enable_thinking", str),
    "data.enable_thinking_default": Key(None, object),
    "data.apply_chat_template_kwargs": Key(None, dict),
    "data.ignore_input_ids_mismatch": Key(False, bool),
    "data.pad_mode": Key("no_padding", str),
    "data.max_length": Key(1024, int, 1),
    "data.truncation": Key("error", str, values=TRUNCATIONS),
    "data.custom_cls.path": Key(None, str),
    "engine._target_": Key(ENGINE_CLASS, str),
    "engine.strategy": Key("fsdp", str),
    "engine.ulysses_sequence_parallel_size": Key(1, int, 1),
    "engine.pad_to_length": Key(False, bool),
    "engine.pad_to_length_bucket": Key(1024, int, 1),
    "model.path": Key(None, str),
    "model.tokenizer_path": Key(None, str),
    "model.custom_chat_template": Key(None, str),
    "model.use_remove_padding": Key(True, bool),
    "model.mtp.enable": Key(False, bool),
    "optim.lr_warmup_steps": Key(-1, int, -1),
    "optim.lr_warmup_steps_ratio": Key(0.0, float),
    "trainer.total_epochs": Key(4, int, 1),
    "trainer.total_training_steps": Key(None, int, 1),
    "trainer.nnodes": Key(1, int, 1),
    "trainer.n_gpus_per_node": Key(1, int, 1),
}

UNUSED_TABLES = (
    *("checkpoint", "optim", "profiler", "hydra", "model.fused_kernel_options", "model.lora"),
    *("model.mtp", "model.override_config", "model.tiled_mlp", "engine.backend_config"),
    *("engine.moe_config", "engine.override_ddp_config", "engine.override_mcore_model_config"),
    *("engine.override_transformer_config", "engine.qat", "engine.router_replay"),
    *("engine.turbo_config", "engine.wrap_policy", "engine.mixed_precision"),
)

_DATA = """
balance_dp_token custom_cls.name micro_batch_size_per_gpu num_workers use_shm val_files
val_max_samples
"""

_MODEL = """
_target_ enable_activation_offload enable_gradient_checkpointing exclude_modules external_lib
hf_config_path lora_adapter_path lora_alpha lora_rank target_modules trust_remote_code
use_fused_kernels use_liger use_shm
"""

_TRAINER = """
balance_batch default_hdfs_dir default_local_dir device experiment_name logger max_ckpt_to_keep
profile_interval project_name resume_from_path resume_mode save_freq seed test_freq
"""

_ENGINE = """
dtype entropy_checkpointing entropy_from_logits_chunk_size entropy_from_logits_with_chunking
forward_only forward_prefetch fsdp_size full_determinism model_dtype offload_policy
optimizer_offload param_offload reshard_after_forward seed use_no_sync_for_gradient_accumulation
use_orig_params use_torch_compile
"""

_OTHER_ENGINES = """
activation_checkpoint activation_checkpointing activation_offload_host_cache_limit_gb
activation_offload_modules attn_implementation attn_type basic_modules
causal_conv1d_implementation chunk_gated_delta_rule_implementation ckpt_manager
context_parallel_size cp_size cross_entropy_loss_implementation data_parallel_replicate_size
data_parallel_shard_size data_parallel_size defer_fsdp_grad_sync dist_checkpointing_path
dist_checkpointing_prefix dist_ckpt_optim_fully_reshardable
distrib_optim_fully_reshardable_mem_efficient distributed_strategy dp_replicate_size
dsa_attention_implementation dsa_indexer_implementation dynamic_context_parallel
enable_async_activation_offload enable_compile enable_fp8 enable_fsdp_offload enable_full_shard
enable_reentrant ep_size expert_model_parallel_size expert_parallel_size
expert_tensor_parallel_size force_use_huggingface init_device load_balancing_loss_implementation
load_checkpoint_path max_seq_len max_seqlen_per_dp_cp_rank mhc_implementation moe_implementation
mp_output_dtype mp_param_dtype mp_reduce_dtype pad_bshd_to_minibatch_max
pipeline_model_parallel_size pipeline_parallel_size pp_size qat_implementation
rms_norm_gated_implementation rms_norm_implementation rotary_pos_emb_implementation
sequence_parallel spmd_backend swiglu_mlp_implementation tensor_model_parallel_size
tensor_parallel_size tp_size ulysses_parallel_size use_dist_checkpointing
use_distributed_optimizer use_mbridge use_megatron_fsdp use_remove_padding vanilla_mbridge
virtual_pipeline_model_parallel_size
"""

OF_OTHER_ENGINES = frozenset(f"engine.{name}" for name in _OTHER_ENGINES.split())
"""Keys that only engines have whose batches are not modelled."""

UNUSED = frozenset(
    f"{table}.{name}"
    for table, names in {
        "data": _DATA,
        "model": _MODEL,
        "trainer": _TRAINER,
        "engine": _ENGINE + _OTHER_ENGINES,
    }.items()
    for name in names.split()
)
