"""LLaMA-Factory's training arguments, as `llamafactory-cli train` takes them.

Checked against LLaMA-Factory 0.9.5 with transformers 5.6: `get_train_args` of src/llamafactory/
hparams/parser.py and the arguments beside it, `run_sft` of train/sft/workflow.py,
`CustomSeq2SeqTrainer` of train/sft/trainer.py, and `SFTDataCollatorWith4DAttentionMask` of
data/collator.py, which pads to multiples of 8. What `TrainingArguments` decide is in
`transformers`, which data are read in `corpus`, and which samples are left of them in `samples`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from batchstat.errors import OptionError, short
from batchstat.trainers.base.keys import Key, refuse
from batchstat.trainers.base.setup import Framework, TrainingSetup
from batchstat.trainers.llama_factory.corpus import (
    TEXTS,
    named_data,
    named_template,
    passed_columns,
)
from batchstat.trainers.llama_factory.samples import preparation
from batchstat.trainers.llama_factory.texts import (
    check_texts,
    fields_of_texts,
    packs,
    row_length,
)
from batchstat.trainers.transformers import config as base

KEYS: dict[str, Key] = {
    **base.KEYS,
    "stage": Key("sft", str, values=("pt", "sft", "rm", "ppo", "dpo", "kto")),
    "do_train": Key(False, bool),
    "model_name_or_path": Key(None, str),
    "use_fast_tokenizer": Key(True, bool),
    "split_special_tokens": Key(False, bool),
    "add_tokens": Key(None, object),
    "add_special_tokens": Key(None, object),
    "new_special_tokens_config": Key(None, str),
    "flash_attn": Key("auto", str, values=("auto", "disabled", "sdpa", "fa2", "fa3")),
    "template": Key(None, str),
    "default_system": Key(None, str),
    "enable_thinking": Key(True, object),
    "dataset": Key(None, object),
    "eval_dataset": Key(None, object),
    "dataset_dir": Key("data", object),
    "tokenized_path": Key(None, str),
    "streaming": Key(False, bool),
    "mix_strategy": Key(
        "concat", str, values=("concat", "interleave_under", "interleave_over", "interleave_once")
    ),
    "max_samples": Key(None, int, 1),
    "val_size": Key(0.0, float),
    "cutoff_len": Key(2048, int, 2),
    "mask_history": Key(False, bool),
    "train_on_prompt": Key(False, bool),
    "ignore_pad_token_for_loss": Key(True, bool),
    "preprocessing_batch_size": Key(1000, int, 1),
    "preprocessing_num_workers": Key(None, int, 1),
    "packing": Key(None, bool),
    "neat_packing": Key(False, bool),
    "disable_shuffling": Key(False, bool),
    "use_mca": Key(False, bool),
    "use_hyper_parallel": Key(False, bool),
    "use_dft_loss": Key(False, bool),
    "use_asft_loss": Key(False, bool),
    "use_eaft_loss": Key(False, bool),
}

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

_NOT_MODELLED = {
    "streaming": "remove it",
    "tokenized_path": "pass the files with token ids as CORPUS, without this key",
    "use_mca": "remove it",
    "use_hyper_parallel": "remove it",
    "split_special_tokens": "remove it",
    "add_tokens": "save the tokenizer with them, and name that",
    "add_special_tokens": "save the tokenizer with them, and name that",
    "new_special_tokens_config": "save the tokenizer with them, and name that",
}
"""Keys that are refused if they have a value, with the remedy."""

_ONLY = {
    "mix_strategy": "concat",
    "use_fast_tokenizer": True,
    "ignore_pad_token_for_loss": True,
}
"""Keys with the one value that is modelled."""

_STAGES = ("sft", TEXTS)
"""Those that are modelled."""

_OF_ANY_VERSION = {"logging_dir", "overwrite_output_dir", "warmup_ratio"}
"""Keys of transformers 4 that LLaMA-Factory itself has, whatever the version."""

_LOSSES = ("use_dft_loss", "use_asft_loss", "use_eaft_loss")
_PAD_TO = 8


def read_config(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of LLaMA-Factory's arguments."""
    of_texts = values["stage"] == TEXTS
    longest = row_length(values) if of_texts else values["cutoff_len"]
    if of_texts:
        check_texts(values, where)
    packing = packs(values) if of_texts else bool(values["packing"]) or values["neat_packing"]
    values = {**values, "packing": packing}
    if values["disable_shuffling"]:
        values |= {"train_sampling_strategy": base.SEQUENTIAL, "group_by_length": False}
    _check(values, where, given)
    own = fields_of_texts(values) if of_texts else _fields_of_chats(values, where)
    corpus, unreadable = named_data(values)
    setup = base.read_arguments(values, where, given, **facts)
    settings = {**setup.settings, "max_length": longest}
    strategy = setup.strategy
    if values["packing"]:
        strategy = _packing(values)
        settings |= {"overflow": "split"} if of_texts else {}
    elif not of_texts:
        settings["pad_to_multiple_of"] = _PAD_TO
    if any(values[key] for key in _LOSSES):
        settings["loss"] = None
    reading = {**corpus, **own["reading"]}
    if values["model_name_or_path"] is not None:
        reading["tokenizer"] = values["model_name_or_path"]
    return TrainingSetup(
        **{
            **vars(setup),
            "strategy": strategy,
            "settings": settings,
            "own_keys": {**setup.own_keys, "max_length": "cutoff_len"},
            "unreadable": unreadable,
            **passed_columns(values),
            "warnings": tuple(_warnings(values, where)),
            **own,
            "reading": reading,
        }
    )


def _fields_of_chats(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of `TrainingSetup` for chats."""
    template, turns = named_template(values, where)
    return {"reading": template, "turns": turns, "prepare": preparation(values)}


def _packing(values: Mapping[str, Any]) -> str:
    """Return the strategy of packing: true."""
    packing = "wrapped" if values["stage"] == TEXTS else "plain"
    if values["neat_packing"]:
        packing = "unpadded" if values["flash_attn"] == "fa2" else "masked"
    parameters = {
        "packing": packing,
        "batch_size": values["per_device_train_batch_size"],
        "read_ahead": values["preprocessing_batch_size"],
        "preprocessing_num_workers": values["preprocessing_num_workers"] or 1,
    }
    return "llama-factory:" + ",".join(f"{key}={value}" for key, value in parameters.items())


def _check(values: Mapping[str, Any], where: str, given: frozenset[str]) -> None:
    """Raise OptionError for keys that contradict each other, or that are not modelled."""
    if values["stage"] not in _STAGES:
        raise OptionError(
            f"{where}: stage={short(values['stage'])} is not modelled: only "
            f"{' and '.join(_STAGES)} are"
        )
    if "warmup_ratio" in given and values["warmup_steps"]:
        raise OptionError(
            f"{where}: of warmup_ratio and warmup_steps={values['warmup_steps']:g}, versions of "
            "transformers that LLaMA-Factory allows take one or the other: remove one"
        )
    if not values["do_train"]:
        raise OptionError(f"{where}: do_train=false trains nothing: set do_train to true")
    refuse(where, values, _NOT_MODELLED, _ONLY)
    for key, other in (("mask_history", "train_on_prompt"), ("val_size", "eval_dataset")):
        if values[key] and values[other]:
            raise OptionError(f"{where}: {key} contradicts {other}: remove one")
    if values["val_size"] == 1 and isinstance(values["val_size"], float):
        raise OptionError(f"{where}: val_size=1.0 is neither a share nor a number: set 1 or more")
    if values["packing"]:
        _check_packing(values, where)


def _check_packing(values: Mapping[str, Any], where: str) -> None:
    base.check_even(values, where)
    sampling = base.sampling_strategy(values, where)
    if sampling != base.RANDOM:
        key = "disable_shuffling" if values["disable_shuffling"] else sampling
        raise OptionError(f"{where}: packing with {key} is not modelled: remove one")
    if values["neat_packing"] and values["flash_attn"] == "fa3":
        raise OptionError(
            f"{where}: neat_packing=true with flash_attn=fa3 is not modelled: use fa2 or auto"
        )
    size = values["per_device_train_batch_size"]
    if values["neat_packing"] and values["flash_attn"] == "fa2" and size != 1:
        raise OptionError(
            f"{where}: neat_packing=true with flash_attn=fa2 takes one row per batch, but "
            f"per_device_train_batch_size={size}: set it to 1"
        )


def _warnings(values: Mapping[str, Any], where: str) -> Iterator[str]:
    # LLaMA-Factory itself has the keys of transformers 4 that others are warned of.
    yield from base.warnings_of(values, base.sampling_strategy(values, where), frozenset())
    for key in _LOSSES:
        if values[key]:
            yield f"{key} gives each token a weight of its own, which is not reported"


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    values = setup.values
    one_row = values["per_device_train_batch_size"] == 1
    if values["stage"] == TEXTS:
        if not values["packing"]:
            yield {"packing": True}
        return
    if values["packing"]:
        if values["neat_packing"] and one_row and values["flash_attn"] != "fa2":
            yield {"flash_attn": "fa2"}
        return
    yield {"neat_packing": True}
    if not values["disable_shuffling"]:
        yield from base.alternatives(replace(setup, given=setup.given - _OF_ANY_VERSION))


LLAMA_FACTORY = Framework(
    title="LLaMA-Factory's training arguments",
    version="0.9.5",
    package="llamafactory",
    keys=KEYS,
    unused=(base.TRAINING_ARGUMENTS.unused | frozenset(_UNUSED.split())) - set(KEYS),
    checkpointing="",
    read=read_config,
    alternatives=alternatives,
)
