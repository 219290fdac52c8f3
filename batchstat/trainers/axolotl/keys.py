"""The keys of axolotl's configuration that decide about batches.

keys.json has all fields of `AxolotlInputConfig` of src/axolotl/utils/schemas/config.py, and of the
arguments of those plugins that change no batches, in axolotl 0.19; and old keys that it ignores.
"""

from dataclasses import dataclass
from typing import Any

from batchstat.parameters import MOST_SEED
from batchstat.trainers.base.keys import TrainerConfig, key, refused

ATTENTION = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Old keys in place of `attn_implementation`, and its value for each; of several that are set, the
first counts."""


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
    accelerator_config: object = refused("remove it")
    added_tokens_overrides: object = refused(
        "save a tokenizer that has them, and name it in tokenizer_config"
    )
    batch_flattening: object = refused("remove it, or set sample_packing")
    chat_template_kwargs: object = refused(
        "write them into a template, and pass it with --chat-template"
    )
    dataset_exact_deduplication: object = refused("remove duplicates beforehand, and this key")
    dataset_shard_num: object = refused("pass the part of the corpus as CORPUS, without this key")
    default_system_message: object = refused(
        "write it into a template, and pass it with --chat-template"
    )
    dpo_padding_free: object = refused("it is not for supervised training")
    ebft: object = refused("only supervised training is read")
    max_packed_sequence_len: object = refused("axolotl no longer has it: remove it")
    preprocess_iterable: object = refused("remove it")
    pretraining_dataset: object = refused(
        "pass its files as CORPUS, with datasets of type completion instead"
    )
    process_reward_model: object = refused("only supervised training is read")
    processor_type: object = refused("only texts are read")
    push_dataset_to_hub: object = refused("it may load samples prepared elsewhere: remove it")
    reward_model: object = refused("only supervised training is read")
    rl: object = refused("only supervised training is read")
    sample_packing_eff_est: object = refused("remove it, and axolotl counts the steps")
    shuffle_before_merging_datasets: object = refused(
        "remove it, or pass the files in that sequence"
    )
    skip_prepare_dataset: object = refused("pass the prepared samples as CORPUS, without this key")
    streaming: object = refused("remove it")
    tokenizer_use_mistral_common: object = refused("pass the tokenizer of the library tokenizers")
    total_num_tokens: object = refused("remove it, and axolotl counts them")
    trainer_cls: object = refused("remove it")
    use_pose: object = refused("remove it")
    use_ray: object = refused("remove it, and pass the number of ranks with --world-size")

    @property
    def attention_flags(self) -> list[str]:
        """The old keys in place of `attn_implementation` that are set; the first one counts."""
        return [name for name in ATTENTION if getattr(self, name)]
