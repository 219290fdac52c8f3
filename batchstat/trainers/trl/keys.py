"""The keys of `SFTConfig` of TRL 1.16 that decide about batches."""

from dataclasses import dataclass
from typing import Any

from batchstat.trainers.base.keys import key, refused
from batchstat.trainers.transformers import keys as base

KEEP_END = "keep_end"


@dataclass(frozen=True, kw_only=True)
class SftConfig(base.TrainingArguments):
    """The keys of `SFTConfig`, and of the command that takes it."""

    max_length: int | None = key(None, least=1)
    truncation_mode: str = key("keep_start", values=("keep_start", KEEP_END))
    packing: bool = key(False)
    packing_strategy: str = key("bfd", values=("bfd", "bfd_split", "bfd-requeue", "wrapped"))
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
    # Of the command `trl sft`: the model that it trains, and the data.
    model_name_or_path: str | None = key(None)
    dataset_name: str | None = key(None)
    dataset_config: str | None = key(None)
    dataset_train_split: str = key("train")
    dataset_streaming: bool = key(False, refused="remove it")
    streaming: bool = key(False, refused="remove it")
    datasets: list[Any] | None = key(None)
    test_split_size: float | None = refused("remove it")
    # Of accelerate, which starts the command.
    num_processes: int | None = key(None, least=1)
    accelerate_config: object = key(None)
