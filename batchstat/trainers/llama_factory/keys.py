"""The arguments of LLaMA-Factory 0.9.5 that decide about batches."""

from dataclasses import dataclass

from batchstat.trainers.base.keys import key, refused
from batchstat.trainers.transformers import keys as base


@dataclass(frozen=True, kw_only=True)
class LlamaFactoryArguments(base.TrainingArguments):
    """The arguments that decide."""

    stage: str = key("sft", values=("pt", "sft", "rm", "ppo", "dpo", "kto"))
    do_train: bool = key(False)
    model_name_or_path: str | None = key(None)
    use_fast_tokenizer: bool = key(True, only=True)
    split_special_tokens: bool = key(False, refused="remove it")
    add_tokens: object = refused("save the tokenizer with them, and name that")
    add_special_tokens: object = refused("save the tokenizer with them, and name that")
    new_special_tokens_config: str | None = refused("save the tokenizer with them, and name that")
    flash_attn: str = key("auto", values=("auto", "disabled", "sdpa", "fa2", "fa3"))
    template: str | None = key(None)
    default_system: str | None = key(None)
    enable_thinking: object = key(True)
    dataset: object = key(None)
    eval_dataset: object = key(None)
    dataset_dir: object = key("data")
    tokenized_path: str | None = refused(
        "pass the files with token ids as CORPUS, without this key"
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
        """The keys that are set, and choose a loss that gives each token a weight of its own."""
        names = ("use_dft_loss", "use_asft_loss", "use_eaft_loss")
        return [name for name in names if getattr(self, name)]
