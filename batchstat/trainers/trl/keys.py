"""The keys of `SFTConfig` of TRL 1.16: which decide about batches, and which do not."""

from dataclasses import dataclass
from typing import Any

from batchstat.trainers.base.keys import key
from batchstat.trainers.transformers import keys as base

KEEP_END = "keep_end"
_PACKINGS = ("bfd", "bfd_split", "bfd-requeue", "wrapped")


@dataclass(frozen=True, kw_only=True)
class SftConfig(base.TrainingArguments):
    """The keys of `SFTConfig`, and of the command that takes it."""

    max_length: int | None = key(None, least=1)
    truncation_mode: str = key("keep_start", values=("keep_start", KEEP_END))
    packing: bool = key(False)
    packing_strategy: str = key("bfd", values=_PACKINGS)
    padding_free: bool = key(False)
    pad_to_multiple_of: int | None = key(None, least=1, values=("auto", "none", "null", "None"))
    dataset_num_proc: int | None = key(None)
    shuffle_dataset: bool = key(False)
    dataset_text_field: str = key("text")
    dataset_kwargs: dict[str, Any] | None = key(None)
    chat_template_path: str | None = key(None)
    eos_token: str | None = key(None)
    completion_only_loss: bool | None = key(None)
    assistant_only_loss: bool = key(False)
    # Of the command: what it trains, and on what.
    model_name_or_path: str | None = key(None)
    dataset_name: str | None = key(None)
    dataset_config: str | None = key(None)
    dataset_train_split: str = key("train")
    dataset_streaming: bool = key(False, refused="remove it")
    streaming: bool = key(False, refused="remove it")
    datasets: list[Any] | None = key(None)
    test_split_size: float | None = key(None, refused="remove it")
    # Of accelerate, which starts the command.
    num_processes: int | None = key(None, least=1)
    accelerate_config: object = key(None)


_UNUSED = """
model_init_kwargs trust_remote_code router_aux_loss_coef eval_packing loss_type
activation_offloading pad_token dataset_test_split ignore_bias_buffers model_revision dtype
torch_dtype attn_implementation use_peft lora_r lora_alpha lora_dropout lora_target_modules
lora_target_parameters lora_modules_to_save lora_task_type use_rslora use_dora load_in_8bit
load_in_4bit bnb_4bit_quant_type use_bnb_nested_quant bnb_4bit_quant_storage env
"""
UNUSED = base.UNUSED | frozenset(_UNUSED.split())
