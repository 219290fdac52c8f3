"""The arguments of LLaMA-Factory 0.9.5: which decide about batches, and which do not."""

from dataclasses import dataclass

from batchstat.trainers.base.keys import key
from batchstat.trainers.transformers import keys as base


@dataclass(frozen=True, kw_only=True)
class LlamaFactoryArguments(base.TrainingArguments):
    """The arguments that decide."""

    stage: str = key("sft", values=("pt", "sft", "rm", "ppo", "dpo", "kto"))
    do_train: bool = key(False)
    model_name_or_path: str | None = key(None)
    use_fast_tokenizer: bool = key(True, only=True)
    split_special_tokens: bool = key(False, refused="remove it")
    add_tokens: object = key(None, refused="save the tokenizer with them, and name that")
    add_special_tokens: object = key(None, refused="save the tokenizer with them, and name that")
    new_special_tokens_config: str | None = key(
        None, refused="save the tokenizer with them, and name that"
    )
    flash_attn: str = key("auto", values=("auto", "disabled", "sdpa", "fa2", "fa3"))
    template: str | None = key(None)
    default_system: str | None = key(None)
    enable_thinking: object = key(True)
    dataset: object = key(None)
    eval_dataset: object = key(None)
    dataset_dir: object = key("data")
    tokenized_path: str | None = key(
        None, refused="pass the files with token ids as CORPUS, without this key"
    )
    streaming: bool = key(False, refused="remove it")
    mix_strategy: str = key(
        "concat",
        values=("concat", "interleave_under", "interleave_over", "interleave_once"),
        only="concat",
    )
    max_samples: int | None = key(None, least=1)
    val_size: float = key(0.0)
    cutoff_len: int = key(2048, least=2)
    mask_history: bool = key(False)
    train_on_prompt: bool = key(False)
    ignore_pad_token_for_loss: bool = key(True, only=True)
    preprocessing_batch_size: int = key(1000, least=1)
    preprocessing_num_workers: int | None = key(None, least=1)
    packing: bool | None = key(None)
    neat_packing: bool = key(False)
    disable_shuffling: bool = key(False)
    use_mca: bool = key(False, refused="remove it")
    use_hyper_parallel: bool = key(False, refused="remove it")
    use_dft_loss: bool = key(False)
    use_asft_loss: bool = key(False)
    use_eaft_loss: bool = key(False)

    @property
    def own_losses(self) -> list[str]:
        """The keys that are set whose loss gives each token a weight of its own."""
        names = ("use_dft_loss", "use_asft_loss", "use_eaft_loss")
        return [name for name in names if getattr(self, name)]


_UNUSED = """
adapter_name_or_path adapter_folder cache_dir resize_vocab init_special_tokens model_revision
low_cpu_mem_usage rope_scaling shift_attn mixture_of_depths use_unsloth use_unsloth_gc
enable_liger_kernel moe_aux_loss_coef disable_gradient_checkpointing use_reentrant_gc
upcast_layernorm upcast_lmhead_output train_from_scratch infer_backend offload_folder use_kv_cache
use_v1_kernels infer_dtype hf_hub_token ms_hub_token om_hub_token print_param_status
trust_remote_code quantization_method quantization_bit quantization_type double_quantization
quantization_device_map image_max_pixels image_min_pixels image_do_pan_and_scan crop_to_patches
video_max_pixels video_min_pixels video_fps video_maxlen use_audio_in_video audio_sampling_rate
export_dir export_size export_device export_quantization_bit export_quantization_dataset
export_quantization_nsamples export_quantization_maxlen export_legacy_format export_hub_model_id
use_kt kt_weight_path kt_expert_checkpoint_path kt_use_lora_experts kt_lora_expert_num
kt_lora_expert_intermediate_size vllm_maxlen vllm_gpu_util vllm_enforce_eager vllm_max_lora_rank
vllm_config sglang_maxlen sglang_mem_fraction sglang_tp_size sglang_config sglang_lora_backend
media_dir buffer_size interleave_probs overwrite_cache eval_num_beams eval_on_each_dataset
tool_format preserve_thinking data_shared_file_system sortish_sampler
predict_with_generate generation_max_length generation_num_beams generation_config ray_num_workers
ray_init_kwargs master_addr master_port fp8 fp8_backend fp8_enable_fsdp_float8_all_gather
enable_torch_profiler profiler_output_dir profiler_wait_steps profiler_warmup_steps
profiler_active_steps profiler_repeat profiler_record_shapes profiler_profile_memory
profiler_with_stack profile_modules freeze_trainable_layers freeze_trainable_modules
freeze_extra_modules additional_target module_dropout oft_rank oft_block_size oft_target
create_new_adapter lora_alpha lora_dropout lora_rank lora_target loraplus_lr_ratio
loraplus_lr_embedding use_rslora use_dora pissa_init pissa_iter pissa_convert pref_beta pref_ftx
pref_bco_weight pref_loss dpo_label_smoothing kto_chosen_weight kto_rejected_weight simpo_gamma
ppo_buffer_size ppo_epochs ppo_score_norm ppo_target ppo_whiten_rewards ref_model
ref_model_adapters ref_model_quantization_bit reward_model reward_model_adapters
reward_model_quantization_bit reward_model_type ld_alpha use_galore galore_target galore_rank
galore_update_interval galore_scale galore_proj_type galore_layerwise use_apollo apollo_target
apollo_rank apollo_update_interval apollo_scale apollo_proj apollo_proj_type apollo_scale_type
apollo_layerwise apollo_scale_front use_badam badam_mode badam_start_block badam_switch_mode
badam_switch_interval badam_update_ratio badam_mask_mode badam_verbose use_swanlab swanlab_project
swanlab_workspace swanlab_run_name swanlab_mode swanlab_api_key swanlab_logdir
swanlab_lark_webhook_url swanlab_lark_secret pure_bf16 finetuning_type use_llama_pro use_adam_mini
hyper_parallel_args use_muon asft_alpha eaft_alpha freeze_vision_tower
freeze_multi_modal_projector freeze_language_model compute_accuracy early_stopping_steps plot_loss
include_effective_tokens_per_second do_sample temperature top_p top_k num_beams max_length
max_new_tokens repetition_penalty length_penalty skip_special_tokens
"""
UNUSED = (base.UNUSED | frozenset(_UNUSED.split())) - LlamaFactoryArguments.keys().keys()
