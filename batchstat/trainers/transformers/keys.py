"""The keys of transformers' `TrainingArguments` that decide about batches."""

from dataclasses import dataclass
from typing import Any

from batchstat.parameters import MOST_SEED
from batchstat.trainers.base.keys import TrainerConfig, key

RANDOM, SEQUENTIAL, GROUPED = "random", "sequential", "group_by_length"
REBALANCED = "batch_rebalance"


@dataclass(frozen=True, kw_only=True)
class TrainingArguments(TrainerConfig):
    """The keys of `TrainingArguments`."""

    per_device_train_batch_size: int = key(8, least=1)
    gradient_accumulation_steps: int = key(1, least=1)
    num_train_epochs: float = key(3.0)
    max_steps: int = key(-1, least=-1)
    warmup_steps: float = key(0)
    seed: int = key(42, most=MOST_SEED)
    data_seed: int | None = key(None, most=MOST_SEED)
    train_sampling_strategy: str = key(RANDOM, values=(RANDOM, SEQUENTIAL, GROUPED, REBALANCED))
    dataloader_drop_last: bool = key(False)
    average_tokens_across_devices: bool = key(True)
    auto_find_batch_size: bool = key(False)
    accelerator_config: dict[str, Any] | None = key(None)
    parallelism_config: dict[str, Any] | None = key(None)
    # Of transformers 4.
    group_by_length: bool = key(False)
    warmup_ratio: float = key(0.0)
    per_gpu_train_batch_size: int | None = key(None, refused="name it per_device_train_batch_size")


def keys_of_version_4() -> frozenset[str]:
    """Return the keys of transformers 4 that version 5 no longer has."""
    return TrainingArguments.recorded().also
